"""LEM and context trees: partitions against plain references, recovery, limits, and the command line."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product
from math import log
from typing import TYPE_CHECKING

import numpy as np
import pytest
from fitting import fitted, interrupt, run_for

from jtsolve.core.problem import Constraints
from jtsolve.core.run import Run
from jtsolve.core.tree import JunctionTree
from jtsolve.errors import ChoiceError, LimitError
from jtsolve.models.features.context import Context, Literal
from jtsolve.models.features.kernels import partitions
from jtsolve.models.features.kernels.counts import pair_counts
from jtsolve.models.features.nodes import Product, Split, TableLeaf, TreeLeaf
from jtsolve.models.learning.context_trees import ContextTrees
from jtsolve.models.learning.lem import PUBLISHED, Lem, _Growth, _parts, _sides
from jtsolve.models.learning.tree import Tree
from jtsolve.models.learning.validation import PRIORS
from jtsolve.models.mixture import Mixture
from jtsolve.models.model import JunctionTreeModel
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from commands import Command
    from numpy.typing import NDArray

    from jtsolve.models.features.tree import FeatureTree


def table_of(codes: NDArray[np.integer]) -> DataTable:
    arities = codes.max(axis=1) + 1
    states = tuple(tuple(str(state) for state in range(max(2, arity))) for arity in arities.tolist())
    return DataTable(tuple(f"V{v}" for v in range(len(codes))), states, codes)


def noisy(seed: int, n: int = 5, rows: int = 300, states: int = 2) -> DataTable:
    """Returns rows in which some variables copy others, by the state of the first."""
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, states, (n, rows))
    for v in range(2, n):
        copied = (generator.random(rows) < 0.8) & (codes[0] == v % states)
        codes[v, copied] = codes[v - 1, copied]
    return table_of(codes)


def contexts(seed: int, rows: int) -> tuple[DataTable, float]:
    """Returns rows of a model in which two bits choose the order of a chain, and their entropy rate."""
    generator = np.random.default_rng(seed)
    n = 8
    bits = generator.integers(0, 2, (2, rows))
    codes = np.zeros((n, rows), dtype=np.int64)
    for context in range(4):
        order = np.random.default_rng(context).permutation(n)
        here = np.flatnonzero(bits[0] * 2 + bits[1] == context)
        state = generator.integers(0, 2, len(here))
        for v in order:
            codes[v, here] = state
            state = np.where(generator.random(len(here)) < 0.15, 1 - state, state)
    step = -(0.15 * log(0.15) + 0.85 * log(0.85))
    return table_of(np.vstack([bits, codes])), 3 * log(2) + (n - 1) * step


def entropy_of(table: DataTable, rows: NDArray[np.int64], variables: Sequence[int]) -> float:
    _, times = np.unique(table.codes[list(variables)][:, rows], axis=1, return_counts=True)
    share = times / times.sum()
    return -float(share @ np.log(share))


LEAST = 10
"""Rows below which LMIP finds nothing, in the tests of Algorithm 1."""


def lmip(
    table: DataTable, rows: NDArray[np.int64], context: Context, q: int = 2, delta: float = 0.01
) -> list[frozenset[int]]:
    """Algorithm 1 in plain Python, on the open variables of a context."""
    merged: list[tuple[int, ...]] = []
    if len(rows) >= LEAST:
        for size in range(2, q + 1):
            for A in combinations(sorted(context.domains), size):
                whole = entropy_of(table, rows, A)
                cuts = [
                    entropy_of(table, rows, X) + entropy_of(table, rows, [v for v in A if v not in X]) - whole
                    for k in range(1, size)
                    for X in combinations(A, k)
                ]
                if min(cuts) > delta:
                    merged.append(A)
    tied = frozenset(tuple(Literal(v, 0) for v in part) for part in merged)
    return replace(context, clauses=context.clauses | tied).groups()


def parts_of(growth: _Growth, context: Context, rows: NDArray[np.int64]) -> list[list[int]]:
    """Returns the parts that the kernel of LMIP finds in a context."""
    variables, codes, first = growth.inside(context, rows)
    weights, halt = growth.weights[rows], np.zeros(1, dtype=np.bool_)
    counts = pair_counts(codes, weights, first, halt)
    labels, states = _sides(context, variables, context.groups())
    how, (g_test, value) = growth.how, growth.how.threshold
    kinds = np.unique(weights)
    known = (codes, weights, kinds, counts, weights.sum(), first, states, g_test, value, how.q, how.min_rows)
    partitions.partition(*known, labels, halt)
    return _parts(labels, variables)


@pytest.mark.parametrize("seed", range(16))
def test_lmip_is_algorithm_1(seed: int) -> None:
    generator = np.random.default_rng(seed)
    table = noisy(seed, 6, 200, int(generator.integers(2, 4)))
    delta, q = float(10 ** generator.uniform(-3, -1)), int(generator.integers(2, 5))
    how = Lem(delta=delta, q=q, min_rows=0, max_cells=1 << 12)
    growth = _Growth(table, how, Run())
    rows = np.arange(growth.table.rows)
    found = parts_of(growth, growth.root, rows)
    expected = lmip(table, np.arange(table.rows), growth.root, q, delta)
    assert [frozenset(part) for part in found] == expected


@pytest.mark.parametrize("seed", range(5))
def test_rows_counted_as_bit_sets_are_those_counted_one_by_one(seed: int) -> None:
    generator = np.random.default_rng(seed)
    arities = generator.integers(2, 5, 4)
    first = np.concatenate([[0], np.cumsum(arities)])
    codes = np.array([generator.integers(0, arity, 300) for arity in arities], dtype=np.int32)
    weights = generator.choice([1.0, 2.0, 2.5], 300)
    A = np.array([0, 2, 3])
    expected, found = (np.zeros(arities[A].prod()) for _ in range(2))
    partitions._count_rows(codes, weights, first, A, expected)
    kinds = np.array([0.5, 1.0, 2.0, 2.5])  # 0.5 is of other rows
    bits, ends = partitions._bits(codes, weights, kinds, first)
    held = np.empty((len(found), bits.shape[1]), dtype=np.uint64)
    partitions._hold(bits, first, A[1:], held)
    partitions._count_bits(bits, ends, kinds, first, A[0], held, found)
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("seed", range(6))
def test_a_split_has_the_best_score_of_all_literals(seed: int) -> None:
    table = noisy(seed, 6, 300, 3)
    growth = _Growth(table, Lem(delta=0.01, min_rows=LEAST, support=5), Run())
    best = 0.0
    for v, state in product(range(table.n), range(3)):
        value, holds = 0.0, table.codes[v] == state
        for truth in (False, True):
            after = growth.root.assume((Literal(v, state),), holds=truth)[0]
            parts = lmip(table, np.flatnonzero(holds == truth), after)
            value += 1 / sum(float(np.prod(after.dims(part))) for part in parts)
        best = max(best, value)
    found = growth.best_feature(growth.root, np.arange(growth.table.rows))
    assert found is not None
    assert np.exp(found.value) == pytest.approx(best, rel=1e-9)


def test_the_parity_of_three_variables_is_found_with_q_3_and_not_with_q_2() -> None:
    codes = np.random.default_rng(0).integers(0, 2, (4, 2000))
    codes[2] = codes[0] ^ codes[1]
    for how in (Lem(delta=0.05), Lem(alpha=1e-4)):
        for q, parts in ((2, [[0], [1], [2], [3]]), (3, [[0, 1, 2], [3]])):
            growth = _Growth(table_of(codes), replace(how, q=q), Run())
            assert parts_of(growth, growth.root, np.arange(growth.table.rows)) == parts


@pytest.mark.parametrize("how", [Lem(), Lem(length=2, q=3), PUBLISHED])
def test_every_learner_gives_a_distribution(how: Lem) -> None:
    table = noisy(3, 6, 400, 3)
    tree = fitted(how, table)
    rows = np.indices([column.arity for column in tree.columns]).reshape(tree.n, -1).astype(np.int32)
    assert np.exp(tree.log_likelihood(rows)).sum() == pytest.approx(1, abs=1e-12)
    assert tree.provenance["stop"] == "finished"


def test_contexts_that_no_single_variable_reveals_are_found() -> None:
    train, entropy = contexts(1, 4000)
    test, _ = contexts(2, 4000)
    hybrid = fitted(ContextTrees(), train, treewidth=1)
    assert np.mean(hybrid.log_likelihood(test)) > -entropy - 0.02
    first = hybrid.nodes[0]
    assert isinstance(first, Split)
    assert first.feature[0].variable in {0, 1}
    model = fitted(Tree(), train, treewidth=2, backend="forward")
    assert np.mean(model.log_likelihood(test)) < -entropy - 0.2


def penalised(tree: FeatureTree, table: DataTable, penalty: float) -> float:
    return float(tree.log_likelihood(table).sum()) - penalty * log(table.rows) * tree.parameters


@pytest.mark.parametrize("seed", range(4))
def test_a_context_tree_scores_no_less_than_its_first_junction_tree(seed: int) -> None:
    table = contexts(seed, 600)[0] if seed % 2 else noisy(seed, 6, 400, 3)
    model = fitted(Tree(), table, treewidth=2, backend="forward", ess=1e-6)
    bic = float(model.log_likelihood(table).sum()) - 0.5 * log(table.rows) * model.parameters
    found = fitted(ContextTrees(support=5), table, treewidth=2, tree=model.tree, ess=1e-6)
    assert penalised(found, table, 0.5) >= bic - 1e-3
    weighted = replace(table, weights=np.full(table.rows, 3))
    repeated = replace(table, codes=np.repeat(table.codes, 3, axis=1))
    trees = [fitted(ContextTrees(support=5), rows, treewidth=2) for rows in (weighted, repeated)]
    logs = [tree.log_likelihood(table) for tree in trees]
    assert np.allclose(logs[0], logs[1], atol=1e-12, rtol=0)


def test_a_split_that_is_worth_its_leaf_up_to_rounding_is_not_made() -> None:
    # Two bits that depend on each other: a table of both is the same model as a split with a table a side.
    for seed in range(20):
        codes = np.random.default_rng(seed).integers(0, 2, (2, 400 + seed))
        codes[1, :150] = codes[0, :150]
        tree = fitted(ContextTrees(), table_of(codes), treewidth=1)
        assert len(tree.nodes) == 1


def test_validation_rows_choose_penalty_prior_and_threshold() -> None:
    train, valid = contexts(1, 500)[0], contexts(2, 500)[0]
    how = ContextTrees(support=10)
    best = fitted(how, train, valid, 1)
    mean = float(np.mean(best.log_likelihood(valid)))
    assert best.provenance["validation_log_likelihood"] == pytest.approx(mean)
    plain = fitted(how, train, treewidth=1)
    assert mean >= np.mean(plain.log_likelihood(valid)) - 1e-9
    scores = best.provenance["scores_tried"]
    assert list(scores) == ["bic", "aic"]
    assert scores[best.provenance["features"]["score"]] == max(scores.values()) == pytest.approx(mean)
    holes = valid.codes.astype(np.int64)
    holes[np.random.default_rng(0).random(holes.shape) < 0.05] = -1
    for codes in (holes, holes[:, (holes < 0).any(axis=0)]):
        found = fitted(how, train, codes, 1)
        assert found.provenance["validation_log_likelihood"] == pytest.approx(
            float(np.mean(found.log_likelihood(codes)))
        )
    lem = fitted(Lem(delta=0.05), train, valid)
    assert lem.provenance["features"]["lem"]["delta"] in (0.002, 0.005, 0.01, 0.02, 0.05)
    assert lem.provenance["validation_log_likelihood"] == pytest.approx(
        float(np.mean(lem.log_likelihood(valid)))
    )
    for rows in (valid, holes):
        single = [fitted(Lem(), train, ess=ess) for ess in PRIORS]
        found = fitted(Lem(thresholds=(0.01,)), train, rows)
        means = [float(np.mean(tree.log_likelihood(rows))) for tree in single]
        assert found.provenance["validation_log_likelihood"] == pytest.approx(max(means))
        assert found.provenance["smoothing_ess"] == PRIORS[int(np.argmax(means))]
    tried = fitted(Lem(delta=0.05, thresholds=(0.002, 5.0, 0.002)), train, valid)
    first, worse = [one["validation_log_likelihood"] for one in tried.provenance["thresholds_tried"]]
    assert first > worse


def test_a_tree_of_contexts_is_a_mixture_of_disjoint_supports() -> None:
    table, _ = contexts(3, 1000)
    tree = fitted(ContextTrees(), table, treewidth=1)
    components: list[JunctionTreeModel] = []
    weights: list[float] = []
    stack: list[tuple[int, dict[int, int], float]] = [(0, {}, 1.0)]
    while stack:
        i, fixed, weight = stack.pop()
        node = tree.nodes[i]
        if isinstance(node, Split):
            for truth, share in ((0, 1 - node.probability), (1, node.probability)):
                more = dict(tree.contexts[i].assume(node.feature, holds=bool(truth))[1])
                stack.append((node.kids[truth], fixed | more, weight * share))
            continue
        if isinstance(node, Product):
            raise AssertionError("a product is no component")  # noqa: TRY004
        assert isinstance(node, TreeLeaf)
        cliques = [sum(1 << node.variables[v] for v in clique) for clique in node.model.layout.cliques]
        tables = {c: node.model.layout.table(node.model.values, k) for k, c in enumerate(cliques)}
        edges = [(parent, k) for k, parent in enumerate(node.model.layout.parent) if parent >= 0]
        for v, state in fixed.items():
            edges.append((0, len(cliques)))
            cliques.append(1 << v)
            tables[1 << v] = np.eye(2)[state]
        whole = JunctionTree(tree.n, tuple(cliques), tuple(edges))
        components.append(JunctionTreeModel(tree.columns, whole, tuple(tables[c] for c in whole.cliques)))
        weights.append(weight)
    mixture = Mixture(np.array(weights), tuple(components))
    assert len(components) > 1
    assert np.allclose(mixture.log_likelihood(table), tree.log_likelihood(table))
    singles = mixture.posterior([(name,) for name in mixture.names], {}).tables
    for one, other in zip(singles, tree.marginals(), strict=True):
        assert np.allclose(one, other)


@pytest.mark.parametrize(
    "codes",
    [np.zeros((3, 1), dtype=np.int64), np.ones((3, 50), dtype=np.int64), np.zeros((1, 5), dtype=np.int64)],
)
def test_one_row_equal_rows_and_one_column_give_a_model(codes: NDArray[np.int64]) -> None:
    table = table_of(codes)
    kinds = (Lem(), replace(PUBLISHED, length=1), ContextTrees())
    for kind in kinds:
        width = 2 if kind.uses else None
        tree = fitted(kind, table, treewidth=width)
        assert sum(np.exp(tree.log_likelihood(table))) > 0
        constant = DataTable(("a", "b"), (("only",), ("x", "y")), np.array([[0, 0], [0, 1]]))
        tree = fitted(replace(kind, q=2) if isinstance(kind, Lem) else kind, constant, treewidth=width)
        assert np.allclose(np.exp(tree.log_likelihood(constant)), 0.5)
        alone = DataTable(("a",), (("only",),), np.array([[0, 0]]))
        assert fitted(kind, alone, treewidth=width).log_likelihood(alone).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"delta": 0.0}, "δ is 0"),
        ({"delta": float("nan")}, "δ is nan"),
        ({"q": 1}, "at least 2 variables"),
        ({"alpha": 1.0}, "level"),
        ({"length": 0}, "at least 1"),
    ],
)
def test_settings_out_of_range_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ChoiceError, match=message):
        Lem(**change)  # type: ignore[arg-type]


def test_more_settings_out_of_range_are_refused() -> None:
    for change, message in (
        ({"penalty": -1.0}, "penalty"),
        ({"support": 0}, "support"),
    ):
        with pytest.raises(ChoiceError, match=message):
            ContextTrees(**change)
    with pytest.raises(ChoiceError, match="as many variables"):
        fitted(Lem(length=4), noisy(1, 3))
    with pytest.raises(LimitError, match="joint states"):
        fitted(Lem(q=6, max_cells=32), noisy(1, 6))
    for kind in (Lem(), ContextTrees()):
        with pytest.raises(ChoiceError, match="needs a prior"):
            fitted(kind, noisy(1, 3), treewidth=1, ess=0.0)


def test_constraints_hold_at_the_leaves_by_the_names_of_the_variables() -> None:
    table = noisy(1, rows=1500)
    free = fitted(ContextTrees(), table, treewidth=1)
    pairs = [_pairs(leaf) for leaf in free.leaves]
    assert free.splits
    assert any(pairs)
    forbidden = pairs[-1] or pairs[0]
    limits = Constraints(forbidden_edges=frozenset(1 << u | 1 << v for u, v in forbidden))
    held = fitted(ContextTrees(), table, treewidth=1, constraints=limits)
    assert held.splits
    assert all(_pairs(leaf).isdisjoint(forbidden) for leaf in held.leaves)


def _pairs(leaf: TableLeaf | TreeLeaf) -> set[tuple[int, int]]:
    assert isinstance(leaf, TreeLeaf)
    return {(leaf.variables[u], leaf.variables[v]) for u, v in leaf.model.tree.graph_edges}


def test_the_end_of_the_time_leaves_a_valid_model() -> None:
    table = noisy(2, 6, 500)
    tree = fitted(Lem(), table, seconds=0)
    assert tree.provenance["stop"] == "time"
    assert not tree.splits
    given = fitted(Tree(), table, treewidth=1, backend="forward").tree
    late = fitted(ContextTrees(), table, treewidth=1, tree=given, seconds=0)
    assert late.provenance["stop"] == "time"
    assert len(late.leaves) == 1


def test_the_time_ends_within_a_context() -> None:
    # The first context of 100 columns takes longer; were time read between contexts only, it would split.
    tree = fitted(Lem(), noisy(2, 100, 4000), seconds=0.2)
    assert tree.provenance["stop"] == "time"
    assert not tree.splits


def test_an_interruption_leaves_a_valid_model(monkeypatch: pytest.MonkeyPatch) -> None:
    table, _ = contexts(1, 2000)
    for kind in (Lem(), ContextTrees()):
        tree = fitted(kind, table, treewidth=1, run=run_for(act=interrupt))
        rows = tree.sample(10)
        assert np.isfinite(tree.log_likelihood(rows)).all()
        assert tree.provenance["stop"] == "interrupted"
    assert fitted(Lem(), table, table, run=run_for(act=interrupt)).provenance["stop"] == "interrupted"

    def fail(*_arguments: object) -> None:
        raise LimitError("no memory")

    monkeypatch.setattr("jtsolve.models.features.kernels.counts.literal_gains", fail)  # called by a split
    with pytest.raises(LimitError, match="no memory"):
        fitted(ContextTrees(), table, treewidth=1)


@pytest.mark.parametrize("said", ["score bic, penalty 0.5", "leaves tried", "score aic, penalty 0.5", "0.35"])
def test_an_interruption_while_penalties_are_tried_leaves_the_best_so_far(said: str) -> None:
    def stop(run: Run, note: str) -> None:
        if said in note:
            run.interrupt()

    train, valid = contexts(1, 300)[0], contexts(2, 300)[0]
    tree = fitted(ContextTrees(support=10), train, valid, 1, run=run_for(act=stop))
    assert tree.provenance["stop"] == "interrupted"
    assert tree.provenance["validation_log_likelihood"] == pytest.approx(
        float(np.mean(tree.log_likelihood(valid)))
    )


# The command line


def written(path: Path, table: DataTable) -> Path:
    lines = [",".join(table.names), *(",".join(map(str, row)) for row in table.codes.T.tolist())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_feature_trees_on_the_command_line(command: Command, tmp_path: Path) -> None:
    train = written(tmp_path / "train.csv", contexts(1, 600)[0])
    valid = written(tmp_path / "valid.csv", contexts(2, 300)[0])
    model = tmp_path / "m.json"
    base = ("fit", train, "--output", model)
    facts = command.json(*base, "--model", "features", "--treewidth", "1", "--validate", valid)
    assert facts["splits"] > 0
    assert facts["stop"] == "finished"
    assert command("loglik", model, valid) == 0
    answer = command.json("mpe", model, "--given", "V0=1", "--best", "2")
    assert answer["best"][0]["states"]["V0"] == "1"
    targets = command.json("query", model, "--target", "V0,V1")["targets"]
    assert sum(targets[0]["probabilities"]) == pytest.approx(1)
    assert command("sample", model, "--rows", "3") == 0
    assert len(command.out.splitlines()) == 4
    assert command("show", model) == 0
    assert "no 0" in command.out
    for name in ("m.png", "m.svg", "m.dot"):
        assert command("show", model, "--output", tmp_path / name) == 0
    assert (tmp_path / "m.dot").read_text(encoding="utf-8").startswith("digraph feature_tree")
    assert (tmp_path / "m.png").stat().st_size > 5000
    assert command("show", model, "--graph") == 0
    assert "V0:" in command.out
    for kind, start in (("uai", "MARKOV"), ("bif", "network"), ("td", "s td"), ("dot", "digraph")):
        assert command("export", model, "--to", kind) == 0
        assert command.out.startswith(start)


def test_lem_on_the_command_line_and_incompatible_options(command: Command, tmp_path: Path) -> None:
    train = written(tmp_path / "train.csv", contexts(1, 400)[0])
    model = tmp_path / "m.json"
    base = ("fit", train, "--output", model)
    assert command(*base, "--model", "lem:alpha=0.05", "--quiet") == 0
    result = tmp_path / "r.json"
    instance = tmp_path / "i.json"
    assert command("score", train, "--max-size", "2", "--output", instance) == 0
    assert command("solve", instance, "--output", result) == 0
    trees = ("--model", "features", "--treewidth", "1")
    assert command(*base, *trees, "--tree", result) == 0
    for options, message in (
        (("--model", "x"), "there is no model 'x'"),
        (("--model", "features"), "give --treewidth"),
        (("--model", "lem", "--treewidth", "2"), "does not use --treewidth"),
        (("--model", "lem:q=x"), "give a whole number"),
        (("--model", "lem:foo=1"), "no option 'foo'"),
        (("--model", "mixture"), "give --treewidth"),
        (("--model", "mixture", "--treewidth", "1", "--tree", result), "does not use --tree"),
        (("--model", "lem", "--score", "bge"), "real numbers"),
    ):
        assert command(*base, *options) == 2, options
        assert message in command.err
