"""Random models for tests, and their joint distributions by brute force."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from random import Random
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import strategies as st

from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import members
from jtsolve.models.columns import Column
from jtsolve.models.model import JunctionTreeModel
from jtsolve.networks.network import Network, NetworkNode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.models.mixed import MixedTreeModel
    from jtsolve.models.mixture import Mixture


def random_tree(n: int, treewidth: int, random: Random) -> JunctionTree:
    """Returns a tree of at most this treewidth, built by joining each vertex to part of an earlier family."""
    families: list[tuple[int, int]] = []
    order = list(range(n))
    random.shuffle(order)
    label = {v: i for i, v in enumerate(order)}
    for v in range(n):
        if v == 0:
            families.append((label[0], 0))
            continue
        base, parents = families[random.randrange(len(families))]
        clique = [*members(parents), base]
        chosen = random.sample(clique, random.randint(0, min(treewidth, len(clique))))
        families.append((label[v], sum(1 << u for u in chosen)))
    return JunctionTree.from_families(families)


def columns_for(arities: Sequence[int]) -> tuple[Column, ...]:
    return tuple(Column(f"V{i}", tuple(f"s{k}" for k in range(arity))) for i, arity in enumerate(arities))


def projected(joint: NDArray[np.float64], tree: JunctionTree) -> JunctionTreeModel:
    """Returns the model whose tables are the marginals of a joint distribution."""
    everything = set(range(joint.ndim))
    tables = tuple(joint.sum(axis=tuple(everything - set(members(clique)))) for clique in tree.cliques)
    return JunctionTreeModel(columns_for(joint.shape), tree, tables)


def random_model(seed: int, n: int | None = None, *, zeros: bool | None = None) -> JunctionTreeModel:
    """Returns a model of at most eight variables with one to four states; every third has zero cells."""
    random = Random(seed)  # noqa: S311 - not for secrets
    generator = np.random.default_rng(seed)
    count = random.randint(1, 8) if n is None else n
    arities = [random.choice((1, 2, 2, 2, 3, 3, 4)) for _ in range(count)]
    while prod(arities) > 4000:
        arities[arities.index(max(arities))] -= 1
    joint = np.exp(generator.normal(0, 1.5, arities))
    if seed % 3 == 0 if zeros is None else zeros:
        joint[generator.random(arities) < 0.4] = 0
        joint.flat[0] += 1e-3
    return projected(joint / joint.sum(), random_tree(count, random.randint(1, 4), random))


def brute(model: JunctionTreeModel) -> NDArray[np.float64]:
    """Returns the joint distribution by definition: product over cliques divided by that over separators."""
    names = [chr(97 + v) for v in range(model.n)]

    def spread(table: NDArray[np.float64], variables: Sequence[int]) -> NDArray[np.float64]:
        shape = [model.columns[v].arity if v in variables else 1 for v in range(model.n)]
        return table.reshape(shape)

    assert len(names) == model.n
    joint = np.ones([column.arity for column in model.columns])
    for clique, table in zip(model.tree.cliques, model.tables, strict=True):
        joint = joint * spread(table, list(members(clique)))
    for (i, _), separator in zip(model.tree.edges, model.tree.separators, strict=True):
        inner = list(members(separator))
        outer = list(members(model.tree.cliques[i]))
        table = model.tables[i].sum(axis=tuple(k for k, v in enumerate(outer) if v not in inner))
        with np.errstate(divide="ignore", invalid="ignore"):
            joint = np.where(spread(table, inner) > 0, joint / spread(table, inner), 0.0)
    return joint


@st.composite
def models(draw: st.DrawFn) -> JunctionTreeModel:
    """Models with ties and zeros, from joint distributions of small integers."""
    arities = draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))
    cells = prod(arities)
    weights = draw(st.lists(st.integers(0, 3), min_size=cells, max_size=cells).filter(any))
    tree = random_tree(len(arities), draw(st.integers(0, 3)), draw(st.randoms(use_true_random=False)))
    joint = np.array(weights, dtype=np.float64).reshape(arities)
    return projected(joint / joint.sum(), tree)


def chain(n: int, arity: int = 2, seed: int = 0) -> JunctionTreeModel:
    """Returns a Markov chain of n variables with positive random tables."""
    generator = np.random.default_rng(seed)
    tree = JunctionTree(n, tuple(0b11 << i for i in range(n - 1)), tuple(pairwise(range(n - 1))))
    marginal = generator.dirichlet(np.ones(arity))
    tables = []
    for _ in range(n - 1):
        table = marginal[:, None] * generator.dirichlet(np.ones(arity), size=arity)
        tables.append(table)
        marginal = table.sum(axis=0)
    return JunctionTreeModel(columns_for([arity] * n), tree, tuple(tables))


def random_network(
    arities: Sequence[int], parents: Sequence[Sequence[int]], seed: int, *, zeros: float = 0.0
) -> Network:
    """Returns a network with nodes V0, V1, … whose tables are random, with a share of zero cells."""
    generator = np.random.default_rng(seed)
    nodes = []
    for v, (arity, above) in enumerate(zip(arities, parents, strict=True)):
        table = generator.random((prod(arities[p] for p in above), arity)) + 0.01
        table[generator.random(table.shape) < zeros] = 0
        table[table.sum(axis=1) == 0, 0] = 1
        table /= table.sum(axis=1, keepdims=True)
        nodes.append(NetworkNode(f"V{v}", tuple(f"s{k}" for k in range(arity)), tuple(above), table))
    return Network(f"random-{seed}", tuple(nodes))


def brute_network(network: Network) -> NDArray[np.float64]:
    """Returns the joint distribution of a network, with an axis per node."""
    arities = network.arities
    joint = np.ones(arities)
    for v, node in enumerate(network.nodes):
        scope = (*node.parents, v)
        table = node.table.reshape([arities[u] for u in scope])
        order = np.argsort(scope)
        joint = joint * np.transpose(table, order).reshape(
            [k if u in scope else 1 for u, k in enumerate(arities)]
        )
    return joint


def junction_trees(mixture: Mixture) -> tuple[JunctionTreeModel, ...]:
    """Returns the components that are junction trees."""
    return tuple(one for one in mixture.components if isinstance(one, JunctionTreeModel))


def precision_matrix(model: MixedTreeModel) -> NDArray[np.float64]:
    """Returns the precision matrix of real variables, zero for those that share no clique."""
    matrix = np.zeros((model.n, model.n))
    for clique in model.cliques:
        matrix[np.ix_(clique.real, clique.real)] += clique.form[2][0]
    return matrix
