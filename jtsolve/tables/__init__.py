"""Data files read into tables of states or of numbers."""
