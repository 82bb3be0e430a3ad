"""The names of data files."""

PLAIN_SUFFIXES = (
    ".csv",
    ".tsv",
    ".tab",
    ".txt",
    ".data",
    ".parquet",
    ".arrow",
    ".feather",
    ".ipc",
    ".arff",
    ".dat",
)
DATA_SUFFIXES = (*PLAIN_SUFFIXES, *(f"{suffix}.gz" for suffix in PLAIN_SUFFIXES))
"""Names of data files end so; another file is data only if the user says so."""
