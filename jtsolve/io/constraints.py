"""Constraints by name, as in all JSON files; hand-written files of constraints, in TOML or JSON.

max_separator_size = 2
forbidden_edges = [["Age", "Smoker"]]
"""

from __future__ import annotations

import re
import tomllib
from contextlib import contextmanager
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from jtsolve.core.files import read_file
from jtsolve.core.problem import MOST_CELLS, SET_LISTS, UPPER_BOUNDS, Constraints
from jtsolve.errors import InputError
from jtsolve.io.documents import Count, names_of, require_unique_keys, require_utf8, set_of_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from jtsolve.core.varset import VarSet


class ConstraintsDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields of `Constraints`, with sets as lists of names; an absent field is no constraint."""

    max_treewidth: Count | None = None
    max_separator_size: Count | None = None
    min_separator_size: Count = 0
    forbidden_edges: list[tuple[str, str]] = []
    required_edges: list[tuple[str, str]] = []
    forbidden_cliques: list[list[str]] = []
    forbidden_separators: list[list[str]] = []
    allowed_separators: list[list[str]] | None = None
    max_cliques: Annotated[int, msgspec.Meta(ge=1)] | None = None
    forbidden_graphs: list[list[tuple[str, str]]] = []
    real_variables: list[str] = []
    max_clique_cells: Annotated[int, msgspec.Meta(ge=1, le=MOST_CELLS)] | None = None


_ORDER = ConstraintsDocument.__struct_fields__


def constraints_from_document(
    document: ConstraintsDocument, names: Sequence[str], source: str, place: str
) -> Constraints:
    """Returns the constraints with names turned into variables.

    Args:
        document: as read.
        names: of the variables, in order.
        source: the file, for messages.
        place: of the constraints in the file.

    Raises:
        InputError: a name is unknown, a set or a member occurs twice, or `Constraints` refuses the values.
    """
    index = {name: v for v, name in enumerate(names)}
    values: dict[str, Any] = {key: getattr(document, key) for key in (*UPPER_BOUNDS, "min_separator_size")}
    for key in SET_LISTS:
        listed = getattr(document, key)
        if listed is None:
            values[key] = None
            continue
        seen: dict[VarSet, int] = {}
        for i, entry in enumerate(listed):
            mask = set_of_names(entry, index, source, f"{place}.{key}[{i}]")
            first = seen.setdefault(mask, i)
            if first != i:
                raise InputError(
                    source, f"{place}.{key}[{i}]", f"the set is also entry {first}", "remove one of them"
                )
        values[key] = frozenset(seen)
    values["forbidden_graphs"] = _graphs(document, index, source, place)
    values["real_variables"] = set_of_names(document.real_variables, index, source, f"{place}.real_variables")
    with with_names(names, source, place):
        return Constraints(**values)


@contextmanager
def with_names(names: Sequence[str], source: str, place: str) -> Iterator[None]:
    """Converts errors of `Constraints`: names replace numbers, and the source is added.

    Args:
        names: of the variables.
        source: the file, for the error.
        place: where the constraints are in it.

    Raises:
        InputError: the body raised one.
    """
    try:
        yield
    except InputError as error:
        shown = re.sub(
            r"\[(\d+), (\d+)\]", lambda m: f"{names[int(m[1])]} – {names[int(m[2])]}", error.reason
        )
        raise InputError(source, f"{place}.{error.place}", shown, error.remedy) from None


def _graphs(
    document: ConstraintsDocument, index: Mapping[str, int], source: str, place: str
) -> frozenset[frozenset[VarSet]]:
    """Returns the forbidden graphs, each a set of edges."""
    seen: dict[frozenset[VarSet], int] = {}
    for i, listed in enumerate(document.forbidden_graphs):
        here = f"{place}.forbidden_graphs[{i}]"
        edges = [set_of_names(edge, index, source, f"{here}[{j}]") for j, edge in enumerate(listed)]
        if len(set(edges)) < len(edges):
            raise InputError(source, here, "an edge occurs twice", "name it once")
        first = seen.setdefault(frozenset(edges), i)
        if first != i:
            raise InputError(source, here, f"the graph is also entry {first}", "remove one of them")
    return frozenset(seen)


def constraints_to_document(constraints: Constraints, names: Sequence[str]) -> dict[str, Any]:
    """Returns the constraints that differ from the default as JSON values, in a fixed order.

    >>> constraints_to_document(Constraints(max_treewidth=2, forbidden_edges=frozenset({0b101})), "ABC")
    {'max_treewidth': 2, 'forbidden_edges': [['A', 'C']]}
    """
    used = {feature.value for feature in constraints.features}

    def listed(masks: Iterable[VarSet]) -> list[list[str]]:
        return [names_of(mask, names) for mask in sorted(masks)]

    def value_of(key: str) -> Any:
        value = getattr(constraints, key)
        if key == "forbidden_graphs":
            return [listed(graph) for graph in sorted(value, key=sorted)]
        if key == "real_variables":
            return names_of(value, names)
        return listed(value) if key in SET_LISTS else value

    return {key: value_of(key) for key in _ORDER if key in used}


def read_constraints(path: str | Path) -> ConstraintsDocument:
    """Returns the constraints in a .toml file, or in a JSON file of any other name.

    Raises:
        InputError: the file cannot be read or is invalid; names the place.
    """
    data, source = read_file(path), str(path)
    require_utf8(data, source)
    try:
        if source.endswith(".toml"):
            values = tomllib.loads(data.decode(), parse_float=_finite)
        else:
            values = msgspec.json.decode(data)
            require_unique_keys(data, source)
        return msgspec.convert(values, ConstraintsDocument)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at ")
        place, remedy = place.strip("`") or "$", "see 'Constraints' in docs/formats.md"
        raise InputError(source, place, reason.replace("`", "'"), remedy) from None
    except RecursionError:
        raise InputError(source, "", "its lists or tables are nested too deeply", "nest them less") from None
    except ValueError as error:  # of syntax, or a number of thousands of digits
        remedy = "write TOML in a .toml file, JSON in any other"
        raise InputError(source, "", f"it cannot be read ({error})", remedy) from None


def _finite(text: str) -> float:
    """Returns a number of TOML; refuses infinity and NaN, which JSON lacks."""
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number
