"""Merging of trees."""
