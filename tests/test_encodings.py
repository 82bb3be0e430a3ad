"""Every formulation has the right models: counted by a SAT solver, compared with all chordal graphs."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from math import inf
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from problems import FEATURES, dense, from_data, gaussian, named, random_problem, repeatable, small_problems
from pysat.solvers import Solver

from jtsolve.backends.brute import chordal_trees, meets_constraints
from jtsolve.core.problem import Constraints, ProblemFeature
from jtsolve.core.scores import SparseScores
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import members
from jtsolve.encodings import family
from jtsolve.encodings.balancing import encode_balancing
from jtsolve.encodings.cnf import to_cnf
from jtsolve.encodings.family import clutter_clauses, encode_family, tree_of_edges
from jtsolve.encodings.formats import cpsat_proto
from jtsolve.encodings.formula import Formula, LinearRow
from jtsolve.encodings.rounding import rounded
from jtsolve.errors import ChoiceError
from jtsolve.families.families import families_of, families_of_tree

if TYPE_CHECKING:
    from jtsolve.core.problem import Problem
    from jtsolve.encodings.formula import Encoding
    from jtsolve.families.families import Families


def models(formula: Formula, over: int) -> list[list[int]]:
    """Returns one model for each assignment of the first variables, by blocking those found."""
    made = to_cnf(formula)
    count = len(formula.names)
    found: list[list[int]] = []
    with Solver("cadical153", bootstrap_with=made.clauses) as solver:
        while solver.solve():
            true = {literal for literal in solver.get_model() if literal > 0}
            found.append([int(number in true) for number in range(1, count + 1)])
            if not over:
                break
            solver.add_clause([-number if number in true else number for number in range(1, over + 1)])
    return found


def agrees(problem: Problem, root: int) -> int:
    """Compares the models with the trees that meet the constraints, and returns their number."""
    encoding = encode_family(families_of(problem, root))
    formula = encoding.formula
    trees = []
    for values in models(formula, problem.n * (problem.n - 1) // 2):
        assert formula.broken(values) is None
        tree = encoding.tree_of(values)
        assert formula.objective(values) == pytest.approx(tree.score(problem.scores), abs=1e-9)
        trees.append(tree)
    wanted = {tree for tree in chordal_trees(problem.n) if meets_constraints(problem, tree)}
    assert len(trees) == len(set(trees))
    assert set(trees) == wanted, problem
    for tree in wanted:
        own = encoding.values_of(tree)
        assert own is not None
        assert formula.broken(own.tolist()) is None
        assert encoding.tree_of(own.tolist()) == tree
        assert formula.objective(own.tolist()) == pytest.approx(tree.score(problem.scores), abs=1e-9)
    others = [tree for tree in chordal_trees(min(problem.n, 4)) if problem.n <= 4 and tree not in wanted]
    assert all(encoding.values_of(tree) is None for tree in others)
    return len(trees)


@pytest.mark.parametrize(("n", "count"), [(1, 1), (2, 2), (3, 8), (4, 61), (5, 822)])
def test_the_models_are_the_chordal_graphs(n: int, count: int) -> None:
    assert agrees(named(gaussian(n, n)), n // 2) == count


@pytest.mark.parametrize(
    ("n", "treewidth"), [(n, k) for n in range(1, 5) for k in range(n)] + [(5, 1), (5, 2)]
)
def test_with_every_treewidth(n: int, treewidth: int) -> None:
    scores = from_data(n, n, None if treewidth % 2 else treewidth + 1)
    agrees(named(scores, Constraints(max_treewidth=treewidth)), 0)


@pytest.mark.parametrize("feature", FEATURES)
def test_with_every_constraint(feature: ProblemFeature) -> None:
    counts = [
        agrees(random_problem(seed, n, frozenset([feature])), seed % n)
        for seed, n in enumerate((1, 2, 3, 4, 3, 4, 4, 4, 5))
    ]
    assert max(counts) > 0


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problem=small_problems())
def test_with_ties_zeros_and_several_constraints(problem: Problem) -> None:
    agrees(problem, problem.n - 1)


ENUMERATE = """
import sys
from ortools.sat.python import cp_model
pairs, model, found = int(sys.argv[1]), cp_model.CpModel(), []
model.proto.parse_text_format(sys.stdin.read())
assert not model.validate(), model.validate()
solver = cp_model.CpSolver()
solver.parameters.num_workers = 1
solver.parameters.cp_model_presolve = False
while solver.solve(model) in (cp_model.OPTIMAL, cp_model.FEASIBLE):
    values = [model.get_bool_var_from_proto_index(i) for i in range(pairs)]
    model.clear_objective()
    print(*list(solver.response_proto.solution))
    bits = [solver.value(x) for x in values]
    model.add_bool_or([x.negated() if bit else x for x, bit in zip(values, bits)])
    if not pairs:
        break
"""


def models_of_cpsat(encoding: Encoding, unit_of: Families, pairs: int) -> list[list[int]]:
    """Returns the models that OR-Tools finds in its file, in a separate process: see `worker`."""
    text = cpsat_proto(encoding.formula, rounded(unit_of)[1], ("a remark",))
    run = subprocess.run(  # noqa: S603 - this interpreter, our own program
        [sys.executable, "-c", ENUMERATE, str(pairs)], input=text, capture_output=True, text=True, check=True
    )
    return [list(map(int, line.split())) for line in run.stdout.splitlines()]


@pytest.mark.parametrize(
    ("n", "count"), [(1, 1), (2, 2), (3, 8), (4, 61), pytest.param(5, 822, marks=pytest.mark.full)]
)
def test_the_models_of_a_cpsat_file_are_the_chordal_graphs(n: int, count: int) -> None:
    families, _ = rounded(families_of(named(gaussian(n, n)), n - 1))
    encoding = encode_family(families)
    found = models_of_cpsat(encoding, families, n * (n - 1) // 2)
    assert all(encoding.formula.broken(values) is None for values in found)
    assert {encoding.tree_of(values) for values in found} == set(chordal_trees(n))
    assert len(found) == count
    for tree in chordal_trees(n):
        own = encoding.values_of(tree)
        assert own is not None
        assert encoding.tree_of(own.tolist()) == tree


def test_more_variables_than_a_word_has_bits() -> None:
    problem = named(gaussian(0, 67, 2), Constraints(required_edges=frozenset({1 | 1 << 66})))
    encoding = encode_family(families_of(problem, 66))
    path = JunctionTree(67, (*tuple(3 << v for v in range(65)), 1 | 1 << 66), tuple_path(66))
    values = encoding.values_of(path)
    assert values is not None
    assert encoding.tree_of(values.tolist()) == path
    assert encoding.formula.objective(values.tolist()) == pytest.approx(path.score(problem.scores), abs=1e-9)
    assert encoding.values_of(JunctionTree(67, tuple(1 << v for v in range(67)), tuple_path(67))) is None


def tuple_path(count: int) -> tuple[tuple[int, int], ...]:
    """Returns the edges of a tree on some cliques: each holds on to the next, the last to the first."""
    return (*tuple((i, i + 1) for i in range(count - 2)), (0, count - 1))


def test_dropped_families_are_in_no_model() -> None:
    problem = named(gaussian(4, 4))
    families = families_of(problem, 0)
    allowed = families.allowed & (np.random.default_rng(0).random(families.allowed.shape) < 0.7)
    allowed[families.sizes == 1] = families.allowed[families.sizes == 1]
    left, _ = families.restricted(allowed)
    encoding = encode_family(left)
    trees = {encoding.tree_of(values) for values in models(encoding.formula, 6)}
    assert 1 < len(trees) < 61
    masks = left.masks()
    listed = left.listing()
    there = {(int(v), masks[p]) for v, p in zip(listed.vertex, listed.parents, strict=True)}
    for tree in chordal_trees(4):
        has = all(entry in there for entry in families_of_tree(tree, 0))
        assert (encoding.values_of(tree) is not None) == has
        assert tree in trees or not has


def test_a_vertex_in_no_clique_leaves_no_model() -> None:
    problem = named(SparseScores(3, {1: -1.0, 2: -1.0, 3: -3.0}))
    assert models(encode_family(families_of(problem, 0)).formula, 3) == []


def test_clutter_cuts_hold_for_every_tree_and_cut_off_families() -> None:
    problem = named(gaussian(0, 4), Constraints(required_edges=frozenset({0b1010})))
    families = families_of(problem, 1)
    random = repeatable(0)
    clutters = [
        (first, *random.sample([3, 5, 6, 9, 12, 7, 14], random.randint(1, 3)))
        for first, _ in product((1, 2, 4, 8, 0b1010), range(6))
    ]
    clauses = clutter_clauses(families, clutters)
    count = families.listing().vertex.size
    assert all(0 < len(clause) < count for clause in clauses)
    encoding = encode_family(families, clutters=clutters)
    assert len(encoding.formula.clauses) == len(encode_family(families).formula.clauses) + 30
    found = {encoding.tree_of(values) for values in models(encoding.formula, 6)}
    assert found == {tree for tree in chordal_trees(4) if meets_constraints(problem, tree)}
    # Families around a cycle, 0 ← 2 ← 3 ← 0 with 1 as the root, are cut off by the clutter {0}, {2}, {3}.
    (clause,) = clutter_clauses(families_of(named(gaussian(0, 4)), 1), [(1, 4, 8)])
    listed = families_of(named(gaussian(0, 4)), 1).listing()
    cycle = {(0, 0b100), (2, 0b1000), (3, 0b1)}
    masks = families_of(named(gaussian(0, 4)), 1).masks()
    assert not any((int(listed.vertex[at]), masks[listed.parents[at]]) in cycle for at in clause)


def test_a_clutter_that_need_not_hold_is_refused() -> None:
    families = families_of(named(gaussian(0, 3, 2)), 0)
    for clutter in ((3, 5), (0, 1)):
        with pytest.raises(ValueError, match="single vertex"):
            clutter_clauses(families, [clutter])
    # A set that is not kept is never complete.
    assert clutter_clauses(families, [(1, 7)]) == clutter_clauses(families, [(1,)])


def test_rows_as_clauses_have_the_same_models() -> None:
    random = repeatable(1)
    for _ in range(120):
        count = random.randint(1, 9)
        used = tuple(random.sample(range(1, count + 1), random.randint(1, count)))
        signs = tuple(random.choice([-1, 1]) for _ in used)
        low = random.randint(-count, count)
        bounds = random.choice([(low, None), (None, low), (low, low + random.randint(0, 3))])
        groups = [tuple(random.sample(range(1, count + 1), random.randint(1, count)))] * random.randint(0, 1)
        formula = Formula(
            tuple(f"x{i}" for i in range(count)), (1,) * count, (), tuple(groups),
            (LinearRow(used, signs, *bounds),), np.zeros(count),
        )  # fmt: skip
        wanted = {v for v in product((0, 1), repeat=count) if formula.broken(v) is None}
        assert {tuple(v) for v in models(formula, count)} == wanted


def test_weights_beyond_clauses_are_refused() -> None:
    encoding = encode_balancing(families_of(named(gaussian(0, 3)), 0))
    with pytest.raises(ChoiceError, match="clauses cannot express"):
        to_cnf(encoding.formula)


def test_the_memory_needed_is_known_before() -> None:
    small, large = named(gaussian(0, 5, 3)), named(dense(9, 4, np.zeros(256)))
    assert 10_000 < family.predicted_memory(small) < family.predicted_memory(large) < 10**9


def test_a_graph_that_is_not_chordal_is_no_tree() -> None:
    with pytest.raises(ValueError, match="chordal"):
        tree_of_edges(4, [1, 0, 1, 1, 0, 1])
    assert list(members(tree_of_edges(2, [1]).cliques[0])) == [0, 1]
    assert tree_of_edges(1, []).score(SparseScores(1, {1: -2.0})) > -inf
