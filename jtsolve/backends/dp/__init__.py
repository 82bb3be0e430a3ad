"""The dynamic programming over recursive partition trees."""
