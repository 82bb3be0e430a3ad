"""Classification with junction trees beside scikit-learn's naive Bayes and logistic regression.

    python benchmarks/classification.py --data FOLDER --sets voting,tic-tac-toe

FOLDER holds the raw UCI files that instances/README.md lists, and adult.data.gz. The table shows means over
the folds of a stratified cross-validation: accuracy, log loss (nats), area under the ROC curve (one class
against the rest, averaged over classes), and processor seconds to fit and predict, all folds together.
Classes with fewer rows than folds are left out. Columns with many distinct numbers are quantities: junction
trees and naive Bayes cut them at quartiles, logistic regression scales them. All other values are states.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from publishing import publish
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import CategoricalNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, OrdinalEncoder, StandardScaler

from jtsolve.core.machine import cores
from jtsolve.estimator import DataWarning, JunctionTreeClassifier

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "instances"))
from raw_tables import RECIPES, Recipe

if TYPE_CHECKING:
    from collections.abc import Iterable

ADULT = Recipe(
    name="adult",
    file="adult.data.gz",
    sha256="",
    columns=(
        "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
        "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country",
        "class",
    ),
)  # fmt: skip
"""B. Becker and R. Kohavi, UCI 1996. No shipped instance comes from it, so its hash is not recorded."""

CLASSES = {"voting": "party"}
"""Class columns that are not called "class"."""

SETS = "tic-tac-toe,voting,lymph,tumor,flare,nursery,hypothyroid,mushroom,adult"
COLUMNS = ("set", "rows", "features", "classes", "model", "accuracy", "log loss", "ROC AUC", "s", "s / NB")
MOST_STATES = 31
"""Columns with more distinct numbers are quantities, as in the estimators."""


def read(name: str, folder: Path) -> tuple[pd.DataFrame, pd.Series]:
    """Returns the features of a set, quantities as numbers and all else as words, and the classes."""
    recipe = ADULT if name == "adult" else RECIPES[name]
    path = folder / recipe.file
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("ascii")
    lines = [line for line in text.splitlines()[recipe.skip :] if line.strip()]
    cells = [[cell.strip() for cell in line.split(recipe.separator)] for line in lines]
    frame = pd.DataFrame(cells, columns=list(recipe.columns)).drop(columns=list(recipe.drop))
    for column in frame:
        numbers = pd.to_numeric(frame[column], errors="coerce")
        if numbers.notna().all() and numbers.nunique() > MOST_STATES:
            frame[column] = numbers
    return frame, frame.pop(CLASSES.get(name, "class"))


def models(X: pd.DataFrame, treewidth: int) -> dict[str, Any]:
    """Returns the classifiers by name; the encoders have all values of the set."""
    numbers = [column for column in X if X[column].dtype.kind in "if"]
    words = [column for column in X if column not in numbers]
    values = [np.unique(X[column].to_numpy(dtype=object).astype(str)) for column in words]
    bins = KBinsDiscretizer(4, encode="ordinal", quantile_method="averaged_inverted_cdf")
    coded = make_column_transformer((OrdinalEncoder(categories=values), words), (bins, numbers))
    scaled = make_column_transformer((OneHotEncoder(categories=values), words), (StandardScaler(), numbers))
    states = [value.size for value in values] + [4] * len(numbers)
    return {
        "junction tree, joint": JunctionTreeClassifier(treewidth),
        "junction trees, class-conditional": JunctionTreeClassifier(treewidth, trees="class-conditional"),
        "CategoricalNB": make_pipeline(coded, CategoricalNB(min_categories=states)),
        "LogisticRegression": make_pipeline(scaled, LogisticRegression(max_iter=1000)),
    }


def measured(model: Any, X: pd.DataFrame, y: pd.Series, folds: int) -> tuple[float, float, float, float]:
    """Returns accuracy, log loss, area under the ROC curve, and processor seconds."""
    found = []
    seconds = 0.0
    for train, test in StratifiedKFold(folds, shuffle=True, random_state=0).split(X, y):
        began = time.process_time()
        model.fit(X.iloc[train], y.iloc[train])
        shares = model.predict_proba(X.iloc[test])
        seconds += time.process_time() - began
        truth, classes = y.iloc[test], model.classes_
        ranked = shares[:, 1] if classes.size == 2 else shares
        area = roc_auc_score(truth, ranked, multi_class="ovr", labels=classes)
        right = accuracy_score(truth, classes[shares.argmax(axis=1)])
        found.append((right, log_loss(truth, shares, labels=classes), area))
    accuracy, loss, area = np.mean(found, axis=0).tolist()
    return accuracy, loss, area, seconds


def table(names: Iterable[str], folder: Path, treewidth: int, folds: int) -> Iterable[list[str]]:
    """Yields the rows of the table."""
    for name in names:
        X, y = read(name, folder)
        kept = y.map(y.value_counts()) >= folds
        X, y = X[kept].reset_index(drop=True), y[kept].reset_index(drop=True)
        runs = {label: measured(model, X, y, folds) for label, model in models(X, treewidth).items()}
        for label, (accuracy, loss, area, seconds) in runs.items():
            size = [name, str(len(X)), str(X.shape[1]), str(y.nunique())]
            figures = [f"{accuracy:.3f}", f"{loss:.3f}", f"{area:.3f}"]
            yield [*size, label, *figures, f"{seconds:.2f}", f"{seconds / runs['CategoricalNB'][3]:.1f}"]


def main() -> None:
    """Measures all sets and prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of the raw UCI files")
    parser.add_argument("--sets", default=SETS)
    parser.add_argument("--treewidth", type=int, default=2)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--output", type=Path, help="where to write the table, as .csv")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", DataWarning)
    rows = []
    for row in table(arguments.sets.split(","), arguments.data, arguments.treewidth, arguments.folds):
        print(*row, flush=True)
        rows.append(dict(zip(COLUMNS, row, strict=True)))
    publish(rows, COLUMNS, cores(), arguments.output)


if __name__ == "__main__":
    main()
