"""A table of states or of numbers from a data file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from jtsolve.core.files import read_file
from jtsolve.errors import InputError
from jtsolve.tables.coding import to_numbers, to_states
from jtsolve.tables.distinct import Watch, unwatched
from jtsolve.tables.formats import read_raw
from jtsolve.tables.gathering import Intake
from jtsolve.tables.options import Coding, Schema
from jtsolve.tables.source import Source

if TYPE_CHECKING:
    from jtsolve.tables.table import ContinuousTable, DataTable

SomeTable = TypeVar("SomeTable", "DataTable", "ContinuousTable")


def read_states(
    path: str | Path,
    coding: Coding | None = None,
    *,
    header: bool = True,
    separator: str | None = None,
    watch: Watch = unwatched,
) -> DataTable:
    """Returns the table of states in a data file.

    Of more than `gathering.KEPT` rows, equal ones are put together, with weights that count them.

    Args:
        path: see `formats` for what is read; gzip data are unpacked.
        coding: what to make of its cells.
        header: whether the first line of separated text names the columns.
        separator: of separated text; None to find out.
        watch: is told how far the reading is, and may end it by an error.

    Raises:
        InputError: the file cannot be read, or is not what its suffix says, or the coding does not fit.
    """
    coding = coding or Coding()
    source = Source(path)
    raw = read_raw(source, Intake(coding.reads, watch=watch), header=header, separator=separator)
    return _described(to_states(raw, coding, source.name), source)


def read_numbers(
    path: str | Path,
    coding: Coding | None = None,
    *,
    header: bool = True,
    separator: str | None = None,
    watch: Watch = unwatched,
) -> ContinuousTable:
    """Returns the table of real numbers in a data file; see `read_states`. All rows are kept."""
    coding = coding or Coding()
    source = Source(path)
    intake = Intake(coding.reads, together=False, watch=watch)
    raw = read_raw(source, intake, header=header, separator=separator)
    return _described(to_numbers(raw, coding, source.name), source)


def _described(table: SomeTable, source: Source) -> SomeTable:
    facts = {
        "data": Path(source.path).name,
        "sha256_unpacked": source.sha256,
        "rows": table.total,
        **table.provenance,
    }
    return replace(table, provenance=MappingProxyType(facts))


def read_schema(path: str | Path) -> Schema:
    """Returns declared states and cuts; see `read_declarations`."""
    return read_declarations(path)[0]


def read_declarations(path: str | Path) -> tuple[Schema, str | None]:
    """Returns declared states and cuts, and the class column: a JSON object with an entry for some columns.

    The states in a list of texts are declared; a list of increasing numbers holds cuts. An object {"states":
    list, "class": true} in place of a list declares the class column too; either key may be absent.

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
    classes = []
    for name, declared in document.items():
        entry = declared
        if isinstance(declared, dict) and declared and declared.keys() <= {"states", "class"}:
            if declared.get("class", False) not in (True, False):
                raise InputError(source, f"'{name}'", "its class is neither true nor false", "write true")
            classes += [name] * bool(declared.get("class"))
            if "states" not in declared:
                continue
            entry = declared["states"]
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
                'write ["low", "high"] or [0.5, 1.5], or {"states": ["no", "yes"], "class": true}',
            )
    if len(classes) > 1:
        raise InputError(source, f"'{classes[1]}'", f"'{classes[0]}' is a class already", "declare one class")
    return MappingProxyType(schema), classes[0] if classes else None
