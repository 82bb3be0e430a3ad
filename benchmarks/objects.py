"""Speed of reading columns of Python objects, beside `pandas.factorize`.

    python benchmarks/objects.py --output docs/benchmarks/objects

A column of a million objects, drawn from a few distinct ones: shared, or a new object in each row, and with
a twentieth of them missing. Processor seconds of `pandas.factorize` and of reading a frame with the column;
the fastest of three runs. The target is a ratio of at most 2.
"""

from __future__ import annotations

import argparse
import sys
from decimal import Decimal
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from publishing import publish

from jtsolve.tables.reading import read_raw

if TYPE_CHECKING:
    from collections.abc import Callable

COLUMNS = ["objects", "kind", "factorize s", "read s", "ratio"]
POOLS: dict[str, list[Any]] = {
    "int": list(range(20)),
    "float": [i + 0.5 for i in range(20)],
    "text": [f"t{i}" for i in range(20)],
    "bool": [True, False],
    "int and float": [*range(10), *(i + 0.5 for i in range(10))],
    "bool and int": [True, False, 0, 1, 2, 3],
    "bool, int and float": [True, False, 0, 1, 2.0, 0.5],
    "Decimal and int": [*map(Decimal, ("0.5", "1.5", "2")), *range(5)],
    "numpy.float64 and int": [*map(np.float64, (0.5, 1.5, 2, 7)), *range(10)],
    "numbers and texts": [*range(10), *map(float, range(10)), *map(str, range(10))],
}


def column(pool: list[Any], kind: str, rows: int) -> pd.Series:
    """Returns a column of objects of a pool."""
    random = np.random.default_rng(0)
    drawn = [pool[place] for place in random.integers(0, len(pool), rows)]
    if kind == "fresh":
        drawn = [again(value) for value in drawn]
    if kind == "gaps":
        drawn = [
            None if gone else value for gone, value in zip(random.random(rows) < 0.05, drawn, strict=True)
        ]
    return pd.Series(drawn, dtype=object)


def again(value: Any) -> Any:
    """Returns an equal value, a new object where the type has more than a few."""
    if isinstance(value, str):
        return "".join([*value])
    return value if isinstance(value, bool) else type(value)(str(value))


def fastest(work: Callable[[Any], object], data: Any) -> float:
    """Returns processor seconds."""
    seconds = []
    for _ in range(3):
        began = process_time()
        work(data)
        seconds.append(process_time() - began)
    return min(seconds)


def main(arguments: list[str]) -> int:
    """Measures all kinds of columns; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--output", type=Path, help="write FILE.csv")
    chosen = parser.parse_args(arguments)
    lines = []
    for name, pool in POOLS.items():
        for kind in ("shared", "fresh", "gaps"):
            cells = column(pool, kind, chosen.rows)
            frame = cells.to_frame("x")
            theirs, ours = fastest(pd.factorize, cells), fastest(read_raw, frame)
            figures = (f"{theirs:.3f}", f"{ours:.3f}", f"{ours / theirs:.2f}")
            lines.append(dict(zip(COLUMNS, (name, kind, *figures), strict=True)))
    publish(lines, COLUMNS, 1, chosen.output)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
