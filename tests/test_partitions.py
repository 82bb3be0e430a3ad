"""Tables in partitions: read, coded and scored by a cluster as by one machine."""

from __future__ import annotations

from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from readers import read_states

import jtsolve as jt
from jtsolve.cli import run
from jtsolve.cluster import Cluster, Workers
from jtsolve.core.run import Limits, Run
from jtsolve.core.scores import DenseScores
from jtsolve.errors import ChoiceError, InputError, LimitError
from jtsolve.io.instance import read_problem
from jtsolve.models.files.document import read_model
from jtsolve.models.model import JunctionTreeModel
from jtsolve.scoring.kernels.statistics import count_occupied
from jtsolve.scoring.problem import problem_from_table
from jtsolve.scoring.scores.bdeu import Bdeu
from jtsolve.scoring.scores.bic import Bic
from jtsolve.scoring.scores.qnml import Qnml
from jtsolve.tables.options import Coding, Discretisation
from jtsolve.tables.partitions import read_partitioned

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from jtsolve.scoring.score import DiscreteScore


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows in four files, one of them empty; a value of `word` occurs in the last file only."""
    generator = np.random.default_rng(1)
    rows = pl.DataFrame(
        {
            "word": [*generator.choice(["no", "yes", "perhaps"], 300).tolist(), "never"],
            "whole": generator.integers(0, 4, 301),
            "real": generator.normal(size=301).round(2),
            "gaps": [None if u < 0.1 else int(9 * u) for u in generator.random(301)],
            "times": generator.integers(1, 3, 301),
        }
    )
    place = tmp_path_factory.mktemp("rows")
    for name, start, count in ((1, 0, 120), (2, 120, 0), (3, 120, 100), (10, 220, 81)):
        rows.slice(start, count).write_parquet(place / f"part.{name}.parquet")
    return place


@pytest.fixture
def cluster(workers: Workers) -> Cluster:
    return Cluster(client=workers.client)


BIC = Bic()
CUT = Discretisation.parse("quantile:3")
CODINGS = {
    "state": Coding(missing="state", discretise=CUT),
    "drop-rows": Coding(missing="drop-rows", discretise=CUT, drop=("times",)),
    "drop-columns": Coding(missing="drop-columns", discretise=CUT),
    "impute-mode": Coding(missing="impute-mode", discretise=CUT, weights="times"),
    "columns": Coding(columns=("whole", "word")),
}


def problems(
    folder: Path, cluster: Cluster, coding: Coding, score: DiscreteScore = BIC, size: int = 3, **how: Any
) -> tuple[Any, Any]:
    whole = read_states(folder, coding)
    parts = read_partitioned(folder, coding, cluster, **how)
    return (
        problem_from_table(whole, score, max_size=min(size, whole.n)),
        problem_from_table(parts, score, max_size=min(size, parts.n)),
    )


@pytest.mark.parametrize("missing", CODINGS)
def test_partitions_are_coded_and_scored_as_one_table(folder: Path, cluster: Cluster, missing: str) -> None:
    one, parts = problems(folder, cluster, CODINGS[missing])
    assert parts.variables == one.variables
    assert parts.rows == one.rows
    assert parts.ceilings == one.ceilings
    assert isinstance(parts.scores, DenseScores)
    assert (parts.scores.values == one.scores.values).all()
    facts = {"missing", "weights", "cuts", "missing_values", "columns_dropped", "rows", "score"}
    assert all(parts.provenance.get(fact) == one.provenance.get(fact) for fact in facts)


@pytest.mark.parametrize("score", [Bdeu(2.0), Qnml()])
def test_scores_are_equal_to_the_last_bit_for_any_blocks(
    folder: Path, cluster: Cluster, score: DiscreteScore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jtsolve.scoring.tabulate.room_for_statistics", lambda _workers: 500.0)
    one, parts = problems(folder, cluster, CODINGS["state"], score, rows=60)
    assert (parts.scores.values == one.scores.values).all()


def test_cells_beyond_bins_are_counted_by_sorting(folder: Path, cluster: Cluster) -> None:
    coding = Coding(columns=("real", "times", "word", "whole"), states=("real",))
    one, parts = problems(folder, cluster, coding, Bdeu(), size=4)
    assert (parts.scores.values == one.scores.values).all()


def test_a_schema_skips_the_first_pass(
    folder: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema: dict[str, Any] = {"word": ("no", "yes", "perhaps", "never"), "real": (-1.0, 0.0, 1.0)}
    coding = Coding(columns=("word", "real"), schema=schema)
    read: list[str] = []
    submit = Workers.submit

    def watched(self: Workers, function: Callable[..., Any], *arguments: Any) -> Any:
        read.append(function.__name__)
        return submit(self, function, *arguments)

    monkeypatch.setattr(Workers, "submit", watched)
    _, parts = problems(folder, cluster, coding)
    assert read.count("surveyed") == 1
    assert parts.rows == 301
    short = replace(coding, schema={**schema, "word": ("no", "yes", "perhaps")})
    with pytest.raises(InputError, match=r"part.10.parquet: .*'never' is not among its declared states"):
        problem_from_table(read_partitioned(folder, short, cluster), Bic(), max_size=1)
    gaps = Coding(columns=("gaps",), schema={"gaps": tuple("012345678")})
    with pytest.raises(InputError, match="missing values: there are 10 in 'gaps'"):
        problem_from_table(read_partitioned(folder, gaps, cluster), Bic(), max_size=1)


def test_blocks_shrink_where_memory_lacks_and_single_sets_are_refused(
    folder: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jtsolve.scoring.kernels.statistics.count_occupied", _short_of_memory)
    ASKED.clear()
    one, parts = problems(folder, cluster, CODINGS["columns"], size=2)
    assert (parts.scores.values == one.scores.values).all()
    assert max(ASKED) > ENOUGH >= min(ASKED)
    monkeypatch.setattr("test_partitions.ENOUGH", 0)
    with pytest.raises(LimitError, match="a worker lacks the memory to count a single set"):
        problems(folder, cluster, CODINGS["columns"])


ASKED: list[int] = []
ENOUGH = 2


def _short_of_memory(sets: NDArray[np.int64], *arguments: Any) -> Any:
    """Counts as a worker that has the memory for few sets."""
    ASKED.append(len(sets))
    if len(sets) > ENOUGH:
        raise MemoryError
    return count_occupied(sets, *arguments)


def test_the_time_limit_and_wrong_choices_end_it(folder: Path, cluster: Cluster) -> None:
    table = read_partitioned(folder, CODINGS["columns"], cluster)
    with pytest.raises(LimitError, match="on demand"):
        problem_from_table(table, Bic(), max_size=2, run=Run(Limits(time=1e-9)))
    with pytest.raises(ChoiceError, match="mdlp"):
        read_partitioned(folder, Coding(discretise=Discretisation.parse("mdlp:word")), cluster)
    with pytest.raises(InputError, match="'gaps'"):
        read_partitioned(folder, Coding(discretise=CUT), cluster)
    with pytest.raises(InputError, match="column 'real'"):
        read_partitioned(folder, Coding(drop=("gaps",)), cluster)
    with pytest.raises(ChoiceError, match="no partitions"):
        read_partitioned({"a": [1]}, Coding(), cluster)


def test_dask_frames_are_read_and_partitions_unlike_the_first_are_named(
    folder: Path, cluster: Cluster
) -> None:
    frames = pytest.importorskip("dask.dataframe")
    delayed = pytest.importorskip("dask").delayed
    coding = CODINGS["state"]
    rows = pl.read_parquet(folder / "*.parquet").with_columns(pl.col("gaps").cast(pl.Float64)).to_pandas()
    data = frames.from_pandas(rows, npartitions=3)
    parts = read_partitioned(data, coding, cluster)
    whole = read_states(rows, coding)
    assert parts.states == whole.states
    scores = problem_from_table(parts, Bic(), max_size=2).scores
    assert isinstance(scores, DenseScores)
    expected = problem_from_table(whole, Bic(), max_size=2).scores
    assert isinstance(expected, DenseScores)
    assert (scores.values == expected.values).all()
    pieces = [rows[:100], rows[100:100], rows[100:].drop(columns="word")]
    odd = frames.from_delayed([delayed(piece) for piece in pieces], meta=rows[:0], verify_meta=False)
    with pytest.raises(InputError, match="partition 2: columns: there is no column 'word'"):
        read_partitioned(odd, coding, cluster)


def test_learn_accepts_dask_frames_and_folders_and_fits_models(folder: Path, workers: Workers) -> None:
    frames = pytest.importorskip("dask.dataframe")
    coding: dict[str, Any] = {"columns": ("word", "whole", "times"), "show_progress": False}
    one = jt.learn(folder, treewidth=1, score="bdeu:ess=2", **coding)
    parts = jt.learn(folder, treewidth=1, score="bdeu:ess=2", executor=workers.client, **coding)
    assert (parts.cliques, parts.score) == (one.cliques, one.score)
    model, expected = parts.fit(), one.fit()
    assert repr(model) == repr(expected)
    rows = pl.read_parquet(folder / "*.parquet").to_pandas()
    assert list(model.loglik(rows)) == list(expected.loglik(rows))
    with workers.client.as_current():
        framed = jt.learn(frames.from_pandas(rows, npartitions=2), treewidth=1, score="bdeu:ess=2", **coding)
    assert framed.score == one.score
    with pytest.raises(ChoiceError, match="scores real numbers"):
        jt.learn(folder, executor=workers.client, score="bge", **coding)


def test_the_command_scores_a_pattern_on_workers(
    folder: Path,
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(Cluster, "named", lambda _name, _workers: cluster)
    words = ["score", f"{folder}/*.parquet", "--columns", "word,whole", "--max-size", "2", "--output"]
    dask = ["--executor", "dask"]
    assert run([*words, str(tmp_path / "a.json"), *dask], monotonic()) == 0
    assert "4 sets, " in capsys.readouterr().out
    assert run([*words, str(tmp_path / "b.json")], monotonic()) == 0
    one, other = (read_problem(tmp_path / f"{name}.json") for name in "ab")
    assert one.name == other.name == folder.name
    assert one.scores.extremes() == other.scores.extremes()


def test_the_command_fits_by_partitions(
    folder: Path,
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(Cluster, "named", lambda _name, _workers: cluster)
    words = ["fit", str(folder), "--columns", "word,whole", "--treewidth", "1", "--quiet", "--output"]
    assert run([*words, str(tmp_path / "one.json")], monotonic()) == 0
    assert run([*words, str(tmp_path / "parts.json"), "--executor", "dask"], monotonic()) == 0
    one, parts = (read_model(tmp_path / name) for name in ("one.json", "parts.json"))
    assert isinstance(one, JunctionTreeModel)
    assert isinstance(parts, JunctionTreeModel)
    assert parts.values.tolist() == one.values.tolist()
    dask = [str(tmp_path / "x.json"), "--executor", "dask"]
    for option in (["--model", "features"], ["--model", "mixture:components=2"]):
        assert run([*words, *dask, *option], monotonic()) == 2
        assert "all rows in one place" in capsys.readouterr().err
