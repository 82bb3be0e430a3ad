"""Networks from files: the checks that all formats share, and the normalisation of rounded probabilities."""

from __future__ import annotations

from graphlib import CycleError
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.run import LOGGER
from jtsolve.errors import InputError
from jtsolve.networks.network import Network

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from jtsolve.networks.network import NetworkNode

LARGEST_TABLE = 1 << 27
"""Most cells of a table, 1 GiB: a short file must not exhaust the memory."""

_USUAL = 1e-4
"""Distance of a sum from 1 that is usual: probabilities are rounded to four digits or more."""
_MOST = 1e-2
"""Largest distance of a sum from 1; larger ones are mistakes."""


class NetworkBuilder:
    """The variables of a file, and checks of its tables; a place is a part of the file, for errors.

    Attributes:
        source: the file.
        states: labels by variable, in the order of the file.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.states: dict[str, tuple[str, ...]] = {}
        self._unusual: list[float] = []

    def declare(self, name: str, labels: tuple[str, ...], place: str) -> None:
        """Adds a variable.

        Args:
            name: of the variable.
            labels: of its states.
            place: of the declaration.

        Raises:
            InputError: it exists, or its labels are not distinct.
        """
        if name in self.states:
            raise InputError(self.source, place, f"variable '{name}' is declared twice", "rename one of them")
        if not labels or len(set(labels)) < len(labels):
            reason = f"variable '{name}' has no states, or two states of the same label"
            raise InputError(self.source, place, reason, "give distinct states")
        self.states[name] = labels

    def shapes(self, tables: Mapping[str, tuple[Sequence[str], str]]) -> dict[str, tuple[int, int]]:
        """Returns the shape of each table: configurations of the parents, and states.

        Args:
            tables: parents and place of the table of each variable.

        Raises:
            InputError: a table is missing, too large, or of undeclared variables; or a parent is repeated.
        """
        shapes = {}
        for name, (parents, place) in tables.items():
            for one in (name, *parents):
                if one not in self.states:
                    raise InputError(self.source, place, f"variable '{one}' is not declared", "declare it")
            if len(set(parents)) < len(parents):
                reason = f"'{name}' has the same parent twice"
                raise InputError(self.source, place, reason, "remove one of them")
            shapes[name] = prod(len(self.states[one]) for one in parents), len(self.states[name])
            if prod(shapes[name]) > LARGEST_TABLE:
                reason = f"the table of '{name}' has too many cells"
                raise InputError(self.source, place, reason, "split the variable")
        if missing := [name for name in self.states if name not in tables]:
            reason = f"variable '{missing[0]}' has no table"
            raise InputError(self.source, "", reason, "add its probabilities")
        return shapes

    def probabilities(self, words: Sequence[str], place: str) -> list[float]:
        """Returns words as probabilities.

        Raises:
            InputError: one is no number, or not from 0 to 1 up to rounding.
        """
        numbers = []
        for word in words:
            try:
                number = float(word)
            except ValueError:
                reason = f"'{word}' is not a number"
                raise InputError(self.source, place, reason, "write a probability") from None
            if not 0 <= number <= 1 + _MOST:
                reason = f"{word} is not a probability"
                raise InputError(self.source, place, reason, "write a number from 0 to 1")
            numbers.append(number)
        return numbers

    def normalised(self, name: str, rows: NDArray[np.float64], place: str) -> NDArray[np.float64]:
        """Returns rows of the table of a variable divided by their sums, shape (…, states).

        Args:
            name: of the variable.
            rows: shape (…, states).
            place: of the rows.

        Raises:
            InputError: a sum is not 1 up to rounding.
        """
        totals = rows.sum(axis=-1, keepdims=True)
        differences = np.abs(totals - 1)
        if differences.max() > _MOST:
            worst = totals.flat[differences.argmax()]
            reason = f"a row of '{name}' sums to {worst:.9g}, not to 1"
            raise InputError(self.source, place, reason, "correct the probabilities")
        self._unusual += totals[differences > _USUAL].tolist()
        return np.asarray(rows / totals)

    def network(self, name: str, nodes: Sequence[NetworkNode]) -> Network:
        """Returns the network of some nodes; warns if sums of rows were unusually far from 1.

        Raises:
            InputError: there is no node, or the arcs have a cycle.
        """
        if not nodes:
            raise InputError(self.source, "", "there is no variable", "declare variables")
        if self._unusual:
            LOGGER.warning(
                "%s: the probabilities of %d %s sum to %.6g at worst, not to 1; they are normalised",
                self.source,
                len(self._unusual),
                "row" if len(self._unusual) == 1 else "rows",
                max(self._unusual, key=lambda total: abs(total - 1)),
            )
        try:
            return Network(name, tuple(nodes))
        except CycleError as error:
            reason = f"the arcs have a cycle: {' → '.join(nodes[i].name for i in error.args[1])}"
            raise InputError(self.source, "", reason, "remove one of them") from None
