"""Coding of the columns of arrays and frames as states: their values if few, otherwise ranges.

Equal numbers are the same state regardless of type: 1, 1.0 and True.
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from jtsolve.tables.coding import GAP_STATE, range_labels
from jtsolve.tables.frames import is_missing
from jtsolve.tables.options import Discretisation
from jtsolve.tables.raw import GAP

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Coder:
    """Maps the values of a column to codes and back.

    Attributes:
        name: of the column.
        labels: of the states; the last is `GAP_STATE` if a missing value is a state.
        values: of the other states; None if the column is discretised.
        cuts: increasing, if the column is discretised.
        ends: least and largest training value, if the column is discretised.
    """

    name: str
    labels: tuple[str, ...]
    values: tuple[Any, ...] | None = None
    cuts: tuple[float, ...] = ()
    ends: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def of(
        cls, name: str, column: NDArray[Any], bins: int | None, max_states: int, *, gap_state: bool
    ) -> Coder:
        """Returns the coder of a column of training data.

        Args:
            name: of the column.
            column: shape (rows,).
            bins: number of ranges for numbers that are not whole or have more than `max_states` distinct
                values; None to keep all values.
            max_states: see `bins`.
            gap_state: whether missing values, if any, are a state.

        Raises:
            ValueError: every value is missing.
            TypeError: a value is neither a number nor a string.
        """
        found, _ = _different(column)
        missing = _missing(column)
        if not found:
            raise ValueError(f"every value of column '{name}' is missing; leave it out")
        gap = (GAP_STATE,) if gap_state and missing.any() else ()
        if gap and GAP_STATE in found:
            raise ValueError(f"column '{name}' has both missing values and '{GAP_STATE}'; use only one")
        if bins is not None and _is_continuous(found.values(), max_states):
            present = np.asarray(column[~missing], dtype=np.float64)
            cuts = Discretisation("quantile", bins).cuts(present)
            ends = (float(present.min()), float(present.max()))
            return cls(name, (*range_labels(cuts), *gap), None, cuts, ends)
        return cls(name, (*found, *gap), tuple(found.values()))

    @property
    def gap(self) -> int:
        """The code of a missing value; -1 if it is not a state."""
        count = len(self.cuts) + 1 if self.values is None else len(self.values)
        return count if len(self.labels) > count else GAP

    def codes(self, column: NDArray[Any], *, unseen: Literal["error", "sum"] = "error") -> NDArray[np.int32]:
        """Returns the code of each value, `gap` where it is missing.

        Args:
            column: shape (rows,).
            unseen: treatment of values outside the states: an error, or -1 to be summed out.

        Raises:
            ValueError: a value is not among the states.
        """
        out = np.full(column.shape[0], self.gap, dtype=np.int32)
        if self.values is None:
            present = ~_missing(column)
            try:
                out[present] = np.searchsorted(self.cuts, column[present].astype(np.float64))
            except ValueError:
                raise ValueError(f"column '{self.name}' was numeric in training, and now has words") from None
            return out
        found, place = _different(column)
        known = {label: code for code, label in enumerate(self.labels)}
        strange = next((label for label in found if label not in known), None)
        if strange is not None and unseen == "error":
            raise ValueError(
                f"column '{self.name}' has the value '{strange}', which no training row has, so that it has "
                "no probability; set unseen='sum' to sum it out, or train on rows with it"
            )
        table = np.array([*(known.get(label, GAP) for label in found), self.gap], dtype=np.int32)
        out[:] = table[place]
        return out

    def decoded(self, codes: NDArray[Any], generator: np.random.RandomState) -> NDArray[Any]:
        """Returns a value for each code: that of the state, or a uniform number from its range."""
        codes = np.asarray(codes, dtype=np.int64)
        if self.values is not None:
            kind = object if any(isinstance(value, str) for value in self.values) else None
            nothing = () if self.gap == GAP else (None if kind else np.nan,)
            values: NDArray[Any] = np.array([*self.values, *nothing], dtype=kind)
            return np.asarray(values[codes])
        edges = np.array([self.ends[0], *self.cuts, self.ends[1], np.nan, np.nan])
        codes = np.where(codes == self.gap, len(self.cuts) + 2, codes)
        low, high = edges[codes], edges[codes + 1]
        drawn: NDArray[np.float64] = high - (high - low) * generator.random_sample(codes.shape)
        return drawn


def _is_continuous(values: Iterable[Any], max_states: int) -> bool:
    """Tells whether all values are numbers, more than `max_states` or not all whole."""
    known = list(values)
    if not all(isinstance(value, numbers.Real) for value in known):
        return False
    return len(known) > max_states or any(float(value) % 1 != 0 for value in known)


def _missing(column: NDArray[Any]) -> NDArray[np.bool_]:
    """Returns which values are missing: None, NaN, or a frame's own null."""
    if column.dtype.kind == "f":
        return np.asarray(np.isnan(column))
    if column.dtype.kind != "O":
        return np.zeros(column.shape, dtype=np.bool_)
    missing: NDArray[np.bool_] = np.array([is_missing(value) for value in column], dtype=bool)
    return missing


def _different(column: NDArray[Any]) -> tuple[dict[str, Any], NDArray[np.intp]]:
    """Returns the distinct values by label, and the index of each row's; one past the last if missing."""
    if column.dtype.kind in "OUS":
        missing = _missing(column)
        places: dict[str, int] = {}
        values: dict[str, Any] = {}
        place = np.empty(column.shape[0], dtype=np.intp)
        for row, value in enumerate(column.tolist()):
            if missing[row]:
                place[row] = -1
                continue
            label = _label(value)
            values.setdefault(label, value)
            place[row] = places.setdefault(label, len(places))
        order = sorted(values, key=lambda label: _order(values[label]))
        rank = np.empty(len(order) + 1, dtype=np.intp)
        rank[[places[label] for label in order]] = np.arange(len(order))
        rank[-1] = len(order)
        return {label: values[label] for label in order}, rank[place]
    missing = _missing(column)
    distinct, inside = np.unique(column[~missing], return_inverse=True)
    place = np.full(column.shape[0], distinct.size, dtype=np.intp)
    place[~missing] = inside
    return {_label(value): value for value in distinct.tolist()}, place


def _label(value: Any) -> str:
    """Returns the label of a value, the same for equal numbers."""
    if isinstance(value, bool | np.bool_):
        return str(int(value))
    if isinstance(value, numbers.Real):
        return repr(float(value)).removesuffix(".0")
    if isinstance(value, str):
        return value
    raise TypeError(f"argument must be a string or a number, not {type(value).__name__}: {value!r:.40}")


def _order(value: Any) -> tuple[bool, float, str]:
    is_word = isinstance(value, str)
    return (is_word, 0.0 if is_word else float(value), str(value))
