"""Makes the instances in `instances/uci` from the raw UCI files: BDeu scores, equivalent sample size 1.

    python instances/make_uci.py --data FOLDER [NAME ...]

The raw files are not part of this project; `instances/README.md` lists them. The output is deterministic.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from jtsolve import __version__
from jtsolve.core.problem import Problem, Variable
from jtsolve.errors import InputError
from jtsolve.io.instance import write_problem
from jtsolve.scoring.scorers import make_scorer
from jtsolve.scoring.scores.bdeu import Bdeu
from jtsolve.scoring.tabulate import tabulate_with
from raw_tables import RECIPES, Recipe, read_table

ESS = 1.0
"""The equivalent sample size of Kangas et al. (2014)."""

UNBOUNDED_VARIABLES = 13
"""Up to this n all 2^n sets are scored (flare: 8192 values); beyond, the file would be too large."""

MAX_SIZE = 5
"""Size of the largest scored sets beyond `UNBOUNDED_VARIABLES`: enough for treewidth 4."""


def make_problem(recipe: Recipe, data: Path) -> Problem:
    """Returns the problem of a data set whose raw file is in `data`.

    Raises:
        InputError: the raw file is missing or different.
    """
    table = read_table(recipe, data)
    max_size = table.n if table.n <= UNBOUNDED_VARIABLES else MAX_SIZE
    scores = tabulate_with(make_scorer(table, Bdeu(ESS), max_size), max_size)
    return Problem(
        variables=tuple(map(Variable, table.names, table.states)),
        scores=scores,
        name=recipe.name,
        provenance={
            "data": recipe.file,
            "sha256_unpacked": recipe.sha256,
            "source": "UCI Machine Learning Repository",
            "rows": table.rows if recipe.rows is None else f"the first {table.rows}",
            "columns_dropped": list(recipe.drop),
            **table.provenance,
            "score": "bdeu",
            "ess": ESS,
            "command": f"python instances/make_uci.py --data FOLDER {recipe.name}",
            "jtsolve": __version__,
        },
    )


def main(arguments: list[str]) -> int:
    """Makes the named instances, or all; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of the raw UCI files")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "uci", help="where to write")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(RECIPES)}; default: all")
    chosen = parser.parse_args(arguments)
    unknown = [name for name in chosen.names if name not in RECIPES]
    if unknown:
        parser.error(f"no such data set: {', '.join(unknown)}; there are {', '.join(RECIPES)}")
    chosen.output.mkdir(parents=True, exist_ok=True)
    for name in chosen.names or RECIPES:
        started = time.monotonic()
        try:
            problem = make_problem(RECIPES[name], chosen.data)
        except InputError as error:
            print(error, file=sys.stderr)
            return 2
        write_problem(problem, chosen.output / f"{name}.json.gz")
        print(f"{name}: {problem.n} variables, {time.monotonic() - started:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
