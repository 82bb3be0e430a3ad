"""Model files (JSON, UAI, PACE) and objects of other libraries."""
