"""Local scores from data: each against a second derivation, against other programs, and to the bit."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import combinations, product
from math import comb, exp, inf, lgamma, log, pi
from typing import TYPE_CHECKING

import numpy as np
import pytest
from readers import read_numbers, read_states, tabulate
from runs import ImpatientRun, ReportingRun

from jtsolve.backends.registry import REGISTRY as REGISTERED
from jtsolve.core.problem import Problem, Variable
from jtsolve.core.result import Stop
from jtsolve.core.run import Limits, Run
from jtsolve.core.scores import DenseScores, StoppedError, colex_table
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import bounded_subsets, members, varset
from jtsolve.errors import ChoiceError, InputError, LimitError, RefusedError
from jtsolve.io.instance import read_problem
from jtsolve.scoring import counting
from jtsolve.scoring.colex import ColexOrder
from jtsolve.scoring.kernels.bitcounting import sums_over_binary_cells
from jtsolve.scoring.kernels.counting import LEAST_BINS, sums_over_cells
from jtsolve.scoring.lazy import _MANY, _PIECE_NANOSECONDS, DataScores, _Cache
from jtsolve.scoring.registry import REGISTRY
from jtsolve.scoring.score import is_discrete, is_gaussian, is_mixed
from jtsolve.scoring.scorer import BitColumns, CountingScorer
from jtsolve.scoring.scorers import make_scorer
from jtsolve.scoring.scores.bdeu import Bdeu
from jtsolve.scoring.scores.bdj import Bdj
from jtsolve.scoring.scores.bge import Bge
from jtsolve.scoring.scores.bic import Bic
from jtsolve.scoring.scores.gaussian_bic import GaussianBic
from jtsolve.scoring.scores.mdl import Mdl
from jtsolve.scoring.scores.ml import MaximumLikelihood
from jtsolve.scoring.scores.qnml import Qnml, log_normaliser
from jtsolve.scoring.tabulate import estimate, tabulate_with
from jtsolve.solving import solve
from jtsolve.tables.distinct import ONCE, distinct_rows, merged_rows
from jtsolve.tables.options import Coding
from jtsolve.tables.table import ContinuousTable, DataTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from jtsolve.core.varset import VarSet
    from jtsolve.scoring.score import ScoreFunction
    from jtsolve.tables.table import Table


def data_table(arities: Sequence[int], rows: int, seed: int = 0) -> DataTable:
    """A table in which neighbouring columns depend on one another."""
    generator = np.random.default_rng(seed)
    codes = np.array([generator.integers(0, arity, rows) for arity in arities])
    for v in range(1, len(arities)):
        copied = generator.random(rows) < 0.5
        codes[v, copied] = codes[v - 1, copied] % arities[v]
    names = tuple(f"v{i}" for i in range(len(arities)))
    states = tuple(tuple(map(str, range(arity))) for arity in arities)
    return DataTable(names, states, codes)


def number_table(n: int, rows: int, seed: int = 0) -> ContinuousTable:
    generator = np.random.default_rng(seed)
    values = generator.normal(size=(n, n)) @ generator.normal(size=(n, rows)) + 3.0
    return ContinuousTable(tuple(f"v{i}" for i in range(n)), values)


TABLE = data_table((2, 3, 1, 4, 2, 3), 200)
NUMBERS = number_table(6, 40)
# {0,1,2} - {1,2,3} - {3,4}, {5} for itself.
TREE = JunctionTree.from_nodes(6, [0b000111, 0b001110, 0b011000, 0b100000], [(0, 1), (1, 2), (2, 3)])
ORDERS = ((0, 1, 2, 3, 4, 5), (4, 5, 3, 2, 1, 0))
"""Perfect elimination orders of the tree's graph."""


# A second derivation: families, counted row by row.


def parents_along(tree: JunctionTree, order: Sequence[int]) -> dict[int, VarSet]:
    """The later neighbours of each variable in a perfect order."""
    later = (1 << tree.n) - 1
    families = {}
    for v in order:
        later &= ~(1 << v)
        neighbours = 0
        for clique in tree.cliques:
            if clique >> v & 1:
                neighbours |= clique
        families[v] = neighbours & later
        assert any(families[v] | 1 << v == (families[v] | 1 << v) & clique for clique in tree.cliques)
    return families


def family_counts(table: DataTable, v: int, parents: VarSet) -> dict[tuple[int, ...], Counter[int]]:
    counts: dict[tuple[int, ...], Counter[int]] = {}
    for row in table.codes.T.tolist():
        key = tuple(row[p] for p in members(parents))
        counts.setdefault(key, Counter())[row[v]] += 1
    return counts


def plain_bdeu(table: DataTable, v: int, parents: VarSet, ess: float) -> float:
    r = int(table.arities[v])
    q = int(np.prod([table.arities[p] for p in members(parents)]))
    total = 0.0
    for cell in family_counts(table, v, parents).values():
        m = sum(cell.values())
        total += lgamma(ess / q) - lgamma(ess / q + m)
        total += sum(lgamma(ess / (q * r) + k) - lgamma(ess / (q * r)) for k in cell.values())
    return total


def plain_likelihood(table: DataTable, v: int, parents: VarSet) -> float:
    return sum(
        k * log(k / sum(cell.values()))
        for cell in family_counts(table, v, parents).values()
        for k in cell.values()
    )


def plain_parameters(table: DataTable, v: int, parents: VarSet) -> int:
    return int(table.arities[v] - 1) * int(np.prod([table.arities[p] for p in members(parents)]))


def plain_normaliser(cells: int, rows: int) -> float:
    """C(q,N) by Kontkanen's and Myllymäki's recurrence: C(q + 2) = C(q + 1) + N/q C(q)."""
    one, two = (
        1.0,
        sum(comb(rows, h) * (h / rows) ** h * (1 - h / rows) ** (rows - h) for h in range(rows + 1)),
    )
    for q in range(1, cells):
        one, two = two, two + rows / q * one
    return one


def plain_qnml(table: DataTable, v: int, parents: VarSet) -> float:
    rows = int(table.total)
    joint = int(np.prod([table.arities[p] for p in members(parents | 1 << v)]))
    q = int(np.prod([table.arities[p] for p in members(parents)]))
    penalty = log(plain_normaliser(joint, rows)) - log(plain_normaliser(q, rows))
    return plain_likelihood(table, v, parents) - penalty


FAMILIES: dict[str, Callable[[DataTable, int, VarSet], float]] = {
    "bdeu": lambda t, v, p: plain_bdeu(t, v, p, 1.0),
    "ml": plain_likelihood,
    "aic": lambda t, v, p: plain_likelihood(t, v, p) - plain_parameters(t, v, p),
    "bic": lambda t, v, p: plain_likelihood(t, v, p) - log(t.total) / 2 * plain_parameters(t, v, p),
    "qnml": plain_qnml,
    "mdl": lambda t, v, p: (
        plain_likelihood(t, v, p) - log(t.total) / 2 * plain_parameters(t, v, p) - p.bit_count() * log(t.n)
    ),
}


def tree_score(scores: DenseScores, tree: JunctionTree) -> float:
    return sum(map(scores.score, tree.cliques)) - sum(map(scores.score, tree.separators))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", FAMILIES)
def test_cliques_and_separators_agree_with_families(name: str, order: tuple[int, ...]) -> None:
    families = parents_along(TREE, order)
    expected = sum(FAMILIES[name](TABLE, v, parents) for v, parents in families.items())
    scores = tabulate(TABLE, REGISTRY[name], 3)
    assert tree_score(scores, TREE) == pytest.approx(expected, abs=1e-8)


def test_every_score_of_states_has_a_second_derivation() -> None:
    assert {name for name, score in REGISTRY.items() if is_discrete(score)} == {*FAMILIES, "bdj"}
    assert all(name == score.name for name, score in REGISTRY.items())
    kinds = (is_discrete, is_gaussian, is_mixed)
    assert all(sum(kind(score) for kind in kinds) == 1 for score in REGISTRY.values())


@pytest.mark.parametrize(("score", "shared", "each"), [(Bdj(), 0.0, 0.5), (Bdeu(2.5), 2.5, 0.0)])
def test_dirichlet_scores_are_products_of_predictions(
    score: ScoreFunction, shared: float, each: float
) -> None:
    """Row by row: p(x) = (m(x) + a) / (t + q a), after t rows."""
    scores = tabulate(TABLE, score, 3)
    for mask in bounded_subsets(TABLE.n, 3):
        columns = list(members(mask))
        q = float(np.prod(TABLE.arities[columns]))
        a = shared / q + each
        seen: Counter[tuple[int, ...]] = Counter()
        expected = 0.0
        for t, row in enumerate(TABLE.codes[columns].T.tolist()):
            expected += log((seen[tuple(row)] + a) / (t + q * a))
            seen[tuple(row)] += 1
        assert scores.score(mask) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize(("cells", "rows"), [(1, 4), (2, 1), (2, 7), (3, 5), (4, 4), (7, 3)])
def test_the_normaliser_sums_the_largest_likelihoods_of_all_data(cells: int, rows: int) -> None:
    total = 0.0
    for sequence in product(range(cells), repeat=rows):
        total += exp(sum(m * log(m / rows) for m in Counter(sequence).values()))
    assert exp(log_normaliser(cells, rows)) == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("rows", [1, 2, 30, 500, 9000])
def test_the_normaliser_is_that_of_the_recurrence(rows: int) -> None:
    plain = min(rows, 900)  # beyond, binomial coefficients exceed floating point
    for cells in (1, 2, 3, 10, 300):
        assert log_normaliser(cells, plain) == pytest.approx(log(plain_normaliser(cells, plain)), abs=1e-10)
    three = [exp(log_normaliser(cells, rows) - log_normaliser(1000, rows)) for cells in (1000, 1001, 1002)]
    assert three[2] == pytest.approx(three[1] + rows / 1000 * three[0], rel=1e-10)


def test_the_normaliser_knows_no_limit_of_cells() -> None:
    """With many more cells than rows, all rows differ in nearly all data: C(q,N) is about (q/N)^N."""
    assert log_normaliser(1e60, 50) == pytest.approx(50 * log(1e60) - 50 * log(50), rel=1e-12)


@pytest.mark.parametrize("arities", [(2,), (2, 2), (3, 2)])
def test_qnml_is_a_distribution_of_data(arities: tuple[int, ...]) -> None:
    cells = list(product(*map(range, arities)))
    names, states = tuple("ab"[: len(arities)]), tuple(tuple("xyz"[:arity]) for arity in arities)
    whole = 0.0
    for rows in product(cells, repeat=3):
        scores = tabulate(DataTable(names, states, np.array(rows).T), Qnml(), len(arities))
        whole += exp(scores.score((1 << len(arities)) - 1))
    assert whole == pytest.approx(1.0, rel=1e-12)


def plain_regression(table: ContinuousTable, v: int, parents: VarSet) -> float:
    """The log likelihood of a linear regression, minus (ln N)/2 for each of its |P| + 2 parameters."""
    rows = table.rows
    design = np.column_stack([np.ones(rows), *(table.values[p] for p in members(parents))])
    rest = table.values[v] - design @ np.linalg.lstsq(design, table.values[v])[0]
    variance = float(rest @ rest) / rows
    return -rows / 2 * (log(2 * pi * variance) + 1) - log(rows) / 2 * (parents.bit_count() + 2)


@pytest.mark.parametrize("order", ORDERS)
def test_gaussian_bic_is_that_of_linear_regressions(order: tuple[int, ...]) -> None:
    expected = sum(plain_regression(NUMBERS, v, p) for v, p in parents_along(TREE, order).items())
    assert tree_score(tabulate(NUMBERS, GaussianBic(), 3), TREE) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("score", [Bge(), Bge(mean_weight=0.5, freedom=4.0)])
def test_bge_is_a_product_of_predictions(score: Bge) -> None:
    """Each row has a multivariate t distribution, given those before it (normal-Wishart, row by row)."""
    scores = tabulate(NUMBERS, score, 3)
    freedom = score.mean_weight + 1 if score.freedom is None else score.freedom
    t = score.mean_weight * (freedom - 1) / (score.mean_weight + 1)
    for mask in bounded_subsets(NUMBERS.n, 3):
        if not mask:
            continue
        x = NUMBERS.values[list(members(mask))]
        k = x.shape[0]
        mean, scatter = x.mean(axis=1), t * np.eye(k)
        weight, degrees = score.mean_weight, freedom + k
        expected = 0.0
        for row in x.T:
            nu = degrees - k + 1
            away = row - mean
            scale = scatter * (weight + 1) / (weight * nu)
            expected += lgamma((nu + k) / 2) - lgamma(nu / 2) - k / 2 * log(nu * pi)
            expected -= np.linalg.slogdet(scale)[1] / 2
            expected -= (nu + k) / 2 * log(1 + away @ np.linalg.solve(scale, away) / nu)
            scatter = scatter + weight / (weight + 1) * np.outer(away, away)
            mean = mean + away / (weight + 1)
            weight, degrees = weight + 1, degrees + 1
        assert scores.score(mask) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("name", REGISTRY)
def test_the_empty_set_scores_nothing(name: str) -> None:
    table: Table = TABLE if is_discrete(REGISTRY[name]) else NUMBERS
    assert tabulate(table, REGISTRY[name], 2).score(0) == 0.0
    assert DataScores(table, REGISTRY[name], 2).score(0) == 0.0


def test_aic_and_mdl_are_penalised_likelihoods() -> None:
    parameters = sum(plain_parameters(TABLE, v, p) for v, p in parents_along(TREE, ORDERS[0]).items())
    edges = 3 + 2 + 1
    for better, worse, penalty in (
        (MaximumLikelihood(), REGISTRY["aic"], parameters),
        (Bic(), Mdl(), edges * log(TABLE.n)),
    ):
        lost = tree_score(tabulate(TABLE, better, 3), TREE) - tree_score(tabulate(TABLE, worse, 3), TREE)
        assert lost == pytest.approx(penalty)


# Other programs.


@pytest.mark.parametrize(
    ("reference", "data", "header"),
    [
        ("bridges.score", "uci/bridges.data.version1", True),
        ("flare.score", "uci/flare.data2", False),
        ("nursery.score", "uci/nursery.data.gz", False),
        ("adjunct-asia.score", "scores/asia_10000.dat.gz", True),
    ],
)
def test_bdeu_equals_published_scores(
    reference: str, data: str, *, header: bool, shared: Path, tmp_path: Path
) -> None:
    path = shared / "data" / data
    if reference == "flare.score":  # its first line is a title
        path = tmp_path / "flare.txt"
        path.write_bytes((shared / "data" / data).read_bytes().partition(b"\n")[2])
    drop = ("IDENTIF",) if reference == "bridges.score" else ()
    if drop:  # names, a blank line, rows
        lines = path.read_text("ascii").splitlines()
        names = "IDENTIF,RIVER,LOCATION,ERECTED,PURPOSE,LENGTH,LANES,CLEAR-G,T-OR-D,MATERIAL,SPAN,REL-L,TYPE"
        path = tmp_path / "bridges.csv"
        path.write_text("\n".join([names, *lines[2:]]))
    table = read_states(path, Coding(drop=drop, missing_values=()), header=header)
    expected = read_problem(shared / "data" / "scores" / reference)
    scores = tabulate(table, Bdeu(), table.n)
    assert isinstance(expected.scores, DenseScores)
    assert np.abs(scores.values - expected.scores.values).max() <= 1e-6


def test_bdeu_equals_the_family_scores_of_gobnilp(shared: Path) -> None:
    folder = shared / "data" / "scores"
    table = read_states(folder / "asia_10000.dat.gz")
    scores = DataScores(table, Bdeu(), 4)
    lines = [line.split() for line in (folder / "asia_10000.dat.3.jkl").read_text("ascii").splitlines()]
    compared = 0
    variable = -1
    for words in lines[1:]:
        if len(words) == 2 and words[0] in table.names:
            variable = table.names.index(words[0])
            continue
        parents = varset(table.names.index(word) for word in words[2:])
        found = scores.score(parents | 1 << variable) - scores.score(parents)
        assert found == pytest.approx(float(words[0]), abs=1e-6)
        compared += 1
    assert compared > 100


def test_the_gaussian_scores_take_published_data(shared: Path) -> None:
    table = read_numbers(shared / "data" / "gaussian" / "isoprenoid.csv")
    for score in filter(is_gaussian, REGISTRY.values()):
        scores = tabulate(table, score, 2)
        variables = tuple(map(Variable, table.names))
        assert solve(Problem(variables, scores).with_treewidth(1)).gap == pytest.approx(0.0, abs=1e-6)


# Counting.


def plain_sums(table: DataTable, mask: VarSet, a: float) -> float:
    counts = Counter(map(tuple, table.codes[list(members(mask))].T.tolist()))
    return sum(lgamma(m + a) - lgamma(a) for m in counts.values())


@pytest.mark.parametrize("arity", [2, 30, 300, 70_000])
@pytest.mark.parametrize("weighted", [False, True])
def test_cells_are_counted_by_bins_by_hashing_and_in_numpy(arity: int, *, weighted: bool) -> None:
    table = data_table((arity, arity, 3, arity), 500, seed=arity)
    assert table.codes.dtype == {2: np.uint8, 30: np.uint8, 300: np.uint16, 70_000: np.int32}[arity]
    weights = np.random.default_rng(1).integers(1, 30, 500)
    rows = np.repeat(np.arange(500), weights) if weighted else np.arange(500)
    plain = replace(table, codes=table.codes[:, rows])
    sets = ColexOrder(4, 4).sets(0, 16)
    weights.flags.writeable = False  # as those of tables
    counted = (sets, table.codes, table.arities, weights if weighted else ONCE)
    for shared, each in ((0.0, 0.0), (1.0, 0.0), (0.0, 0.5)):
        sums, cells = sums_over_cells(*counted, shared, each)
        same = counting.sums_over_cells(*counted, shared, each)  # in numpy
        assert [part.tobytes() for part in same] == [sums.tobytes(), cells.tobytes()]
    for mask in range(1, 16):
        assert sums[mask] == pytest.approx(plain_sums(plain, mask, 0.5), rel=1e-12)
        assert cells[mask] == np.prod(table.arities[list(members(mask))], dtype=float)
    assert (arity * arity > LEAST_BINS) == (arity > 64)


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 500])
def test_bit_sets_count_binary_columns_to_the_bit(rows: int) -> None:
    table = data_table((2, 2, 1, 2, 2, 2, 2), rows, seed=rows)
    constant = table.codes.copy()
    constant[3] = 1
    for data in (table, replace(table, codes=constant)):
        sets = ColexOrder(7, 5).sets(0, 120)
        for shared, each in ((0.0, 0.0), (0.0, 0.5), (2.0, 0.0)):
            plain = sums_over_cells(sets, data.codes, data.arities, ONCE, shared, each)
            columns = BitColumns(data.codes, shared == each == 0, 5)
            # Out of order, too, where nothing is kept from one set to the next.
            for order in (np.arange(120), np.random.default_rng(0).permutation(120)):
                bits = sums_over_binary_cells(
                    sets[order], columns.columns, rows, data.arities, columns.terms, shared, each
                )
                assert bits[0].tobytes() == plain[0][order].tobytes()
                assert bits[1].tobytes() == plain[1][order].tobytes()


def test_bit_sets_are_used_where_they_are_faster() -> None:
    def bits(table: DataTable, max_size: int) -> bool:
        scorer = make_scorer(table, Bdeu(), max_size)
        assert isinstance(scorer, CountingScorer)
        return scorer.bits is not None

    binary = data_table((2,) * 14, 2000)
    assert bits(binary, 4)
    assert not bits(binary, 14), "too many cells"
    assert not bits(replace(binary, weights=np.full(2000, 3)), 4), "weights"
    assert not bits(data_table((2, 3, 2, 2), 2000), 2), "three states"
    assert not bits(data_table((2, 2), 200_000), 2), "few distinct rows"
    by_bits, by_rows = (
        make_scorer(data, Bdeu(), 4) for data in (binary, replace(binary, weights=np.full(2000, 3)))
    )
    assert 0 < by_bits.nanoseconds < by_rows.nanoseconds


def test_weights_are_repeated_rows_to_the_bit() -> None:
    weights = np.random.default_rng(5).integers(1, 90, TABLE.rows)
    repeated = replace(TABLE, codes=np.repeat(TABLE.codes, weights, axis=1))
    for score in filter(is_discrete, REGISTRY.values()):
        one = tabulate(replace(TABLE, weights=weights), score, 4)
        two = tabulate(repeated, score, 4)
        assert one.values.tobytes() == two.values.tobytes()


def test_the_order_of_rows_and_states_changes_no_bit() -> None:
    generator = np.random.default_rng(6)
    codes = TABLE.codes[:, generator.permutation(TABLE.rows)]
    codes = np.array(
        [generator.permutation(arity)[row] for arity, row in zip(TABLE.arities, codes, strict=True)]
    )
    for score in filter(is_discrete, REGISTRY.values()):
        one, two = (tabulate(table, score, 6) for table in (TABLE, replace(TABLE, codes=codes)))
        assert one.values.tobytes() == two.values.tobytes()


def test_distinct_rows_represent_all() -> None:
    table = data_table((2, 2, 3), 500)
    distinct = distinct_rows(table)
    assert (distinct.rows, distinct.total) == (12, 500)
    assert distinct.codes.T.tolist() == list(map(list, dict.fromkeys(map(tuple, table.codes.T.tolist()))))
    again = distinct_rows(distinct)
    assert again is distinct
    few, many = (make_scorer(data, Bdeu(), 2) for data in (table, data_table((9,) * 9, 500)))
    assert few.nanoseconds < many.nanoseconds
    assert distinct.weights is not None
    doubled = replace(distinct, codes=np.tile(distinct.codes, 2), weights=np.tile(distinct.weights, 2))
    weights = distinct_rows(doubled).weights
    assert weights is not None
    assert weights.tolist() == (2 * distinct.weights).tolist()


@pytest.mark.parametrize("arity", [3, 300, 70_000])
def test_distinct_rows_come_in_the_order_of_their_first_occurrence(arity: int) -> None:
    table = data_table((3, arity, arity), 700)
    counts = Counter(map(tuple, table.codes.T.tolist()))
    distinct = distinct_rows(replace(table, weights=np.full(700, 3)))
    assert list(map(tuple, distinct.codes.T.tolist())) == list(counts)
    assert distinct.weights is not None
    assert distinct.weights.tolist() == [3 * times for times in counts.values()]


@pytest.mark.parametrize("different", [50, 51])
@pytest.mark.parametrize("first", [3, 70, 600])  # column in which rows differ
def test_rows_are_merged_where_at_most_half_of_them_differ(different: int, first: int) -> None:
    codes = np.zeros((601, 100), dtype=np.int8)
    codes[first:] = np.arange(100) % different
    names = tuple(f"V{v}" for v in range(601))
    table = DataTable(names, (tuple(map(str, range(different))),) * 601, codes)
    merged = merged_rows(table)
    merges = different == 50
    assert (merged.rows, merged.total) == (different if merges else 100, 100)
    assert (merged is table) is not merges
    weighted = replace(table, weights=np.ones(100, dtype=np.int64))
    assert merged_rows(weighted).rows == different


@pytest.mark.parametrize(("n", "width"), [(1, 1), (5, 1), (5, 3), (6, 6)])
def test_sets_come_in_colex_order(n: int, width: int) -> None:
    expected = list(bounded_subsets(n, width))
    for start in range(len(expected)):
        sets = ColexOrder(n, width).sets(start, len(expected) - start)
        assert [varset(v for v in row if v >= 0) for row in sets.tolist()] == expected[start:]
        assert ColexOrder(n, width).ranks(sets).tolist() == list(range(start, len(expected)))
    assert ColexOrder(n, width).sets(0, 0).shape == (0, width)


# Tables and lazy scores.


@pytest.mark.parametrize("name", REGISTRY)
def test_lazy_scores_and_threads_change_no_bit(name: str) -> None:
    table: Table = (
        data_table((2, 3, 5, 4, 2, 3, 2, 2), 1000) if is_discrete(REGISTRY[name]) else number_table(8, 50)
    )
    one, two = (tabulate(table, REGISTRY[name], 5, run=Run(Limits(threads=threads))) for threads in (1, 3))
    assert one.values.tobytes() == two.values.tobytes()
    lazy = DataScores(table, REGISTRY[name], 5)
    assert colex_table(lazy, 5).tobytes() == one.values.tobytes()
    masks = list(bounded_subsets(table.n, 5))
    np.random.default_rng(0).shuffle(masks)
    fresh = DataScores(table, REGISTRY[name], 5)
    assert [fresh.score(mask) for mask in masks] == [one.score(mask) for mask in masks]
    least, most = lazy.extremes()
    assert least <= one.values.min() <= one.values.max() <= most


def test_thousands_of_pairs_pass_a_cache_that_has_no_room_for_all() -> None:
    generator = np.random.default_rng(0)
    table = DataTable(
        tuple(f"V{v}" for v in range(120)), (("a", "b"),) * 120, generator.integers(0, 2, (120, 40))
    )
    pairs = np.array([(u, v) for v in range(120) for u in range(v)])[::-1]
    assert len(pairs) > _MANY
    narrow = DataScores(table, Bic(), 2, cache=400)
    wide = DataScores(table, Bic(), 2)
    assert narrow.batch(pairs).tolist() == wide.batch(pairs).tolist()
    assert narrow.stats == {"hits": 0, "misses": len(pairs), "cached": 0}
    assert wide.stats["cached"] == len(pairs)


def test_lazy_scores_count_hits_and_misses_and_forget() -> None:
    lazy = DataScores(TABLE, Bdeu(), 3, cache=2)
    assert lazy.stats == {"hits": 0, "misses": 0, "cached": 0}
    triples = np.array([[0, 1, 2], [0, 1, 3], [0, 1, 2]])
    first = lazy.batch(triples)
    assert first[0] == first[2]
    assert lazy.stats == {"hits": 1, "misses": 2, "cached": 2}
    assert lazy.score(0b1011) == first[1]
    assert lazy.stats == {"hits": 2, "misses": 2, "cached": 2}
    lazy.score(0b1)
    assert lazy.stats == {"hits": 2, "misses": 3, "cached": 2}
    lazy.score(0b111)
    assert lazy.stats["misses"] == 4
    pairs = np.array([[0, 1], [0, 2], [0, 1]])
    assert lazy.batch(pairs).tolist() == [lazy.score(0b11), lazy.score(0b101), lazy.score(0b11)]
    assert lazy.stats == {"hits": 6, "misses": 6, "cached": 4}  # pairs are in an array, which keeps them
    assert lazy.score(0b1111) == -inf
    assert lazy.batch(np.array([[0, 1, 2, 3]])).tolist() == [-inf]
    assert lazy.batch(np.empty((2, 0), np.intp)).tolist() == [0.0, 0.0]
    assert lazy.batch(np.empty((0, 2), np.intp)).tolist() == []
    with pytest.raises(InputError, match="a variable is not in 0 to 5"):
        lazy.score(1 << 6)
    with pytest.raises(ChoiceError, match="a cache of 0 scores"):
        DataScores(TABLE, Bdeu(), 3, cache=0)


def test_sets_have_keys_of_their_own_however_many_variables_there_are() -> None:
    few, many = _Cache(1000, 10**6), _Cache(1 << 13, 1)
    pairs = np.array([(u, v) for v in range(200) for u in range(v)])
    assert len({hash(1 << u | 1 << v) for u, v in pairs.tolist()}) == 1891  # of bit masks
    assert len({hash(key) for key in few._keys(pairs)}) == len(pairs)
    generator = np.random.default_rng(0)
    for cache, n, size in ((few, 1000, 3), (few, 1000, 9), (many, 1 << 13, 4), (many, 1 << 13, 5)):
        sets = np.sort(np.array([generator.choice(n, size, replace=False) for _ in range(200)]), axis=1)
        assert [cache._key(row) for row in sets.tolist()] == cache._keys(sets)
        assert len(set(cache._keys(sets))) == len({tuple(row) for row in sets.tolist()})


def test_long_batches_end_when_the_run_has_to_stop_and_short_ones_do_not() -> None:
    table = data_table((2,) * 30, 40_000)
    lazy = DataScores(table, Bdeu(), 5)
    rows = np.array(list(combinations(range(30), 5)), dtype=np.intp)
    assert len(rows) * lazy.scorer.nanoseconds > 2 * _PIECE_NANOSECONDS
    run = ImpatientRun(1, Stop.TIME)
    guarded = lazy.guarded(run)
    with pytest.raises(StoppedError):
        guarded.batch(rows)
    assert guarded.batch(rows[:9]).tolist() == lazy.batch(rows[:9]).tolist()
    assert run.asked == 2
    assert guarded.stats == lazy.stats  # one cache
    with pytest.raises(StoppedError):
        guarded.tabulated(3)
    assert repr(guarded) == repr(lazy)


def test_threads_share_lazy_scores() -> None:
    table = data_table((2,) * 12, 300)
    expected = tabulate(table, Bdeu(), 4)
    lazy = DataScores(table, Bdeu(), 4, cache=100)
    masks = list(bounded_subsets(12, 4))[1:] * 2
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lazy.score, masks)) == [expected.score(mask) for mask in masks]
    stats = lazy.stats
    assert stats["cached"] <= 100 + 66  # and all pairs
    assert stats["hits"] + stats["misses"] == len(masks)


def test_lazy_scores_make_a_problem_that_backends_solve() -> None:
    variables = tuple(map(Variable, TABLE.names))
    lazy = Problem(variables, DataScores(TABLE, Bdeu(), 3))
    table = Problem(variables, tabulate(TABLE, Bdeu(), 3))
    assert solve(lazy).score == pytest.approx(solve(table).score)
    assert lazy.digest() == Problem(variables, DataScores(TABLE, Bdeu(), 3)).digest()
    assert lazy.digest() != Problem(variables, DataScores(TABLE, Bdeu(2.0), 3)).digest()


def test_backends_that_need_a_table_refuse_scores_on_demand_and_say_the_way_out() -> None:
    table = data_table((2,) * 22, 100)
    problem = Problem(tuple(map(Variable, table.names)), DataScores(table, Bdeu(), 8))
    with pytest.raises(RefusedError, match=r"all 600370 sets of at most 8 variables, .*--max-size"):
        solve(problem, REGISTERED["dp"])
    narrow = solve(problem.with_treewidth(1), REGISTERED["dp"])
    assert narrow.stats["scores"]["misses"] <= 1 + 22 + 231
    assert REGISTERED["dp"].capabilities.objections(problem.with_treewidth(2)) == ()
    assert "scores" in solve(problem, REGISTERED["forward"]).stats


def test_a_thousand_variables_need_no_table() -> None:
    generator = np.random.default_rng(2)
    names = tuple(f"v{i}" for i in range(1000))
    table = DataTable(names, (("0", "1"),) * 1000, generator.integers(0, 2, (1000, 50)))
    lazy = DataScores(table, Bdeu(), 5)
    few = replace(table, names=names[-3:], states=table.states[-3:], codes=table.codes[-3:])
    assert lazy.score(0b111 << 997) == tabulate(few, Bdeu(), 3).score(0b111)


def test_progress_rises_to_one_and_may_end_the_work() -> None:
    late = ImpatientRun(3, Stop.TIME, Limits(threads=1))
    with pytest.raises(LimitError, match=r"the time limit ended the scoring after \d+ % of the sets"):
        tabulate(TABLE, Bdeu(), 3, run=late)
    seen: list[float] = []
    tabulate(TABLE, Bdeu(), 3, run=ReportingRun(lambda *, done, **_: seen.append(done), Limits(threads=2)))
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_an_error_in_a_thread_ends_the_work() -> None:
    values = NUMBERS.values.copy()
    values[4] = 2 * values[0] - values[3]
    table = ContinuousTable(NUMBERS.names, values)
    assert np.isfinite(tabulate(table, GaussianBic(), 2).values).all()
    with pytest.raises(InputError, match="columns v0, v3, v4: they are linearly dependent"):
        tabulate(table, GaussianBic(), 3)
    assert np.isfinite(tabulate(table, Bge(), 3).values).all()


def test_estimates_count_sets() -> None:
    cost = estimate(make_scorer(TABLE, Bdeu(), 3), 3, workers=2)
    assert cost.sets == 42
    assert 0 < cost.packed_bytes < cost.file_bytes < cost.memory
    assert cost.seconds == pytest.approx(estimate(make_scorer(TABLE, Bdeu(), 3), 3, workers=1).seconds / 2)
    assert estimate(make_scorer(NUMBERS, Bge(), 3), 3).seconds > 0


# Refusals.


@pytest.mark.parametrize("max_size", [0, 7])
def test_sizes_beyond_the_table_are_refused(max_size: int) -> None:
    with pytest.raises(ChoiceError, match=f"sets of {max_size} variables are requested, but there are 6"):
        tabulate(TABLE, Bdeu(), max_size)


def test_scores_and_tables_have_to_fit() -> None:
    with pytest.raises(ChoiceError, match="'bge' is for columns of real numbers, but these hold states"):
        tabulate(TABLE, Bge(), 2)
    with pytest.raises(ChoiceError, match="'bdeu' is for columns of states, but these hold real numbers"):
        tabulate(NUMBERS, Bdeu(), 2)


def test_too_few_rows_for_a_covariance_are_refused() -> None:
    few = number_table(6, 4)
    with pytest.raises(InputError, match="there are 4, but sets of 4 columns need 5 under gaussian-bic"):
        tabulate(few, GaussianBic(), 4)
    assert np.isfinite(tabulate(few, Bge(), 6).values).all()
    tabulate(few, GaussianBic(), 3)


def test_too_many_cells_are_refused() -> None:
    labels = tuple(map(str, range(1000)))
    table = DataTable(tuple(f"v{i}" for i in range(101)), (labels,) * 101, np.zeros((101, 1), np.int64))
    with pytest.raises(InputError, match=r"exceeds 10\^90 cells"):
        tabulate(table, Bdeu(), 31)
    assert DataScores(table, Bdeu(), 29).score((1 << 29) - 1) == pytest.approx(-29 * log(1000))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Bdeu(0.0), "equivalent sample size is 0.0"),
        (lambda: Bdeu(inf), "equivalent sample size is inf"),
        (lambda: Bdeu(1e308), "equivalent sample size is 1e[+]308; give a number from 1e-100 to 1000000.0"),
        (lambda: Bge(mean_weight=0.0), "weight of the prior mean is 0.0"),
        (lambda: Bge(freedom=1.0), "degrees of freedom beyond n are 1.0"),
    ],
)
def test_parameters_that_make_no_score_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ChoiceError, match=message):
        make()


CODES: NDArray[np.int64] = np.array([[0, 1], [1, 0]])
BINARY = (("no", "yes"), ("no", "yes"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DataTable((), (), np.empty((0, 2), int)), "columns: there are none"),
        (lambda: DataTable(("a", "a"), BINARY, CODES), "'a' is used twice"),
        (lambda: DataTable(("a", ""), BINARY, CODES), "the name is empty"),
        (lambda: DataTable(("a", "b"), BINARY, CODES[:1]), r"shape \(1, 2\)"),
        (lambda: DataTable(("a", "b"), BINARY, CODES[:, :0]), "rows: there are none"),
        (lambda: DataTable(("a", "b"), BINARY, CODES + 0.5), "the type float64 is not integer"),  # type: ignore[arg-type]
        (lambda: DataTable(("a", "b"), (("x", "x"), ("y",)), CODES), "or one occurs twice"),
        (
            lambda: DataTable(("a", "b"), (("x", "y"), ("y",)), CODES),
            "range from 0 to 1, but there are 1 states",
        ),
        (lambda: DataTable(("a", "b"), BINARY, CODES, np.array([1, 0])), "not 2 whole numbers above 0"),
        (lambda: DataTable(("a", "b"), BINARY, CODES, np.array([1.5, 1])), "not 2 whole numbers above 0"),
        (lambda: ContinuousTable(("a",), np.array([1.0])), r"shape \(1,\)"),
        (lambda: ContinuousTable(("a",), np.array([[1.0, inf]])), "a number is not finite"),
        (lambda: ContinuousTable(("a",), np.array([[1.0, 1.0]])), "every value is 1: a constant"),
    ],
)
def test_tables_that_are_none_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_tables_are_immutable_and_digests_distinguish_them() -> None:
    with pytest.raises(ValueError, match="read-only"):
        TABLE.codes[0, 0] = 1
    one = DataTable(("a", "b"), BINARY, CODES)
    assert DataTable(("a", "b"), BINARY, one.codes).codes is one.codes
    two = replace(one, weights=np.array([1, 1]))
    assert one.digest() == DataTable(("a", "b"), BINARY, CODES.copy()).digest() != two.digest()
    assert NUMBERS.digest() == number_table(6, 40).digest() != number_table(6, 40, seed=1).digest()
    assert NUMBERS.total == NUMBERS.rows == 40


def test_all_pairs_of_columns_of_one_state_are_independent() -> None:
    """A column of one state is allowed: s(A ∪ v) = s(A)."""
    scores = tabulate(TABLE, Bdeu(), 3)
    for pair in combinations((0, 1, 3, 4, 5), 2):
        assert scores.score(varset(pair) | 0b100) == pytest.approx(scores.score(varset(pair)))


def test_scores_of_all_rows_of_a_cube_are_known() -> None:
    """Every cell once: ln p(A) of n binary columns is -|A| 2^n ln 2 under maximum likelihood."""
    table = DataTable(("a", "b", "c"), BINARY[:1] * 3, np.array(list(product((0, 1), repeat=3))).T)
    scores = tabulate_with(make_scorer(table, MaximumLikelihood(), 3), 3)
    assert scores.values == pytest.approx([-8 * log(2) * mask.bit_count() for mask in range(8)])


def test_the_time_of_large_data_is_predicted_from_sets_that_are_tried() -> None:
    table = data_table((3,) * 5, 1_300_000)
    scorer = make_scorer(table, Bdeu(), 3)
    assert isinstance(scorer, CountingScorer)
    many = replace(scorer, counted=table)  # as if no row were there twice
    assert many.nanoseconds > 1e6
    for size in (1, 3, 5):
        assert 0 < estimate(many, size, 1).seconds < 600
