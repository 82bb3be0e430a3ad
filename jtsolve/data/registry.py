"""The registry of data sets: source and hash of each, read from `registry.json`.

Every URL is pinned to a commit, so that its content cannot change. The hash is that of the decompressed
content.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import msgspec

from jtsolve.errors import ChoiceError, use_one_of


@dataclass(frozen=True, slots=True)
class DataSet:
    """One data set.

    Attributes:
        name: as given to `jtsolve data fetch`.
        kind: "uci" (tables), "bnlearn" (Bayesian networks, BIF), "density" (binary tables), or "numbers"
            (tables with a header).
        file: path in the cache, and in a local folder, gzipped or not; relative, with slashes.
        url: of the download, gzipped or not.
        sha256: of the decompressed content, as 64 hexadecimal digits.
        rows: number of rows; None for a network.
        columns: number of columns, or of variables of a network.
        terms: terms of use, according to the source.
    """

    name: str
    kind: str
    file: str
    url: str
    sha256: str
    rows: int | None
    columns: int
    terms: str


@cache
def registry() -> dict[str, DataSet]:
    """Returns all data sets by name, sorted by kind and name.

    >>> registry()["zoo"].rows, registry()["asia"].columns
    (101, 8)
    """
    text = files("jtsolve.data").joinpath("registry.json").read_bytes()
    return {entry.name: entry for entry in msgspec.json.decode(text, type=list[DataSet])}


def data_set_named(name: str) -> DataSet:
    """Returns the data set of this name.

    Raises:
        ChoiceError: there is none; suggests similar names.
    """
    known = registry()
    if name in known:
        return known[name]
    raise ChoiceError(
        f"there is no data set '{name}'; {use_one_of(name, known)}; 'jtsolve data list' shows all"
    )
