"""The UAI format of the inference competitions: networks without names.

    MARKOV or BAYES; the number of variables; their numbers of states; the number of factors;
    for each factor its size and variables; for each factor its number of cells, and the cells, the last
    variable varying fastest

In a factor of a Bayesian network the variable follows its parents; both kinds are products of factors.
Reference: UAI 2008 to 2022 inference competitions, file formats.
"""

from __future__ import annotations

import re
from math import isfinite, prod
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.files import read_file
from jtsolve.errors import ChoiceError, InputError
from jtsolve.models.columns import Column
from jtsolve.models.triangulation import Factor, calibrated
from jtsolve.networks.building import LARGEST_TABLE

if TYPE_CHECKING:
    from pathlib import Path

    from jtsolve.models.model import JunctionTreeModel
    from jtsolve.models.protocol import Distribution

MOST_VARIABLES = 1_000_000


def to_uai(model: JunctionTreeModel) -> str:
    """Returns the model as a MARKOV network with a factor P(C | S) for each clique."""
    layout = model.layout
    lines = ["MARKOV", str(model.n), " ".join(map(str, layout.arities)), str(len(layout.cliques))]
    # Variables in decreasing order, which pyAgrum 3.3 assumes of every table.
    lines += [" ".join(map(str, (len(clique), *reversed(clique)))) for clique in layout.cliques]
    for place in range(len(layout.cliques)):
        table = np.exp(layout.table(model.families, place)).T.ravel().tolist()
        lines += ["", str(len(table)), " ".join(map(repr, table))]
    return "\n".join(lines) + "\n"


def read_uai(path: str | Path) -> JunctionTreeModel:
    """Returns the distribution of a UAI file; variables are named V0, V1, …, and states 0, 1, ….

    Raises:
        InputError: the file cannot be read or is invalid, or the product of its factors is 0 everywhere.
        LimitError: the tables of the junction tree do not fit in memory.
    """
    numbers = _Numbers(path)
    numbers.word("MARKOV", "BAYES")
    count = numbers.whole("the number of variables", 1, MOST_VARIABLES)
    arities = [numbers.whole(f"the number of states of variable {v}", 1, LARGEST_TABLE) for v in range(count)]
    columns = [
        Column(f"V{v}", tuple(map(str, range(arity))), kind="number") for v, arity in enumerate(arities)
    ]
    scopes = []
    for f in range(numbers.whole("the number of factors", 0, MOST_VARIABLES)):
        size = numbers.whole(f"the size of factor {f}", 0, count)
        scope = tuple(numbers.whole(f"a variable of factor {f}", 0, count - 1) for _ in range(size))
        if len(set(scope)) < size:
            raise numbers.error(f"factor {f} has a variable twice", "remove one")
        scopes.append(scope)
    factors = []
    for f, scope in enumerate(scopes):
        dims = [arities[v] for v in scope]
        cells = prod(dims)
        if numbers.whole(f"the number of cells of factor {f}", 0, LARGEST_TABLE) != cells:
            reason = f"factor {f} has {cells} cells, but declares another number"
            raise numbers.error(reason, "correct the number")
        table = np.array([numbers.real(f"a cell of factor {f}") for _ in range(cells)])
        factors.append(Factor(scope, table.reshape(dims)))
    numbers.end()
    return calibrated(columns, factors, provenance={"network": str(path)}).model


def read_evidence(path: str | Path, model: Distribution) -> dict[str, str]:
    """Returns the evidence in a file of the competitions: states by the names of their variables.

    The file holds a number of pairs, and for each the positions of a variable and of its state. Until 2010,
    the number of such sets came first; it has to be 1.

    Raises:
        InputError: the file cannot be read, or does not match the model.
        ChoiceError: the model has real variables.
    """
    if model.is_continuous:
        raise ChoiceError(f"{path}: it has states only, and the model has real variables; give their values")
    numbers = _Numbers(path)
    first = numbers.whole("the number of observed variables", 0, MOST_VARIABLES)
    if numbers.left != 2 * first:
        count = numbers.whole("the number of observed variables", 0, MOST_VARIABLES) if numbers.left else -1
        if first != 1 or numbers.left != 2 * count:
            reason = f"it has {first} sets of evidence, or a number of pairs that differs from the first word"
            raise numbers.error(reason, "give one set: the number of pairs, then variables and states")
        first = count
    found: dict[str, str] = {}
    for _ in range(first):
        column = model.columns[numbers.whole("an observed variable", 0, len(model.columns) - 1)]
        assert column.states is not None, "the model is of states"
        state = column.states[numbers.whole(f"the state of '{column.name}'", 0, len(column.states) - 1)]
        if column.name in found:
            raise numbers.error(f"'{column.name}' is observed twice", "name it once")
        found[column.name] = state
    return found


class _Numbers:
    """A tokenizer that checks the words of a file."""

    def __init__(self, path: str | Path) -> None:
        self._source = str(path)
        self._words = re.sub(rb"#[^\n]*", b"", read_file(path)).split()  # pyAgrum writes comments
        self._place = 0

    def word(self, *expected: str) -> str:
        """Returns the next word, which must be one of those expected, in any case."""
        found = self._next(" or ".join(expected)).upper()
        if found not in expected:
            raise self.error(f"'{found[:20]}' found, not {' or '.join(expected)}", "give a UAI file")
        return found

    def whole(self, what: str, least: int, most: int) -> int:
        """Returns a whole number."""
        found = self._next(what)
        if (
            not (found.isascii() and found.isdigit())
            or len(found) > len(str(most))
            or not least <= int(found) <= most
        ):
            raise self.error(f"{what} is '{found[:20]}'", f"write a whole number from {least} to {most}")
        return int(found)

    def real(self, what: str) -> float:
        """Returns a finite non-negative number."""
        found = self._next(what)
        try:
            number = float(found)
        except ValueError:
            number = -1.0
        if not isfinite(number) or number < 0 or "_" in found:
            raise self.error(f"{what} is '{found[:20]}'", "write a finite non-negative number")
        return number

    @property
    def left(self) -> int:
        """The number of words left."""
        return len(self._words) - self._place

    def end(self) -> None:
        """Checks that nothing is left."""
        if self._place < len(self._words):
            raise self.error("there is more after the end", "remove it")

    def error(self, reason: str, remedy: str) -> InputError:
        """Returns an error at the last word read."""
        return InputError(self._source, f"word {self._place}", reason, remedy)

    def _next(self, what: str) -> str:
        if self._place == len(self._words):
            raise self.error(f"the file ends where {what} is expected", "download or export it again")
        self._place += 1
        return self._words[self._place - 1].decode("ascii", "replace")
