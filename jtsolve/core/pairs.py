"""Local scores from weights of pairs, computed on demand: the value of a clique tree of noisy tables.

    s(A) = Σ_{q ⊆ A, |q| = 2} (w_q − noise · √(cells(A) · cells(q))) − price · (cells(A) − 1),

where cells(A) is the number of joint states. A weight is the value of a pair, such as its distance from
independence. Measured with Gaussian noise, a clique's table adds to each pair in it an error that grows with
the root of the cells of both. A price per cell charges the parameters. s(∅) = 0.

A bound on the gain of a variable v beside any set P follows from w⁺ = (w_uv − noise · cells(uv))⁺, since a
set that holds u and v has at least their cells: the sum over P is at most that of the continuous knapsack of
items w⁺ and sizes ln(states of u), of capacity ln(most cells / states of v), and at most the sum of the |P|
largest.

References:
    McKenna, Miklau and Sheldon, Winning the NIST contest: a scalable and general approach to differentially
    private synthetic data, Journal of Privacy and Confidentiality 11, 2021 (trees from weights of pairs).
    Dantzig, Discrete-variable extremum problems, Operations Research 5, 1957 (the continuous knapsack).
"""

from __future__ import annotations

import csv
import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from math import comb, inf, log
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.scores import malformed
from jtsolve.core.varset import VarSet, largest_within, members
from jtsolve.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

_PAIR = 2


@dataclass(frozen=True, eq=False)
class PairScores:
    """`LocalScores` of sets from weights of their pairs; thread-safe.

    Args:
        weights: shape (n, n), symmetric, finite; the diagonal is ignored.
        states: the number of states of each variable, at least 1.
        noise: at least 0.
        price: of a cell, at least 0.
        max_cells: a set with more joint states has no score; None for no bound.
        size: no set has more members; None for the most that `max_cells` allows.

    Raises:
        InputError: a shape, a weight or a number is not as described.

    >>> scores = PairScores(np.array([[0.0, 3.0], [3.0, 0.0]]), (2, 4), price=0.5)
    >>> scores.score(0b11), scores.score(0b10)
    (-0.5, -1.5)
    """

    weights: NDArray[np.float64] = field(repr=False)
    states: tuple[int, ...]
    noise: float = 0.0
    price: float = 0.0
    max_cells: int | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        weights = np.array(self.weights, dtype=np.float64)
        n = len(self.states)
        if not n or weights.shape != (n, n):
            raise malformed("weights", f"shape {weights.shape} for {n} variables", "give one row a variable")
        np.fill_diagonal(weights, 0.0)
        if not np.isfinite(weights).all() or not np.array_equal(weights, weights.T):
            raise malformed("weights", "they are not finite and symmetric", "give w[u, v] = w[v, u]")
        for count in self.states:
            if not (isinstance(count, int | np.integer) and count > 0):
                raise malformed("states", f"a variable has {count} states", "give an integer of 1 or more")
        for name, value in (("noise", self.noise), ("price", self.price)):
            if not 0 <= value < inf:
                raise malformed(name, f"{value}", "give a number of 0 or more")
        weights.setflags(write=False)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "states", tuple(map(int, self.states)))

    def __repr__(self) -> str:
        digest = hashlib.sha256(self.weights.astype("<f8").tobytes()).hexdigest()
        options = f"{self.states}, {self.noise!r}, {self.price!r}, {self.max_cells}, {self.max_size}"
        return f"PairScores({digest}, {options})"

    @property
    def n(self) -> int:
        """The number of variables."""
        return len(self.states)

    @cached_property
    def max_size(self) -> int:
        """The size of the largest sets that may have a score; at least 1."""
        fitting = self.n if self.max_cells is None else largest_within(self.states, self.max_cells)
        return max(1, fitting if self.size is None else min(fitting, self.size))

    def score(self, mask: VarSet) -> float:
        """Returns s(mask); -inf if the set has no score."""
        return float(self.batch(np.array([list(members(mask))], dtype=np.intp))[0])

    def batch(self, sets: NDArray[np.intp]) -> NDArray[np.float64]:
        """See `LocalScores.batch`."""
        count, size = sets.shape
        if size > self.max_size:
            return np.full(count, -inf)
        arity = np.array(self.states, dtype=np.float64)[sets]
        cells = arity.prod(axis=1)
        scores: NDArray[np.float64] = -self.price * (cells - 1.0)
        root = np.sqrt(cells)
        for i in range(size):
            for j in range(i + 1, size):
                scores += self.weights[sets[:, i], sets[:, j]]
                if self.noise:
                    scores -= self.noise * root * np.sqrt(arity[:, i] * arity[:, j])
        if self.max_cells is not None:
            scores[cells > self.max_cells] = -inf
        return scores

    def extremes(self) -> tuple[float, float]:
        """See `LocalScores.extremes`."""
        pairs = comb(self.max_size, _PAIR)
        upper = self.weights[np.triu_indices(self.n, 1)]
        # The noise of one pair is at most noise · cells, since a pair has at most the cells of its set.
        cells = float(np.sort(np.array(self.states, dtype=float))[-self.max_size :].prod())
        most = cells if self.max_cells is None else min(cells, float(self.max_cells))
        low = -float(np.sort(np.maximum(-upper, 0.0))[::-1][:pairs].sum())
        high = float(np.sort(np.maximum(upper, 0.0))[::-1][:pairs].sum())
        return low - (pairs * self.noise + self.price) * most, high

    @cached_property
    def ceilings(self) -> tuple[float, ...]:
        """See `Problem.ceilings`: the bound of the module, per variable."""
        arity = np.array(self.states, dtype=np.float64)
        gains = np.maximum(self.weights - self.noise * np.multiply.outer(arity, arity), 0.0)
        found = []
        for v in range(self.n):
            others = np.delete(np.arange(self.n), v)
            gain = gains[v, others]
            most = float(np.sort(gain)[::-1][: self.max_size - 1].sum())
            if self.max_cells is not None:
                most = min(most, _knapsack(gain, np.log(arity[others]), log(self.max_cells / arity[v])))
            found.append(most)
        return tuple(found)


def weight_matrix(
    weights: Iterable[tuple[Sequence[str], float]], names: Sequence[str]
) -> NDArray[np.float64]:
    """Returns weights by names as a symmetric matrix, shape (n, n); 0 for the pairs that are not given.

    Raises:
        InputError: a pair is not one of two variables, or is given twice.
    """
    index = {name: v for v, name in enumerate(names)}
    matrix, given = np.zeros((len(names), len(names))), set()
    for i, (pair, weight) in enumerate(weights):
        ends, place = [index.get(name, -1) for name in pair], f"pairs[{i}]"
        if len(ends) != _PAIR or min(ends) < 0 or ends[0] == ends[1]:
            remedy = f"use two names, such as {', '.join(names[:_PAIR])}"
            raise malformed(place, f"{pair} is no pair of two variables", remedy)
        if frozenset(ends) in given:
            raise malformed(place, f"the pair {pair} occurs twice", "give one weight a pair")
        given.add(frozenset(ends))
        matrix[ends, ends[::-1]] = weight
    return matrix


def matrix_in_file(path: str | Path, names: Sequence[str]) -> NDArray[np.float64]:
    """Returns the matrix in a CSV file, in the order of the names, shape (n, n).

    The first line names the columns; a first column with one value more than the names names the rows.

    Raises:
        InputError: the file cannot be read, a value is not a number, or the names are others.
    """
    source = str(path)
    try:
        lines = [line for line in csv.reader(Path(path).read_text("utf-8").splitlines()) if line]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(source, "", f"it cannot be read ({error})", "give a CSV file in UTF-8") from None
    if len(lines) < 2:  # noqa: PLR2004 - names and a row
        raise InputError(source, "", "there is no matrix", "give a line of names and a row for each of them")
    (head, *rows), width = lines, len(lines) - 1
    labelled = len(rows[0]) == width + 1
    columns = [name.strip() for name in head[-width:]]
    labels = [row[0].strip() for row in rows] if labelled else columns
    try:
        values = np.array([[float(value) for value in row[labelled:]] for row in rows])
    except ValueError as error:
        raise InputError(source, "", f"a row is not of {width} numbers ({error})", "correct it") from None
    return ordered_matrix(values, labels, columns, names, source)


def ordered_matrix(
    values: NDArray[np.float64],
    rows: Sequence[str],
    columns: Sequence[str],
    names: Sequence[str],
    source: str = "scores",
) -> NDArray[np.float64]:
    """Returns a matrix with labelled rows and columns in the order of the names, shape (n, n).

    Args:
        values: shape (n, n).
        rows: the label of each row, a name.
        columns: the label of each column, a name.
        names: the order.
        source: names the matrix in errors.

    Raises:
        InputError: the labels are other names.
    """
    for labels in (rows, columns):
        if sorted(map(str, labels)) != sorted(names) or np.shape(values) != (len(names), len(names)):
            other = next((name for name in labels if name not in names), None)
            reason = "it has not each variable once" if other is None else f"'{other}' is no variable"
            raise InputError(source, "weights", reason, "name rows and columns as the states do")
    order = [[list(labels).index(name) for name in names] for labels in (rows, columns)]
    return np.asarray(values, dtype=np.float64)[np.ix_(*order)]


def _knapsack(gains: NDArray[np.float64], sizes: NDArray[np.float64], capacity: float) -> float:
    """Returns the optimum of the continuous knapsack, with room for rounding of the logarithms."""
    capacity = max(0.0, capacity) * (1 + 1e-12) + 1e-12
    free = float(gains[sizes == 0].sum())
    gains, sizes = gains[sizes > 0], sizes[sizes > 0]
    order = np.argsort(-gains / sizes, kind="stable")
    filled = np.minimum(sizes[order], np.maximum(0.0, capacity - np.cumsum(sizes[order]) + sizes[order]))
    return free + float((gains[order] * filled / sizes[order]).sum())
