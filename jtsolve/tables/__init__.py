"""Data files (CSV, ARFF, Parquet, Arrow) read into tables of states or of real numbers."""
