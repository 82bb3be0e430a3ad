"""The report of a comparison: figures, charts, files, and the page in a browser."""

from __future__ import annotations

import csv
import io
import itertools
import math
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from statistics import fmean
from typing import TYPE_CHECKING

import msgspec
import pytest
from comparisons import changed, compared, make_instance, make_plan, make_row, make_spec
from problems import gaussian

from jtsolve.compare.reporting import charts, exports
from jtsolve.compare.reporting.judge import Fault
from jtsolve.compare.reporting.page import html
from jtsolve.compare.reporting.report import write_report
from jtsolve.compare.reporting.tables import Comparison
from jtsolve.compare.running.run import file_digest
from jtsolve.compare.spec import InstanceFile, RunStatus, new_row
from jtsolve.core.problem import Problem, Variable
from jtsolve.core.result import Status
from jtsolve.io.instance import write_problem

if TYPE_CHECKING:
    from pathlib import Path

    from jtsolve.compare.spec import Row

TEXT = "{http://www.w3.org/2000/svg}text"
NAMES = [f"i{number}" for number in range(6)]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """Two treewidths of six instances by an exact backend and two heuristics, and three failures."""
    folder = tmp_path_factory.mktemp("instances")
    instances = [make_instance(folder, name, n=4 + at % 2, seed=at) for at, name in enumerate(NAMES)]
    found = [
        make_row(make_spec(instance, backend, treewidth=width, time_limit=600.0))
        for instance in instances
        for width in (1, 2)
        for backend in ("brute", "forward", "lns")
    ]
    failures = {
        RunStatus.CRASHED: "the process ended by signal SIGSEGV: <b>&amp; bits",
        RunStatus.OUT_OF_TIME: "killed after 6.0 s",
        RunStatus.REFUSED: "It does not.",
    }
    for seed, (status, message) in enumerate(failures.items()):
        spec = make_spec(instances[0], "dp", treewidth=1, seed=seed)
        found.append(msgspec.structs.replace(new_row(spec, status, message), seconds=6.0))
    return found


@pytest.fixture(scope="module")
def comparison(rows: list[Row]) -> Comparison:
    return compared(rows)


@pytest.fixture
def few(rows: list[Row]) -> list[Row]:
    """Two treewidths of one instance, and the failures: each problem has a chart, which takes a while."""
    return [row for row in rows if row.spec.instance.label == NAMES[0]]


# Figures


def test_the_best_known_is_the_highest_score_and_distances_are_below_it(comparison: Comparison) -> None:
    for problem in comparison.problems.values():
        scores = [r.score for r in comparison.records if r.problem == problem.key and r.score is not None]
        assert problem.score == max(scores)
        assert problem.gap == 0
    for record in comparison.records:
        if record.score is not None and record.best_known is not None:
            assert record.distance == pytest.approx(record.best_known - record.score)
            assert record.distance is not None
            assert record.is_best == (record.distance <= 1e-6)
    assert {record.treewidth for record in comparison.records} == {1, 2}


def test_backends_are_summed_up(comparison: Comparison, rows: list[Row]) -> None:
    by_name = {one.backend: one for one in comparison.summaries}
    brute = by_name["brute"]
    assert (brute.exact, brute.runs, brute.proved, brute.reached, brute.failed) == (True, 12, 12, 12, 0)
    assert (brute.distance, brute.seconds) == (0.0, 1.5)
    assert brute.memory == max(r.peak_memory or 0 for r in rows if r.spec.backend == "brute") / 1e9
    dp = by_name["dp"]
    assert (dp.exact, dp.runs, dp.proved, dp.declined, dp.failed) == (None, 3, 0, 1, 2)
    assert (dp.distance, dp.memory) == (None, None)
    forward = by_name["forward"]
    own = [r.distance for r in comparison.records if r.backend == "forward" and r.distance is not None]
    assert forward.distance == pytest.approx(fmean(own))


def test_solving_time_is_distinguished_from_starting_time(rows: list[Row]) -> None:
    row = next(row for row in rows if row.spec.backend == "brute")
    assert row.result is not None
    seconds = {**row.result.seconds, "total": 2.25}
    slow = msgspec.structs.replace(changed(row, seconds=seconds), prepared=2.0, seconds=2.5)
    comparison = compared([slow])
    (record,) = comparison.records
    assert (record.seconds, record.starting, record.solving) == (2.5, 2.0, 0.25)
    (summary,) = comparison.summaries
    assert (summary.seconds, summary.starting, summary.solving) == (2.5, 2.0, 0.25)
    head, (cells,) = exports.backends_table(comparison)
    for of_head in (
        dict(zip(head, cells, strict=True)),
        dict(zip(exports.RUN_HEADS, exports.run_cells(record), strict=True)),
    ):
        assert [of_head[name] for name in ("s", "starting", "solving")] == ["2.5", "2", "0.25"]


def test_a_run_that_never_started_has_no_starting_time(comparison: Comparison) -> None:
    (dp,) = (one for one in comparison.summaries if one.backend == "dp")
    assert (dp.starting, dp.solving) == (None, None)


def test_no_figure_of_a_faulty_run_counts(few: list[Row]) -> None:
    row = few[0]
    assert row.result is not None
    assert row.result.score is not None
    liar = changed(row, score=row.result.score + 100, bound=row.result.score + 100)
    liar = msgspec.structs.replace(liar, spec=msgspec.structs.replace(row.spec, backend="liar"))
    comparison = Comparison([*few, liar], [Fault("wrong answer", "It lies.", (liar.spec.id,))], 10)
    problem = comparison.problems[row.spec.problem]
    assert problem.score == row.result.score
    record = next(record for record in comparison.records if record.backend == "liar")
    assert (record.faulty, record.distance, record.is_proved, record.is_best) == (True, None, False, False)
    summary = next(one for one in comparison.summaries if one.backend == "liar")
    assert (summary.proved, summary.failed) == (0, 1)
    assert not any(">liar<" in chart.svg for chart in every(comparison))
    assert "(FAULT)" in html(comparison, make_plan(few))


def test_an_infeasible_problem_is_proved_and_has_no_best(rows: list[Row]) -> None:
    nothing: dict[str, object] = {"score": None, "bound": None, "gap": 0.0, "treewidth": None}
    no_tree: dict[str, object] = {"cliques": [], "separators": [], "tree_edges": [], "trace": []}
    row = changed(rows[0], status=Status.INFEASIBLE, **nothing, **no_tree)
    comparison = compared([row])
    (problem,) = comparison.problems.values()
    assert (problem.infeasible, problem.score, problem.gap) == (True, None, None)
    assert comparison.records[0].is_proved
    assert exports.problems_table(comparison)[1][0][3:] == ["infeasible", "–", "–", "infeasible"]
    page = html(comparison, make_plan([row]))
    assert "infeasible" in page
    assert "No run proved anything" not in page


def test_auto_is_exact_only_if_all_of_its_members_are(rows: list[Row]) -> None:
    first, second = (
        msgspec.structs.replace(row, spec=msgspec.structs.replace(row.spec, backend="auto"))
        for row in (rows[0], msgspec.structs.replace(rows[3], exact=False))
    )
    assert compared([first, second]).exact == {"auto": False}


# Charts


def every(comparison: Comparison) -> list[charts.Chart]:
    return [*charts.proved_within(comparison), *charts.anytime(comparison)]


def with_times(rows: list[Row], times: list[float], below: list[float]) -> Comparison:
    """Runs that ended at these times, with incumbents that much below the best known score."""
    found = []
    for row, seconds in zip(rows, itertools.cycle(times), strict=False):
        if row.result is None or row.result.score is None:
            continue
        score = row.result.score
        trace = [(seconds, score - distance, None) for distance in below]
        found.append(msgspec.structs.replace(changed(row, trace=trace), seconds=seconds))
    return compared(found)


@pytest.mark.parametrize(
    ("times", "below"),
    [
        *(
            (times, [5.0, 0.0])
            for times in (
                [0.0],
                [1.0],
                [1.0, math.nextafter(1.0, 2.0)],
                [0.3, math.nextafter(0.3, 0.0), 0.3 + 1e-15],
                [5e-324, 1e200],
                [0.0011, 9e9],
                *([10.0**power, math.nextafter(10.0**power, 0.0)] for power in (-2, 0, 3, 15)),
            )
        ),
        *(
            ([0.1, 2.0], below)
            for below in ([0.0], [1e-12, 0.0], [0.9, 0.0], [1.0, 0.0], [1e300, 1e5, 1.0, 0.0])
        ),
    ],
)
def test_charts_take_all_times_and_distances(rows: list[Row], times: list[float], below: list[float]) -> None:
    for chart in every(with_times(rows[:3], times, below)):
        assert not re.search(r"nan|inf\b", chart.svg)


def test_every_chart_is_whole_xml_and_equal_charts_are_equal_texts(few: list[Row]) -> None:
    found = every(compared(few))
    assert len(found) == 1 + 2
    for chart in found:
        assert ET.fromstring(chart.svg).tag.endswith("svg")  # noqa: S314 - our own
        assert chart.caption
    identifiers = [set(re.findall(r'id="(p[0-9a-f]+)"', chart.svg)) for chart in found]
    assert sum(map(len, identifiers)) == len(set().union(*identifiers))
    assert [chart.svg for chart in every(compared(few))] == [chart.svg for chart in found]


def test_a_chart_of_a_long_trace_is_small(rows: list[Row]) -> None:
    assert rows[0].result is not None
    best = rows[0].result.score
    assert best is not None
    trace = [(0.01 * 1.0001**step, best - 1000 + step / 20, None) for step in range(20_001)]
    (chart,) = charts.anytime(compared([changed(rows[0], trace=trace)]))
    assert len(chart.svg) < 100_000


def test_the_ninth_backend_is_dashed_in_the_first_colour(rows: list[Row]) -> None:
    nine = [
        msgspec.structs.replace(rows[0], spec=msgspec.structs.replace(rows[0].spec, backend=f"b{at}"))
        for at in range(9)
    ]
    (chart,) = charts.proved_within(compared(nine))
    lines = re.findall(rf'style="fill: none;([^"]*)stroke: {charts.COLOURS[0]}', chart.svg)
    assert ["dasharray" in line for line in lines] == [False, True] * (len(lines) // 2)


def test_the_cactus_counts_proofs(comparison: Comparison) -> None:
    (proved,) = charts.proved_within(comparison)
    assert ">brute<" in proved.svg
    assert ">dp<" not in proved.svg  # it has no result
    assert charts.proved_within(compared([])) == []


def test_names_are_no_markup(tmp_path: Path) -> None:
    names = ["<script>x</script>", "a & b", "$x_2$", "</svg>", "#1f6fb4"]
    path = tmp_path / "i.json"
    write_problem(Problem(tuple(map(Variable, names)), gaussian(7, 5), name="<b>"), path)
    row = make_row(make_spec(InstanceFile(str(path), "</title><script>", file_digest(path))))
    text = html(compared([row]), make_plan([row]))
    assert text.count("<script>") == text.count("</script>") == 1


# Files


def test_all_files_agree(few: list[Row], tmp_path: Path) -> None:
    comparison = compared(few)
    paths = write_report(comparison, make_plan(few), tmp_path)
    assert sorted(path.name for path in paths) == sorted(path.name for path in tmp_path.iterdir())
    lines = list(csv.DictReader(io.StringIO((tmp_path / "runs.csv").read_text(encoding="utf-8"))))
    assert len(lines) == len(few)
    for line, record in zip(lines, comparison.records, strict=True):
        assert line["run"] == record.run
        assert line["score"] == ("" if record.score is None else repr(record.score))
        assert line["message"] == record.message


def test_numbers_for_people() -> None:
    texts = [exports.short(value) for value in (None, 0.0, 0.012345, 123.4, -250.6)]
    assert texts == ["–", "0", "0.0123", "123", "-251"]
    assert exports.nats(None) == "–"


# The page


def test_the_page_needs_nothing_from_outside(few: list[Row]) -> None:
    page = html(compared(few), make_plan(few))
    assert not re.search(r"""(?:src|href)=["'](?!#|data:)""", page)
    assert "http" not in page.replace("http://www.w3.org", "")
    assert not re.search(r"url\((?!#)", page)
    assert "&lt;b&gt;&amp;amp; bits" in page
    assert 'id="faults"' not in page
    assert "no two runs contradict" in page
    assert "jtsolve solve " in page


def test_faults_are_a_red_section_of_the_page(few: list[Row]) -> None:
    fault = Fault("score above bound", "One <has> more.", (few[0].spec.id, few[1].spec.id))
    page = html(Comparison(few, [fault], 50), make_plan(few))
    assert 'id="faults"' in page
    assert "1 fault: do not trust these results" in page
    assert "One &lt;has&gt; more." in page
    assert page.count('class="faulty"') == 2
    assert "are missing" in page


def test_a_page_of_nothing_says_so(rows: list[Row]) -> None:
    page = html(compared([]), make_plan(rows))
    assert "No run proved anything" in page


@pytest.fixture(scope="module")
def chromium() -> str:
    """A browser; CI has to have one."""
    for name in ("chromium", "google-chrome"):
        if (path := shutil.which(name)) is not None:
            return path
    if os.environ.get("CI"):
        pytest.fail("chromium is not installed, and CI must open the report in it: apt-get install chromium")
    pytest.skip("chromium is not installed")


def browse(chromium: str, page: Path, *options: str) -> list[str]:
    """Opens a page, takes a screenshot beside it, and returns its console output."""
    command = [
        chromium,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
        f"--user-data-dir={page.parent / 'profile'}",
        "--enable-logging=stderr",
        "--v=0",
        f"--screenshot={page.with_suffix('.png')}",
        *options,
        page.as_uri(),
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)  # noqa: S603
    return [line for line in done.stderr.splitlines() if ":CONSOLE" in line]


PROBE = """<script>
const table = document.querySelector("#runs table");
const column = Array.from(table.tHead.rows[0].cells).findIndex((head) => head.textContent === "score");
const values = () => Array.from(table.tBodies[0].rows).map((row) => row.cells[column].textContent);
const head = table.tHead.rows[0].cells[column];
head.click(); console.log("UP", values().join(" "));
head.click(); console.log("DOWN", values().join(" "));
console.log("WIDTH", document.documentElement.scrollWidth, innerWidth);
const dark = matchMedia("(prefers-color-scheme: dark)").matches;
console.log("DARK", dark, getComputedStyle(document.body).backgroundColor);
</script>"""


def test_the_page_opens_in_a_browser_without_errors_and_sorts(
    chromium: str, comparison: Comparison, rows: list[Row], tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    page.write_text(html(comparison, make_plan(rows)), encoding="utf-8")
    assert browse(chromium, page, "--window-size=1200,3000") == []
    picture = page.with_suffix(".png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 30_000
    probe = tmp_path / "probe.html"
    probe.write_text(page.read_text(encoding="utf-8") + PROBE, encoding="utf-8")
    said = browse(chromium, probe, "--window-size=500,900", "--blink-settings=preferredColorScheme=0")
    up, down, width, dark = (line.partition('"')[2].rpartition('"')[0].split()[1:] for line in said)
    known = [float(text) for text in up if text != "–"]
    assert known == sorted(known)
    assert len(known) == 36
    assert up[-3:] == down[-3:] == ["–"] * 3
    assert [float(text) for text in down[:-3]] == known[::-1]
    assert int(width[0]) <= int(width[1])  # nothing sticks out of a narrow window
    assert dark[0] == "true"
    assert dark[1:] == ["rgb(18,", "22,", "28)"]


def test_a_page_with_an_error_would_be_noticed(chromium: str, tmp_path: Path) -> None:
    page = tmp_path / "broken.html"
    page.write_text("<!DOCTYPE html><script>nothing.there()</script>", encoding="utf-8")
    (said,) = browse(chromium, page)
    assert "ReferenceError" in said
