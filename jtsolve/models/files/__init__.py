"""Models in files and as objects of other libraries."""
