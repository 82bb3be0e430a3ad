"""Family scores of pgmpy and pyAgrum, summed along two elimination orders, are our cliques minus separators.

pyAgrum's scores are in bits. Its AIC charges a parameter one bit, and its BDeu differs from pgmpy's, which
is ours, by 0.3 % where a pseudo-count is small: neither is compared.
"""

from __future__ import annotations

import warnings
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from readers import tabulate

from jtsolve.core.tree import JunctionTree
from jtsolve.scoring.registry import REGISTRY
from jtsolve.scoring.scores.bdeu import Bdeu
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from jtsolve.scoring.score import ScoreFunction

ARITIES = (2, 3, 2, 4, 3, 2)
TREE = JunctionTree.from_nodes(6, [0b000111, 0b001110, 0b011000, 0b100000], [(0, 1), (1, 2), (2, 3)])
FAMILIES = (
    {0: (1, 2), 1: (2, 3), 2: (3,), 3: (4,), 4: (), 5: ()},
    {4: (3,), 5: (), 3: (1, 2), 2: (0, 1), 1: (0,), 0: ()},
)
"""Each variable's parents along two perfect elimination orders of the tree's graph."""


def table(seed: int) -> DataTable:
    """Random rows in which every state occurs, since the others have only such states."""
    generator = np.random.default_rng(seed)
    codes = np.array([generator.integers(0, arity, 300) for arity in ARITIES])
    codes[:, :4] = np.arange(4) % np.array(ARITIES)[:, None]
    copied = generator.random(300) < 0.6
    codes[1, copied] = codes[0, copied]
    codes[4, copied] = codes[3, copied] % 3
    names = tuple(f"v{i}" for i in range(len(ARITIES)))
    return DataTable(names, tuple(tuple(map(str, range(arity))) for arity in ARITIES), codes)


def frame(data: DataTable) -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({name: row.astype(str) for name, row in zip(data.names, data.codes, strict=True)})


def by_pgmpy(kind: str, data: DataTable) -> Callable[[str, tuple[str, ...]], float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what pgmpy imports
        module = pytest.importorskip("pgmpy.structure_score")
    more = {"equivalent_sample_size": 3} if kind == "BDeu" else {}
    score = getattr(module, kind)(frame(data), **more)
    return lambda v, parents: float(score.local_score(v, parents))


def by_pyagrum(kind: str, data: DataTable) -> Callable[[str, tuple[str, ...]], float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner = pytest.importorskip("pyagrum").BNLearner(frame(data))
    getattr(learner, f"useScore{kind}")()
    learner.useNoPrior()
    return lambda v, parents: float(learner.score(v, list(parents))) * log(2)


@pytest.mark.parametrize("families", FAMILIES)
@pytest.mark.parametrize(
    ("program", "kind", "score"),
    [
        (by_pgmpy, "BDeu", Bdeu(3.0)),
        (by_pgmpy, "BIC", REGISTRY["bic"]),
        (by_pgmpy, "AIC", REGISTRY["aic"]),
        (by_pyagrum, "BIC", REGISTRY["bic"]),
        (by_pyagrum, "Log2Likelihood", REGISTRY["ml"]),
    ],
)
def test_family_scores_of_other_programs_add_up_to_ours(
    program: Callable[[str, DataTable], Callable[[str, tuple[str, ...]], float]],
    kind: str,
    score: ScoreFunction,
    families: dict[int, tuple[int, ...]],
) -> None:
    for seed in range(3):
        data = table(seed)
        ours = tabulate(data, score, 3)
        total = sum(map(ours.score, TREE.cliques)) - sum(map(ours.score, TREE.separators))
        family = program(kind, data)
        theirs = sum(family(f"v{v}", tuple(f"v{p}" for p in ps)) for v, ps in families.items())
        assert total == pytest.approx(theirs, abs=1e-8)
