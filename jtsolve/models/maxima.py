"""The most probable configuration of a product of factors, one clique table at a time.

Max-product elimination along a junction tree, as in R. G. Cowell, A. P. Dawid, S. L. Lauritzen, D. J.
Spiegelhalter, Probabilistic Networks and Expert Systems, 1999, section 6.4.1: each clique, from the leaves to
the root, is a table of logarithms; only the maxima over the variables outside the separator are
kept, and where they are. Memory: the largest table and all separators, a part of that of a calibrated tree.
Ties go to the first cells, separators before the rest.
"""

from __future__ import annotations

from math import ceil, prod
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.varset import VarSet, is_subset, members, varset
from jtsolve.models.layout import require_room, rooted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.triangulation import Factor


def maximum(
    tree: JunctionTree,
    arities: Sequence[int],
    factors: Sequence[Factor],
    *,
    memory: int | None,
    run: Run,
) -> tuple[list[int], float]:
    """Returns the states at which the product of factors is largest, and its logarithm, in nats.

    Args:
        tree: each factor is within a clique of it.
        arities: by variable, its number of states.
        factors: of numbers of 0 or more.
        memory: most bytes; None for the free memory.
        run: shows progress.

    Raises:
        LimitError: the tables do not fit in memory; raised before they are built.
    """
    order, parent = rooted(tree)
    cliques = [tree.cliques[i] for i in order]
    # The root has none.
    separators = [
        clique & cliques[above] if above >= 0 else 0 for clique, above in zip(cliques, parent, strict=True)
    ]
    sizes = [prod(arities[v] for v in members(clique)) for clique in cliques]
    largest = max(sizes)
    # A table; of each separator the maxima, and where they are.
    kept = 16 * sum(prod(arities[v] for v in members(separator)) for separator in separators)
    way = "more evidence, which removes its variables from the tables"
    require_room(largest, "the largest table of the tree", way, 8 + ceil(kept / largest), limit=memory)
    smallest = sorted(range(len(cliques)), key=lambda place: (sizes[place], place))
    terms: list[list[tuple[NDArray[np.float64], tuple[int, ...]]]] = [[] for _ in cliques]
    for factor in factors:
        scope = varset(factor.variables)
        with np.errstate(divide="ignore"):
            logs = np.log(factor.table)
        terms[next(p for p in smallest if is_subset(scope, cliques[p]))].append((logs, factor.variables))
    choices: list[NDArray[np.int64]] = [np.empty(0, np.int64)] * len(cliques)
    best = 0.0
    for done, place in enumerate(reversed(range(len(cliques)))):
        run.progress(note="maximising", done=sum(sizes[place + 1 :]) / sum(sizes) if done else None)
        inner = tuple(members(separators[place]))
        scope_of = _scope(cliques[place], separators[place])
        table = np.zeros([arities[v] for v in scope_of])
        for logs, variables in terms[place]:
            table += _spread(logs, variables, scope_of)
        terms[place] = []
        rows = table.reshape(prod(arities[v] for v in inner), -1)
        choices[place] = rows.argmax(axis=1)
        maxima = rows[np.arange(len(rows)), choices[place]].reshape([arities[v] for v in inner])
        if parent[place] < 0:
            best = float(maxima)
        else:
            terms[parent[place]].append((maxima, inner))
    return _followed(cliques, separators, arities, choices), best


def _scope(clique: VarSet, separator: VarSet) -> tuple[int, ...]:
    """Returns the axes of a clique's table: the separator's first."""
    return (*members(separator), *members(clique & ~separator))


def _spread(
    table: NDArray[np.float64], variables: Sequence[int], scope: Sequence[int]
) -> NDArray[np.float64]:
    """Returns a view of a table with the axes of a scope, of length 1 where it has none."""
    places = [scope.index(v) for v in variables]
    turned = np.transpose(table, np.argsort(places))
    shape = [1] * len(scope)
    for place, length in zip(sorted(places), turned.shape, strict=True):
        shape[place] = length
    return turned.reshape(shape)


def _followed(
    cliques: Sequence[VarSet],
    separators: Sequence[VarSet],
    arities: Sequence[int],
    choices: Sequence[NDArray[np.int64]],
) -> list[int]:
    """Returns the states of the maximum: those of the root, then of each clique given its separator."""
    codes = [0] * len(arities)
    for clique, separator, choice in zip(cliques, separators, choices, strict=True):
        row = 0
        for v in members(separator):
            row = row * arities[v] + codes[v]
        cell = int(choice[row])
        for v in reversed(list(members(clique & ~separator))):
            cell, codes[v] = divmod(cell, arities[v])
    return codes
