"""The problem: local scores over named variables, and constraints on the junction tree.

A junction tree's score is Σ s(C) over its cliques minus Σ s(S) over its separators (a multiset; an empty
separator joins two components). A solution is a junction tree of the highest score among those that meet
the constraints.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from math import inf, prod
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.core.marks import is_strongly_decomposable, scores_with_star
from jtsolve.core.notebook import as_html
from jtsolve.core.pairs import PairScores, matrix_in_file, ordered_matrix, weight_matrix
from jtsolve.core.scores import DenseScores, Guarded, LocalScores, SparseScores, Stoppable
from jtsolve.core.varset import VarSet, is_subset, largest_within, members, renumbered, varset
from jtsolve.errors import ChoiceError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jtsolve.core.tree import JunctionTree


class ProblemFeature(Enum):
    """A constraint that problems use and backends support; the values are the names in instance files."""

    MAX_TREEWIDTH = "max_treewidth"
    MAX_SEPARATOR_SIZE = "max_separator_size"
    MIN_SEPARATOR_SIZE = "min_separator_size"
    FORBIDDEN_EDGES = "forbidden_edges"
    REQUIRED_EDGES = "required_edges"
    FORBIDDEN_CLIQUES = "forbidden_cliques"
    FORBIDDEN_SEPARATORS = "forbidden_separators"
    ALLOWED_SEPARATORS = "allowed_separators"
    MAX_CLIQUES = "max_cliques"
    FORBIDDEN_GRAPHS = "forbidden_graphs"
    MAX_CLIQUE_CELLS = "max_clique_cells"
    REAL_VARIABLES = "real_variables"


ALL_FEATURES: frozenset[ProblemFeature] = frozenset(ProblemFeature) - {ProblemFeature.REAL_VARIABLES}
"""The constraints that backends may support; `Problem.with_star` turns marks into others."""
LOCAL_FEATURES: frozenset[ProblemFeature] = ALL_FEATURES - {
    ProblemFeature.MAX_CLIQUES,
    ProblemFeature.FORBIDDEN_GRAPHS,
}
"""The constraints on single cliques, separators and edges."""
UPPER_BOUNDS = ("max_treewidth", "max_separator_size", "max_cliques", "max_clique_cells")
EDGE_LISTS = ("forbidden_edges", "required_edges")
SET_LISTS = (*EDGE_LISTS, "forbidden_cliques", "forbidden_separators", "allowed_separators")
"""The constraints by the form of their values: numbers, edges, sets of variables."""
MOST_CELLS = 1 << 53
"""The largest bound on cells: floating-point numbers count up to here exactly."""


@dataclass(frozen=True, slots=True)
class Constraints:
    """Constraints on the junction tree; by default none.

    Args:
        max_treewidth: no clique has more than this plus one members.
        max_separator_size: no separator has more members.
        min_separator_size: no separator has fewer; 1 requires a connected graph.
        forbidden_edges: pairs (sets of two) that no clique holds.
        required_edges: pairs that some clique holds.
        forbidden_cliques: sets that are not maximal cliques; they may lie within one.
        forbidden_separators: sets that are not separators; ∅ requires a connected graph.
        allowed_separators: if given, no other set is a separator.
        max_cliques: the largest number of maximal cliques.
        forbidden_graphs: sets of edges; the graph of the tree is none of them. The empty set is the graph
            without edges.
        real_variables: variables that are real, where the others are discrete: the graph is strongly
            decomposable (`jtsolve.core.marks`). ∅ for no marks.
        max_clique_cells: no clique has more joint states of its discrete variables; at most 2^53. Their
            numbers of states have to be known.

    Raises:
        InputError: a number is out of its range, an edge is not a pair, or two constraints contradict each
            other.
    """

    max_treewidth: int | None = None
    max_separator_size: int | None = None
    min_separator_size: int = 0
    forbidden_edges: frozenset[VarSet] = frozenset()
    required_edges: frozenset[VarSet] = frozenset()
    forbidden_cliques: frozenset[VarSet] = frozenset()
    forbidden_separators: frozenset[VarSet] = frozenset()
    allowed_separators: frozenset[VarSet] | None = None
    max_cliques: int | None = None
    forbidden_graphs: frozenset[frozenset[VarSet]] = frozenset()
    real_variables: VarSet = 0
    max_clique_cells: int | None = None

    def __post_init__(self) -> None:
        for name in (*UPPER_BOUNDS, "min_separator_size"):
            value, least = getattr(self, name), int(name in ("max_cliques", "max_clique_cells"))
            if value is not None and value < least:
                raise _malformed(name, f"{value} is below {least}", f"give a number of {least} or more")
        if self.max_clique_cells is not None and self.max_clique_cells > MOST_CELLS:
            reason = f"{self.max_clique_cells} is above 2^53"
            raise _malformed("max_clique_cells", reason, "give a smaller number, or leave it out")
        listed = {
            "forbidden_edges": self.forbidden_edges,
            "required_edges": self.required_edges,
            "forbidden_graphs": frozenset().union(*self.forbidden_graphs),
        }
        for name, edges in listed.items():
            for edge in edges:
                if edge.bit_count() != 2:  # noqa: PLR2004 - an edge joins two
                    reason = f"{list(members(edge))} is not a pair of distinct variables"
                    raise _malformed(name, reason, "name an edge by its two variables")
        if self.forbidden_edges & self.required_edges:
            edge = min(self.forbidden_edges & self.required_edges)
            reason = f"edge {list(members(edge))} is both required and forbidden"
            raise _malformed("required_edges", reason, "remove it from one of them")

    @property
    def features(self) -> frozenset[ProblemFeature]:
        """The features that these constraints use: those that differ from their default."""
        return frozenset(ProblemFeature(f.name) for f in fields(self) if getattr(self, f.name) != f.default)

    def joined(self, other: Constraints) -> Constraints:
        """Returns the constraints of both together.

        Raises:
            InputError: they contradict each other.

        >>> joint = Constraints(max_treewidth=2).joined(Constraints(max_treewidth=3, min_separator_size=1))
        >>> joint == Constraints(max_treewidth=2, min_separator_size=1)
        True
        """

        def least(name: str) -> Any:
            return min(
                (v for v in (getattr(self, name), getattr(other, name)) if v is not None), default=None
            )

        allowed, others = self.allowed_separators, other.allowed_separators
        marks = {self.real_variables, other.real_variables} - {0}
        if len(marks) > 1:
            reason = "two different sets are given"
            raise _malformed("real_variables", reason, "give the real variables once")
        return Constraints(
            **{name: least(name) for name in UPPER_BOUNDS},
            min_separator_size=max(self.min_separator_size, other.min_separator_size),
            forbidden_edges=self.forbidden_edges | other.forbidden_edges,
            required_edges=self.required_edges | other.required_edges,
            forbidden_cliques=self.forbidden_cliques | other.forbidden_cliques,
            forbidden_separators=self.forbidden_separators | other.forbidden_separators,
            allowed_separators=others if allowed is None else allowed if others is None else allowed & others,
            forbidden_graphs=self.forbidden_graphs | other.forbidden_graphs,
            real_variables=max(marks, default=0),
        )

    def restricted_to(self, variables: Sequence[int]) -> Constraints:
        """Returns the constraints on some variables, renumbered; sets that name another are left out.

        >>> Constraints(forbidden_edges=frozenset({0b0011, 0b1100})).restricted_to([2, 3]).forbidden_edges
        frozenset({3})
        """
        kept, place = varset(variables), {v: i for i, v in enumerate(variables)}

        def inside(sets: Iterable[VarSet]) -> frozenset[VarSet]:
            return frozenset(renumbered(one, place) for one in sets if is_subset(one, kept))

        allowed = self.allowed_separators
        graphs = (graph for graph in self.forbidden_graphs if all(is_subset(edge, kept) for edge in graph))
        return replace(
            self,
            forbidden_edges=inside(self.forbidden_edges),
            required_edges=inside(self.required_edges),
            forbidden_cliques=inside(self.forbidden_cliques),
            forbidden_separators=inside(self.forbidden_separators),
            allowed_separators=None if allowed is None else inside(allowed),
            forbidden_graphs=frozenset(map(inside, graphs)),
            real_variables=renumbered(self.real_variables & kept, place),
        )

    def mentioned(self) -> VarSet:
        """Returns the union of all sets named by a constraint."""
        union = self.real_variables
        for name in SET_LISTS:
            for mask in getattr(self, name) or ():
                union |= mask
        for graph in self.forbidden_graphs:
            for edge in graph:
                union |= edge
        return union


def _malformed(place: str, reason: str, remedy: str) -> InputError:
    return InputError("constraints", place, reason, remedy)


def _require_simple(limits: Constraints) -> None:
    """Raises a ChoiceError for constraints that are not supported with marks."""
    simple = {
        "max_separator_size": limits.max_separator_size is None,
        "min_separator_size": limits.min_separator_size <= 1,
        "forbidden_cliques": not limits.forbidden_cliques,
        "forbidden_separators": limits.forbidden_separators <= {0},
        "allowed_separators": limits.allowed_separators is None,
        "max_cliques": limits.max_cliques is None,
    }
    if others := [name for name, holds in simple.items() if not holds]:
        raise ChoiceError(
            f"the constraint {others[0]} is not supported with real_variables; with these, constrain edges, "
            "the treewidth, graphs and connectedness (min_separator_size 1)"
        )


@dataclass(frozen=True, slots=True)
class Variable:
    """A named variable; `states` is its number of states, or their labels, or None if unknown."""

    name: str
    states: int | tuple[str, ...] | None = None

    @property
    def arity(self) -> int | None:
        """The number of states, or None if unknown."""
        return len(self.states) if isinstance(self.states, tuple) else self.states


@dataclass(frozen=True, slots=True, repr=False)
class Problem:
    """Local scores over named variables, and constraints.

    Args:
        variables: one per variable of the scores; names are unique and not empty.
        scores: local scores over {0..n-1}.
        constraints: on the tree.
        name: for tables; may be empty.
        provenance: remarks on the origin of the scores; not part of the digest.
        rows: the number of rows of data behind the scores (the total weight); None copies it from scores that
            are computed from data, and otherwise means unknown. Not part of the digest.
        ceilings: for each variable v, an upper bound in nats of s(P ∪ v) − s(P) over all P but ∅, known from
            how the scores are made; None copies them from scores that are computed from data, and otherwise
            means unknown. Files do not keep it: a remark proves nothing, and the best families of a table are
            at most these (`jtsolve.core.bounds`).
        star: whether the last variable is the star of marks (`with_star`).

    Raises:
        InputError: names are empty or repeated, or counts do not match.
    """

    variables: tuple[Variable, ...]
    scores: LocalScores
    constraints: Constraints = Constraints()
    name: str = ""
    provenance: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}), compare=False)
    rows: int | None = None
    ceilings: tuple[float, ...] | None = field(default=None, repr=False, compare=False)
    star: bool = field(default=False, repr=False, compare=False)
    _digest: str | None = field(default=None, init=False, repr=False, compare=False)
    _starred: Problem | None = field(default=None, init=False, repr=False, compare=False)
    _most_fitting: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.rows is None:
            object.__setattr__(self, "rows", getattr(self.scores, "rows", None))
        elif self.rows < 1:
            raise InputError("problem", "rows", f"{self.rows} rows", "give a number of 1 or more, or None")
        if self.ceilings is None:
            object.__setattr__(self, "ceilings", getattr(self.scores, "ceilings", None))
        if len(self.variables) != self.scores.n:
            reason = f"{len(self.variables)} variables, but scores over {self.scores.n}"
            raise InputError("problem", "variables", reason, "name every variable of the scores once")
        seen: set[str] = set()
        for position, name in enumerate(self.names):
            if not name or name in seen:
                reason = f"the name '{name}' is used twice" if name else "the name is empty"
                place = f"variables[{position}]"
                raise InputError("problem", place, reason, "give every variable a unique name")
            seen.add(name)
        if self.constraints.mentioned() >> self.n:
            reason = f"a set holds a variable above {self.n - 1}"
            raise InputError("problem", "constraints", reason, f"use the variables 0 to {self.n - 1}")
        object.__setattr__(self, "_most_fitting", self._variables_within_cells())

    def _variables_within_cells(self) -> int:
        """Returns how many variables fit into one clique, those with the fewest states first."""
        most = self.constraints.max_clique_cells
        if most is None:
            return self.n
        discrete = [] if self.star else members(((1 << self.n) - 1) & ~self.constraints.real_variables)
        unknown = [self.variables[v].name for v in discrete if self.variables[v].arity is None]
        if unknown:
            reason = f"the number of states of '{unknown[0]}' is not known"
            raise InputError("problem", "max_clique_cells", reason, "give the states of every variable")
        return largest_within([variable.arity or 1 for variable in self.variables], most)

    @classmethod
    def from_pairs(
        cls,
        weights: Any,
        states: Mapping[str, int] | Sequence[int],
        *,
        noise: float = 0.0,
        price: float = 0.0,
        max_clique_cells: int | None = None,
        max_treewidth: int | None = None,
        name: str = "",
    ) -> Problem:
        """Returns the problem of a clique tree by weights of pairs; see `jtsolve.core.pairs`.

        The tree reveals only the weights: of private data, the caller adds the noise to them.

        Args:
            weights: a mapping from pairs of names to weights, 0 for others; an array of shape (n, n),
                symmetric, in the order of `states`; or such a matrix with names, a data frame or the path of
                a CSV file, whose first line, and first column if there is one more, are the names.
            states: the number of states of each variable, by name; without names, they are V1, V2 and so on.
            noise: the error of a measured pair, for each root of cells times cells.
            price: of a cell.
            max_clique_cells: the most joint states of a clique; None for no bound.
            max_treewidth: the largest clique size minus one; None for any.
            name: for tables.

        Raises:
            InputError: names, weights or numbers are not as described.

        >>> problem = Problem.from_pairs({("A", "B"): 2.0}, {"A": 2, "B": 3, "C": 4}, max_clique_cells=8)
        >>> problem.scores.score(0b011), problem.max_clique_size
        (2.0, 2)
        """
        by_name = dict(states) if hasattr(states, "keys") else {f"V{v + 1}": k for v, k in enumerate(states)}
        names = tuple(by_name)
        if isinstance(weights, str | Path):
            weights = matrix_in_file(weights, names)
        elif hasattr(weights, "columns"):
            index = weights.index if hasattr(weights, "index") else weights.columns
            labels = weights.columns if type(index).__name__ == "RangeIndex" else index
            weights = ordered_matrix(weights.to_numpy(), list(labels), list(weights.columns), names)
        elif hasattr(weights, "keys"):
            weights = weight_matrix(weights.items(), names)
        size = None if max_treewidth is None else max_treewidth + 1
        scores = PairScores(weights, tuple(by_name.values()), noise, price, max_clique_cells, size)
        constraints = Constraints(max_treewidth=max_treewidth, max_clique_cells=max_clique_cells)
        return cls(tuple(map(Variable, names, scores.states)), scores, constraints, name)

    def __repr__(self) -> str:
        name = f"'{self.name}': " if self.name else ""
        used = ", ".join(sorted(feature.value for feature in self.constraints.features))
        size = f"{self.n} variables, scores of at most {self.scores.max_size}"
        return f"Problem({name}{size}{'; ' * bool(used)}{used})"

    def _repr_html_(self) -> str | None:
        return as_html([repr(self), ", ".join(self.names)])

    @property
    def n(self) -> int:
        """The number of variables."""
        return self.scores.n

    @property
    def names(self) -> tuple[str, ...]:
        """The variables' names."""
        return tuple(variable.name for variable in self.variables)

    @property
    def max_clique_size(self) -> int:
        """The largest clique size that n, the scores, the treewidth and the bound on cells allow."""
        bound = min(self._most_fitting, self.scores.max_size)
        treewidth = self.constraints.max_treewidth
        return bound if treewidth is None else min(bound, treewidth + 1)

    def cells(self, mask: VarSet) -> int:
        """Returns the number of joint states of the discrete variables of a set."""
        return prod(self.variables[v].arity or 1 for v in members(mask))

    def permits_clique(self, mask: VarSet) -> bool:
        """Returns whether the set meets the constraints on cliques by itself: size, score, edges, cells."""
        most = self.constraints.max_clique_cells
        return (
            0 < mask.bit_count() <= self.max_clique_size
            and (most is None or self.cells(mask) <= most)
            and mask not in self.constraints.forbidden_cliques
            and not any(is_subset(edge, mask) for edge in self.constraints.forbidden_edges)
            and self.scores.score(mask) > -inf
        )

    def permits_separator(self, mask: VarSet) -> bool:
        """Returns whether the set by itself meets the constraints on separators; ∅ separates components.

        A tree of one clique has no separator.
        """
        limits = self.constraints
        largest = self.n if limits.max_separator_size is None else limits.max_separator_size
        return (
            limits.min_separator_size <= mask.bit_count() <= largest
            and limits.max_cliques != 1
            and mask not in limits.forbidden_separators
            and (limits.allowed_separators is None or mask in limits.allowed_separators)
            and self.scores.score(mask) > -inf
        )

    def permits(self, tree: JunctionTree) -> bool:
        """Returns whether a tree meets all constraints, and has a score for all of its parts."""
        limits = self.constraints
        return (
            tree.n == self.n
            and all(map(self.permits_clique, tree.cliques))
            and all(map(self.permits_separator, set(tree.separators)))
            and all(any(is_subset(edge, clique) for clique in tree.cliques) for edge in limits.required_edges)
            and (limits.max_cliques is None or len(tree.cliques) <= limits.max_cliques)
            and not (limits.forbidden_graphs and tree.edge_sets in limits.forbidden_graphs)
            and not (limits.real_variables and not is_strongly_decomposable(tree, limits.real_variables))
        )

    def with_star(self) -> Problem:
        """Returns the problem in which the star represents the marks; itself without marks.

        Its trees are those of this problem with the star (`marks.with_star`), of the same scores. It has the
        same digest.

        Raises:
            ChoiceError: a constraint on cliques or separators would mean another with the star.
        """
        limits, n = self.constraints, self.n
        real = limits.real_variables
        if not real:
            return self
        star, discrete = 1 << n, ((1 << n) - 1) & ~real
        if not discrete:  # every chordal graph will do
            return replace(self, constraints=replace(limits, real_variables=0))
        if self._starred is None:
            _require_simple(limits)
            edges = frozenset(1 << v | star for v in members(discrete))
            connected = limits.min_separator_size or 0 in limits.forbidden_separators
            constraints = Constraints(
                forbidden_edges=limits.forbidden_edges,
                required_edges=limits.required_edges | edges,
                forbidden_separators=frozenset({0, star}) if connected else frozenset(),
                forbidden_graphs=frozenset(graph | edges for graph in limits.forbidden_graphs),
                max_clique_cells=limits.max_clique_cells,
            )
            ceilings = None
            if self.ceilings is not None:  # beside the star alone, a variable adds its own score
                own = [self.scores.score(1 << v) for v in range(n)]
                ceilings = (*(max(c, s) for c, s in zip(self.ceilings, own, strict=True)), 0.0)
            name = next(name for k in range(n + 1) if (name := "*" * (k + 1)) not in self.names)
            starred = replace(
                self,
                variables=(*self.variables, Variable(name, 1)),
                scores=scores_with_star(self.scores, discrete, self.max_clique_size),
                constraints=constraints,
                ceilings=ceilings,
                star=True,
            )
            object.__setattr__(starred, "_digest", self.digest())
            object.__setattr__(self, "_starred", starred)
        assert self._starred is not None, "just made"
        return self._starred

    def with_treewidth(self, treewidth: int | None) -> Problem:
        """Returns this problem with its treewidth also bounded by `treewidth`; None changes nothing."""
        if treewidth is None:
            return self
        own = self.constraints.max_treewidth
        tighter = treewidth if own is None else min(own, treewidth)
        return replace(self, constraints=replace(self.constraints, max_treewidth=tighter))

    def guarded(self, stoppable: Stoppable) -> Problem:
        """Returns this problem with scores that end long batches once the work has to stop; see `Guarded`."""
        if not isinstance(self.scores, Guarded):
            return self
        return replace(self, scores=self.scores.guarded(stoppable))

    def digest(self) -> str:
        """Returns "sha256:…" over the variables' names and the scores, not over the constraints.

        A dense table and a sparse one with the same scores have different digests.
        """
        if self._digest is None:  # hashing 10^8 scores takes seconds
            object.__setattr__(self, "_digest", self._hashed())
        assert self._digest is not None, "just computed"
        return self._digest

    def _hashed(self) -> str:
        sha = hashlib.sha256()
        for variable in self.variables:
            sha.update(variable.name.encode() + b"\0")
        if isinstance(self.scores, DenseScores):
            sha.update(f"colex {self.scores.max_size}\0".encode())
            sha.update(np.ascontiguousarray(self.scores.values, dtype="<f8").data)  # not a copy of it
        elif isinstance(self.scores, SparseScores):
            entries = [f"{mask:x} {value!r}\0" for mask, value in self.scores.table.items()]
            sha.update("".join(entries).encode())
        else:
            sha.update(repr(self.scores).encode())
        return f"sha256:{sha.hexdigest()}"
