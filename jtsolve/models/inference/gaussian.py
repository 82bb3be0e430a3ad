"""Queries of Gaussian models: covariances across cliques, conditionals, entropy, divergence, samples.

Covariances with a variable q propagate from a clique that contains it: Cov(R, q) = A Cov(S, q), where A is
the regression of R on S. A conditional is again a Gaussian, on the tree without the observed variables:
messages go up, then moments down. Time: Σ |C|³, plus Σ |C|² for each variable whose covariances are queried.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import members, varset
from jtsolve.errors import ChoiceError, InputError
from jtsolve.models.gaussian import GaussianTreeModel, collect, gaussian_log_likelihood, inverted
from jtsolve.models.layout import rooted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


def covariance(model: GaussianTreeModel, names: Sequence[str]) -> NDArray[np.float64]:
    """Returns the covariances of some variables, wherever they lie in the tree.

    Raises:
        InputError: a variable is unknown.
    """
    wanted = [model.variable(name) for name in names]
    out = np.empty((len(wanted), len(wanted)))
    for k, q in enumerate(wanted):
        out[:, k] = _covariances_with(model, q)[wanted]
    return (out + out.T) / 2


def _covariances_with(model: GaussianTreeModel, q: int) -> NDArray[np.float64]:
    """Returns Cov(v, q) for every variable v."""
    cliques = model.tree.cliques
    home = next(i for i, clique in enumerate(cliques) if clique >> q & 1)
    order, parent = rooted(model.tree, home)
    found = np.zeros(model.n)
    inside = list(members(cliques[home]))
    found[inside] = model.covariances[home][:, inside.index(q)]
    for i, above in zip(order[1:], parent[1:], strict=True):
        inside = list(members(cliques[i]))
        separator = list(members(cliques[i] & cliques[order[above]]))
        rest = [v for v in inside if v not in separator]
        at, over = [inside.index(v) for v in separator], [inside.index(v) for v in rest]
        matrix = model.covariances[i]
        weights = np.linalg.solve(matrix[np.ix_(at, at)], found[separator])
        found[rest] = matrix[np.ix_(over, at)] @ weights
    return found


def condition_gaussian(
    model: GaussianTreeModel, evidence: Mapping[str, float]
) -> tuple[GaussianTreeModel, float]:
    """Returns the distribution of the other variables given observed values, and ln of these values' density.

    Raises:
        InputError: a variable is unknown, a value is not finite, or no variable is left.
    """
    observed = np.zeros(model.n, dtype=np.bool_)
    centred = np.zeros((model.n, 1))
    for name, value in evidence.items():
        v = model.variable(name)
        if not np.isfinite(value):
            raise InputError("evidence", f"'{name}'", f"{value} is not a finite number", "give a number")
        observed[v], centred[v] = True, value - model.mean[v]
    if observed.all():
        raise InputError("evidence", "", "it observes every variable", "leave some unobserved")
    sent = collect(model, observed, centred)
    left = [int(v) for v in np.flatnonzero(~observed)]
    new = {v: k for k, v in enumerate(left)}
    mean = np.zeros(model.n)
    moments: list[tuple[list[int], NDArray[np.float64]]] = []
    for node, message in zip(model.nodes, reversed(sent), strict=True):
        free, kept = list(message.open), list(message.kept)
        k = len(free)
        matrix = np.zeros((k + len(kept), k + len(kept)))
        if kept:
            above, theirs = moments[node.parent]
            at = [above.index(v) for v in kept]
            matrix[k:, k:] = theirs[np.ix_(at, at)]
        if k:
            spread, _ = inverted(message.precision[:k, :k])
            slope = -spread @ message.precision[:k, k:]
            mean[free] = spread @ message.linear[:k, 0] + slope @ mean[kept]
            matrix[:k, k:] = slope @ matrix[k:, k:]
            matrix[k:, :k] = matrix[:k, k:].T
            matrix[:k, :k] = spread + matrix[:k, k:] @ slope.T
        moments.append((free + kept, (matrix + matrix.T) / 2))
    bags = [varset(new[v] for v in inside) for inside, _ in moments]
    edges = [(node.parent, place) for place, node in enumerate(model.nodes) if node.parent >= 0]
    tree = JunctionTree.from_nodes(len(left), bags, edges)
    covariances = []
    for clique in tree.cliques:
        inside, matrix = moments[bags.index(clique)]
        order = [inside.index(left[v]) for v in members(clique)]
        covariances.append(matrix[np.ix_(order, order)])
    names = tuple(model.names[v] for v in left)
    result = GaussianTreeModel(
        names,
        tree,
        mean[left] + model.mean[left],
        tuple(covariances),
        MappingProxyType(dict(model.provenance)),
    )
    return result, float(sent[-1].constant[0])


class Mode(NamedTuple):
    """The point of highest density given evidence: the conditional mean.

    Attributes:
        values: shape (variables,), observed ones included.
        log_density: of the point, in nats.
        of_evidence: ln of the density of the observed values.
    """

    values: NDArray[np.float64]
    log_density: float
    of_evidence: float


def gaussian_mode(model: GaussianTreeModel, evidence: Mapping[str, float], k: int = 1) -> Mode:
    """Returns the most probable explanation of observed values.

    Args:
        model: the distribution.
        evidence: the observed values.
        k: the number of explanations, 1.

    Raises:
        ChoiceError: k is not 1.
        InputError: see `condition_gaussian`.
    """
    if k != 1:
        raise ChoiceError(
            f"{k} explanations of real numbers are asked for, but there is one, the mean: a density has no "
            "second best point; ask for 1"
        )
    known, of_evidence = condition_gaussian(model, evidence)
    found = dict(zip(known.names, known.mean.tolist(), strict=True)) | dict(evidence)
    values = np.array([found[name] for name in model.names])
    return Mode(values, float(gaussian_log_likelihood(model, values[:, None])[0]), of_evidence)


def gaussian_entropy(model: GaussianTreeModel) -> float:
    """Returns the differential entropy, in nats."""
    constants = sum(node.constant for node in model.nodes)
    return 0.5 * model.n - constants


def gaussian_divergence(p: GaussianTreeModel, q: GaussianTreeModel) -> float:
    """Returns the Kullback-Leibler divergence KL(p‖q) in nats.

    Raises:
        InputError: the models have different variables.
    """
    if set(p.names) != set(q.names):
        raise InputError(
            "models", "", "they have different variables", "compare models of the same variables"
        )
    crossed = 0.0
    for node in q.nodes:
        names = [q.names[v] for v in node.members]
        shift = np.array([p.mean[p.variable(name)] for name in names]) - q.mean[list(node.members)]
        second = covariance(p, names) + np.outer(shift, shift)
        crossed += node.constant - 0.5 * float((node.precision * second).sum())
    return max(0.0, -gaussian_entropy(p) - crossed)


def sample_gaussian(model: GaussianTreeModel, rows: int, seed: int = 0) -> NDArray[np.float64]:
    """Returns independent rows, shape (variables, rows), reproducible by seed.

    Raises:
        ChoiceError: a number is negative.
    """
    if rows < 0 or seed < 0:
        raise ChoiceError(f"{rows} rows with the seed {seed} cannot be drawn; give numbers of 0 or more")
    generator = np.random.default_rng(seed)
    out = np.zeros((model.n, rows))
    for node in model.nodes:
        at = [node.members.index(v) for v in node.separator]
        rest = [k for k in range(len(node.members)) if k not in at]
        spread, _ = inverted(node.precision[np.ix_(rest, rest)])
        slope = -spread @ node.precision[np.ix_(rest, at)]
        noise = np.linalg.cholesky(spread) @ generator.standard_normal((len(rest), rows))
        out[[node.members[k] for k in rest]] = slope @ out[list(node.separator)] + noise
    return out + model.mean[:, None]
