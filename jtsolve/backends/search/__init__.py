"""Local search on junction trees."""
