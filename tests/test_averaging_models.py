"""Mixtures of drawn trees: the predictive density of the posterior."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from fitting import fit, fitted
from problems import gaussian, named
from reference_averaging import enumerated_weights

import jtsolve as jt
from jtsolve.averaging.average import draw_trees
from jtsolve.averaging.bootstrap import bootstrap
from jtsolve.averaging.chains import FOR_CHAINS, Chains, run_chains
from jtsolve.averaging.drawn_trees import AveragedTrees
from jtsolve.averaging.posterior import GraphPosterior
from jtsolve.averaging.registry import METHODS
from jtsolve.backends.chowliu import ChowLiu
from jtsolve.cli import run
from jtsolve.core.problem import Constraints
from jtsolve.core.run import Limits, Run
from jtsolve.errors import ChoiceError, NotConvergedError
from jtsolve.io.instance import write_problem
from jtsolve.models.files.opening import open_model
from jtsolve.models.learning.learner import Learner
from jtsolve.models.mixture import Mixture
from jtsolve.models.model import JunctionTreeModel
from jtsolve.scoring.problem import WHOLE, Tabulation, problem_from_table
from jtsolve.scoring.scores.bdeu import Bdeu
from jtsolve.scoring.scores.bic import Bic
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from pathlib import Path


def table(rows: int = 40, n: int = 4) -> DataTable:
    """A chain of columns, each like the one before it in three rows of four."""
    generator = np.random.default_rng(1)
    columns = [generator.integers(0, 2, rows)]
    for _ in range(n - 1):
        columns.append(np.where(generator.random(rows) < 0.75, columns[-1], 1 - columns[-1]))
    return DataTable(tuple("abcdefgh"[:n]), (("0", "1"),) * n, np.array(columns))


def write(data: DataTable, path: Path) -> Path:
    lines = [",".join(data.names), *(",".join(map(str, row)) for row in data.codes.T.tolist())]
    path.write_text("\n".join(lines) + "\n")
    return path


def command(*arguments: object) -> int:
    return run([str(argument) for argument in arguments], 0.0)


def test_a_mixture_of_drawn_trees_is_near_the_sum_over_all_graphs() -> None:
    data = table()
    problem = problem_from_table(data, Bdeu(1.0), treewidth=3)
    exact = np.zeros(data.rows)
    for tree, weight in enumerated_weights(problem):
        exact += weight * np.exp(fit(tree, data, ess=1.0).log_likelihood(data))
    mixture = fitted(AveragedTrees(4000), data, None, 3, score=Bdeu(1.0))
    assert sum(mixture.weights) == pytest.approx(1)
    assert np.abs(np.exp(mixture.log_likelihood(data)) / exact - 1).max() < 0.02


def test_draws_of_one_graph_are_one_component_as_heavy_as_their_share() -> None:
    data = table()
    draws = draw_trees(problem_from_table(data, Bdeu(1.0), treewidth=2), 50)
    assert draws is not None
    mixture = fitted(AveragedTrees(50), data, treewidth=2, score=Bdeu(1.0))
    shares = {part.tree: weight for part, weight in zip(mixture.components, mixture.weights, strict=True)}
    assert len(shares) == len(mixture.components) > 1
    assert shares == {tree: draws.trees.count(tree) / 50 for tree in draws.trees}


def test_draws_of_one_graph_are_no_mixture() -> None:
    apart = Constraints(max_treewidth=0)
    found = fitted(AveragedTrees(5), table(), None, 1, score=Bdeu(1.0), constraints=apart)
    assert isinstance(found, JunctionTreeModel)
    assert found.tree.treewidth == 0


def test_the_same_seed_draws_the_same_mixture_also_of_numbers() -> None:
    data = table()
    frame = {name: data.codes[v].tolist() for v, name in enumerate(data.names)}
    drawn = jt.fit(frame, "average:50", treewidth=2, seed=2).model
    again = jt.fit(frame, "average:50", treewidth=2, seed=2, score="bdeu").model
    assert isinstance(drawn, Mixture)
    assert isinstance(again, Mixture)
    assert drawn.weights.tolist() == again.weights.tolist()
    numbers = {"x": [0.5, 1.0, 2.0, 4.0, 4.5], "y": [1.0, 0.0, 3.0, 2.0, 7.0]}
    assert isinstance(jt.fit(numbers, "average:3", treewidth=1, score="bge").model, Mixture)
    with pytest.raises(ChoiceError, match="at least 1"):
        jt.fit(frame, "average:0", treewidth=1)


def test_a_solution_is_averaged_from_its_data_without_its_tree() -> None:
    frame = {name: column.tolist() for name, column in zip("abcd", table().codes, strict=True)}
    learned = jt.learn(frame, treewidth=2, score="bdeu")
    beside = jt.fit(learned, "average:50", seed=2).model
    drawn = jt.fit(frame, "average:50", treewidth=2, seed=2).model
    assert isinstance(beside, Mixture)
    assert isinstance(drawn, Mixture)
    assert beside.weights.tolist() == drawn.weights.tolist()
    with pytest.raises(ChoiceError, match="does not use tree"):
        jt.fit(frame, "average:3", treewidth=1, tree=learned)


def test_average_accepts_a_problem_or_a_file_and_has_its_edges(tmp_path: Path) -> None:
    problem, path = named(gaussian(1, 4)), tmp_path / "i.json"
    write_problem(problem, path)
    one, other = (
        jt.average(problem, 2),
        jt.average(path, 2, method="auto:exact.draws=400,exact.treewidths=true"),
    )
    assert (one.edges == other.edges).all()
    sizes = np.array(other.diagnostics["edges_in_graph"])
    expected = np.zeros(len(sizes))
    widths = [0.0, 0.0, 0.0]
    for tree, weight in enumerated_weights(problem.with_treewidth(2)):
        widths[tree.treewidth] += weight
        expected[len(tree.graph_edges)] += weight
    errors = np.array(other.diagnostics["edges_in_graph_errors"])
    assert (np.abs(sizes - expected) <= 5 * errors + 0.01).all()
    assert other.diagnostics["treewidth"] == pytest.approx(widths)
    assert "treewidth_errors" not in other.diagnostics
    impossible = Constraints(max_treewidth=0, required_edges=frozenset({0b11}))
    with pytest.raises(ChoiceError, match="no graph"):
        jt.average(named(gaussian(1, 3), impossible))
    with pytest.raises(ChoiceError, match="0 or more"):
        jt.average(problem, method="exact:draws=-1")


def test_average_of_a_solution_has_bootstrap_strengths_of_the_same_search() -> None:
    learned = jt.learn(dict(zip("abcd", table().codes.tolist(), strict=True)), 1)
    posterior = jt.average(learned, method="bootstrap:4,backend=chowliu", seed=3)
    assert posterior.prior["over"] == "graphs"
    assert isinstance(learned.table, DataTable)
    expected = bootstrap(learned.table, 4, Learner(Bic(), ChowLiu(), 1), Run(Limits(seed=3)))
    assert posterior.bootstrap is not None
    assert (posterior.bootstrap.edges == expected.edges).all()
    assert learned.problem is not None
    with pytest.raises(ChoiceError, match="an instance has none"):
        jt.average(learned.problem, method="bootstrap:4")
    with pytest.raises(ChoiceError, match="no executor 'slurm'"):
        jt.average(learned, executor="slurm")


def test_average_accepts_data_and_draws_trees() -> None:
    data = dict(zip("abcd", table().codes.tolist(), strict=True))
    posterior, forbidden = jt.average(data, 1), [("a", "b")]
    assert (posterior.edges == jt.average(jt.learn(data, 1, score="bdeu")).edges).all()
    assert posterior.prior == jt.average(data, 1, score="niw").prior
    assert jt.average(data, 1, forbid=forbidden).edges[0, 1] == 0
    problem = jt.learn(data, 1, score="bdeu").problem
    assert problem is not None
    one, other = (jt.average(source, 1, trees=20, seed=3, forbid=forbidden) for source in (data, problem))
    assert len(one) == 20
    assert [tree.cliques for tree in one] == [tree.cliques for tree in other]
    assert not any({"a", "b"} <= set(clique) for tree in one for clique in tree.cliques)
    with pytest.raises(ChoiceError, match="score=… applies to data, not to a problem"):
        jt.average(problem, score="bdeu")
    with pytest.raises(ChoiceError, match="weights=… applies to data, not to a problem"):
        jt.average(problem, weights="a")
    covariance = np.eye(3) + 0.5
    assert jt.average(covariance=covariance, rows=50).edges.min() >= 0


def test_chains_have_an_error_for_each_edge_and_the_distribution_of_its_graphs() -> None:
    problem = named(gaussian(1, 5))
    exact, found = jt.average(problem), jt.average(problem, method="chains")
    assert found.converged
    assert found.traces is not None
    gaps = np.abs(found.edges - exact.edges)
    assert (gaps <= 5 * found.traces.errors + 1e-3).all()
    assert found.traces.errors.max() < 0.05
    assert found.traces.scores.shape == found.traces.edges_in_graph.shape == (4, 250)
    sizes = np.array(found.diagnostics["edges_in_graph"])
    assert sizes @ np.arange(len(sizes)) == pytest.approx(found.expected_edges)
    assert sum(found.diagnostics["treewidth"]) == pytest.approx(1)


def test_average_says_that_chains_have_not_converged(caplog: pytest.LogCaptureFixture) -> None:
    assert not jt.average(named(gaussian(1, 6)), method="chains:rounds=100,temperatures=1").converged
    assert "not converged" in caplog.text


def test_fit_average_writes_the_mixture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, model = write(table(), tmp_path / "d.csv"), tmp_path / "m.json"
    assert command("fit", data, "--model", "average:20", "--treewidth", 2, "--output", model) == 0
    assert "exact" in capsys.readouterr().out
    found = open_model(model)
    assert isinstance(found, Mixture)
    assert found.provenance["draws"] == 20
    assert found.provenance["score"] == "bdeu"
    options = ("--model", "average:20", "--treewidth", 2, "--output", model)
    assert command("fit", data, *options, "--score", "bic") == 0
    assert "not a log marginal likelihood" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--backend", "dp"), "does not use --backend; leave it out"),
        (("--validate", "d.csv"), "leave out --validate"),
        (("--require", "a,b", "--constraint", "max_cliques=1"), "max_cliques"),
    ],
)
def test_options_without_a_meaning_for_drawn_trees_are_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[object, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write(table(), tmp_path / "d.csv")
    assert (
        command("fit", "d.csv", "--model", "average:3", "--treewidth", 2, "--output", "m.json", *options) == 2
    )
    assert message in capsys.readouterr().err.replace("\n", " ")


def test_draws_from_chains_are_spread_and_refused_unless_they_have_converged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = named(gaussian(1, 5))
    draws = draw_trees(problem, 3000, method="chains")
    assert draws is not None
    assert draws.method == "chains"
    total = dict(enumerated_weights(problem))
    likeliest = max(total, key=total.__getitem__)
    assert draws.trees.count(likeliest) / 3000 == pytest.approx(total[likeliest], abs=0.1)
    short = "chains:rounds=100,temperatures=1"
    with pytest.raises(NotConvergedError, match="disagree"):
        draw_trees(problem, 3, method=short)
    data = write(table(), tmp_path / "d.csv")
    options = ("--score", "bdeu", "--treewidth", 2, "--method", short)
    assert command("average", data, "--trees", 1, *options) == 5
    assert "disagree" in capsys.readouterr().err


def on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes tables too large for chains."""
    monkeypatch.setattr(Chains, "rule", Tabulation(seconds=0.0, share=0.0))


def test_data_without_room_for_a_table_are_for_chains_with_scores_on_demand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, output = write(table(), tmp_path / "d.csv"), tmp_path / "p.json"
    exact = jt.average(jt.learn(data, score="bdeu", treewidth=2))
    on_demand(monkeypatch)
    for method, said in (("auto", "exact; converged"), ("chains", "chains; converged")):
        assert command("average", data, "--treewidth", 2, "--method", method, "--output", output) == 0
        text = capsys.readouterr().out
        assert said in text
        assert ("scores are computed on demand" in text) is (method == "chains")
        assert GraphPosterior.read(output).edges == pytest.approx(exact.edges, abs=0.05)
    assert command("average", data, "--treewidth", 2, "--trees", 5, "--method", "chains") == 0
    assert len(capsys.readouterr().out.splitlines()) == 5


def test_trees_are_averaged_where_only_chains_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write(table(), tmp_path / "d.csv")
    on_demand(monkeypatch)
    monkeypatch.setattr("jtsolve.averaging.exact.Exact.fits", lambda *_, **__: False)
    options = ("--treewidth", 2, "--output", tmp_path / "m.json")
    assert command("fit", data, "--model", "average:4", "--score", "bdeu", *options) == 0
    assert "drawn by        chains" in capsys.readouterr().out
    assert isinstance(open_model(tmp_path / "m.json"), Mixture)


def test_a_table_is_made_for_exact_sums_and_for_chains_where_it_is_cheap() -> None:
    for n, largest, method, rule in (
        (13, 13, "auto", WHOLE),
        (69, 3, "auto", FOR_CHAINS),
        (69, 3, "exact", WHOLE),
        (13, 13, "chains", FOR_CHAINS),
        (2000, 3, "auto", FOR_CHAINS),
        (4, 11, "auto", WHOLE),  # a treewidth of 10
    ):
        assert METHODS[method].tabulation(n, largest, Limits(memory=10**10)) is rule


def test_ctrl_c_in_chains_gives_no_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(problem: Any, odds: float, run: Any, **options: Any) -> Any:
        sample = run_chains(problem, odds, run, **options)
        run.interrupt()
        return sample

    monkeypatch.setattr("jtsolve.averaging.chains.run_chains", interrupted)
    with pytest.raises(KeyboardInterrupt):
        draw_trees(named(gaussian(1, 4)), 3, method=Chains(rounds=100, temperatures=1))


def test_fit_average_says_that_no_graph_meets_the_constraints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write(table(), tmp_path / "d.csv")
    options = ("--treewidth", 0, "--require", "a,b", "--output", tmp_path / "m.json")
    assert command("fit", data, "--model", "average:3", *options) == 2
    assert "no graph meets the constraints" in capsys.readouterr().err
