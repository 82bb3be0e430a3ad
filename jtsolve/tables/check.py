"""The data check: faults of a table that spoil the answer, and the option that fixes each.

Structure learning cannot tell a meaningless column from a meaningful one. An identifier, a date or a quantity
read as states has as many states as rows, so that every set with it seems informative; constants and copies
of other columns add meaningless edges. `examine` inspects every column before anything is coded or scored,
and returns a `Finding` for each kind of fault; `docs/data.md` explains each.

Time: one pass over the rows for each column. Functions of other columns are sought on a sample of rows, for
all pairs at once, and only the candidates are verified on all rows.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from hashlib import sha256
from math import log, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.core.run import Run
from jtsolve.errors import InputError
from jtsolve.options import KIND, TREEWIDTH, worded
from jtsolve.tables.coding import FEW, READ_STATES, is_quantity
from jtsolve.tables.covariance import is_covariance
from jtsolve.tables.options import (
    COVARIANCE,
    DECIMAL,
    DISCRETISE,
    DROP,
    HEADER,
    MISSING,
    MISSING_VALUES,
    ROWS,
    STATES,
    STRICT,
    WEIGHTS,
    gap_words,
)
from jtsolve.tables.raw import DECIMAL_COMMA, GAP
from jtsolve.tables.selection import full_rows, kept_columns
from jtsolve.tables.suspects import counts_rows, header_is_row, margins_in, missing_codes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from jtsolve.tables.options import Coding
    from jtsolve.tables.raw import RawColumn, RawTable
    from jtsolve.tables.selection import Subtable

_LEAST_ROWS = 10
"""With fewer rows, all values may differ by chance."""
_NEARLY_ALL = 0.9
"""Share of distinct values from which a column identifies its rows, and of values that form a majority."""
_NEARLY_NONE = 0.1
"""Share of values below which a column is nearly empty."""
_DOMINANT = 0.5
"""Share of the weight from which a single row dominates."""
_SKEW = 2.0
"""Third standardised moment, in size, from which a normal distribution is no approximation (West, Finch and
Curran, Structural equation models with nonnormal variables, 1995)."""
_CHANCE = 1e-3
"""Probability that any pair of independent columns of the table is reported as a function."""
_SAMPLE = 256
"""Rows on which candidates for functions are sought."""
_SHOWN = 4
"""Columns described in a sentence; the advice names them all."""

_DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:[T ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
    r"|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}(?: \d{1,2}:\d{2}(?::\d{2})?)?"
    r"|\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?: ?[AaPp][Mm])?"
    r"|\d{1,2}[ -](?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*[ -]\d{2,4}"
    r"|(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])"
)


@dataclass(frozen=True, slots=True)
class _Advice:
    """Facts on which the advice of a finding depends.

    Args:
        raw: the columns.
        coding: the user's choices.
        words: by column, those that may mean a missing value.
        columns: the number of columns.
        treewidth: the largest one for which the rows suffice.
        discrete: whether columns become states.
    """

    raw: RawTable
    coding: Coding
    words: dict[str, list[str]]
    columns: int
    treewidth: int
    discrete: bool

    def on_words(self, names: Sequence[str]) -> str:
        """Returns the advice on words that may mean a missing value."""
        new = dict.fromkeys(word for listed in self.words.values() for word in listed)
        known = gap_words(self.coding.missing_values, typed=self.raw.typed)
        labels = set().union(*(column.labels for column in self.raw.columns))
        used = [word for word in self.coding.missing_values if word in known and word in labels]
        treatment, otherwise = (
            ("state", f"declare {STATES(names)}") if self.discrete else ("drop-rows", DROP(names))
        )
        return (
            f"if they mean a missing value, give {MISSING_VALUES([*used, *new])} and {MISSING(treatment)}; "
            f"otherwise correct them, or {otherwise}"
        )

    def on_counts(self, names: Sequence[str]) -> str:
        """Returns the advice on columns of counts, which may have been left out."""
        kept = self.coding.columns is None or names[0] in self.coding.columns
        return f"give {WEIGHTS(names[0])}" + f", or leave it out with {DROP(names)}" * kept

    def on_two_values(self, names: Sequence[str]) -> str:
        """Returns the advice on columns of two values among real numbers."""
        others = f", and cut the other columns with {DISCRETISE('quantile:4')}" * (len(names) < self.columns)
        return f"{READ_STATES}{others}"


def _leave_out(names: Sequence[str], _advice: _Advice) -> str:
    return f"leave out with {DROP(names)}"


_TEXTS: dict[str, tuple[str, Callable[[Sequence[str], _Advice], str]]] = {
    "header": ("the first line may be a row, read as the names of columns", lambda *_: f"give {HEADER}"),
    "near-empty": ("columns that are nearly empty", _leave_out),
    "constant": ("constant columns", _leave_out),
    "decimal-comma": (
        "numbers with decimal commas, read as words",
        lambda *_: f"give {DECIMAL('comma')}, or remove commas between thousands",
    ),
    "date": (
        "dates or times, read as states",
        lambda *given: f"{_leave_out(*given)}, or derive a column such as the month or the weekday first",
    ),
    "identifier": ("columns that identify the rows", _leave_out),
    "quantity": (
        "quantities or codes, read as states without order",
        lambda names, _: f"cut numbers with {DISCRETISE('quantile:4')}; declare codes with {STATES(names)}",
    ),
    "two-valued": (
        "columns of two values, read as real numbers",
        lambda names, advice: advice.on_two_values(names),
    ),
    "skewed": (
        "skewed columns, read as normally distributed",
        lambda *_: f"take logarithms first; a selected graph can use ranks alone: {KIND('nonparanormal')}",
    ),
    "mixed": ("words among numbers", lambda names, advice: advice.on_words(names)),
    "sentinel": ("values that may mean a missing one", lambda names, advice: advice.on_words(names)),
    "count": (
        "columns that may count how often a row occurs",
        lambda names, advice: advice.on_counts(names),
    ),
    "margin": (
        "states that are sums of the others",
        lambda *_: "leave their rows out, which count every row again",
    ),
    "many-states": (
        "columns with more states than the rows can feed",
        lambda *given: f"{_leave_out(*given)}, or merge rare states in the file",
    ),
    "crowded": (
        "cliques of the size requested have more cells than there are rows",
        lambda _, advice: f"ask for a smaller {TREEWIDTH(advice.treewidth)}",
    ),
    "duplicate": ("copies of other columns", _leave_out),
    "function": ("functions of other columns", _leave_out),
}
"""The sentence and the advice of each kind of finding on single columns, in the order of the report."""
KINDS = ("covariance", *_TEXTS, "weight", "dropped")
"""The kinds of findings, in the order of the report; each is a section of `docs/data.md`."""
OF_ROWS = ("near-empty", "decimal-comma", "weight")
"""Kinds that also spoil further rows for a model; the others concern learning, and the model's states are
fixed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A reason to distrust the data or the answer.

    Args:
        kind: one of `KINDS`, or "clique" for a finding about a tree.
        columns: the columns concerned.
        sentence: the finding; it describes a few columns only.
        advice: the remedy, with references to options.
    """

    kind: str
    columns: tuple[str, ...]
    sentence: str
    advice: str

    @property
    def message(self) -> str:
        """Sentence and advice, with references to options."""
        return f"{self.sentence}. Fix: {self.advice}."

    def __str__(self) -> str:
        return worded(self.message)


@dataclass(frozen=True, slots=True)
class _ColumnSummary:
    """A summary of a column.

    Args:
        column: as read.
        counts: number of rows with each label that occurs, shape (m,).
        occurring: positions of these labels in the column, shape (m,).
        numbers: these labels as numbers, shape (m,); NaN for a word.
        total: number of rows.
        handled: whether the user or the file declares states or cuts.
        quantity: whether it holds many different numbers.
    """

    column: RawColumn
    counts: NDArray[np.int64]
    occurring: NDArray[np.intp]
    numbers: NDArray[np.float64]
    total: int
    handled: bool
    quantity: bool

    @property
    def name(self) -> str:
        return self.column.name

    @property
    def present(self) -> int:
        return int(self.counts.sum())

    @property
    def different(self) -> int:
        return int(self.occurring.size)

    @property
    def labels(self) -> list[str]:
        return [self.column.labels[i] for i in self.occurring.tolist()]


def examine(
    raw: RawTable,
    coding: Coding,
    source: str,
    *,
    size: int | None = None,
    discrete: bool = True,
    kinds: Collection[str] = KINDS,
    poll: Callable[[], object] = lambda: None,
) -> tuple[Finding, ...]:
    """Returns the findings about the columns that a coding keeps, in the order of `KINDS`.

    Args:
        raw: the columns as read.
        coding: the user's choices.
        source: the file, for messages.
        size: number of members of the largest clique requested; None if unknown.
        discrete: whether the columns become states rather than real numbers, for which fewer checks apply.
        kinds: kinds of findings to report.
        poll: called for every column; may raise to end the check.

    Raises:
        InputError: the coding names a column that does not exist, or weights that are not numbers.
    """
    selection = kept_columns(raw, coding, source)
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    facts = [_summary(column, selection.times, coding) for column in selection.columns]
    plain: list[_ColumnSummary] = []
    words: dict[str, list[str]] = {}
    if "covariance" in kinds and is_covariance(selection.columns):
        # No row of data, so that other faults do not matter.
        rows = selection.columns[0].codes.size
        sentence = f"a symmetric matrix of {rows} rows, rather a covariance than rows of data"
        remedy = f"give {COVARIANCE} and {ROWS}, the number behind it"
        return (Finding("covariance", tuple(one.name for one in facts), sentence, remedy),)
    if "header" in kinds and header_is_row(raw):
        found["header"] += [(column.name, column.labels[0]) for column in raw.columns]
    kept = {one.name for one in facts}
    for column in raw.columns if coding.weights is None else ():
        if column.name not in kept and counts_rows(column.name, column.occurring_numbers(), ()):
            found["count"].append((column.name, f"{len(column.labels)} whole numbers"))
    for one in facts:
        poll()
        if "count" in kinds and coding.weights is None and not one.handled:
            others = (column for column in selection.columns if column is not one.column)
            if counts_rows(one.name, one.numbers, others):
                found["count"].append((one.name, f"{one.different} whole numbers"))
        if selection.weights is not None and (sums := margins_in(one.column, selection.weights)):
            found["margin"].append((one.name, ", ".join(map(_short, sums))))
        faults = _faults(one, coding, discrete=discrete)
        fault = next(((kind, reason) for kind, reason in faults if kind in kinds), None)
        codes = missing_codes(one.labels, one.numbers) if "sentinel" in kinds and not one.handled else []
        if codes and (fault is None or fault[0] != "mixed"):
            words[one.name] = codes
            found["sentinel"].append((one.name, ", ".join(map(_short, codes[:_SHOWN]))))
        if fault is None:
            plain.append(one)
            continue
        found[fault[0]].append((one.name, fault[1]))
        if fault[0] == "mixed":
            words[one.name] = _words(one)
    if discrete and size is not None:
        for one, reason in _overfull(plain, size, coding):
            found["many-states"].append((one.name, reason))
    crowded = {name for name, _ in found["many-states"]}
    if not {"duplicate", "function"}.isdisjoint(kinds):
        for kind, name, reason in _dependent(
            [one for one in plain if one.name not in crowded], coding.classes, poll
        ):
            found[kind].append((name, reason))
    if 2 * len(crowded) > len(plain):  # the size requested is to blame, rather than the columns
        found["crowded"] = found.pop("many-states")
    advice = _Advice(raw, coding, words, len(facts), _widest(plain, coding), discrete)
    findings = [_finding(kind, found[kind], advice) for kind in _TEXTS if found.get(kind)]
    if coding.weights is not None:
        findings.extend(_dominant(selection, coding.weights))
    if coding.missing == "drop-rows" and "dropped" in kinds:
        findings.extend(_dropped(selection))
    return tuple(findings)


def report_findings(findings: Sequence[Finding], source: str, run: Run | None, *, strict: bool) -> None:
    """Shows the findings of a data check, or refuses the data.

    Args:
        findings: of the check; may be empty.
        source: the name or the path of the data.
        run: shows them; None logs them.
        strict: whether to refuse data with findings.

    Raises:
        InputError: `strict`, and there are findings; the message lists them all.
    """
    if not findings:
        return
    if strict:
        listed = " ".join(f"({number}) {finding.message}" for number, finding in enumerate(findings, 1))
        count = f"{len(findings)} warning{'s' * (len(findings) > 1)}"
        reason = f"{count}: {listed.rstrip('.')}"
        raise InputError(source, "data check", reason, f"follow the advice, or leave out {STRICT}")
    (run or Run()).warn(f"data check of {Path(source).name}", findings)


def sparse_cliques(cliques: Iterable[tuple[Sequence[str], Sequence[int]]], rows: int) -> Finding | None:
    """Returns a finding on the cliques whose tables have more cells than there are rows; None without any.

    Args:
        cliques: the names of the members, and their numbers of states.
        rows: of the data.
    """
    large = [(prod(arities), names) for names, arities in cliques if prod(arities) > rows]
    if not large:
        return None
    large.sort(key=lambda entry: -entry[0])
    shown = "; ".join(f"{{{', '.join(names)}}} has {cells} cells" for cells, names in large[:_SHOWN])
    return Finding(
        "clique",
        tuple(dict.fromkeys(name for _, names in large for name in names)),
        f"{shown}{_more(large)}, but there are {rows} rows to fill {'them' if len(large) > 1 else 'it'}",
        f"do not trust these cliques; ask for a smaller {TREEWIDTH}, or give their columns fewer states",
    )


def plain_finding(finding: Finding) -> dict[str, Any]:
    """Returns a finding as JSON values; the advice is spelled for the current door (`options.DOOR`)."""
    return {
        "kind": finding.kind,
        "columns": list(finding.columns),
        "sentence": finding.sentence,
        "advice": worded(finding.advice),
    }


def _summary(column: RawColumn, times: NDArray[np.int64] | None, coding: Coding) -> _ColumnSummary:
    gaps, counts = column.counts(times)
    occurring = np.flatnonzero(counts)
    handled = coding.declares(column.name) or column.states is not None
    quantity = not handled and is_quantity(column, coding)
    numbers = column.numbers()[occurring]
    total = gaps + int(counts.sum())
    return _ColumnSummary(column, counts[occurring], occurring, numbers, total, handled, quantity)


def _faults(one: _ColumnSummary, coding: Coding, *, discrete: bool) -> Iterator[tuple[str, str]]:
    """Yields the kinds and descriptions of the faults of a column, the most important first."""
    if one.present <= _NEARLY_NONE * one.total and (one.present == 0 or one.total >= _LEAST_ROWS):
        yield "near-empty", f"{one.present} of {one.total} values"
    as_state = coding.missing == "state" and one.present < one.total
    if one.different == 1 and not as_state and one.name != coding.classes:
        yield "constant", f"always {_short(one.labels[0])}"
    if one.handled:
        return
    commas = [label for label in one.labels if "," in label] if coding.decimal == "point" else []
    if commas and all(map(DECIMAL_COMMA.fullmatch, one.labels)):
        yield "decimal-comma", f"such as {_short(commas[0])}"
    if _is_date(one):
        yield "date", f"{one.different} values such as {_short(one.labels[0])}"
    if _is_identifier(one):
        yield "identifier", f"{one.different} values in {one.present} rows"
    if discrete and one.quantity and coding.discretise is None:
        yield "quantity", f"{one.different} numbers such as {_short(one.labels[0])}"
    if not discrete:
        if one.different == 2 and one.present >= _LEAST_ROWS:  # noqa: PLR2004
            yield "two-valued", f"{' and '.join(one.labels)}"
        elif abs(skew := _skew(one)) > _SKEW:
            yield "skewed", f"skewness {skew:.1f}"
    if words := _words(one):
        yield "mixed", f"numbers, and {', '.join(map(_short, words[:_SHOWN]))}"


def _short(label: str) -> str:
    longest = 30
    return f"'{label if len(label) <= longest else label[: longest - 1] + '…'}'"


def _is_date(one: _ColumnSummary) -> bool:
    """Returns whether all values are dates or times, and too many for states."""
    if one.different <= min(FEW, one.present // 2):
        return False
    return all(map(_DATE.fullmatch, one.labels))


def _is_identifier(one: _ColumnSummary) -> bool:
    """Returns whether nearly all values differ and are words, codes with leading zeros, or row numbers.

    Quantities differ from row to row as well: whole numbers count as row numbers if they increase, or
    decrease, from row to row, or fill more than half of their range.
    """
    if one.present < _LEAST_ROWS or one.different < _NEARLY_ALL * one.present:
        return False
    numbers = one.numbers
    if np.isnan(numbers).any():
        return bool(np.isnan(numbers).mean() > 1 - _NEARLY_ALL)
    if (numbers % 1 != 0).any():
        return False
    if any(label.startswith("0") and len(label) > 1 for label in one.labels):
        return True
    in_rows = one.column.numbers()[one.column.codes[one.column.codes != GAP]]
    steps = np.diff(in_rows)
    all_differ = one.different == one.present
    is_dense = numbers.max() - numbers.min() < 2 * one.different
    return bool(all_differ and (is_dense or (steps > 0).all() or (steps < 0).all()))


def _skew(one: _ColumnSummary) -> float:
    """Returns the third standardised moment of a column; 0 if there are words, or too few values."""
    numbers = one.numbers
    if one.present < _LEAST_ROWS or one.different < 2 or np.isnan(numbers).any():  # noqa: PLR2004
        return 0.0
    steps = numbers - np.average(numbers, weights=one.counts)
    steps /= np.abs(steps).max()  # powers of large numbers overflow
    variance, third = (float(np.average(steps**power, weights=one.counts)) for power in (2, 3))
    return third / float(variance**1.5)


def _words(one: _ColumnSummary) -> list[str]:
    """Returns the words among numbers, if numbers prevail and no word has digits, as a range such as 10+."""
    is_word = np.isnan(one.numbers)
    if not is_word.any() or is_word.all():
        return []
    words = [label for label, word in zip(one.labels, is_word, strict=True) if word]
    values = int((~is_word).sum())
    prevail = one.counts[~is_word].sum() >= _NEARLY_ALL * one.present or values > FEW
    has_digits = any(character.isdigit() for word in words for character in word)
    return words if prevail and values > 1 and not has_digits else []


def _overfull(
    plain: Sequence[_ColumnSummary], size: int, coding: Coding
) -> Iterator[tuple[_ColumnSummary, str]]:
    """Yields the columns whose smallest clique of the size requested has more cells than there are rows."""
    arities = _arities(plain, coding)
    size = min(size, arities.size)
    smallest = np.argsort(arities, kind="stable")[:size].tolist()
    for at, one in enumerate(plain):
        if one.quantity or one.handled or size < 2:  # noqa: PLR2004 - it will be cut; it was declared; there is no clique
            continue
        others = [other for other in smallest if other != at][: size - 1]
        cells = one.different * prod(int(arities[other]) for other in others)
        is_largest = all(
            one.different >= arities[other] for other in others
        )  # otherwise, another column is to blame
        if cells > one.total and is_largest:
            yield one, f"{one.different} states, so at least {cells} cells in a clique of {size}"


def _arities(plain: Sequence[_ColumnSummary], coding: Coding) -> NDArray[np.int64]:
    """Returns the numbers of states of columns, of quantities after they are cut, shape (columns,)."""
    bins = 0 if coding.discretise is None else coding.discretise.bins
    return np.array([max(bins, 2) if one.quantity else one.different for one in plain], dtype=np.int64)


def _widest(plain: Sequence[_ColumnSummary], coding: Coding) -> int:
    """Returns the largest treewidth at which the smallest clique has at most as many cells as rows, or 1."""
    cells = np.cumsum(np.log(np.maximum(np.sort(_arities(plain, coding)), 1)))
    rows = plain[0].total if plain else 1
    return max(1, int((cells <= log(max(rows, 1))).sum()) - 1)


def _dependent(
    plain: Sequence[_ColumnSummary], classes: str | None, poll: Callable[[], object]
) -> Iterator[tuple[str, str, str]]:
    """Yields copies and functions of other columns: kind, name, and the column that determines it.

    Of two copies, the class column counts as the original; that it is a function of other columns is no
    fault. Only complete columns are compared. Two-valued functions are not reported: they are as often a
    property, such as the feathers of birds, as a derived column. A column with many values determines others
    by chance: the probability that independent columns would do so, Π over its values of Σ_k p_k^m with m the
    number of rows of the value and p_k the shares of the other column, must be below `_CHANCE` for all pairs
    together.
    """
    full = [one for one in plain if one.present == one.total and one.different > 1]
    full.sort(key=lambda one: one.name != classes)
    least = log(_CHANCE / max(1, len(full)) ** 2)
    copies: set[str] = set()
    for first, other in _equal(full, poll):
        if _determines(first, other, least):
            copies.add(other.name)
            yield "duplicate", other.name, f"of '{first.name}'"
    for one, other in _candidates([one for one in full if one.name not in copies], poll):
        if other.name not in copies and other.name != classes and _determines(one, other, least):
            copies.add(other.name)
            yield "function", other.name, f"of '{one.name}'"


def _equal(
    full: Sequence[_ColumnSummary], poll: Callable[[], object]
) -> Iterator[tuple[_ColumnSummary, _ColumnSummary]]:
    """Yields pairs of columns that are equal up to the names of their states: an original and a copy."""
    alike: dict[bytes, list[_ColumnSummary]] = defaultdict(list)
    for one in full:  # copies have equal counts and equal first rows, which are cheap to compare
        poll()
        alike[np.sort(one.counts).tobytes() + _canonical(one.column.codes[:_SAMPLE])].append(one)
    for group in alike.values():
        firsts: dict[bytes, _ColumnSummary] = {}
        for one in group if len(group) > 1 else ():
            poll()
            first = firsts.setdefault(_canonical(one.column.codes), one)
            if first is not one:
                yield first, one


def _canonical(codes: NDArray[np.signedinteger[Any]]) -> bytes:
    """Returns a digest of codes, renumbered in order of first occurrence."""
    rows = codes.size
    first = np.full(int(codes.max()) + 1, rows)
    first[codes[::-1]] = np.arange(rows)[::-1]  # of several assignments, the last counts
    rank = np.argsort(np.argsort(first, kind="stable")).astype(codes.dtype)
    return sha256(rank[codes].data).digest()


def _candidates(
    full: Sequence[_ColumnSummary], poll: Callable[[], object]
) -> Iterator[tuple[_ColumnSummary, _ColumnSummary]]:
    """Yields pairs in which the first column determines the second on a sample; both have three states."""
    several = [one for one in full if one.different > 2]  # noqa: PLR2004
    if len(several) < 2:  # noqa: PLR2004 - a pair
        return
    rows = several[0].column.codes.size
    sample = np.linspace(0, rows - 1, min(rows, _SAMPLE)).astype(np.int64)
    codes = np.array([one.column.codes[sample] for one in several], dtype=np.int32)
    arities = np.array([one.different for one in several])
    for i, one in enumerate(several):
        poll()
        fewer = np.flatnonzero(arities < arities[i])
        if 2 * one.different > rows or not fewer.size:
            continue
        order = np.argsort(codes[i], kind="stable")
        same = np.diff(codes[i][order]) == 0  # neighbours in this order that are equal in column i
        differ = np.diff(codes[np.ix_(fewer, order)], axis=1)[:, same] != 0
        yield from ((one, several[j]) for j in fewer[~differ.any(axis=1)].tolist())


def _determines(one: _ColumnSummary, other: _ColumnSummary, least: float) -> bool:
    """Returns whether a column determines another one on all rows, and not by chance."""
    by, values = one.column.codes, other.column.codes
    image = np.full(len(one.column.labels), GAP, dtype=values.dtype)
    image[by] = values
    if (image[by] != values).any():
        return False
    shares = np.bincount(values) / values.size
    most = shares.max()
    groups = np.bincount(by)
    # In logarithms: powers of shares underflow.
    chance = sum(
        m * log(most) + log(float(((shares / most) ** m).sum())) for m in groups[groups > 1].tolist()
    )
    return bool(chance < least)


def _dropped(selection: Subtable) -> Iterator[Finding]:
    """Yields a finding if more than half of the rows have a missing value, and are dropped."""
    full = full_rows(selection.columns)
    times = np.ones(full.size) if selection.times is None else selection.times
    share = float(times[full].sum() / times.sum())
    if 0 < share < _DOMINANT:
        gaps = {column.name: column.gaps(selection.times) for column in selection.columns}
        worst = sorted((name for name in gaps if gaps[name]), key=lambda name: -gaps[name])
        shown = "; ".join(f"'{name}' ({gaps[name]} missing values)" for name in worst[:_SHOWN])
        yield Finding(
            "dropped",
            tuple(worst),
            f"only {100 * share:.3g} % of the rows have no gap, and the others are dropped: "
            f"{shown}{_more(worst)}",
            f"leave out columns with many gaps, as with {DROP(worst[:1])}: the rows that are left may differ "
            "from the others",
        )


def _dominant(selection: Subtable, weights: str) -> Iterator[Finding]:
    """Yields a finding if one row has more than half of the weight."""
    assert selection.weights is not None, "the coding names them"
    share = selection.weights.max() / selection.weights.sum()
    if selection.weights.size > 1 and share > _DOMINANT:
        yield Finding(
            "weight",
            (weights,),
            f"one row has {100 * share:.0f} % of the weight in column '{weights}'",
            f"check that '{weights}' counts rows; if not, leave it out",
        )


def _finding(kind: str, found: Sequence[tuple[str, str]], advice: _Advice) -> Finding:
    """Returns the finding of one kind on some columns, each with its description."""
    sentence, remedy = _TEXTS[kind]
    names = [name for name, _ in found]
    shown = "; ".join(f"'{name}' ({reason})" for name, reason in found[:_SHOWN])
    return Finding(kind, tuple(names), f"{sentence}: {shown}{_more(found)}", remedy(names, advice))


def _more(found: Sequence[Any]) -> str:
    return f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
