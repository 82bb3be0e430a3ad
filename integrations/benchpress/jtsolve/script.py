"""Benchpress runs this script with an object `snakemake`: data in, adjacency matrix out."""

import time
from pathlib import Path

import networkx as nx
import pandas as pd

import jtsolve as jt

REAL = ("gaussian-bic", "bge")


def learn(data: str, score: str, treewidth: int, backend: str, limit: float | None) -> pd.DataFrame:
    """Returns the adjacency matrix of the best chordal graph.

    Args:
        data: path of a CSV file; for discrete data, the second line has the numbers of states.
        score: as for `jtsolve solve --score`.
        treewidth: maximum treewidth.
        backend: as for `jtsolve solve --backend`.
        limit: time limit in seconds, or None.
    """
    if score.startswith(REAL):
        frame, states = pd.read_csv(data), {}
    else:
        sizes = pd.read_csv(data, nrows=1).iloc[0]
        frame = pd.read_csv(data, skiprows=[1], dtype=str)
        states = {name: [str(state) for state in range(int(size))] for name, size in sizes.items()}
    schema = {name: known for name, known in states.items() if set(frame[name]) <= set(known)}
    found = jt.learn(
        frame, min(treewidth, frame.shape[1] - 1), score=score, backend=backend, time=limit, schema=schema
    )
    return nx.to_pandas_adjacency(found.graph(), nodelist=list(frame.columns), dtype=int, weight=None)


def main(snakemake) -> None:  # noqa: ANN001 - an object of Snakemake
    """Reads the parameters of the rule, learns, and writes the three files of Benchpress."""
    chosen = snakemake.wildcards
    limit = None if chosen["timeout"] == "None" else float(chosen["timeout"])
    began = time.perf_counter()
    matrix = learn(
        snakemake.input["data"], chosen["score"], int(chosen["treewidth"]), chosen["backend"], limit
    )
    seconds = time.perf_counter() - began
    matrix.to_csv(snakemake.output["adjmat"], index=False)
    for name, text in (("time", str(seconds)), ("ntests", "None")):
        Path(snakemake.output[name]).write_text(text, encoding="utf-8")


if "snakemake" in globals():
    main(snakemake)  # noqa: F821 - defined by Snakemake
