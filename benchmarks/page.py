"""Fills the tables of docs/benchmarks.md from the stored results in docs/benchmarks.

A table of the page is between `<!-- NAME -->` and `<!-- end -->`; the function NAME below writes it, followed
by the machine, the date and the command of each of its results, from `runs.csv`.
"""

from __future__ import annotations

import csv
import re
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Row = dict[str, str]
DOCS = Path(__file__).resolve().parents[1] / "docs"
_MARKED = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def read(folder: Path, name: str) -> list[Row]:
    """Returns the rows of a stored result."""
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def filled(page: str, folder: Path) -> str:
    """Returns the page with its tables regenerated from the results in `folder`."""
    return _MARKED.sub(lambda found: found[1] + TABLES[found[2]](folder) + found[3], page)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a Markdown table: the first column is text, the others are numbers."""
    lines = ["| " + " | ".join(line) + " |" for line in [head, *rows]]
    return "\n".join([lines[0], "|---" + "|--:" * (len(head) - 1) + "|", *lines[1:], ""])


def source(folder: Path, *names: str) -> str:
    """Returns machine, date and command of results, one line for those that share machine and date."""
    runs = {run["name"]: run for run in read(folder, "runs")}
    lines = []
    for (machine, date), same in groupby(names, key=lambda name: (runs[name]["machine"], runs[name]["date"])):
        lines.append(f"{machine}, {date}: `reproduce.py --only {' '.join(same)}`")
    return "\n" + ";\n".join(lines) + ".\n"


def number(text: str, digits: int = 1) -> str:
    """Returns a number with separators and a true minus sign."""
    return f"{float(text):,.{digits}f}".replace("-", "−") if text else ""


def columns(folder: Path, name: str, chosen: dict[str, str]) -> str:
    """Returns columns of one result, under other headings: {heading: column}."""
    rows = [[row[column] for column in chosen.values()] for row in read(folder, name)]
    return table(list(chosen), rows) + source(folder, name)


def dp(folder: Path) -> str:
    """Returns time and memory of `dp`, beside Junctor."""
    head = ["treewidth", "variables", "seconds", "GB", "GB predicted", "Junctor, seconds", "ratio"]
    names = ["treewidth", "n", "seconds", "peak GB", "predicted GB", "junctor s", "junctor/jtsolve"]
    rows = read(folder, "dp_speed") + read(folder, "dp_22")
    return table(head, [[row[name] for name in names] for row in rows]) + source(folder, "dp_speed", "dp_22")


def gaps(folder: Path) -> str:
    """Returns the worst seed of each case: its score, and the time of its proof or its gap.

    The sets of density estimation are left out: `density20` has them.
    """
    elsewhere = _variables(folder)
    cases = [row for row in read(folder, "gaps") if row["set"] not in elsewhere]
    rows = []
    for (name, n, width), same in groupby(cases, key=lambda row: (row["set"], row["n"], row["treewidth"])):
        runs = list(same)
        score = min(float(run["score"]) for run in runs)
        found = max(float(run["found at"]) for run in runs)
        proved = [float(run["proved at"]) for run in runs if run["proved at"] != "no"]
        share = f"{len(proved)} of {len(runs)}"
        open_gaps = [run["gap at 120 s"] for run in runs if run["proved at"] == "no"]
        widest = max(open_gaps, key=lambda text: float(text.removesuffix(" %")), default="")
        seconds = f"{share} ({widest})" if open_gaps else f"{max(proved):.1f}"
        rows.append([f"{name}, {n}", width, number(str(score)), f"{found:.1f}", seconds])
    head = ["data, variables", "treewidth", "score", "found at, s", "proved at, s (gap at 120 s)"]
    return table(head, rows) + source(folder, "gaps")


def heuristics(folder: Path) -> str:
    """Returns scores of Chordalysis, `forward` and `lns` on density-estimation sets."""
    found = {(row["set"], row["clique size"]): row["score"] for row in read(folder, "anytime")}
    rows = [
        [
            f"{row['set']}, {int(row['clique size']) - 1}",
            *(number(row[name]) for name in ("Chordalysis", "forward")),
            number(found[row["set"], row["clique size"]]),
            row["program s"],
            row["command s"],
        ]
        for row in read(folder, "chordalysis")
        if (row["set"], row["clique size"]) in found
    ]
    head = ["data, treewidth", "Chordalysis", "`forward`", "`lns`, 30 s", "Chordalysis, s", "`forward`, s"]
    return table(head, rows) + source(folder, "chordalysis", "anytime")


def scale(folder: Path) -> str:
    """Returns `jtsolve solve` beside `forward`, the worst of the seeds."""
    rows = []
    for (data, n), same in groupby(read(folder, "scale"), key=lambda row: (row["data"], row["variables"])):
        runs = list(same)
        plain, forward = ([run for run in runs if run["backend"] == name] for name in ("auto", "forward"))
        gain = min(
            float(one["score"]) - float(other["score"]) for one, other in zip(plain, forward, strict=True)
        )
        rows.append(
            [
                f"{data}, {int(n):,}",
                *(
                    f"{max(float(run[name]) for run in plain):.1f}"
                    for name in ("first tree s", "beats forward s")
                ),
                f"{max(float(run['last better s']) for run in forward):.1f}",
                f"+{gain:,.0f}",
                f"{max(float(run['peak GB']) for run in runs):.2f}",
            ]
        )
    head = [
        "data, variables",
        "first tree, s",
        "ahead of `forward` at, s",
        "`forward` ends, s",
        "gain, nats",
        "GB",
    ]
    return table(head, rows) + source(folder, "scale")


def density20(folder: Path) -> str:
    """Returns score, bound and gap of `jtsolve solve` on the sets of density estimation."""
    known = {(row["set"], row["treewidth"], row["seconds"]): row for row in read(folder, "density20")}

    def cells(name: str, width: str) -> list[str]:
        """Returns the last score and bound, and the gaps at 60 and 600 s; a proof counts for both."""
        early, late = (known.get((name, width, seconds), {}) for seconds in ("60", "600"))
        late = late or (early if early.get("gap") == "proved" else {})
        scores = [number((late or early).get(column, "")) for column in ("score", "bound")]
        return scores + [one.get("gap", "").removesuffix(" %") for one in (early, late)]

    rows = [
        [f"{name}, {n}", cells(name, "1")[0], *cells(name, "2"), *cells(name, "3")]
        for name, n in _variables(folder).items()
    ]
    head = [f"{what}, {width}" for width in (2, 3) for what in ("score", "bound", "60 s", "600 s")]
    return table(["data, variables", "score, 1", *head], rows) + source(folder, "density20")


def _variables(folder: Path) -> dict[str, str]:
    """Returns the numbers of variables of the sets of density estimation, in their usual order."""
    return {row["set"]: row["variables"] for row in read(folder, "rivals")}


def density(folder: Path) -> str:
    """Returns, for each family, the test log-likelihood of its model with the best validation likelihood."""
    families = {
        "tree": ("density",),
        "mixture": ("mixtures", "mixtures_limited"),
        "context tree": ("contexts",),
        "hidden tree": ("hidden",),
    }
    best: dict[str, dict[str, Row]] = {}
    for family, names in families.items():
        for row in (row for name in names for row in read(folder, name)):
            known = best.setdefault(row["set"], {})
            if family not in known or float(row["valid"]) > float(known[family]["valid"]):
                known[family] = row
    rows = []
    for rival in read(folder, "rivals"):
        known = best.get(rival["set"], {})
        chosen = max(known, key=lambda family: float(known[family]["valid"]), default="")
        cells = [number(known[one]["test"], 3) if one in known else "" for one in families]
        cells = [f"**{cell}**" if one == chosen else cell for one, cell in zip(families, cells, strict=True)]
        rows.append([rival["set"], *cells, number(rival["test"], 2)])
    return table(["data", *families, "HCLT"], rows) + source(
        folder, "density", "mixtures", "mixtures_limited", "contexts", "hidden"
    )


def selection(folder: Path) -> str:
    """Returns the graphical lasso over a junction tree, beside the plain one with as many edges."""
    rows = []
    for (graph, n), same in groupby(read(folder, "selection"), key=lambda row: (row["graph"], row["rows"])):
        if n != "500":
            continue
        runs = {row["method"]: row for row in same}
        pair = [runs[f"glasso {name}"] for name in ("equal", "tree")]
        cells = [run[measure].split()[0] for measure in ("WEDR", "FDR", "ED") for run in pair]
        rows.append([graph, *cells])
    head = [f"{what}, {how}" for what in ("weak", "false", "distance") for how in ("plain", "tree")]
    return table(["graph", *head], rows) + source(folder, "selection")


def classification(folder: Path) -> str:
    """Returns accuracy and log loss by model."""
    rows = []
    models = {
        "joint tree": "junction tree, joint",
        "tree per class": "junction trees, class-conditional",
        "naive Bayes": "CategoricalNB",
        "logistic regression": "LogisticRegression",
    }
    for name, same in groupby(read(folder, "classification"), key=lambda row: row["set"]):
        runs = {row["model"]: row for row in same}
        rows.append(
            [name, *(f"{runs[model]['accuracy']}, {runs[model]['log loss']}" for model in models.values())]
        )
    return table(["data", *models], rows) + source(folder, "classification")


def mixed(folder: Path) -> str:
    """Returns nats per row and accuracy by model."""
    rows, models = [], dict[str, None]()
    for name, same in groupby(read(folder, "mixed"), key=lambda row: row["set"]):
        runs = {row["model"]: row for row in same}
        models |= dict.fromkeys(runs)
        cells = [f"{_nats(one['nats'])}, {one['accuracy']}" for one in runs.values()]
        rows.append([name, *cells])
    return table(["data", *models], rows) + source(folder, "mixed")


def _nats(text: str) -> str:
    """Returns nats per row; −∞ for a density of 0, or one that vanishes in cells with one training row."""
    return "−∞" if text and float(text) < -1e6 else number(text, 2) or "–"


def queries(folder: Path) -> str:
    """Returns rows or marginals per processor second, by task and program."""
    runs: dict[str, dict[str, str]] = {}
    for row in read(folder, "models"):
        task = f"munin1, {row['work']}" if row["case"] == "network" else f"{row['case']}, {row['work']}"
        if row["program"] != "jtsolve" and row["case"] != "network":  # other programs have fewer rows
            task = next(reversed(runs))
        runs.setdefault(task, {})[row["program"]] = f"{float(row['per second'].split()[0]):,.0f}"
    programs = sorted({program for found in runs.values() for program in found})
    rows = [[task, *(found.get(program, "") for program in programs)] for task, found in runs.items()]
    return table(["task", *programs], rows) + source(folder, "models")


def results(folder: Path) -> str:
    """Returns links to all stored results."""
    return ", ".join(f"[{run['name']}](benchmarks/{run['name']}.csv)" for run in read(folder, "runs")) + ".\n"


TABLES: dict[str, Callable[[Path], str]] = {
    "dp": dp,
    "gaps": gaps,
    "heuristics": heuristics,
    "scale": scale,
    "density": density,
    "density20": density20,
    "selection": selection,
    "classification": classification,
    "mixed": mixed,
    "queries": queries,
    "certified": partial(
        columns,
        name="certified",
        chosen={
            "data": "data",
            "treewidth": "treewidth",
            "columns": "variables",
            "ln Z − ln best ≥": "log_evidence_low",
            "≤": "log_evidence_high",
            "widest edge": "widest",
            "open": "open",
            "s": "wall",
            "processor s": "seconds",
            "GB": "gigabytes",
            "chains": "chains",
        },
    ),
    "results": results,
    "agreement": partial(
        columns,
        name="agreement",
        chosen={
            "backend": "backend",
            "runs": "ran",
            "optimal": "optimal",
            "infeasible": "infeasible",
            "unproved": "unfinished",
            "wrong": "wrong",
            "contradictions": "disagree",
        },
    ),
    "scores": partial(
        columns,
        name="score_speed",
        chosen={
            "data": "data",
            "sets": "sets",
            "threads": "threads",
            "seconds": "seconds",
            "`numpy.unique`, ratio": "unique/jtsolve",
            "pandas, ratio": "pandas/jtsolve",
        },
    ),
}


PAGES = (DOCS / "benchmarks.md", DOCS / "benchmarks" / "density20.md", DOCS / "certified.md")


def write(folder: Path = DOCS / "benchmarks") -> None:
    """Fills the pages in place."""
    for path in PAGES:
        path.write_text(filled(path.read_text(encoding="utf-8"), folder), encoding="utf-8")
