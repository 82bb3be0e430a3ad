"""Queries of feature trees, each a pass over the nodes of the circuit.

Names, arguments and errors are those of the queries of junction trees in `models.inference`. Unlike a
mixture, whose components overlap, a feature tree has exact best configurations: branches exclude each other.
Time: linear in the circuit, times k log k for the k best configurations; a complete row visits its own path.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.errors import ChoiceError, InputError, LimitError
from jtsolve.models.columns import codes_of
from jtsolve.models.features.circuit import clique_nodes, separator_first
from jtsolve.models.features.nodes import Product, Split, TreeLeaf
from jtsolve.models.features.tree import FeatureTree
from jtsolve.models.inference.evidence import Conditioned, impossible, likelihoods
from jtsolve.models.inference.likelihood import gaps_of
from jtsolve.models.inference.marginals import MOST_CELLS
from jtsolve.models.inference.mpe import Configuration
from jtsolve.models.inference.sampling import BLOCK
from jtsolve.models.layout import require_room
from jtsolve.models.model import model_of
from jtsolve.tables.table import DataTable, code_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.models.features.nodes import Node
    from jtsolve.models.inference.evidence import Evidence
    from jtsolve.tables.table import Codes


def log_likelihood(tree: FeatureTree, rows: DataTable | Codes) -> NDArray[np.float64]:
    """Returns ln P(row) for every row, in nats; see `inference.likelihood.log_likelihood`."""
    (logs,) = log_likelihoods(tree, rows, [tree.circuit.log_weight])
    return logs


def log_likelihoods(
    tree: FeatureTree, rows: DataTable | Codes, log_weights: Sequence[NDArray[np.float64]]
) -> list[NDArray[np.float64]]:
    """Returns `log_likelihood` for each of several `Circuit.log_weight` in place of the tree's own."""
    from jtsolve.models.features.kernels.circuits import complete_rows, partial_rows

    codes = codes_of(tree.columns, rows) if isinstance(rows, DataTable) else np.asarray(rows)
    gaps = gaps_of(tree.columns, codes)
    codes = codes.astype(np.int32)
    circuit, first = tree.circuit, tree.circuit.first
    whole = np.ascontiguousarray(codes.T if not gaps.any() else codes[:, ~gaps].T)
    open_rows = np.ascontiguousarray(codes[:, gaps])
    found = []
    for weights in log_weights:
        complete, partial = np.empty(len(whole)), np.empty(open_rows.shape[1])
        complete_rows(whole, weights, circuit.arrays, circuit.visits, complete)
        if partial.size:
            partial_rows(open_rows, first, weights, circuit.arrays, partial)
            out = np.empty(len(gaps))
            out[~gaps], out[gaps] = complete, partial
        found.append(out if partial.size else complete)
    return found


def condition(tree: FeatureTree, evidence: Evidence) -> Conditioned[FeatureTree]:
    """Returns the distribution given hard and soft evidence; see `inference.evidence.condition`."""
    from jtsolve.models.features.kernels.circuits import upward

    weights = likelihoods(tree.columns, evidence)
    if not weights:
        return Conditioned(tree, 0.0)
    first = tree.circuit.first
    log_likelihoods = np.zeros(first[-1])
    with np.errstate(divide="ignore"):
        for v, weight in weights.items():
            log_likelihoods[first[v] : first[v + 1]] = np.log(weight)
    circuit = tree.circuit
    value, term = upward(circuit.log_weight, log_likelihoods, circuit.arrays)
    if value[0] == -np.inf:
        raise impossible(tree.names, marginals(tree), weights, evidence)
    known = tuple(_given(tree, i, value, term) for i in range(len(tree.nodes)))
    return Conditioned(FeatureTree(tree.columns, known, tree.provenance), float(value[0]))


def marginals(tree: FeatureTree) -> tuple[NDArray[np.float64], ...]:
    """Returns P(v) for every variable v, one entry a state."""
    _, out = _expected(tree, np.zeros(tree.circuit.nodes), tree.circuit.log_weight)
    return tuple(out[start:stop] for start, stop in pairwise(tree.circuit.first.tolist()))


def marginal(tree: FeatureTree, names: Sequence[str], *, most_cells: int = MOST_CELLS) -> NDArray[np.float64]:
    """Returns the joint marginal of some variables; see `inference.marginals.marginal`.

    Each cell is the probability of a row in which the other variables are missing: nothing larger than the
    result is needed.
    """
    wanted = tree.variables(names)
    if not wanted or len(set(wanted)) < len(wanted):
        raise InputError("query", "variables", "there are none, or one is named twice", "name each one once")
    dims = [tree.columns[v].arity for v in wanted]
    cells = prod(dims)
    if cells > most_cells:
        raise LimitError(
            f"the joint marginal of {len(wanted)} variables needs a table of {cells:.3g} cells, "
            f"{8 * cells / 1e9:.3g} GB, but {most_cells:.3g} cells are allowed. Ways out: fewer variables"
        )
    out = np.empty(cells)
    for start in range(0, cells, BLOCK):
        at = np.arange(start, min(start + BLOCK, cells))
        codes = np.full((tree.n, at.size), -1, dtype=np.int32)
        codes[list(wanted)] = np.unravel_index(at, dims)
        out[at] = np.exp(log_likelihood(tree, codes))
    return out.reshape(dims)


def entropy(tree: FeatureTree) -> float:
    """Returns -Σ P ln P over all configurations, in nats."""
    logs = tree.circuit.log_weight
    share, _ = _expected(tree, np.zeros(tree.circuit.nodes), logs)
    return -float(share[share > 0] @ logs[share > 0])


def most_probable(tree: FeatureTree, k: int = 1) -> list[Configuration]:
    """Returns the k most probable configurations, best first; see `inference.mpe.most_probable`."""
    from jtsolve.models.features.kernels.circuits import best, trace

    if k < 1:
        raise ChoiceError(f"{k} configurations are requested; give a number of 1 or more")
    circuit, first = tree.circuit, tree.circuit.first
    slots = len(circuit.arrays.kids)
    require_room((slots + 2 * circuit.nodes) * k, f"the {k} best configurations", "a smaller k", 16)
    joined = np.zeros((slots, k, 2), dtype=np.int64)
    own = np.zeros((circuit.nodes, k, 2), dtype=np.int64)
    sizes = np.zeros(circuit.nodes, dtype=np.int64)
    values = np.empty((circuit.nodes, k))
    best(circuit.log_weight, circuit.arrays, k, joined, own, sizes, values)
    found = []
    for rank in range(int(sizes[0])):
        codes = np.zeros(tree.n, dtype=np.int64)
        trace(rank, circuit.arrays, joined, own, first, codes)
        states = tuple(column.states[code] for column, code in zip(tree.columns, codes.tolist(), strict=True))
        found.append(Configuration(states, float(values[0, rank])))
    return found


def sample(tree: FeatureTree, rows: int, seed: int = 0) -> Codes:
    """Returns independent rows as codes, shape (variables, rows); see `inference.sampling.sample`."""
    from jtsolve.models.features.kernels.circuits import draw

    if rows < 0 or seed < 0:
        raise ChoiceError(f"{rows} rows with the seed {seed} cannot be drawn; give numbers of 0 or more")
    circuit, first = tree.circuit, tree.circuit.first
    kind = np.dtype(code_type(max(column.arity for column in tree.columns)))
    require_room(tree.n * rows, f"{rows} rows", "fewer rows, in several files", kind.itemsize)
    sums = np.cumsum(np.exp(circuit.log_weight))
    starts = circuit.arrays.branch
    before = np.concatenate([[0.0], sums])[starts[:-1]]
    sums -= np.repeat(before, np.diff(starts))
    totals = np.repeat(sums[starts[1:] - 1], np.diff(starts))
    np.divide(sums, totals, out=sums, where=totals > 0)
    variable = np.searchsorted(first, circuit.arrays.literals, side="right") - 1
    state = circuit.arrays.literals - first[variable]
    out = np.zeros((tree.n, rows), dtype=np.int32)
    generator = np.random.default_rng(seed)
    for start in range(0, rows, BLOCK):
        stop = min(start + BLOCK, rows)
        uniform = generator.random((circuit.visits, stop - start))
        draw(uniform, sums, circuit.arrays, variable, state, out[:, start:stop])
    return out.astype(kind)


def _expected(
    tree: FeatureTree, value: NDArray[np.float64], term: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns the probability of each branch, and that of each state; for arguments, see `upward`."""
    from jtsolve.models.features.kernels.circuits import downward

    arrays = tree.circuit.arrays
    flow, single = np.zeros(len(term)), np.zeros(tree.circuit.first[-1])
    downward(value, term, arrays, 0, tree.circuit.nodes, flow, single)
    return flow, single


def _given(tree: FeatureTree, i: int, value: NDArray[np.float64], term: NDArray[np.float64]) -> Node:
    """Returns a node given the evidence behind `value` and `term`; as it is, if that is impossible there."""
    from jtsolve.models.features.kernels.circuits import downward

    node, place, arrays = tree.nodes[i], tree.circuit.place[i], tree.circuit.arrays
    if isinstance(node, Product) or value[place] == -np.inf:
        return node
    start, stop = arrays.branch[place : place + 2]
    if not isinstance(node, TreeLeaf):
        shares = np.exp(term[start:stop] - value[place])
        if isinstance(node, Split):
            return replace(node, probability=min(1.0, float(shares[1])))
        return replace(node, values=shares.reshape(node.values.shape))
    layout = node.model.layout
    places = place + clique_nodes(layout)
    flow = np.zeros(len(term))
    downward(value, term, arrays, place, places[-1], flow, np.zeros(tree.circuit.first[-1]))
    tables = np.empty(layout.cells)
    for c in range(len(layout.cliques)):
        axes = separator_first(layout, c)
        found = flow[arrays.branch[places[c]] : arrays.branch[places[c + 1]]]
        dims = [layout.dims(c)[k] for k in axes]
        layout.table(tables, c)[...] = np.transpose(found.reshape(dims), np.argsort(axes))
    return replace(node, model=model_of(node.model.columns, node.model.tree, tables))
