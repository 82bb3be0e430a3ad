"""The data sets that are known by name: where each lies, and the hash of its content.

The list is `registry.json` beside this module. Every address names one commit, so that its content cannot
change; the hash is that of the content unpacked, whether the source holds it packed or not.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files

import msgspec

from jtsolve.errors import ChoiceError


@dataclass(frozen=True, slots=True)
class DataSet:
    """One data set.

    Attributes:
        name: what `jtsolve data fetch` takes.
        kind: "uci" (tables), "bnlearn" (Bayesian networks, BIF), or "density" (binary tables).
        file: its name in the cache and, packed or not, in a local folder; relative, with slashes.
        url: where it is downloaded; the source may be packed.
        sha256: of the content unpacked, as 64 hexadecimal digits.
        rows: the number of rows; None for a network.
        columns: the number of columns, or of a network's variables.
        terms: what the source says about use.
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


def find(name: str) -> DataSet:
    """Returns the data set of a name.

    Raises:
        ChoiceError: there is none; names the nearest.
    """
    known = registry()
    if name in known:
        return known[name]
    nearest = get_close_matches(name.lower(), known, n=3, cutoff=0.5)
    hint = f"; do you mean {' or '.join(nearest)}?" if nearest else "."
    raise ChoiceError(f"there is no data set '{name}'{hint} 'jtsolve data list' shows all {len(known)}")
