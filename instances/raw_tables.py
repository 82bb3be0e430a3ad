"""The UCI data sets of the instances, and the coding of their raw files.

The sets are those of Table 1 of Kangas, Niinimäki and Koivisto (Learning chordal Markov networks by dynamic
programming, NIPS 2014), and nursery. Coding: the distinct raw values are the states, including "?"; only the
six continuous columns of hypothyroid are discretised; identifiers are dropped, the class is kept.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.errors import InputError
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from pathlib import Path

_RAW_STATES = "distinct raw values are the states, '?' is a state, arity = number of observed values"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to read a raw file.

    Args:
        name: of the instance.
        file: name of the raw file, gzipped if it ends in .gz.
        sha256: of the decompressed file.
        columns: names of all columns, in file order.
        separator: between the values of a row; None for blanks.
        skip: lines before the first row.
        rows: number of rows to take; None for all.
        drop: columns to leave out.
        quartiles: continuous columns, cut at their quartiles.
    """

    name: str
    file: str
    sha256: str
    columns: tuple[str, ...]
    separator: str | None = ","
    skip: int = 0
    rows: int | None = None
    drop: tuple[str, ...] = ()
    quartiles: tuple[str, ...] = ()


def read_table(recipe: Recipe, folder: Path) -> DataTable:
    """Reads and codes a data set; the provenance describes the coding.

    Raises:
        InputError: the file is missing, or is not the one that the recipe is for.
    """
    lines = _unpacked(recipe, folder).decode("ascii").splitlines()[recipe.skip :]
    rows = [tuple(cell.strip() for cell in line.split(recipe.separator)) for line in lines if line.strip()][
        : recipe.rows
    ]
    names, states, coded = [], [], []
    for name, column in zip(recipe.columns, zip(*rows, strict=True), strict=True):
        if name in recipe.drop:
            continue
        cells = _quartile_labels(column) if name in recipe.quartiles else column
        labels = tuple(sorted(set(cells), key=_state_order))
        position = {label: i for i, label in enumerate(labels)}
        names.append(name)
        states.append(labels)
        coded.append([position[cell] for cell in cells])
    coding = _RAW_STATES
    if recipe.quartiles:
        coding += f"; {', '.join(recipe.quartiles)} are cut at the quartiles of their observed values"
    return DataTable(tuple(names), tuple(states), np.array(coded), provenance={"coding": coding})


def _unpacked(recipe: Recipe, folder: Path) -> bytes:
    path = folder / recipe.file
    if not path.is_file():
        raise InputError(
            str(path),
            "",
            "there is no such file",
            "give the folder of the raw UCI files (--data), which are not part of this project",
        )
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != recipe.sha256:
        raise InputError(
            str(path),
            "",
            f"its decompressed content has the sha256 {found}, not {recipe.sha256}, so scores would differ",
            "download the file named in instances/README.md",
        )
    return content


def _quartile_labels(column: tuple[str, ...]) -> list[str]:
    """Cuts numbers at the three interpolated quartiles; a value equal to a cut lies above it."""
    numbers = np.array([float(cell) for cell in column])
    cuts = np.unique(np.quantile(numbers, [0.25, 0.5, 0.75]))
    bounds = [f"{cut:g}" for cut in cuts]
    labels = [f"< {bounds[0]}"]
    labels += [f">= {low}, < {high}" for low, high in pairwise(bounds)]
    labels += [f">= {bounds[-1]}"]
    return [labels[i] for i in np.digitize(numbers, cuts).tolist()]


def _state_order(label: str) -> tuple[int, float, str]:
    """Sort key of states: numbers by value, then ranges by their lower end, then words."""
    if label.startswith("<"):
        return (1, -np.inf, label)
    if label.startswith(">="):
        return (1, float(label[2:].partition(",")[0]), label)
    try:
        return (0, float(label), label)
    except ValueError:
        return (2, 0.0, label)


RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            name="tic-tac-toe",
            file="tic-tac-toe.data",
            sha256="a996a756484d0cf8cbad1680d823aadbfcff8ae2d78c450e6999362d580301c5",
            columns=(
                *(f"{row}-{column}-square" for row in ("top", "middle", "bottom")
                  for column in ("left", "middle", "right")),
                "class",
            ),
        ),
        Recipe(
            name="poker",
            file="poker-hand-training-true.data.gz",
            sha256="37becdf87d5f8cbf2b91d6471e965a25b86cb4a6d878c0f94a4025969fca464f",
            columns=("S1", "C1", "S2", "C2", "S3", "C3", "S4", "C4", "S5", "C5", "class"),
            rows=10_000,
        ),
        Recipe(
            name="bridges",
            file="bridges.data.version1",
            sha256="17f2dd79677ce8ccd64d7ae7e4d62c9ac8789ce361aad8aa5f20b46f9b09165c",
            columns=(
                "IDENTIF", "RIVER", "LOCATION", "ERECTED", "PURPOSE", "LENGTH", "LANES", "CLEAR-G",
                "T-OR-D", "MATERIAL", "SPAN", "REL-L", "TYPE",
            ),
            skip=2,
            drop=("IDENTIF",),
        ),
        Recipe(
            name="flare",
            file="flare.data2",
            sha256="1ac3097d050986c1016754c1506117d353561db06f8d774de0111088f19dda0c",
            columns=(
                "class", "largest_spot_size", "spot_distribution", "activity", "evolution", "past_activity",
                "historically_complex", "hc_past", "area", "area_largest", "C", "M", "X",
            ),
            separator=None,
            skip=1,
        ),
        Recipe(
            name="zoo",
            file="zoo.data",
            sha256="cddc71c26ab9bc82795b8f4ff114cade41885d92720c6af29ffb69bcf73f0315",
            columns=(
                "animal name", "hair", "feathers", "eggs", "milk", "airborne", "aquatic", "predator",
                "toothed", "backbone", "breathes", "venomous", "fins", "legs", "tail", "domestic", "catsize",
                "type",
            ),
            drop=("animal name",),
        ),
        Recipe(
            name="voting",
            file="house-votes-84.data",
            sha256="c87c14110a5ba91d4a1e313ec7392824458152bf071fa5f5452340488337936e",
            columns=(
                "party", "handicapped-infants", "water-project-cost-sharing",
                "adoption-of-the-budget-resolution", "physician-fee-freeze", "el-salvador-aid",
                "religious-groups-in-schools", "anti-satellite-test-ban", "aid-to-nicaraguan-contras",
                "mx-missile", "immigration", "synfuels-corporation-cutback", "education-spending",
                "superfund-right-to-sue", "crime", "duty-free-exports",
                "export-administration-act-south-africa",
            ),
        ),
        Recipe(
            name="tumor",
            file="primary-tumor.data",
            sha256="e60ecb2fc65f48935af1902ff1774b61f45f740617eaf8ac6d8819983ece8325",
            columns=(
                "class", "age", "sex", "histologic-type", "degree-of-diffe", "bone", "bone-marrow", "lung",
                "pleura", "peritoneum", "liver", "brain", "skin", "neck", "supraclavicular", "axillar",
                "mediastinum", "abdominal",
            ),
            separator=None,
        ),
        Recipe(
            name="lymph",
            file="lymphography.data",
            sha256="831fd8a093d1d638a4dd3825ef8a899c2fbed380696478037e515926129152d5",
            columns=(
                "class", "lymphatics", "block-of-affere", "bl-of-lymph-c", "bl-of-lymph-s", "by-pass",
                "extravasates", "regeneration-of", "early-uptake-in", "lym-nodes-dimin", "lym-nodes-enlar",
                "changes-in-lym", "defect-in-node", "changes-in-node", "changes-in-stru", "special-forms",
                "dislocation-of", "exclusion-of-no", "no-of-nodes-in",
            ),
            separator=None,
        ),
        Recipe(
            name="hypothyroid",
            file="ann-train.data.gz",
            sha256="3da53a156bda36cb0c97e9f4b6b111c9226c54c4aa00230de5604b787c47e3a6",
            columns=(
                "age", "sex", "on-thyroxine", "query-on-thyroxine", "on-antithyroid-medication", "sick",
                "pregnant", "thyroid-surgery", "I131-treatment", "query-hypothyroid", "query-hyperthyroid",
                "lithium", "goitre", "tumor", "hypopituitary", "psych", "TSH", "T3", "TT4", "T4U", "FTI",
                "class",
            ),
            separator=None,
            quartiles=("age", "TSH", "T3", "TT4", "T4U", "FTI"),
        ),
        Recipe(
            name="mushroom",
            file="agaricus-lepiota.data.gz",
            sha256="e65d082030501a3ebcbcd7c9f7c71aa9d28fdfff463bf4cf4716a3fe13ac360e",
            columns=(
                "class", "cap-shape", "cap-surface", "cap-color", "bruises", "odor", "gill-attachment",
                "gill-spacing", "gill-size", "gill-color", "stalk-shape", "stalk-root",
                "stalk-surface-above-ring", "stalk-surface-below-ring", "stalk-color-above-ring",
                "stalk-color-below-ring", "veil-type", "veil-color", "ring-number", "ring-type",
                "spore-print-color", "population", "habitat",
            ),
            drop=("veil-type",),
        ),
        Recipe(
            name="nursery",
            file="nursery.data.gz",
            sha256="a4559ef9caff1a54c03005a8f78b4250ed5f99f31e5912811a16c79646d5a404",
            columns=(
                "parents", "has_nurs", "form", "children", "housing", "finance", "social", "health", "class",
            ),
            separator=None,
        ),
    )
}  # fmt: skip
"""All data sets by name, in the order of the paper; nursery, last, is an example of Junctor."""
