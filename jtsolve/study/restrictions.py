"""Constraints as users state them, by names and graphs, in the vocabulary of the instance format.

In the shell: `--constraint max_cliques=5`; in Python: `constraints={"max_cliques": 5}`. Both may name a file
of constraints, a graph within which the tree has to lie, and one that it has to contain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from jtsolve.core.problem import EDGE_LISTS, SET_LISTS, UPPER_BOUNDS
from jtsolve.errors import ChoiceError, InputError, no_such
from jtsolve.io.constraints import ConstraintsDocument, constraints_from_document, with_names
from jtsolve.options import FORBID, REQUIRE
from jtsolve.tables.frames import is_listing
from jtsolve.tables.options import names_in
from jtsolve.tables.values import label_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jtsolve.core.graph import UndirectedGraph
    from jtsolve.core.problem import Constraints, Problem

_SOURCE = "constraints"
_MARKS = "real_variables"
_WITHIN, _AROUND = "within_graph", "require_graph"
_KEYS = (*ConstraintsDocument.__struct_fields__, _WITHIN, _AROUND)


@dataclass(frozen=True, slots=True)
class Restrictions:
    """Constraints by names; `of` turns them into `Constraints` once the variables are known.

    Args:
        values: constraints by their keys in the instance format; `within_graph`, a graph or the path of one
            whose triangulation contains all edges of the tree (of a selection: the graph that its screen
            left); and `require_graph`, one whose edges are all in the tree.
    """

    values: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def given(
        cls,
        forbid: Iterable[Sequence[str]] = (),
        require: Iterable[Sequence[str]] = (),
        constraints: Mapping[str, Any] | Sequence[str] | str | Path | None = None,
    ) -> Restrictions:
        """Returns restrictions from the arguments of a command or function.

        Args:
            forbid: pairs of variables that must not be adjacent.
            require: pairs of variables that must be adjacent.
            constraints: further ones: a mapping; a file of them; or texts, each `key=value` or a file.

        Raises:
            ChoiceError: a key does not exist or is given twice, or a value has the wrong form.
            InputError: a file cannot be read.
        """
        values: dict[str, Any] = {}
        if isinstance(constraints, Mapping):
            _add(values, constraints)
        else:
            texts = [constraints] if isinstance(constraints, str | Path) else constraints or ()
            for text in texts:
                _add(values, _entry(str(text)))
        _add(values, {"forbidden_edges": _pairs(FORBID, forbid), "required_edges": _pairs(REQUIRE, require)})
        return cls(MappingProxyType(values))

    @property
    def treewidth(self) -> int | None:
        """The bound on the treewidth, or None."""
        bound = self.values.get("max_treewidth")
        return bound if isinstance(bound, int) else None

    def of(self, names: Sequence[str]) -> Constraints:
        """Returns the constraints on variables of these names, in their order.

        Raises:
            InputError: a name is unknown, a value has the wrong form, or constraints contradict each other.
        """
        plain = {key: value for key, value in self.values.items() if key not in (_WITHIN, _AROUND)}
        try:
            document = msgspec.convert(plain, ConstraintsDocument)
        except msgspec.ValidationError as error:
            raise InputError(_SOURCE, "", str(error), "see 'Constraints' in docs/formats.md") from None
        own = constraints_from_document(document, names, _SOURCE, "$")
        if _WITHIN not in self.values and _AROUND not in self.values:
            return own
        from jtsolve.core.triangulation import constraints_within
        from jtsolve.study.graphs import graph_in

        def graph_of(key: str) -> UndirectedGraph | None:
            if self.values.get(key) is None:
                return None
            graph, _, source = graph_in(self.values[key], screened=key == _WITHIN)
            return graph.aligned(names, source)

        within, around = graph_of(_WITHIN), graph_of(_AROUND)
        with with_names(names, _SOURCE, "$"):
            return own.joined(constraints_within(within, around))

    def on(self, problem: Problem) -> Problem:
        """Returns the problem under its own constraints and these; raises as `of`."""
        more = self.of(problem.names)
        with with_names(problem.names, _SOURCE, "$"):
            return replace(problem, constraints=problem.constraints.joined(more))

    def __bool__(self) -> bool:
        return any(value not in ([], None) for value in self.values.values())


def _entry(text: str) -> Mapping[str, Any]:
    """Returns the constraint in a text `key=value`, or those in the file that it names."""
    key, equals, value = text.partition("=")
    if not equals:
        from jtsolve.io.constraints import read_constraints

        document = read_constraints(text)
        default = ConstraintsDocument()
        return {
            name: getattr(document, name)
            for name in document.__struct_fields__
            if getattr(document, name) != getattr(default, name)
        }
    key = key.strip()
    if key in UPPER_BOUNDS or key == "min_separator_size":
        try:
            return {key: int(value)}
        except ValueError:  # or Python reads no number of so many digits
            raise ChoiceError(f"the constraint {text} is not a number; write for example {key}=2") from None
    if key in EDGE_LISTS:
        return {key: _pairs(lambda _: text, [names_in(value)])}
    if key in SET_LISTS:
        return {key: [list(names_in(value))]}
    if key == _MARKS:
        return {key: list(names_in(value))}
    return {key: value}


def _add(values: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Adds constraints: lists grow, and anything else must not be given twice."""
    for key, value in more.items():
        if key not in _KEYS:
            raise ChoiceError(no_such("constraint", key, _KEYS))
        if key in (_WITHIN, _AROUND) or isinstance(value, str) or not is_listing(value):
            if key in values and values[key] != value:
                raise ChoiceError(f"the constraint '{key}' is given twice; give it once")
            values[key] = value
        elif key == _MARKS:
            values[key] = [*values.get(key, ()), *map(label_of, value)]
        elif value or key == "allowed_separators":
            seen = {frozenset(map(str, entry)) for entry in values.get(key, ())}
            fresh = [list(entry) for entry in value if frozenset(map(str, entry)) not in seen]
            values[key] = [*values.get(key, ()), *fresh]


def _pairs(reference: Callable[[Any], str], given: Any) -> list[list[str]]:
    """Returns pairs of names; data frames may have numbers as names. `reference` names a pair in messages."""
    pairs = list(given) if is_listing(given) else [given]
    for pair in pairs:
        if not is_listing(pair) or len(pair) != 2:  # noqa: PLR2004 - a pair
            raise ChoiceError(f"{reference(pair)}: an edge joins two variables; give pairs of names")
    return [list(map(label_of, pair)) for pair in pairs]
