"""Chordalysis beside `forward` on density-estimation sets: scores, edges, processor seconds.

    javac -d CLASSES -cp LIBRARIES -sourcepath src src/core/explorer/*BIC.java src/loader/LoadArrays.java
    CLASSPATH=CLASSES:LIBRARIES python benchmarks/chordalysis.py --data FOLDER --output chordalysis

The first command compiles, in a clone of fpetitjean/Chordalysis, its search with BIC (F. Petitjean, G. I.
Webb, Scaling log-linear analysis to datasets with thousands of variables, SDM 2015); the libraries are
JGraphT 0.8.3 and Commons Math 3. Without CLASSPATH, only `forward` runs. Both read the training splits,
FOLDER/NAME.train.data.gz, with the states that jtsolve finds, and jtsolve scores both trees.

Times are processor seconds, medians of `--repeat` runs. "search" is the first search of a program, with
the compilation by Java's threads; "again" is a later search of the same program, for `forward` with scoring
and verification. "program" and "command" are whole programs: Chordalysis reads prepared numbers, and
`forward` is the command `jtsolve solve`.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from publishing import publish
from state_rows import read_states

from jtsolve.backends.registry import REGISTRY
from jtsolve.core.run import Limits, Run
from jtsolve.core.tree import JunctionTree
from jtsolve.scoring.problem import problem_from_table
from jtsolve.scoring.scores.bic import Bic
from jtsolve.solving import solve
from jtsolve.tables.options import Coding

if TYPE_CHECKING:
    from jtsolve.core.problem import Problem
    from jtsolve.core.varset import VarSet
    from jtsolve.tables.table import DataTable

SETS = "nltcs,plants,baudio,jester,bnetflix,accidents,dna,kosarek,msnbc,kdd"
COLUMNS = [
    "set",
    "clique size",
    "Chordalysis",
    "forward",
    "edges",
    "edges that differ",
    "Chordalysis: search s",
    "again s",
    "program s",
    "forward: again s",
    "command s",
]
SEARCH = """
import core.explorer.ChordalysisModellingBIC;
import java.lang.management.ManagementFactory;
import java.nio.file.*;
import java.util.*;
import loader.LoadArrays;

class Search {
    static int[] numbers(String line) {
        return Arrays.stream(line.split(" ")).mapToInt(Integer::parseInt).toArray();
    }

    public static void main(String[] words) throws Exception {
        List<int[]> rows = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(words[0]))) rows.add(numbers(line));
        int[] states = rows.remove(0);
        int[][] codes = rows.toArray(new int[0][]);
        int size = Integer.parseInt(words[1]);
        var machine = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        ChordalysisModellingBIC search = null;
        for (int left = Integer.parseInt(words[2]); left > 0; left--) {
            search = new ChordalysisModellingBIC(LoadArrays.makeModelData(states, codes), size);
            long began = machine.getProcessCpuTime();
            search.buildModel();
            System.out.print((machine.getProcessCpuTime() - began) / 1e9 + " ");
        }
        System.out.println();
        var graph = search.getModel().graph;
        for (var edge : graph.edgeSet())
            System.out.println(graph.getEdgeSource(edge) + " " + graph.getEdgeTarget(edge));
    }
}
"""
"""Reads the numbers of states and the rows; arguments: the clique size and the number of searches; prints
seconds of each search, and the edges."""


def run(command: list[str]) -> tuple[str, float]:
    """Returns the output of a program, and its processor seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def chordalysis(table: DataTable, size: int, folder: Path, repeat: int) -> tuple[JunctionTree, list[float]]:
    """Returns the tree of Chordalysis; seconds of its first search, of a later one, and of the program."""
    data = folder / "rows.txt"
    with data.open("w", encoding="ascii") as stream:
        print(*map(len, table.states), file=stream)
        np.savetxt(stream, table.codes.T, fmt="%d")
    path = os.pathsep.join([str(folder), os.environ["CLASSPATH"]])
    command = ["java", "-XX:+UseSerialGC", "-Xmx6g", "-cp", path, "Search", str(data), str(size)]
    runs = [run([*command, "1"]) for _ in range(repeat)]
    again = run([*command, str(2 * repeat)])[0].splitlines()[0].split()[repeat:]
    neighbours: list[VarSet] = [0] * table.n
    for line in runs[0][0].splitlines()[1:]:
        u, v = map(int, line.split())
        neighbours[u] |= 1 << v
        neighbours[v] |= 1 << u
    first = [float(text.splitlines()[0]) for text, _ in runs]
    seconds = [median(first), median(map(float, again)), median(used for _, used in runs)]
    return JunctionTree.from_neighbours(neighbours), seconds


def forward(table: DataTable, size: int, repeat: int) -> tuple[Problem, JunctionTree, float]:
    """Returns the problem, the tree, and the seconds of a search with loaded kernels."""
    backend, limits, searches = REGISTRY["forward"], Limits(threads=1), []
    for _ in range(repeat + 1):
        began = time.process_time()
        problem = problem_from_table(table, Bic(), treewidth=size - 1, run=Run(limits), backend=backend)
        tree = solve(problem, backend, Run(limits)).tree
        searches.append(time.process_time() - began)
    assert tree is not None
    return problem, tree, median(searches[1:])


def measure(name: str, size: int, arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Returns the row of a set and a clique size."""
    path = arguments.data / f"{name}.train.data.gz"
    table = read_states(path, Coding(), header=False, separator=",")
    problem, tree, search = forward(table, size, arguments.repeat)
    command = [sys.executable, "-m", "jtsolve", "solve", str(path), "--read", "header=false"]
    command += ["--score", "bic", "--treewidth", str(size - 1), "--backend", "forward"]
    command += ["--threads", "1", "--quiet"]
    row = {
        "set": name,
        "clique size": size,
        "forward": f"{tree.score(problem.scores):.1f}",
        "forward: again s": f"{search:.2f}",
        "command s": f"{median(run(command)[1] for _ in range(arguments.repeat)):.2f}",
    }
    if "CLASSPATH" in os.environ:
        theirs, (first, again, program) = chordalysis(table, size, folder, arguments.repeat)
        row |= {
            "Chordalysis": f"{theirs.score(problem.scores):.1f}",
            "edges": theirs.edge_count,
            "edges that differ": len(theirs.edge_sets ^ tree.edge_sets),
            "Chordalysis: search s": f"{first:.2f}",
            "again s": f"{again:.2f}",
            "program s": f"{program:.2f}",
        }
    print(row, file=sys.stderr, flush=True)
    return row


def main() -> None:
    """Measures all cases and prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of the data")
    parser.add_argument("--sets", default=SETS)
    parser.add_argument("--sizes", default="3,4", help="sizes of the largest clique")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--output", type=Path, help="where to write the table, as .csv")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "CLASSPATH" in os.environ:
            (folder / "Search.java").write_text(SEARCH, encoding="utf-8")
            run(["javac", "-d", str(folder), str(folder / "Search.java")])
        cases = product(arguments.sets.split(","), map(int, arguments.sizes.split(",")))
        rows = [measure(each, size, arguments, folder) for each, size in cases]
    publish(rows, COLUMNS, 1, arguments.output)


if __name__ == "__main__":
    main()
