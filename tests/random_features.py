"""Random feature trees for tests."""

from __future__ import annotations

from random import Random

import numpy as np
from random_models import columns_for, random_tree

from jtsolve.models.features.context import Context, Feature, feature_of
from jtsolve.models.features.nodes import Node, Product, Split, TableLeaf, TreeLeaf
from jtsolve.models.features.tree import FeatureTree
from jtsolve.models.features.validity import leaf_columns
from jtsolve.models.model import JunctionTreeModel


def random_features(seed: int, n: int | None = None, *, longest: int = 3) -> FeatureTree:
    """Returns a feature tree of at most ten variables of one to four states; every third has zeros."""
    random = Random(seed)  # noqa: S311 - not for secrets
    count = random.randint(1, 10) if n is None else n
    arities = [random.choice((1, 2, 2, 2, 3, 4)) for _ in range(count)]
    while np.prod(arities) > 3000:
        arities[arities.index(max(arities))] -= 1
    return _Grower(random, arities, longest, zeros=seed % 3 == 0).grown()


class _Grower:
    def __init__(self, random: Random, arities: list[int], longest: int, *, zeros: bool) -> None:
        self.random, self.longest, self.zeros = random, longest, zeros
        self.numbers = np.random.default_rng(random.randrange(1 << 30))
        self.columns = columns_for(arities)
        self.nodes: list[Node] = []

    def grown(self) -> FeatureTree:
        self.grow(Context.of([column.arity for column in self.columns]), 0)
        return FeatureTree(self.columns, tuple(self.nodes))

    def grow(self, context: Context, depth: int) -> int:
        """Appends a node for a context, and its descendants; returns its position."""
        at = len(self.nodes)
        if not context.domains:
            self.nodes.append(Product(()))
            return at
        self.nodes.append(Product(()))
        groups = context.groups()
        if len(groups) > 1 and self.random.random() < 0.4:
            self.random.shuffle(groups)
            cut = self.random.randint(1, len(groups) - 1)
            parts = [frozenset[int]().union(*groups[:cut]), frozenset[int]().union(*groups[cut:])]
            self.nodes[at] = Product(tuple(self.grow(context.restricted_to(part), depth) for part in parts))
            return at
        feature = self.feature(context) if self.random.random() < 0.9 - 0.12 * depth else None
        if feature is None:
            self.nodes[at] = self.leaf(context)
            return at
        after = [context.assume(feature, holds=holds)[0] for holds in (False, True)]
        p = (
            self.random.choice((0.0, 1.0))
            if self.zeros and self.random.random() < 0.2
            else self.random.random()
        )
        left, right = (self.grow(given, depth + 1) for given in after)
        self.nodes[at] = Split(feature, p, (left, right))
        return at

    def feature(self, context: Context) -> Feature | None:
        """Returns a random feature that leaves assignments on both sides; None if one draw finds none."""
        size = min(len(context.domains), self.random.randint(1, self.longest))
        variables = self.random.sample(sorted(context.domains), size)
        feature = feature_of((v, self.random.choice(context.allowed(v))) for v in variables)
        try:
            after = [context.assume(feature, holds=holds)[0] for holds in (False, True)]
        except ValueError:
            return None
        return feature if all(given.is_allowed(sorted(given.domains)).any() for given in after) else None

    def leaf(self, context: Context) -> Node:
        variables = tuple(sorted(context.domains))
        if context.clauses or self.random.random() < 0.4:
            mask = context.is_allowed(variables)
            values = np.where(mask, np.exp(self.numbers.normal(0, 1.5, mask.shape)), 0.0)
            if self.zeros and mask.sum() > 1:
                values[tuple(self.numbers.choice(np.argwhere(mask)))] = 0.0
            return TableLeaf(variables, values / values.sum())
        joint = np.exp(self.numbers.normal(0, 1.5, context.dims(variables)))
        tree = random_tree(len(variables), 2, self.random)
        joint /= joint.sum()
        everything = set(range(joint.ndim))
        tables = tuple(
            joint.sum(axis=tuple(v for v in everything if not clique >> v & 1)) for clique in tree.cliques
        )
        columns = leaf_columns(self.columns, variables, context)
        return TreeLeaf(variables, JunctionTreeModel(tuple(columns), tree, tables))
