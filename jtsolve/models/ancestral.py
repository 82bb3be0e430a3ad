"""Samples and log-likelihoods of a Bayesian network, from its conditional tables where these suffice.

Nodes are drawn in order, each given its parents (M. Henrion, Propagating uncertainty in Bayesian networks by
probabilistic logic sampling, UAI 1988). If the parents of every observed node are observed, ln P of a row is
a sum of entries of the tables. Evidence, and missing parents of observed nodes, need a junction tree of the
ancestors; the other nodes follow from their parents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.varset import members, varset
from jtsolve.errors import InputError
from jtsolve.models.inference import likelihood as of_likelihood
from jtsolve.models.layout import require_draws
from jtsolve.models.relevance import Entered
from jtsolve.networks.sample import configurations, sample_codes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.models.answers import Evidence
    from jtsolve.networks.network import Network
    from jtsolve.tables.table import Codes


def sample(network: Network, evidence: Evidence, rows: int, seed: int = 0) -> Codes:
    """Returns independent rows given evidence as codes, shape (nodes, rows).

    Reproducible by network, evidence, number of rows and seed (numpy's PCG64).

    Args:
        network: the distribution.
        evidence: hard or soft.
        rows: their number.
        seed: of the draws.

    Raises:
        ChoiceError: a number is negative.
        InputError: a variable or state is unknown, or the evidence is impossible.
        LimitError: the rows, or the tables of the ancestors of the evidence, do not fit in memory.
    """
    require_draws(rows, seed, len(network.nodes))
    known: dict[int, Codes] = {}
    if evidence:
        entered = Entered.of(network, evidence)
        part = entered.part(entered.observed, None)
        part.require(None)
        codes = part.compiled().model.sample(rows, seed)
        known = dict(zip(members(part.variables), codes, strict=True))
    # With evidence, the seed has been used already.
    return sample_codes(network, rows, np.random.default_rng([seed, 1] if evidence else seed), known)


def log_likelihood(network: Network, rows: Codes) -> NDArray[np.float64]:
    """Returns ln P(row) for every row, in nats; -inf for impossible rows.

    Args:
        network: the distribution.
        rows: codes of shape (nodes, rows), with -1 for missing values, which are summed out.

    Raises:
        InputError: a code is out of range.
        LimitError: observed nodes have missing parents, and the tables that sum these out do not fit in
            memory.
    """
    entered = Entered.of(network, {})
    of_likelihood.gaps_of(entered.columns, rows)
    seen = rows >= 0
    direct = np.ones(rows.shape[1], dtype=np.bool_)
    for v, node in enumerate(network.nodes):
        for u in node.parents:
            direct &= seen[u] | ~seen[v]
    out = np.zeros(rows.shape[1])
    with np.errstate(divide="ignore"):
        for v, node in enumerate(network.nodes):
            at = np.flatnonzero(direct & seen[v])
            codes = {u: rows[u, at] for u in (*node.parents, v)}
            out[at] += np.log(node.table)[configurations(network, node, codes, at.size), codes[v]]
    left = np.flatnonzero(~direct)
    if left.size:
        part = entered.part(varset(np.flatnonzero(seen[:, left].any(axis=1)).tolist()), None)
        if part.fits(None):
            inside = list(members(part.variables))
            out[left] = of_likelihood.log_likelihood(part.compiled().model, rows[inside][:, left])
        else:
            different, place = np.unique(rows[:, left], axis=1, return_inverse=True)
            out[left] = np.array([_of_row(network, row.tolist()) for row in different.T])[place]
    return out


def _of_row(network: Network, row: list[int]) -> float:
    """Returns ln P of the observed values of one row, entered as evidence."""
    evidence = {
        node.name: node.states[code] for node, code in zip(network.nodes, row, strict=True) if code >= 0
    }
    entered = Entered.of(network, evidence)
    part = entered.part(entered.observed, None)
    part.require(None)
    try:
        return part.compiled().log_probability
    except InputError:  # impossible
        return -np.inf
