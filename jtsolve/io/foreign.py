"""The score files of other programs: Junctor, Adjunct, GOBNILP, blip, urlearning.

Junctor's `.score` (Kangas, Niinimäki, Koivisto 2014) holds `N M` and the scores of all sets of at most M of
the N variables in colex order; Adjunct's variant begins with the word DMST. Neither has names: variables are
called "0" to "N - 1". Junctor's "width" is the clique size, one more than the treewidth.

GOBNILP's `.jkl`, also written by blip, and urlearning's `.pss` hold family scores w(v,P) of Bayesian
networks: for each variable v, scores of parent sets P. They determine local scores s(P∪v) = s(P) + w(v,P) if
and only if every parent set up to some size is present and s(A) is the same for every order of the members of
A (score equivalence). Both conditions are verified. Pruned files are refused, since optimal junction trees
may need the pruned families.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import inf, isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from jtsolve.core.problem import Problem, Variable
from jtsolve.core.scores import DenseScores
from jtsolve.core.varset import VarSet, bounded_subsets, members
from jtsolve.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from jtsolve.core.run import Run

_NUMBER = re.compile(r"[+-]?(?:\d+\.?(\d*)|\.(\d+))(?:[eE][+-]?\d+)?", re.ASCII)
_WHOLE = re.compile(r"\d{1,9}", re.ASCII)
_BLANKS = b" \t\n\r\v\f"
"""The separators of `bytes.split`."""
CHECKED_EVERY = 1 << 13
"""Lines or sets between two checks of the limits: some tens of milliseconds."""
_MOST_SETS = 1 << 40
"""More sets than any file holds; larger numbers are not computed, which could take longer than reading."""


def dense_scores(
    source: str, places: tuple[str, str], n: int, max_size: int, values: NDArray[np.float64]
) -> DenseScores:
    """Returns the table of scores in a file.

    Args:
        source: the file, for messages.
        places: of `max_size` and of the values in the file; "[3]" is appended for a single value.
        n: the number of variables.
        max_size: the size of the largest sets.
        values: shape (number of sets,), in nats, in colex order.

    Raises:
        InputError: the numbers are inconsistent, s(∅) is not 0, or a value is not finite.
    """
    if not 1 <= max_size <= n:
        reason = f"the largest set size, {max_size}, is not between 1 and the number of variables, {n}"
        raise InputError(source, places[0], reason, "give the size of the largest scored sets")
    expected = number_of_sets(n, max_size)
    if values.size != expected:
        number = f"{expected}" if expected < _MOST_SETS else f"more than {_MOST_SETS}"
        reason = f"{values.size} values, but {n} variables have {number} sets of size at most {max_size}"
        remedy = "give one value per set in colex order, the empty set first"
        raise InputError(source, places[1], reason, remedy)
    values.setflags(write=False)
    try:
        return DenseScores(n, max_size, values)
    except InputError as error:
        place = error.place.replace("values", places[1], 1)
        raise InputError(source, place, error.reason, error.remedy) from None


def number_of_sets(n: int, max_size: int) -> int:
    """Returns the number of sets of at most `max_size` of n variables, or a number above 2^40.

    >>> number_of_sets(4, 2), number_of_sets(10**9, 10**8) > 2**40
    (11, True)
    """
    total = term = 1
    for size in range(1, max_size + 1):
        term = term * (n - size + 1) // size
        total += term
        if total > _MOST_SETS:
            break
    return total


_JUNCTOR = re.compile(rb"\s*(\d{1,9})\s+(\d{1,9})(?!\S)")
_ADJUNCT = re.compile(rb"\s*DMST\s+(\d{1,9})\s+subset_scores\s+colex_order\s+(\d{1,9})(?!\S)")


def read_junctor(data: bytes, source: str, name: str, run: Run, *, chunk: int = 1 << 22) -> Problem:
    """Returns the problem in a Junctor `.score` or Adjunct DMST file; the variables are named "0", "1", ….

    Args:
        data: the text.
        source: the file, for errors.
        name: of the problem.
        run: polled for interruption; receives progress.
        chunk: bytes read at a time.

    Raises:
        InputError: the text violates the format.
    """
    adjunct = data.split(None, 1)[:1] == [b"DMST"]
    header = (_ADJUNCT if adjunct else _JUNCTOR).match(data)
    if header is None:
        wanted = "DMST N subset_scores colex_order M" if adjunct else "N M"
        reason = f"it does not begin with '{wanted}', the number of variables and the largest set size"
        raise InputError(source, "line 1", reason, "check that this is a score file of Junctor or Adjunct")
    n, max_size = int(header[1]), int(header[2])
    values = _numbers(data, header.end(), source, run, chunk)
    scores = dense_scores(source, (_line(data, header.start(2)), "values"), n, max_size, values)
    return Problem(tuple(Variable(str(v)) for v in range(n)), scores, name=name)


def junctor_text(scores: DenseScores) -> bytes:
    r"""Returns a table as a Junctor `.score` file, with all digits.

    >>> junctor_text(DenseScores(1, 1, np.array([0.0, -0.5])))
    b'1 1\n0.0\n-0.5\n'
    """
    values = "".join(f"{value!r}\n" for value in scores.values.tolist())
    return f"{scores.n} {scores.max_size}\n{values}".encode()


def _numbers(data: bytes, start: int, source: str, run: Run, chunk: int) -> NDArray[np.float64]:
    """Returns the numbers from byte `start` on, read in pieces, since words need ten times the memory."""
    pieces: list[NDArray[np.float64]] = []
    at = start
    while at < len(data):
        run.require_reading(0)
        end = min(at + chunk, len(data))
        if end < len(data):  # cut after a complete word; a word longer than a chunk is no number
            cut = max(data.rfind(bytes([mark]), at, end) for mark in _BLANKS)
            end = cut + 1 if cut >= at else end
        piece = data[at:end]
        try:
            # float() also accepts nan, inf and 1_000, which the check of the bytes below refuses.
            values = np.array([float(token) for token in piece.split()], dtype=np.float64)
        except ValueError:
            values = np.array([inf])
        if piece.translate(None, b"0123456789+-.eE" + _BLANKS) or not np.isfinite(values).all():
            raise _no_number(data, start, source)
        pieces.append(values)
        at = end
    return np.concatenate(pieces) if pieces else np.empty(0)


def _no_number(data: bytes, start: int, source: str) -> InputError:
    """Returns the error for the first word from `start` on that is not a finite number."""
    word = next(
        word
        for word in re.compile(rb"\S+").finditer(data, start)
        if not _is_number(word[0].decode("utf-8", "replace"))
    )
    shown = word[0][:40].decode("utf-8", "replace")
    return InputError(
        source, _line(data, word.start()), f"'{shown}' is not a finite number", "give a finite score in nats"
    )


def _is_number(word: str) -> bool:
    return _NUMBER.fullmatch(word) is not None and isfinite(float(word))


def _line(data: bytes, at: int) -> str:
    return f"line {data.count(bytes([10]), 0, at) + 1}"


Line: TypeAlias = tuple[int, list[str]]
"""A line's number, from 1, and its words."""


@dataclass(slots=True)
class _ParentSets:
    """The parent sets of one variable, as words."""

    variable: Variable
    line: int
    rows: list[tuple[int, float, list[str]]] = field(default_factory=list)
    decimals: int = 0

    def add(self, line: int, score: str, parents: list[str], source: str) -> None:
        match = _NUMBER.fullmatch(score)
        if match is None or not isfinite(float(score)):
            raise InputError(
                source, f"line {line}", f"'{score[:40]}' is not a finite number", "give a finite score"
            )
        self.decimals = max(self.decimals, len(match[1] or match[2] or ""))
        self.rows.append((line, float(score), parents))


def read_gobnilp(data: bytes, source: str, name: str, run: Run) -> Problem:
    """Returns the problem in a GOBNILP `.jkl` file: `n`, then per variable `name count` and the parent sets.

    A parent set is a line `score k parent…`; parents are names, or positions from 0. Lines that begin with #
    are comments.

    Args:
        data: the text.
        source: the file, for errors.
        name: of the problem.
        run: see `read_junctor`.

    Raises:
        InputError: the text violates the format, is pruned, or its scores are not score-equivalent.
    """
    lines = _lines(data, source, run)
    number, words = next(lines, (1, []))
    if len(words) != 1 or not _WHOLE.fullmatch(words[0]) or int(words[0]) < 1:
        reason = "the number of variables is missing"
        remedy = "check that this is a score file of GOBNILP (.jkl, .scores)"
        raise InputError(source, f"line {number}", reason, remedy)
    n = int(words[0])
    families: list[_ParentSets] = []
    while len(families) < n:
        number, words = next(lines, (number, []))
        if len(words) != 2 or not _WHOLE.fullmatch(words[1]):  # noqa: PLR2004 - name and count
            reason = f"expected the name and count of variable {len(families)} of {n}"
            remedy = "give every variable a line 'name count' and as many parent sets"
            raise InputError(source, f"line {number}", reason, remedy)
        here = _ParentSets(Variable(words[0]), number)
        for _ in range(int(words[1])):
            number, row = next(lines, (number, []))
            if len(row) < 2 or row[1] != str(len(row) - 2):  # noqa: PLR2004 - score and count
                reason = f"expected a parent set of '{words[0]}': 'score k parent…' with k parents"
                remedy = f"give '{words[0]}' as many parent sets as its count states, {words[1]}"
                raise InputError(source, f"line {number}", reason, remedy)
            here.add(number, row[0], row[2:], source)
        families.append(here)
    rest = next(lines, None)
    if rest is not None:
        reason = f"there are more lines after variable {n}"
        raise InputError(source, f"line {rest[0]}", reason, "correct the counts, or remove them")
    return _problem(families, source, name, 1e-9, MappingProxyType({}), run=run)


def read_urlearning(data: bytes, source: str, name: str, run: Run) -> Problem:
    """Returns the problem in an urlearning `.pss` file.

    It has META lines, then for each variable `VAR name` and lines `score parent…`. Scores are 32-bit numbers.

    Args:
        data: the text.
        source: the file, for errors.
        name: of the problem.
        run: see `read_junctor`.

    Raises:
        InputError: the text violates the format, is pruned, or its scores are not score-equivalent.
    """
    families: list[_ParentSets] = []
    header: dict[str, str] = {}
    for number, words in _lines(data, source, run):
        keyword = words[0].upper()
        if keyword == "META":
            key, _, value = " ".join(words[1:]).partition("=")
            if families:
                here = families[-1]
                here.variable = _with_states(here.variable, key.strip().lower(), value, source, number)
            else:
                header[key.strip()] = value.strip()
        elif keyword == "VAR":
            if len(words) != 2:  # noqa: PLR2004 - VAR and the name
                raise InputError(source, f"line {number}", "expected 'VAR name'", "use a name without spaces")
            families.append(_ParentSets(Variable(words[1]), number))
        elif families:
            families[-1].add(number, words[0], words[1:], source)
        else:
            reason = "it comes before the first 'VAR name'"
            remedy = "check that this is a score file of urlearning (.pss)"
            raise InputError(source, f"line {number}", reason, remedy)
    if not families:
        raise InputError(
            source, "", "it has no line 'VAR name'", "check that this is a score file of urlearning (.pss)"
        )
    return _problem(families, source, name, 1e-6, MappingProxyType(header), run=run)


def _with_states(variable: Variable, key: str, value: str, source: str, line: int) -> Variable:
    """Returns the variable with its number of states, or their labels, from a META line."""
    if key == "arity":
        if not _WHOLE.fullmatch(value.strip()) or int(value) < 1:
            raise InputError(
                source, f"line {line}", "the arity is not a number above 0", "correct the number"
            )
        return Variable(variable.name, int(value))
    labels = tuple(value.replace(",", " ").split())
    if key == "values" and labels and len(set(labels)) == len(labels):
        return Variable(variable.name, labels)
    return variable


def _lines(data: bytes, source: str, run: Run) -> Iterator[Line]:
    """Yields the lines that are neither blank nor comments."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            source, _line(data, error.start), "a byte is not UTF-8", "save the file as UTF-8"
        ) from None
    for number, line in enumerate(text.split("\n"), 1):
        if number % CHECKED_EVERY == 0:
            run.require_reading(0)
        words = line.split()
        if words and not words[0].startswith("#"):
            yield number, words


def _problem(
    families: Sequence[_ParentSets],
    source: str,
    name: str,
    relative: float,
    provenance: Mapping[str, str],
    *,
    run: Run,
) -> Problem:
    """Returns the problem that the family scores determine; `relative` bounds the rounding error of a sum."""
    index = _index(families, source)
    tables = [_table(here, v, index, source) for v, here in enumerate(families)]
    max_parents = max((mask.bit_count() for table in tables for mask in table), default=0)
    n = len(tables)
    wanted = number_of_sets(n - 1, max_parents)
    for here, table in zip(families, tables, strict=True):
        if len(table) != wanted:
            raise InputError(
                source,
                f"line {here.line}",
                f"'{here.variable.name}' has {len(table)} of the {wanted} parent sets of size at most "
                f"{max_parents}: the scores are pruned, and pruned family scores do not determine clique "
                "scores",
                "write the scores without pruning (urlearning's doNotPrune), or score the data with jtsolve",
            )
    decimals = max(here.decimals for here in families)
    # Printed numbers are rounded to their last digit; whole numbers count as exact.
    step = 10.0**-decimals if decimals else 0.0
    values = _summed(tables, max_parents + 1, (step, relative), families, source, run=run)
    scores = dense_scores(source, ("parent sets", "scores"), n, max_parents + 1, values)
    return Problem(tuple(here.variable for here in families), scores, name=name, provenance=provenance)


def _index(families: Sequence[_ParentSets], source: str) -> dict[str, int]:
    """Returns the variable for each word that stands for a parent: its name, or its position."""
    index: dict[str, int] = {}
    for v, here in enumerate(families):
        if here.variable.name in index:
            reason = f"the name '{here.variable.name}' is used twice"
            raise InputError(source, f"line {here.line}", reason, "give every variable a different name")
        index[here.variable.name] = v
    if all(word in index for here in families for _, _, parents in here.rows for word in parents):
        return index
    positions = {str(v): v for v in range(len(families))}
    for here in families:
        for line, _, parents in here.rows:
            for word in parents:
                if word not in positions:
                    reason = f"the parent '{word[:40]}' is not a variable"
                    remedy = "use the variables' names, or their positions from 0, throughout"
                    raise InputError(source, f"line {line}", reason, remedy)
    return positions


def _table(here: _ParentSets, v: int, index: Mapping[str, int], source: str) -> dict[VarSet, float]:
    """Returns the scores of one variable by parent set."""
    table: dict[VarSet, float] = {}
    for line, score, parents in here.rows:
        mask = 0
        for word in parents:
            bit = 1 << index[word]
            if mask & bit or index[word] == v:
                reason = f"'{word}' occurs twice in the family of '{here.variable.name}'"
                raise InputError(source, f"line {line}", reason, "name every member of a family once")
            mask |= bit
        if mask in table:
            reason = f"'{here.variable.name}' has this parent set twice"
            raise InputError(source, f"line {line}", reason, "remove one of them")
        table[mask] = score
    return table


def _summed(
    tables: Sequence[Mapping[VarSet, float]],
    max_size: int,
    tolerances: tuple[float, float],
    families: Sequence[_ParentSets],
    source: str,
    *,
    run: Run,
) -> NDArray[np.float64]:
    """Returns s in colex order: s(A) = s(A∖v) + w(v,A∖v) for the largest v in A, verified for all v in A."""
    step, relative = tolerances
    s: dict[VarSet, float] = {}
    for mask in bounded_subsets(len(tables), max_size):
        if len(s) % CHECKED_EVERY == 0:
            run.require_reading(0)
        last = mask.bit_length() - 1
        s[mask] = s[mask ^ 1 << last] + tables[last][mask ^ 1 << last] if mask else 0.0
        for v in members(mask):
            rest = mask ^ 1 << v
            difference = abs(s[rest] + tables[v][rest] - s[mask])
            if difference > mask.bit_count() * step + relative * abs(s[mask]):
                named = ", ".join(families[u].variable.name for u in members(mask))
                raise InputError(
                    source,
                    f"line {families[v].line}",
                    f"the scores are not score-equivalent: s({{{named}}}) differs by {difference:.3g} nats "
                    "between two orders of summation, so there are no clique scores",
                    "use BDeu, BIC or another score-equivalent score",
                )
    return np.fromiter(s.values(), dtype=np.float64, count=len(s))
