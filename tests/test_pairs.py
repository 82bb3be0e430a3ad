"""Scores from weights of pairs: the formula, its bounds, every backend on them, and files."""

from __future__ import annotations

import pickle
from itertools import combinations
from math import inf, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

import jtsolve as jt
from jtsolve.backends.registry import REGISTRY
from jtsolve.core.bounds import ceiling_bound
from jtsolve.core.pairs import PairScores
from jtsolve.core.problem import Problem
from jtsolve.core.run import Limits, Run
from jtsolve.core.varset import bounded_subsets, members
from jtsolve.errors import ChoiceError, InputError
from jtsolve.io.instance import read_problem, write_problem
from jtsolve.solving import choose_backend, solve

if TYPE_CHECKING:
    from pathlib import Path


def pair_problem(seed: int, n: int = 5, **options: Any) -> Problem:
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.normal(0.5, 1.0, (n, n)), 1)
    states = {(chr(ord("A") + v) if v < 26 else f"v{v}"): int(rng.integers(2, 5)) for v in range(n)}
    return Problem.from_pairs(weights + weights.T, states, **options)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"max_treewidth": 2},
    {"max_clique_cells": 12},
    {"noise": 0.05, "price": 0.01},
    {"noise": 0.02, "max_clique_cells": 16, "max_treewidth": 2},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_the_score_is_the_formula_within_its_extremes_and_ceilings(options: dict[str, Any]) -> None:
    for seed in range(5):
        problem = pair_problem(seed, **options)
        scores = problem.scores
        assert isinstance(scores, PairScores)
        found = {mask: scores.score(mask) for mask in range(1 << 5)}
        low, high = scores.extremes()
        for mask, score in found.items():
            cells = problem.cells(mask)
            if mask.bit_count() > scores.max_size or cells > options.get("max_clique_cells", inf):
                assert score == -inf
                continue
            total = -scores.price * (cells - 1)
            for u, v in combinations(members(mask), 2):
                own = scores.states[u] * scores.states[v]
                total += scores.weights[u, v] - scores.noise * sqrt(cells * own)
            assert score == pytest.approx(total, abs=1e-12)
            assert low <= score <= high
        for mask in range(1, 1 << 5):
            for v in range(5):
                if not mask >> v & 1 and found[mask | 1 << v] > -inf:
                    assert found[mask | 1 << v] - found[mask] <= scores.ceilings[v] + 1e-12
        best = jt.solve(problem, backend="brute").score
        assert best is not None
        assert best <= ceiling_bound(problem) + 1e-9


@pytest.mark.parametrize("name", sorted(set(REGISTRY) - {"brute", "consistent"}))
def test_every_backend_accepts_sets_without_a_score_on_demand(name: str) -> None:
    backend = REGISTRY[name]
    for seed, options in enumerate(OPTIONS):
        problem = pair_problem(seed, **{**options, **({"max_treewidth": 1} if name == "chowliu" else {})})
        result = solve(problem, backend)
        best = solve(problem, REGISTRY["brute"]).score
        assert result.score is not None
        assert best is not None
        assert result.score <= best + 1e-9 <= result.bound + 2e-9
        if backend.capabilities.exact:
            assert result.score == pytest.approx(best, abs=1e-9)


def test_files_hold_pairs_and_read_back_as_the_same_problem(tmp_path: Path) -> None:
    for seed, options in enumerate(OPTIONS):
        problem = pair_problem(seed, **options)
        write_problem(problem, tmp_path / "i.json")
        again = read_problem(tmp_path / "i.json")
        assert again.digest() == problem.digest()
        assert again.constraints == problem.constraints
        assert pickle.loads(pickle.dumps(again)).digest() == problem.digest()  # noqa: S301 - our own
        masks = list(bounded_subsets(5, problem.max_clique_size))
        assert [again.scores.score(mask) for mask in masks] == [problem.scores.score(mask) for mask in masks]


def test_a_matrix_with_names_is_read_by_them(tmp_path: Path) -> None:
    problem = pair_problem(0)
    assert isinstance(problem.scores, PairScores)
    names, weights = list(problem.names), problem.scores.weights
    states = dict(zip(names, problem.scores.states, strict=True))
    frame = pd.DataFrame(weights, names, names)
    shuffled = frame.loc[names[::-1], [*names[2:], *names[:2]]]
    frame.to_csv(tmp_path / "plain.csv", index=False)
    shuffled.to_csv(tmp_path / "labelled.csv")
    for given in (frame, shuffled, tmp_path / "plain.csv", str(tmp_path / "labelled.csv")):
        assert Problem.from_pairs(given, states).digest() == problem.digest()
    (tmp_path / "words.csv").write_text("A,B\n0,x\nx,0\n")
    faults = [(frame.rename(columns={"A": "Z"}), "'Z' is no variable"), (tmp_path / "words.csv", "numbers")]
    for fault, words in faults:
        with pytest.raises(InputError, match=words):
            Problem.from_pairs(fault, states)


def test_a_tree_is_exported_to_mbi() -> None:
    solution = jt.solve(pair_problem(1, max_clique_cells=12))
    domain, cliques, tree = solution.to_mbi()
    assert list(domain) == list("ABCDE")
    assert cliques == solution.cliques
    assert set(tree.nodes) == set(cliques)
    assert tree.number_of_edges() == len(cliques) - 1
    model = jt.fit({"a": [0, 1, 1] * 5, "b": [0, 1, 0] * 5}, treewidth=1)
    assert model.to_mbi()[:2] == ({"a": 2, "b": 2}, [("a", "b")])
    rows = np.random.default_rng(0).normal(size=(50, 2))
    with pytest.raises(ChoiceError, match="is not known"):
        jt.learn(rows, 1).to_mbi()


def test_auto_searches_large_cliques_on_demand_with_one_local_search() -> None:
    limits = Run(Limits(time=20.0))
    assert choose_backend(pair_problem(0, 60, max_clique_cells=1000), limits).backend.name == "lns"
    assert choose_backend(pair_problem(0, 60, max_clique_cells=16), limits).backend.name == "portfolio"


def test_variables_without_names_are_numbered() -> None:
    states: Any = np.array([2, 3])
    problem = Problem.from_pairs([[0.0, 1.0], [1.0, 0.0]], states)
    assert problem.names == ("V1", "V2")
    assert problem.digest() == Problem.from_pairs({("V1", "V2"): 1.0}, {"V1": 2, "V2": 3}).digest()


def test_the_digest_is_that_of_the_weights() -> None:
    first, second = ({("A", "B"): weight} for weight in (1.0, 2.0))
    states = {"A": 2, "B": 2}
    assert Problem.from_pairs(first, states).digest() == Problem.from_pairs(first, states).digest()
    assert Problem.from_pairs(first, states).digest() != Problem.from_pairs(second, states).digest()


@pytest.mark.parametrize(
    ("weights", "states", "reason"),
    [
        ({("A", "C"): 1.0}, {"A": 2, "B": 2}, "no pair of two variables"),
        ({("A", "A"): 1.0}, {"A": 2, "B": 2}, "no pair of two variables"),
        ({("A", "B"): 1.0, ("B", "A"): 2.0}, {"A": 2, "B": 2}, "occurs twice"),
        ([[0.0, 1.0], [2.0, 0.0]], {"A": 2, "B": 2}, "not finite and symmetric"),
        ([[0.0, inf], [inf, 0.0]], {"A": 2, "B": 2}, "not finite and symmetric"),
        ([[0.0]], {"A": 2, "B": 2}, "shape"),
        ({}, {"A": 0}, "a variable has 0 states"),
        ({}, {"A": 2.5}, "a variable has 2.5 states"),
    ],
)
def test_malformed_pairs_are_refused(weights: Any, states: dict[str, int], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        Problem.from_pairs(weights, states)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"A","B",2.0', '"A","C",2.0', r"i.json: \$.scores.pairs\[0\]: \('A', 'C'\) is no pair"),
        ('"A","B",2.0', '"A","A",2.0', r"i.json: \$.scores.pairs\[0\]: \('A', 'A'\) is no pair"),
        (
            '["A","B",2.0]',
            '["A","B",2.0], ["B","A",1.0]',
            r"i.json: \$.scores.pairs\[1\]: the pair \('B', 'A'\) occurs",
        ),
        ('"noise":0.0', '"noise":-1.0', r"i.json: \$.scores.noise: -1.0"),
        ('"max_cells":6', '"max_cells":9007199254740993', r"i.json: \$.scores.max_cells"),
        ('{"name":"B","states":3}', '"B"', "'B' has no states"),
    ],
)
def test_malformed_pairs_of_a_file_are_refused_at_their_place(
    old: str, new: str, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "i.json"
    write_problem(Problem.from_pairs({("A", "B"): 2.0}, {"A": 2, "B": 3}, max_clique_cells=6), path)
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(InputError, match=reason):
        read_problem(path)
