from __future__ import annotations

from dataclasses import replace
from math import inf
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jtsolve.core.problem import Constraints, Problem, Variable
from jtsolve.core.result import Incumbent, Result, Status, Stop
from jtsolve.core.scores import DenseScores, SparseScores
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import bounded_subsets, count_bounded_subsets, members, varset
from jtsolve.io.result import ResultDocument, result_to_document
from jtsolve.verify.result import check

NAMES = "ABCDE"


def dense(n: int, max_size: int, seed: int = 0) -> DenseScores:
    values = np.random.default_rng(seed).normal(scale=100, size=count_bounded_subsets(n, max_size))
    values[0] = 0
    values.setflags(write=False)
    return DenseScores(n, max_size, values)


PROBLEM = Problem(tuple(map(Variable, NAMES)), dense(5, 5), name="p")
# AB - BCD - DE, and E's clique without a neighbour in common with A.
TREE = JunctionTree(5, (0b00011, 0b01110, 0b11000), ((0, 1), (1, 2)))


def result_of(problem: Problem, tree: JunctionTree | None, **changes: Any) -> Result:
    score = None if tree is None else tree.score(problem.scores)
    bound = 1e9 if score is None else score
    values: dict[str, Any] = {
        "instance": problem.name,
        "digest": problem.digest(),
        "names": problem.names,
        "constraints": problem.constraints,
        "backend": "test",
        "options": {},
        "status": Status.UNKNOWN if tree is None else Status.OPTIMAL,
        "stop": Stop.FINISHED,
        "tree": tree,
        "score": score,
        "bound": bound,
        "seconds": {"total": 1.0},
        "trace": (Incumbent(0.1, None, bound + 5), Incumbent(0.2, score, bound)),
    }
    return Result(**(values | changes))


def document(**changes: Any) -> ResultDocument:
    return msgspec.structs.replace(result_to_document(result_of(PROBLEM, TREE)), **changes)


SCORE = TREE.score(PROBLEM.scores)
EMPTY: dict[str, Any] = {
    "score": None,
    "gap": None,
    "treewidth": None,
    "cliques": [],
    "separators": [],
    "tree_edges": [],
    "trace": [],
}


def test_a_right_result_has_no_faults() -> None:
    assert check(PROBLEM, result_of(PROBLEM, TREE)) == ()
    assert check(PROBLEM, document()) == ()
    assert check(PROBLEM, document(trace=[])) == ()
    feasible = result_of(PROBLEM, TREE, status=Status.FEASIBLE, bound=SCORE + 1, trace=())
    assert check(PROBLEM, feasible) == ()
    assert check(PROBLEM, document(score=SCORE + 9e-7, bound=SCORE + 9e-7, trace=[])) == ()


def test_a_right_result_without_a_tree_has_no_faults() -> None:
    assert check(PROBLEM, result_of(PROBLEM, None)) == ()
    infeasible = result_of(
        PROBLEM,
        None,
        status=Status.INFEASIBLE,
        bound=-inf,
        trace=(Incumbent(0.1, None, 5.0), Incumbent(0.2, None, -inf)),
    )
    assert check(PROBLEM, infeasible) == ()


# What a change to a right document must be answered with: a part of one of the sentences.
CORRUPTIONS: list[tuple[dict[str, Any], str]] = [
    # Figures
    ({"score": SCORE + 1e-5, "bound": SCORE + 1e-5, "trace": []}, "The score is"),
    ({"score": float("nan")}, "The score is not a finite number"),
    ({"bound": inf}, "The bound is not a finite number"),
    ({"gap": inf}, "The gap is not a finite number"),
    ({"score": None, "trace": []}, "the score, the treewidth or the cliques are missing"),
    ({"treewidth": None}, "the score, the treewidth or the cliques are missing"),
    ({"cliques": []}, "the score, the treewidth or the cliques are missing"),
    ({"treewidth": 3}, "The treewidth is 2, not 3"),
    ({"treewidth": 1}, "The treewidth is 2, not 1"),
    ({"bound": SCORE - 1e-8, "gap": -1e-8}, "is below the score"),
    ({"bound": None, "gap": None}, "the bound is missing"),
    ({"gap": None}, "The gap is None"),
    ({"gap": 1.0}, "The gap is 1.0, but bound minus score is 0.0"),
    ({"bound": SCORE + 1, "gap": 1.0}, "The status is 'optimal', but bound minus score"),
    ({"status": Status.FEASIBLE}, "The status is 'feasible', but bound minus score"),
    ({"status": Status.UNKNOWN}, "The status is 'unknown', but there is a tree"),
    ({"status": Status.INFEASIBLE}, "The status is 'infeasible', but there is a score"),
    ({"seconds": {"total": -1.0}}, "The seconds"),
    ({"seconds": {"total": float("nan")}}, "The seconds"),
    ({"seconds": {"search": 1.0}}, "The seconds lack 'total'"),
    (EMPTY | {"status": Status.INFEASIBLE, "bound": 1.0, "gap": 0.0}, "the bound is a number"),
    (EMPTY | {"status": Status.INFEASIBLE, "bound": None}, "The gap is None, but"),
    (EMPTY | {"status": Status.UNKNOWN, "bound": None}, "the bound is missing"),
    (EMPTY | {"status": Status.UNKNOWN, "gap": 0.0}, "The gap is 0.0, but"),
    (EMPTY | {"status": Status.OPTIMAL, "score": 1.0, "bound": 1.0, "gap": 0.0}, "are missing"),
    # Trace
    ({"trace": [(-0.1, SCORE, None)]}, "begins before 0 seconds"),
    ({"trace": [(0.2, SCORE, None), (0.1, SCORE, None)]}, "Step 1 of the trace is earlier"),
    ({"trace": [(0.1, SCORE, None), (0.2, SCORE - 1, None), (0.3, SCORE, None)]}, "falls in step 1"),
    ({"trace": [(0.1, SCORE, None), (0.2, None, None), (0.3, SCORE, None)]}, "falls in step 1"),
    ({"trace": [(0.1, SCORE, 1e9), (0.2, SCORE, 2e9)]}, "The bound rises in step 1"),
    ({"trace": [(0.1, SCORE, 1e9), (0.2, SCORE, None)]}, "The bound rises in step 1"),
    ({"trace": [(0.1, SCORE, SCORE - 1e-3)]}, "The trace has a bound below the bound"),
    ({"trace": [(0.1, None, -1e300), (0.2, SCORE, -1e300)]}, "The trace has a bound below the bound"),
    ({"trace": [(0.1, SCORE, None), (1.5, SCORE, SCORE)]}, "The trace ends after 1.5 seconds"),
    ({"trace": [(0.1, SCORE - 1, None)]}, "The last score of the trace is"),
    ({"trace": [(0.1, None, None)]}, "The last score of the trace is None"),
    (
        EMPTY | {"status": Status.INFEASIBLE, "bound": None, "gap": 0.0, "trace": [(0.1, 1.0, None)]},
        "The last score of the trace is 1.0, but the score is None",
    ),
    # Names and sets
    ({"cliques": [["A", "B"], ["B", "C", "D"], ["D", "X"]]}, "Clique 2 names 'X'"),
    ({"cliques": [["A", "B"], ["B", "C", "D"], ["D", "E", "E"]]}, "Clique 2 names a variable twice"),
    ({"cliques": [["A", "B"], ["B", "C", "D"], []]}, "Clique 2 is empty"),
    ({"cliques": [["A", "B"], ["B", "C", "D"], ["D"]]}, "No clique holds 'E'"),
    ({"separators": [["B"], ["X"]]}, "Separator 1 names 'X'"),
    ({"separators": [["B"], ["D", "D"]]}, "Separator 1 names a variable twice"),
    ({"separators": [["B"], ["C"]]}, "Separator 1 is not the intersection of the cliques 1 and 2"),
    ({"separators": [["D"], ["B"]]}, "Separator 0 is not the intersection of the cliques 0 and 1"),
    ({"separators": [["B"]]}, "There are 1 separators for 2 tree edges"),
    ({"separators": [["B"], ["D"], []]}, "There are 3 separators for 2 tree edges"),
    # Tree
    ({"tree_edges": [(0, 1)], "separators": [["B"]]}, "3 cliques need 2 tree edges, not 1"),
    ({"tree_edges": [(0, 1), (1, 3)]}, "Tree edge 1 names a clique that does not exist"),
    ({"tree_edges": [(0, 1), (-1, 1)]}, "Tree edge 1 names a clique that does not exist"),
    ({"tree_edges": [(0, 1), (1, 0)], "separators": [["B"], ["B"]]}, "Tree edge 1 closes a cycle"),
    ({"tree_edges": [(0, 1), (1, 1)], "separators": [["B"], ["B", "C", "D"]]}, "closes a cycle"),
    (
        {"tree_edges": [(0, 1), (1, 2), (0, 2)], "separators": [["B"], ["D"], []]},
        "3 cliques need 2 tree edges, not 3",
    ),
    (
        {"tree_edges": [(0, 2), (1, 2)], "separators": [[], ["D"]]},
        "The cliques that hold 'B' are not connected",
    ),
    (
        {
            "cliques": [["A", "B"], ["B", "C", "D"], ["D", "E"], ["D"]],
            "tree_edges": [(0, 1), (1, 2), (2, 3)],
            "separators": [["B"], ["D"], ["D"]],
        },
        "Clique 3 is within clique 1",
    ),
    (
        {
            "cliques": [["A", "B"], ["B", "C", "D"], ["D", "E"], ["E", "D"]],
            "tree_edges": [(0, 1), (1, 2), (2, 3)],
            "separators": [["B"], ["D"], ["D", "E"]],
        },
        "Clique 3 is within clique 2",
    ),
]


@pytest.mark.parametrize(("changes", "sentence"), CORRUPTIONS)
def test_every_corruption_is_found(changes: dict[str, Any], sentence: str) -> None:
    faults = check(PROBLEM, document(**changes))
    assert any(sentence in fault for fault in faults), faults
    assert all(fault.endswith(".") for fault in faults)


def test_the_result_must_be_of_this_problem() -> None:
    other = replace(PROBLEM, name="q")
    assert check(other, document()) == ("The result is for 'p', not for 'q'.",)
    scores = replace(PROBLEM, scores=DenseScores(5, 5, PROBLEM.scores.values + 0.0))  # type: ignore[attr-defined]
    assert check(scores, document()) == ()
    changed = np.array(PROBLEM.scores.values)  # type: ignore[attr-defined]
    changed[0b10000] += 1e-3  # a set that the tree does not use
    faults = check(replace(PROBLEM, scores=DenseScores(5, 5, changed)), document())
    assert faults == ("The digest is not that of the problem: names or scores differ.",)
    renamed = replace(PROBLEM, variables=tuple(map(Variable, "XBCDE")))
    assert check(renamed, document()) == faults  # all else would follow from it


def test_results_in_memory_with_other_variables_are_distinguished() -> None:
    result = result_of(PROBLEM, TREE)
    assert "variables" in check(PROBLEM, replace(result, names=tuple("ABCDX")))[0]
    small = JunctionTree(2, (0b11,), ())
    assert "has 2 variables, but the problem has 5" in check(PROBLEM, replace(result, tree=small))[0]
    beyond = Constraints(forbidden_cliques=frozenset({1 << 7}))
    assert "does not have" in check(PROBLEM, replace(result, constraints=beyond))[0]


def test_many_missing_variables_are_summed_up() -> None:
    n = 9
    problem = Problem(tuple(Variable(f"V{v}") for v in range(n)), dense(n, 2), name="p")
    tree = JunctionTree(n, tuple(1 << v for v in range(n)), tuple((v, v + 1) for v in range(n - 1)))
    right = result_to_document(result_of(problem, tree))
    wrong = msgspec.structs.replace(right, cliques=[["V0"]], separators=[], tree_edges=[])
    assert "No clique holds 'V1', 'V2', 'V3', 'V4', 'V5' and 3 more." in check(problem, wrong)


# Constraints: one that the tree breaks, and one of the same kind that it keeps.
KEPT_AND_BROKEN: list[tuple[Constraints, Constraints, str]] = [
    (Constraints(max_treewidth=2), Constraints(max_treewidth=1), "has 3 members, too many for treewidth 1"),
    (Constraints(max_cliques=3), Constraints(max_cliques=2), "There are 3 cliques, more than 2"),
    (
        Constraints(max_separator_size=1),
        Constraints(max_separator_size=0),
        "The separator {B} has more than 0 members",
    ),
    (
        Constraints(min_separator_size=1),
        Constraints(min_separator_size=2),
        "The separator {D} has fewer than 2 members",
    ),
    (
        Constraints(forbidden_edges=frozenset({0b101, 0b10001})),
        Constraints(forbidden_edges=frozenset({0b1010})),
        "The edge B – D is forbidden",
    ),
    (
        Constraints(required_edges=frozenset({0b1100})),
        Constraints(required_edges=frozenset({0b10001})),
        "The edge A – E is required, but missing",
    ),
    (
        Constraints(forbidden_cliques=frozenset({0b110})),
        Constraints(forbidden_cliques=frozenset({0b11})),
        "The clique {A, B} is forbidden",
    ),
    (
        Constraints(forbidden_separators=frozenset({0, 0b11})),
        Constraints(forbidden_separators=frozenset({0b10})),
        "The separator {B} is forbidden",
    ),
    (
        Constraints(allowed_separators=frozenset({0b10, 0b1000, 0b1})),
        Constraints(allowed_separators=frozenset({0b10})),
        "The separator {D} is not allowed",
    ),
    (
        Constraints(forbidden_graphs=frozenset({frozenset({0b11})})),
        Constraints(forbidden_graphs=frozenset({frozenset(varset(edge) for edge in TREE.graph_edges)})),
        "The graph of the tree, with 5 edges, is forbidden",
    ),
]


@pytest.mark.parametrize(("kept", "broken", "sentence"), KEPT_AND_BROKEN)
def test_constraints_are_checked(kept: Constraints, broken: Constraints, sentence: str) -> None:
    good = replace(PROBLEM, constraints=kept)
    assert check(good, result_of(good, TREE)) == ()
    bad = replace(PROBLEM, constraints=broken)
    faults = check(bad, result_of(bad, TREE))
    assert any(sentence in fault for fault in faults), faults
    assert len(set(faults)) == len(faults)
    # A result without the problem's constraint does not answer the problem with any tree.
    (name,) = (feature.value for feature in kept.features)
    faults = check(good, result_of(good, TREE, constraints=Constraints()))
    assert len(faults) == 1
    assert name in faults[0]
    # The result's own constraints hold, too.
    faults = check(PROBLEM, result_of(PROBLEM, TREE, constraints=broken))
    assert any(sentence in fault for fault in faults), faults


def test_tighter_bounds_answer_the_problem_and_looser_ones_do_not() -> None:
    required = replace(PROBLEM, constraints=Constraints(max_treewidth=3, min_separator_size=1))
    tighter = Constraints(max_treewidth=2, min_separator_size=1)
    assert check(required, result_of(required, TREE, constraints=tighter)) == ()
    forbidding = replace(tighter, forbidden_graphs=frozenset({frozenset()}))
    assert check(required, result_of(required, TREE, constraints=forbidding)) == ()
    looser, again = Constraints(max_treewidth=4), "solve again under the problem's constraints"
    assert check(required, result_of(required, TREE, constraints=looser)) == (
        f"The result was made with max_treewidth 4, but the problem requires 3; {again}.",
        f"The result was made with min_separator_size 0, but the problem requires 1; {again}.",
    )


def test_constraints_of_the_result_that_make_no_sense_are_a_fault() -> None:
    right = document()
    constraints = msgspec.structs.replace(right.instance.constraints, forbidden_edges=[("A", "X")])
    wrong = document(instance=msgspec.structs.replace(right.instance, constraints=constraints))
    (fault,) = check(PROBLEM, wrong)
    assert fault == (
        "The result's constraints are wrong: constraints.forbidden_edges[0][1]: there is no variable 'X'."
    )


def test_every_clique_and_separator_needs_a_score() -> None:
    table = {mask: PROBLEM.scores.score(mask) for mask in bounded_subsets(5, 3)}
    for gone, sentence in ((0b00011, "The clique {A, B} has no score."), (0b10, "The separator {B} has no")):
        sparse = replace(
            PROBLEM, scores=SparseScores(5, {mask: value for mask, value in table.items() if mask != gone})
        )
        result = msgspec.structs.replace(
            document(), instance=msgspec.structs.replace(document().instance, digest=sparse.digest())
        )
        faults = check(sparse, result)
        assert len(faults) == 1
        assert sentence in faults[0]
    complete = replace(PROBLEM, scores=SparseScores(5, table))
    assert check(complete, result_of(complete, TREE)) == ()


def test_a_separator_that_occurs_often_counts_often() -> None:
    star = JunctionTree(5, (0b00011, 0b00101, 0b01001, 0b10001), ((0, 1), (1, 2), (2, 3)))
    assert check(PROBLEM, result_of(PROBLEM, star)) == ()
    once = star.score(PROBLEM.scores) + 2 * PROBLEM.scores.score(1)
    right = result_to_document(result_of(PROBLEM, star))
    faults = check(PROBLEM, msgspec.structs.replace(right, score=once, bound=once, trace=[]))
    assert any("The score is" in fault for fault in faults)


@st.composite
def trees(draw: st.DrawFn) -> JunctionTree:
    n = draw(st.integers(1, 6))
    families: list[tuple[int, int]] = []
    for v in range(n):
        parents = 0
        if families:
            u, earlier = draw(st.sampled_from(families))
            chosen = draw(st.sets(st.sampled_from(list(members(earlier | 1 << u)))))
            parents = varset(chosen)
        families.append((v, parents))
    return JunctionTree.from_families(families)


@given(trees(), st.data())
def test_the_check_agrees_with_the_tree_type(tree: JunctionTree, data: st.DataObject) -> None:
    problem = Problem(tuple(Variable(f"V{v}") for v in range(tree.n)), dense(tree.n, tree.n), name="p")
    assert check(problem, result_of(problem, tree)) == ()
    cliques = list(tree.cliques)
    edges = [list(edge) for edge in tree.edges]
    at = data.draw(st.integers(0, len(cliques) - 1))
    cliques[at] ^= 1 << data.draw(st.integers(0, tree.n - 1))
    if edges:
        edge = data.draw(st.sampled_from(edges))
        edge[data.draw(st.integers(0, 1))] = data.draw(st.integers(0, len(cliques) - 1))
    try:
        JunctionTree(tree.n, tuple(cliques), tuple((i, j) for i, j in edges))
        valid = 0 not in cliques
    except ValueError:
        valid = False
    names = problem.names
    score = sum(map(problem.scores.score, cliques)) - sum(
        problem.scores.score(cliques[i] & cliques[j]) for i, j in edges
    )
    changed = msgspec.structs.replace(
        result_to_document(result_of(problem, tree)),
        cliques=[[names[v] for v in members(clique)] for clique in cliques],
        separators=[[names[v] for v in members(cliques[i] & cliques[j])] for i, j in edges],
        tree_edges=[(i, j) for i, j in edges],
        treewidth=max(clique.bit_count() for clique in cliques) - 1,
        score=score,
        bound=score,
        trace=[],
    )
    assert (check(problem, changed) == ()) == valid


def test_ten_thousand_variables() -> None:
    n = 10_000
    rng = np.random.default_rng(0)
    values = np.zeros(count_bounded_subsets(n, 2))
    values[1:1000] = 1.0
    values.setflags(write=False)
    problem = Problem(tuple(Variable(f"V{v}") for v in range(n)), DenseScores(n, 2, values), name="big")
    parents = [(0, 0), *((v, 1 << int(rng.integers(v))) for v in range(1, n))]
    tree = JunctionTree.from_families(parents)
    result = result_of(problem, tree, environment=MappingProxyType({}))
    assert check(problem, result) == ()
    wrong = result_to_document(result)
    wrong.cliques[77].append("V5")
    assert check(problem, wrong) != ()
