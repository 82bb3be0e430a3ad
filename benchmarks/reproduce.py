"""Reproduces the tables and pictures of docs/benchmarks.md, script by script.

    python benchmarks/reproduce.py --data FOLDER --output docs/benchmarks --images docs/images

`--list` lists the benchmarks with their data and times; `--only exact gaps` runs some; `--page` runs none and
rewrites the tables of the page from the stored results; `--quick` runs small sizes, as a test. FOLDER holds
the public data sets, in the folders `uci`, `density`, `networks` and `scores`. Each script runs in a separate
process. If a script fails or lacks its data, that is reported, the others continue, and the exit code is 1.
The output of scripts that only print is stored in OUTPUT/NAME.txt. OUTPUT/runs.csv has date, machine and
command of each result.
"""

from __future__ import annotations

import argparse
import csv
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import page

from jtsolve.core.machine import cores, describe_machine

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One row of the table: a script and its arguments.

    Args:
        name: of the row, and of its files.
        shows: the measurement, in a few words.
        minutes: expected on two cores, roughly.
        arguments: the script and its arguments; {data}, {output} and {images} are folders.
        quick: the same, for small sizes.
        needs: files below the data folder.
    """

    name: str
    shows: str
    minutes: float
    arguments: str
    quick: str
    needs: tuple[str, ...] = ()

    @property
    def writes(self) -> bool:
        """Whether the script writes its own table; otherwise its output is kept."""
        return "{output}" in self.arguments


PLANTS, NLTCS = "density/plants.train.data.gz", "density/nltcs.train.data.gz"

BENCHMARKS = (
    Benchmark(
        "partitions",
        "scoring by partitions on Dask beside threads, and a model of the time of larger clusters",
        10,
        "partitions.py --rows 5000000 --columns 20 --size 3 --output {output}/partitions",
        "partitions.py --rows 20000 --columns 6 --size 2 --output {output}/partitions",
    ),
    Benchmark(
        "selection",
        "weak edges found over junction trees and without, on the settings of Vats and Nowak",
        30,
        "selection.py compare --trials 50 --output {output}/selection",
        "selection.py compare --settings CH1 --rows 300 --trials 1 --output {output}/selection",
    ),
    Benchmark(
        "covariance",
        "decomposable covariances of held-out days, beside TMFG and MFCF",
        3,
        "covariance.py {data}/gaussian/stockdata.csv.gz --columns 100 --seconds 10 60",
        "covariance.py {data}/gaussian/stockdata.csv.gz --columns 12 --seconds 2",
        ("gaussian/stockdata.csv.gz",),
    ),
    Benchmark(
        "private",
        "error of private tables from greedy and optimal clique trees",
        5,
        "private.py {data}/density/nltcs.train.data.gz --no-header --cells 8 --epsilon 0.1 1 10",
        "private.py {data}/density/nltcs.train.data.gz --no-header --cells 4 --epsilon 1 --seeds 1",
        (NLTCS,),
    ),
    Benchmark(
        "private_adult",
        "the same for Adult",
        3,
        "private.py {data}/uci/adult.data.gz --no-header --cells 10000 --epsilon 0.1 1 10",
        "private.py {data}/uci/adult.data.gz --no-header --cells 100 --epsilon 1 --seeds 1 --seconds 1",
        ("uci/adult.data.gz",),
    ),
    Benchmark(
        "selection_speed",
        "seconds of graph selection, beside scikit-learn",
        5,
        "selection.py speed --output {output}/selection_speed",
        "selection.py speed --tasks path40 --output {output}/selection_speed",
    ),
    Benchmark(
        "dp_speed",
        "time and memory of dp; beside junctor, where it is installed",
        10,
        "dp_speed.py --cases 12:12,13:13,14:14,15:15,16:16,18:18,16:3,18:3,18:4 "
        "--junctor 12:12,13:13,14:14,15:15,16:3 --output {output}/dp_speed",
        "dp_speed.py --cases 10:10,12:3 --junctor 10:10 --repeat 1 --output {output}/dp_speed",
    ),
    Benchmark(
        "averaging",
        "time and memory of averages over decomposable graphs",
        10,
        "averaging.py",
        "averaging.py sums 8",
    ),
    Benchmark(
        "averaging_network",
        "edges of the network alarm found by chains, and whether the chains converged",
        2,
        "averaging.py network {data}/networks/alarm.bif.gz:10000:4:8000 "
        "{data}/networks/alarm.bif.gz:1000:4:2000",
        "averaging.py network {data}/networks/alarm.bif.gz:100:2:100",
        ("networks/alarm.bif.gz",),
    ),
    Benchmark(
        "averaging_predict",
        "test log-likelihood of drawn trees beside the best one, on nltcs",
        2,
        "averaging.py predict {data}/density/nltcs:3:100 {data}/density/nltcs:3:500 {data}/density/nltcs:3 "
        "{data}/density/nltcs:4:100 {data}/density/nltcs:4:500 {data}/density/nltcs:4",
        "averaging.py predict {data}/density/nltcs:2:100",
        (NLTCS, NLTCS.replace("train", "test")),
    ),
    Benchmark(
        "dp_22",
        "dp at 22 variables and treewidth 3; 20 GB",
        6,
        "dp_speed.py --cases 22:4 --repeat 1 --warm-up 0 --output {output}/dp_22",
        "dp_speed.py --cases 14:4 --repeat 1 --warm-up 0 --junctor 14:4 --output {output}/dp_22",
    ),
    Benchmark(
        "classification",
        "classifiers of the estimators beside those of scikit-learn",
        5,
        "classification.py --data {data}/uci --sets tic-tac-toe,voting,nursery,lymph,flare,hypothyroid "
        "--output {output}/classification",
        "classification.py --data {data}/uci --sets voting --folds 2 --output {output}/classification",
        ("uci/tic-tac-toe.data",),
    ),
    Benchmark(
        "mixed",
        "mixed trees beside cut columns and Gaussian trees",
        10,
        "mixed.py --data {data}/uci --seconds 15 --output {output}/mixed",
        "mixed.py --data {data}/uci --sets wine --splits 1 --seconds 1 --output {output}/mixed",
        ("uci/adult.data.gz", "uci/ann-train.data.gz"),
    ),
    Benchmark(
        "certified",
        "certified averages, and chains beside them",
        15,
        "certified.py --data {data} --chains 30 --output {output}/certified",
        "certified.py --cases zoo:1 --limit 10 --output {output}/certified",
        ("networks/alarm.bif.gz", "density/plants.train.data.gz"),
    ),
    Benchmark(
        "exact",
        "proofs by clutter on real data",
        5,
        "exact.py --backends clutter --cases zoo:4,voting:4,tumor:4,lymph:4,hypothyroid:2,hypothyroid:3,"
        "hypothyroid:4,mushroom:2,mushroom:3,nltcs:2,nltcs:3,alarm:2,alarm:3 --time-limit 120 --data {data} "
        "--output {output}/exact",
        "exact.py --backends clutter dp --cases bridges:2 --time-limit 60 --output {output}/exact",
        ("scores/alarm_10000.dat.gz", NLTCS),
    ),
    Benchmark(
        "exact_solvers",
        "proofs by maxsat, ilp and cpsat",
        1,
        "exact.py --backends maxsat ilp cpsat --cases zoo:2,voting:2 --time-limit 120 "
        "--output {output}/exact_solvers",
        "exact.py --backends ilp cpsat --cases nursery:2 --time-limit 60 --output {output}/exact_solvers",
    ),
    Benchmark(
        "networks",
        "proofs on samples of random networks, with and without a relaxation",
        5,
        "networks.py --time-limit 120 --backends maxsat ilp cpsat maxsat:relaxation=none "
        "ilp:relaxation=none cpsat:relaxation=none --output {output}/networks",
        "networks.py --backends dp clutter --seeds 1 --variables 8 --treewidth 2 --time-limit 60 "
        "--output {output}/networks",
    ),
    Benchmark(
        "agreement",
        "whether all exact backends agree, on 2,000 random problems",
        60,
        "agreement.py --output {output}/agreement",
        "agreement.py --count 8 --backends dp,brute,clutter --time-limit 20 --output {output}/agreement",
    ),
    Benchmark(
        "kangas_figures",
        "time against n by treewidth: Figures 2 and 3 of Kangas et al. (2014)",
        120,
        "figures.py --backends dp ilp ilp:relaxation=none --output {output}/kangas_figures "
        "--draw {images}/kangas_figures.png",
        "figures.py --backends dp --variables 8 10 --sizes 3 inf --seeds 1 --instances nursery "
        "--time-limit 60 --output {output}/kangas_figures --draw {images}/kangas_figures.png",
    ),
    Benchmark(
        "score_speed",
        "local scores from data, beside numpy and pandas",
        10,
        "score_speed.py --data {data} --repeat 3 --threads 1,2 --output {output}/score_speed",
        "score_speed.py --data {data} --repeat 1 --threads 1 --output {output}/score_speed",
        ("uci/agaricus-lepiota.data.gz", PLANTS),
    ),
    Benchmark(
        "score_large",
        "local scores from files of five million rows",
        4,
        "score_speed.py --large {output}/large --output {output}/score_large",
        "score_speed.py --large {output}/large --rows 20000 --output {output}/score_large",
    ),
    Benchmark(
        "objects",
        "reading columns of Python objects, beside pandas.factorize",
        2,
        "objects.py --output {output}/objects",
        "objects.py --rows 20000 --output {output}/objects",
    ),
    Benchmark(
        "lem_curve",
        "test log-likelihood over the number of rows: Figure 2 of the paper on LEM",
        30,
        "lem_curve.py --data {data} --journal {output}/lem_curve.jsonl --output {output}/lem_curve "
        "--draw {images}/lem_curve.png",
        "lem_curve.py --data {data} --rows 100 --folds 1 --seconds 1 --journal {output}/lem_curve.jsonl "
        "--output {output}/lem_curve --draw {images}/lem_curve.png",
        ("networks/alarm.bif.gz", NLTCS.replace("nltcs", "msnbc"), "uci/adult.data.gz", "uci/adult.test.gz"),
    ),
    Benchmark(
        "anytime",
        "lns beside the best known scores, on density-estimation sets",
        8,
        "anytime.py --data {data} --backends lns --seconds 30 --threads 2 --seeds 1 "
        "--output {output}/anytime",
        "anytime.py --data {data} --cases nltcs:3 --backends lns --seconds 2 --output {output}/anytime",
        (NLTCS, PLANTS),
    ),
    Benchmark(
        "anytime_all",
        "trees of all heuristics over time",
        10,
        "anytime.py --data {data} --seconds 10 --threads 1 "
        "--cases nltcs:4,plants:4,jester:3,bnetflix:3,accidents:4,dna:4 "
        "--output {output}/anytime_all --draw {images}/anytime.png",
        "anytime.py --data {data} --cases nltcs:3 --backends forward,lns --seconds 2 "
        "--output {output}/anytime_all --draw {images}/anytime.png",
        (NLTCS, PLANTS),
    ),
    Benchmark(
        "anytime_uci",
        "seconds until lns finds the optima of the shipped instances",
        10,
        "anytime.py --uci --seeds 5 --output {output}/anytime_uci",
        "anytime.py --uci --seeds 1 --output {output}/anytime_uci",
    ),
    Benchmark(
        "chordalysis",
        "forward beside Chordalysis, where CLASSPATH has it: scores, edges, seconds",
        10,
        "chordalysis.py --data {data}/density --output {output}/chordalysis",
        "chordalysis.py --data {data}/density --sets nltcs --repeat 1 --output {output}/chordalysis",
        (NLTCS, PLANTS),
    ),
    Benchmark(
        "gaps",
        "score and bound of jtsolve solve over time, on three seeds",
        45,
        "gaps.py --data {data} --threads 2 --output {output}/gaps --draw {images}/gaps.png",
        "gaps.py --data {data} --cases nltcs:2:3,insurance:2:2 --rows 300 --threads 2 --seeds 0 "
        "--output {output}/gaps --draw {images}/gaps.png",
        (NLTCS, PLANTS, "networks/insurance.bif.gz"),
    ),
    Benchmark(
        "density20",
        "score and bound of jtsolve solve on the twenty sets of density estimation",
        360,
        "density20.py --data {data}/density --treewidths 1 2 3 --seconds 60 600 --threads 2 "
        "--output {output}/density20",
        "density20.py --data {data}/density --sets nltcs --treewidths 1 2 --seconds 1 5 --threads 2 "
        "--output {output}/density20",
        (NLTCS, PLANTS),
    ),
    Benchmark(
        "scale",
        "jtsolve solve on 1,000 and 5,000 variables",
        25,
        "scale.py --data {data} --cases drawn:1000:2,book:1000:2,drawn:5000:2,book:5000:2 --seeds 1 2 3 "
        "--seconds 30 --output {output}/scale",
        "scale.py --cases drawn:60:2 --rows 200 --seconds 3 --output {output}/scale",
        ("density/book.train.data.gz",),
    ),
    Benchmark(
        "alarm_curve",
        "test log-likelihood over the number of rows: Figure 2(b) of Chechetka and Guestrin",
        60,
        "alarm_curve.py {data}/networks/alarm.bif.gz --output {output}/alarm_curve "
        "--draw {images}/alarm_curve.png",
        "alarm_curve.py {data}/networks/alarm.bif.gz --rows 100 --seeds 1 --methods chowliu:bic,lns:bic "
        "--seconds 3 --test-rows 1000 --output {output}/alarm_curve --draw {images}/alarm_curve.png",
        ("networks/alarm.bif.gz",),
    ),
    Benchmark(
        "density",
        "test log-likelihoods of single trees",
        40,
        "density.py --data {data}/density --sizes 2,4,5,6 --time 30 --threads 1 --output {output}/density",
        "density.py --data {data}/density --sets nltcs --sizes 2 --time 2 --output {output}/density",
        (NLTCS, PLANTS),
    ),
    Benchmark(
        "mixtures",
        "test log-likelihoods of mixtures of trees",
        60,
        "density.py --data {data}/density --mixtures --sets plants,nltcs,baudio,jester,bnetflix "
        "--sizes 2,3 --components 2,4,8,16 --single 4,6 --time 30 --threads 1 --output {output}/mixtures",
        "density.py --data {data}/density --sets nltcs --mixtures --sizes 2 --components 1,2 --single 2 "
        "--time 2 --output {output}/mixtures",
        (NLTCS, PLANTS),
    ),
    Benchmark(
        "mixtures_limited",
        "the same on larger sets, each within four minutes",
        60,
        "density.py --data {data}/density --mixtures --sizes 3 --components 1,2,4,8,16 --single 2 "
        "--limit 240 --sets dna,tretail,kosarek,accidents,kdd,msnbc,book,pumsb_star,msweb,tmovie,cwebkb,cr52,"
        "c20ng,bbc,ad --output {output}/mixtures_limited",
        "density.py --data {data}/density --sets nltcs --mixtures --sizes 2 --components 2 --single 2 "
        "--time 2 --limit 4 --output {output}/mixtures_limited",
        (NLTCS, PLANTS),
    ),
    Benchmark(
        "hidden",
        "test log-likelihoods of hidden Chow-Liu trees",
        60,
        "density.py --data {data}/density --hidden 16,32,64 --trees 3 --limit 1100 --output {output}/hidden",
        "density.py --data {data}/density --sets nltcs --hidden 2 --limit 4 --output {output}/hidden",
        (NLTCS, PLANTS),
    ),
    Benchmark(
        "contexts",
        "test log-likelihoods of context trees",
        60,
        "density.py --data {data}/density --contexts --sizes 3 --limit 600 --output {output}/contexts",
        "density.py --data {data}/density --sets nltcs --contexts --sizes 2 --limit 4 "
        "--output {output}/contexts",
        (NLTCS, PLANTS),
    ),
    Benchmark(
        "models",
        "speed of queries, beside pyAgrum and pgmpy",
        10,
        "models.py --data {data} --repeat 3 --output {output}/models",
        "models.py --cases narrow --rows 1000 --their-rows 100 --repeat 1 --output {output}/models",
        ("networks/alarm.bif.gz", "networks/munin1.bif.gz"),
    ),
    Benchmark(
        "predictions",
        "predicted against measured time and memory of every backend",
        20,
        "predictions.py --output {output}/predictions",
        "predictions.py --instances instances/uci/nursery.json.gz --backends chowliu,dp --treewidths 1,2 "
        "--output {output}/predictions",
    ),
    Benchmark(
        "limits",
        "overrun of time limits",
        10,
        "limits.py --output {output}/limits",
        "limits.py --backends chowliu --repeat 1 --output {output}/limits",
    ),
    Benchmark(
        "facets",
        "whether inequalities on four or five variables cut off solutions of the LP that leave a gap",
        20,
        "facets.py --problems 4000 --sizes 6 7 8",
        "facets.py --problems 10 --sizes 6",
    ),
)


def missing(benchmark: Benchmark, data: Path | None, *, quick: bool) -> list[str]:
    """Returns the missing requirements of the benchmark."""
    if "{data}" not in (benchmark.quick if quick else benchmark.arguments):
        return []
    if data is None:
        return ["--data FOLDER"]
    return [str(data / path) for path in benchmark.needs if not (data / path).exists()]


def command_of(benchmark: Benchmark, arguments: argparse.Namespace) -> list[str]:
    """Returns the script and its arguments."""
    text = benchmark.quick if arguments.quick else benchmark.arguments
    folders = {"data": arguments.data, "output": arguments.output, "images": arguments.images}
    return [word.format(**folders) for word in shlex.split(text)]


def run(benchmark: Benchmark, arguments: argparse.Namespace) -> tuple[str, str]:
    """Runs a benchmark; returns its command and its outcome."""
    if lacking := missing(benchmark, arguments.data, quick=arguments.quick):
        return "", f"not run: {', '.join(lacking)} is missing"
    script, *rest = command_of(benchmark, arguments)
    print(f"=== {benchmark.name}: {script} {shlex.join(rest)}", flush=True)
    began = time.monotonic()
    ended = subprocess.run(
        [sys.executable, str(HERE / script), *rest],
        check=False,
        stdout=None if benchmark.writes else subprocess.PIPE,
        text=True,
    )
    if not benchmark.writes:
        print(ended.stdout, flush=True)
        (arguments.output / f"{benchmark.name}.txt").write_text(ended.stdout, encoding="utf-8")
    state = "done" if ended.returncode == 0 else f"failed with exit code {ended.returncode}"
    return f"{script} {shlex.join(rest)}", f"{state}, {time.monotonic() - began:.0f} s"


def summary(rows: list[tuple[str, str, str]]) -> str:
    """Returns the outcomes as a Markdown table."""
    lines = ["| benchmark | command | |", "|---|---|---|"]
    lines += [f"| {name} | `{command}` | {ended} |" for name, command, ended in rows]
    return "\n".join(lines) + "\n"


def record(output: Path, rows: list[tuple[str, str, str]]) -> None:
    """Records date, machine and command of the successful scripts in runs.csv."""
    facts = describe_machine(cores())
    columns = ["name", "date", "machine", "command"]
    machine = f"{facts['processor']}, {facts['threads']} threads"
    kept = output / "runs.csv"
    runs: dict[str, dict[str, str]] = {}
    if kept.exists():
        runs = {run["name"]: run for run in page.read(output, "runs")}
    for name, command, ended in rows:
        if ended.startswith("done") and (output / f"{name}.csv").exists():
            cells = (name, time.strftime("%Y-%m-%d"), machine, f"python benchmarks/{command}")
            runs[name] = dict(zip(columns, cells, strict=True))
    with kept.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(runs[name] for name in sorted(runs))


def catalogue(data: Path | None) -> str:
    """Returns the list of benchmarks."""
    lines = []
    for one in BENCHMARKS:
        lacking = missing(one, data, quick=False)
        note = f"; needs {', '.join(lacking)}" if lacking else ""
        lines.append(f"{one.name:<18}{one.minutes:>5g} min  {one.shows}{note}")
    return "\n".join(lines)


def main(words: list[str]) -> int:
    """Runs the chosen scripts; returns the exit code."""
    names = [one.name for one in BENCHMARKS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--only", nargs="+", choices=names, metavar="NAME", help="names in the list; default: all"
    )
    parser.add_argument("--page", action="store_true", help="rewrite the page from the stored results")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--list", action="store_true", help="list the benchmarks; run none")
    parser.add_argument("--data", type=Path, help="the folder of the data sets")
    parser.add_argument("--output", type=Path, default=Path("reproduced"), help="folder of the tables")
    parser.add_argument("--images", type=Path, help="folder of the pictures; default: that of the tables")
    arguments = parser.parse_args(words)
    if arguments.page:
        page.write()
        return 0
    if arguments.list:
        print(catalogue(arguments.data))
        return 0
    arguments.images = arguments.images or arguments.output
    for folder in (arguments.output, arguments.images):
        folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for benchmark in BENCHMARKS:
        if arguments.only is None or benchmark.name in arguments.only:
            rows.append((benchmark.name, *run(benchmark, arguments)))
            record(arguments.output, rows)
    if arguments.output.resolve() == page.DOCS / "benchmarks":
        page.write()
    print(summary(rows))
    return 0 if all(ended.startswith("done") for _, _, ended in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
