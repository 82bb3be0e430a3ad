"""A table of states or of numbers from a data file."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from jtsolve.errors import InputError
from jtsolve.files import read_file
from jtsolve.scoring.coding import to_numbers, to_states
from jtsolve.scoring.formats import read_raw
from jtsolve.scoring.options import Coding, Schema

if TYPE_CHECKING:
    from jtsolve.scoring.raw import RawTable
    from jtsolve.scoring.table import ContinuousTable, DataTable

SomeTable = TypeVar("SomeTable", "DataTable", "ContinuousTable")


def read_states(
    path: str | Path,
    coding: Coding | None = None,
    *,
    header: bool = True,
    separator: str | None = None,
) -> DataTable:
    """Returns the table of states in a data file.

    Args:
        path: see `formats` for what is read; gzip data are unpacked.
        coding: what to make of its cells.
        header: whether the first line of separated text names the columns.
        separator: of separated text; None to find out.

    Raises:
        InputError: the file cannot be read, or is not what its suffix says, or the coding does not fit.
    """
    raw, data, source = _raw(path, header=header, separator=separator)
    return _described(to_states(raw, coding or Coding(), source), path, data)


def read_numbers(
    path: str | Path,
    coding: Coding | None = None,
    *,
    header: bool = True,
    separator: str | None = None,
) -> ContinuousTable:
    """Returns the table of real numbers in a data file; see `read_states`."""
    raw, data, source = _raw(path, header=header, separator=separator)
    return _described(to_numbers(raw, coding or Coding(), source), path, data)


def _raw(path: str | Path, *, header: bool, separator: str | None) -> tuple[RawTable, bytes, str]:
    data = read_file(path)
    source = str(path)
    return read_raw(data, source, header=header, separator=separator), data, source


def _described(table: SomeTable, path: str | Path, data: bytes) -> SomeTable:
    facts = {
        "data": Path(path).name,
        "sha256_unpacked": hashlib.sha256(data).hexdigest(),
        "rows": table.total,
        **table.provenance,
    }
    return replace(table, provenance=MappingProxyType(facts))


def read_schema(path: str | Path) -> Schema:
    """Returns declared states and cuts: a JSON object, from names of columns to lists of texts or of numbers.

    The states in a list of texts are declared; a list of increasing numbers holds cuts.

    Raises:
        InputError: the file is no such object.
    """
    source = str(path)
    try:
        document = json.loads(read_file(path))
    except (ValueError, RecursionError) as error:
        raise InputError(source, "", f"it is no JSON ({error})", "mend the file") from None
    if not isinstance(document, dict):
        raise InputError(source, "", "it is no object", 'write {"column": ["state", "state"]}')
    schema: dict[str, tuple[str, ...] | tuple[float, ...]] = {}
    for name, entry in document.items():
        is_list = isinstance(entry, list) and entry
        if is_list and all(isinstance(value, str) for value in entry) and len(set(entry)) == len(entry):
            schema[name] = tuple(entry)
        elif is_list and all(isinstance(value, int | float) and value == value for value in entry):  # noqa: PLR0124
            cuts = tuple(float(value) for value in entry)
            if sorted(set(cuts)) != list(cuts):
                raise InputError(source, f"'{name}'", "the cuts do not increase", "order them")
            schema[name] = cuts
        else:
            raise InputError(
                source,
                f"'{name}'",
                "it is neither a list of different states (texts) nor of cuts (numbers)",
                'write ["low", "high"] or [0.5, 1.5]',
            )
    return MappingProxyType(schema)
