"""Writers of local scores as family scores of Bayesian networks: GOBNILP's `.jkl` and urlearning's `.pss`.

The score of a variable v with parents P is w(v,P) = s(P∪v) − s(P), in nats. Every parent set of fewer than
`max_size` variables is written, unpruned and with all digits. `foreign` reads such files: s(A) is the sum of
families along an order, equal up to rounding.

Both formats separate words by blanks, so that names with blanks or a leading # cannot be written.
"""

from __future__ import annotations

from itertools import combinations, islice
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.files import LARGEST
from jtsolve.errors import ChoiceError, LimitError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jtsolve.core.problem import Variable
    from jtsolve.core.scores import DenseScores

FAMILY_FORMATS = ("jkl", "pss")

_SETS = 1 << 16
"""Parent sets per batch of scores."""
_BYTES_PER_SCORE = 19
"""Of a score difference as text with its separator; measured: plants 18.8, mushroom 19.3."""


def family_bytes(names: Sequence[str], max_size: int) -> int:
    """Returns the approximate size, in bytes, of a file of all families.

    >>> family_bytes(("a", "b"), 2)  # four families, two of them with a parent
    88
    """
    n = len(names)
    name = 1 + sum(len(name.encode()) for name in names) / n
    count = sum(comb(n - 1, size) for size in range(max_size))
    parents = sum(size * comb(n - 1, size) for size in range(max_size))
    return int(n * (count * (_BYTES_PER_SCORE + 2) + parents * name))


def family_text(scores: DenseScores, variables: Sequence[Variable], source: str, kind: str) -> bytes:
    """Returns the file of all families; `kind` is one of `FAMILY_FORMATS`.

    Raises:
        ChoiceError: the format cannot hold a variable's name.
        LimitError: the file would be too large to be read.
    """
    names = [variable.name for variable in variables]
    require_words(names, source)
    size = family_bytes(names, scores.max_size)
    if size > LARGEST:
        raise LimitError(
            f"{source}: the families would take {size / 1e9:.3g} GB, but no more than {LARGEST / 1e9:.3g} GB "
            "are read. Ways out: smaller sets (jtsolve score --max-size), fewer columns, or .json or .score, "
            "which hold each set once"
        )
    lines = _jkl(scores, names) if kind == "jkl" else _pss(scores, variables)
    # In pieces: a million short texts take several times the memory of one long text.
    pieces = []
    while piece := "".join(islice(lines, _SETS)):
        pieces.append(piece.encode())
    return b"".join(pieces)


def require_words(names: Sequence[str], source: str) -> None:
    """Checks that the formats can hold the names.

    Raises:
        ChoiceError: a name contains a blank or begins with #.
    """
    for name in names:
        if name.split() != [name] or name.startswith("#"):
            raise ChoiceError(
                f"{source}: .jkl and .pss files separate words by blanks, and # begins a comment, so they "
                f"cannot hold the name '{name}'; rename the column, or write .json"
            )


def _jkl(scores: DenseScores, names: Sequence[str]) -> Iterator[str]:
    yield f"{scores.n}\n"
    for v, name in enumerate(names):
        yield f"{name} {sum(comb(scores.n - 1, size) for size in range(scores.max_size))}\n"
        for value, parents in _families(scores, v):
            yield " ".join((repr(value), str(len(parents)), *(names[p] for p in parents))) + "\n"


def _pss(scores: DenseScores, variables: Sequence[Variable]) -> Iterator[str]:
    yield f"META parent_limit={scores.max_size - 1}\n"
    for v, variable in enumerate(variables):
        yield f"VAR {variable.name}\n" + _states(variable)
        for value, parents in _families(scores, v):
            yield " ".join((repr(value), *(variables[p].name for p in parents))) + "\n"


def _states(variable: Variable) -> str:
    """Returns the lines on a variable's states: labels where the format can hold them, else their number."""
    states = variable.states
    if states is None:
        return ""
    if isinstance(states, int):
        return f"META arity={states}\n"
    words = ",".join(states)
    if words.replace(",", " ").split() == list(states):
        return f"META arity={len(states)}\nMETA values={words}\n"
    return f"META arity={len(states)}\n"


def _families(scores: DenseScores, v: int) -> Iterator[tuple[float, tuple[int, ...]]]:
    """Yields w(v,P) and P for every parent set P, by size."""
    others = [u for u in range(scores.n) if u != v]
    for size in range(scores.max_size):
        sets = combinations(others, size)
        while batch := list(islice(sets, _SETS)):
            rows = np.array(batch, dtype=np.intp).reshape(len(batch), size)
            whole = np.sort(np.column_stack([rows, np.full(len(batch), v)]), axis=1)
            values = scores.batch(whole) - scores.batch(rows)
            yield from zip(values.tolist(), batch, strict=True)
