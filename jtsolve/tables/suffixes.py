"""The names of data files."""

from pathlib import Path

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


def title_of(path: str | Path) -> str:
    """Returns the name of a problem made of a data file; of a pattern, that of its folder.

    >>> title_of("data/zoo.csv.gz"), title_of("data/zoo/*.parquet")
    ('zoo', 'zoo')
    """
    place = Path(path)
    while place.name and not _PATTERN.isdisjoint(place.name):
        place = place.parent
    name = place.name.removesuffix(".gz")
    return name.rpartition(".")[0] or name


_PATTERN = frozenset("*?[")
