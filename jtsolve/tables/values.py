"""Values and states: how a value is written, and the one rule by which values are equal.

A state is a label with a kind. The kind is decided once, when a column is coded, and stored with the model.
Texts are equal as texts, numbers as numbers, booleans as booleans, dates and times as instants, and times of
day as such. Where a value and its column differ in kind, a text is parsed as a value of the other kind. A
value that fits two states has none: the choice would be arbitrary. Blanks around a text never count, and a
blank text is missing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Sequence

    import polars as pl

ValueKind: TypeAlias = Literal["text", "number", "boolean", "time"]

GAP_STATE = "?"
"""The label of the state for a missing value, unless it is the label of a value."""

_NUMERAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_PLAIN = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?", re.ASCII)
"""A numeral that cannot be a code: no sign +, no leading zeros, no exponent."""
_INFINITY = re.compile(r"[+-]?inf(?:inity)?", re.ASCII | re.IGNORECASE)
_RANGE = re.compile(r"[\[(]\S+, \S+[\])]")
_CLOCK = r"(\d\d:\d\d(?::\d\d(?:\.(\d{1,9}))?)?)"
_TIME_OF_DAY = re.compile(_CLOCK, re.ASCII)
_INSTANT = re.compile(rf"(\d{{4}}-\d\d-\d\d)(?:[T ]{_CLOCK}(Z|[+-]\d\d(?::?\d\d)?)?)?", re.ASCII)
_TRUTH = {word: word.lower() == "true" for word in ("true", "True", "TRUE", "false", "False", "FALSE")}
_EXPONENT_FROM = 1e16
"""Numbers from here on are written with an exponent."""
_MICROSECONDS = 6


def is_missing(value: Any) -> bool:
    """Returns whether a value is None, NaN, NaT or pandas.NA."""
    if value is None:
        return True
    same = value == value  # noqa: PLR0124 - NaN differs from itself, and pandas.NA gives no bool
    return type(value).__name__ == "NAType" or (isinstance(same, bool | np.bool_) and not same)


def value_kind(value: Any) -> ValueKind:
    """Returns the kind of a value that is not missing."""
    if isinstance(value, bool | np.bool_):
        return "boolean"
    if isinstance(value, Real | Decimal) and not isinstance(value, np.timedelta64):
        return "number"
    of_day = isinstance(value, time) and value.tzinfo is None  # an offset without a date is no instant
    return "time" if of_day or isinstance(value, date | np.datetime64) else "text"


def label_of(value: Any) -> str:
    """Returns how a value is written.

    >>> [label_of(value) for value in (True, 3, 3.0, -0.0, 0.5, np.float32(0.1), " x ", datetime(2024, 5, 1))]
    ['True', '3', '3', '0', '0.5', '0.1', 'x', '2024-05-01']
    """
    if isinstance(value, bool | np.bool_):
        value = str(bool(value))
    if isinstance(value, str):  # members of enumerations write themselves otherwise
        return text_label(str.__str__(value))
    if isinstance(value, Decimal):
        return _decimal_label(value)
    if isinstance(value, Real) and not isinstance(value, Integral):
        number = float(value)
        if number.is_integer() and abs(number) < _EXPONENT_FROM:
            number = int(number)
        elif isinstance(value, np.float16 | np.float32):  # the shortest: 0.1, not 0.10000000149011612
            number = float(str(value))
        return repr(number)
    if isinstance(value, datetime | time | np.datetime64):
        return time_label(str(value))
    if isinstance(value, timedelta | np.timedelta64):
        return _duration_label(value)
    return text_label(str(int(value) if isinstance(value, Integral) else value))


def text_label(text: str) -> str:
    r"""Returns a text without blanks around it, newlines normalised; the zero of a float has no sign.

    >>> [text_label(text) for text in (" a b ", "a\r\nb", "-0.0", "-0")]
    ['a b', 'a\nb', '0.0', '-0']
    """
    label = text.strip().replace("\r\n", "\n").replace("\r", "\n")
    return "0.0" if label == "-0.0" else label


def _decimal_label(value: Decimal) -> str:
    """Returns how the nearest float is written, or all digits of a number that differs from that.

    >>> _decimal_label(Decimal("1.50")), _decimal_label(Decimal("0.10000000000000000001"))
    ('1.5', '0.10000000000000000001')
    """
    label = label_of(float(value))
    if Decimal(label) == value:
        return label
    digits = format(value, "f")
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def _duration_label(value: Any) -> str:
    """Returns how pandas writes a duration.

    >>> _duration_label(timedelta(hours=-1)), _duration_label(np.timedelta64(1, "ns"))
    ('-1 days +23:00:00', '0 days 00:00:00.000000001')
    """
    nanoseconds = ""
    if isinstance(value, np.timedelta64):
        whole = np.timedelta64(value // np.timedelta64(1, "us"), "us")
        nanoseconds = f"{(value - whole) // np.timedelta64(1, 'ns'):03}" if value != whole else ""
        value = whole.item()
    if type(value) is not timedelta:  # of pandas
        return str(value)
    clock = (datetime.min + (value - timedelta(value.days))).time()  # noqa: DTZ901 - no moment
    digits = clock.isoformat("microseconds" if nanoseconds else "auto")
    return f"{value.days} days {'+' if value.days < 0 else ''}{digits}{nanoseconds}"


def time_label(text: str) -> str:
    """Returns a time without trailing zeros; a midnight becomes its date.

    >>> time_label("2024-05-01T00:00:00.000"), time_label("2024-05-01 12:30:00.500000+02:00")
    ('2024-05-01', '2024-05-01 12:30:00.5+02:00')
    """
    short = re.sub(r"(\.\d*?)0+(?=$|[+-])", r"\1", text.replace("T", " "))
    return re.sub(r"\.(?=$|[+-])", "", short).removesuffix(" 00:00:00")


def number_in(text: str) -> int | float | None:
    """Returns the finite number in a text, or None; only ASCII digits count, without underscores."""
    if not _NUMERAL.fullmatch(text):
        return None
    number = float(text)
    if not isfinite(number):
        return None
    return int(text) if text.lstrip("+-").isdigit() else number


def _real_in(text: str) -> int | float | None:
    """Returns the number in a text, infinity included, or None."""
    return float(text) if _INFINITY.fullmatch(text) else number_in(text)


def _as_shown(number: Hashable) -> list[float]:
    """Returns the numbers as which one of single or half precision is shown: 0.1 for 0.10000000149011612."""
    if not isinstance(number, float):
        return []
    fitting = [kind for kind in (np.float32, np.float16) if abs(number) <= float(np.finfo(kind).max)]
    return [float(str(kind(number))) for kind in fitting if float(kind(number)) == number]


def _instant_in(text: str) -> tuple[bool | None, int] | None:
    """Returns whether a time has a zone, None for a time of day, and its nanoseconds since 1970 or midnight.

    The result is None if the text is no time.
    """
    of_day = _TIME_OF_DAY.fullmatch(text)
    match = _INSTANT.fullmatch(f"1970-01-01 {text}" if of_day else text)
    if match is None:
        return None
    day, clock, fraction, zone = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day} {(clock or '00:00').partition('.')[0]}{zone or ''}")
    except ValueError:
        return None
    since = (moment if zone else moment.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    seconds = since.days * 86400 + since.seconds
    return None if of_day else zone is not None, seconds * 10**9 + int((fraction or "").ljust(9, "0"))


def _range_in(text: str) -> Hashable:
    """Returns a range of pandas without ".0", since (0, 1] beside gaps is (0.0, 1.0]; None if it is none."""
    return re.sub(r"\.0(?=[,\])])", "", text) if _RANGE.fullmatch(text) else None


_READERS: dict[ValueKind, Callable[[str], Hashable]] = {
    "text": _range_in,
    "number": _real_in,
    "boolean": _TRUTH.get,
    "time": _instant_in,
}
"""Parsers of texts, by kind: the value, equal and of equal hash for equal values, or None. Different texts of
one range may be two states; otherwise, each stands for the other."""


def kind_of_texts(labels: Collection[str]) -> ValueKind:
    """Returns the kind of a column of a text file: text if two of its texts would be the same value.

    >>> [kind_of_texts(labels) for labels in (["1", "2.50"], ["01067", "2"], ["1.1", "1.10"], ["TRUE"])]
    ['number', 'text', 'text', 'boolean']
    """
    found: ValueKind = "text"
    if all(map(_is_plain, labels)):
        found = "number"
    elif all(label in _TRUTH for label in labels):
        found = "boolean"
    elif all(map(_INSTANT.fullmatch, labels)) or all(map(_TIME_OF_DAY.fullmatch, labels)):
        found = "time"
    return found if labels and are_of(found, labels) else "text"


def are_of(kind: ValueKind, labels: Collection[str]) -> bool:
    """Returns whether texts are distinct values of a kind."""
    if kind == "text":
        return True
    values = {_READERS[kind](label) for label in labels}
    return len(values) == len(labels) and None not in values


def _is_plain(label: str) -> bool:
    number = _real_in(label)
    if number is None or (number == 0 and label.startswith("-")):
        return False
    return bool(_PLAIN.fullmatch(label)) or label == repr(number)


def gap_label(labels: Collection[str]) -> str:
    """Returns a label for the state of a missing value, different from all labels of values."""
    label = GAP_STATE
    while label in labels:
        label = "(missing)" if label == GAP_STATE else f"{label}_"
    return label


def kind_of_type(dtype: pl.DataType) -> ValueKind:
    """Returns the kind of the values in a column of polars."""
    if dtype.is_numeric():
        return "number"
    name = dtype.base_type().__name__
    return "boolean" if name == "Boolean" else "time" if name in ("Date", "Datetime", "Time") else "text"


def labels_of(values: pl.Series) -> list[str]:
    """Returns how the values of a column of polars without nulls are written; see `label_of`."""
    import polars as pl

    # Values of Python end at microseconds.
    if isinstance(values.dtype, pl.Datetime):
        return list(map(time_label, values.cast(pl.String).to_list()))
    if values.dtype == pl.Time:
        return list(map(time_label, values.dt.to_string("%H:%M:%S%.9f").to_list()))
    if values.dtype.is_float() or isinstance(values.dtype, pl.Duration):
        return list(map(label_of, values.to_numpy()))
    return list(map(label_of, values.to_list()))


class Words:
    """Words for a missing value; numbers among them match in any spelling."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = frozenset(words)
        self._numbers = {number_in(word) for word in self._words} - {None}

    def __contains__(self, label: object) -> bool:
        return label in self._words or (bool(self._numbers) and number_in(str(label)) in self._numbers)


def distinct_labels(values: Iterable[Any]) -> tuple[list[str], list[int], ValueKind | None]:
    """Returns the labels of values, the position of the label of each (-1 if missing), and their kind.

    Values of several kinds are texts; the kind is None if all are missing.
    """
    held = list(values)
    gaps = [is_missing(value) for value in held]
    kinds = {value_kind(value) for value, gap in zip(held, gaps, strict=True) if not gap}
    kind: ValueKind | None = kinds.pop() if len(kinds) == 1 else "text" if kinds else None
    read = str if kind in (None, "text") else Decimal if kind == "number" else _READERS[kind]
    place: dict[Hashable, int] = {}
    labels: list[str] = []
    places = []
    for value, gap in zip(held, gaps, strict=True):
        label = "" if gap else label_of(value)
        if not label:
            places.append(-1)
            continue
        key = read(label)
        places.append(place.setdefault(label if key is None else key, len(labels)))
        if places[-1] == len(labels):
            labels.append(label)
    return labels, places, kind


@dataclass(frozen=True, slots=True)
class ColumnStates:
    """The states of a column.

    Args:
        labels: distinct texts.
        kind: of their values.
        gap: whether the last state stands for a missing value.
    """

    labels: tuple[str, ...]
    kind: ValueKind = "text"
    gap: bool = False

    @property
    def own(self) -> tuple[str, ...]:
        """The labels without that for a missing value."""
        return self.labels[:-1] if self.gap else self.labels

    def places(self, labels: Sequence[str], kind: ValueKind | None = None) -> list[int]:
        """Returns the state of each value; -1 where none or more than one fits.

        Args:
            labels: how the values are written.
            kind: of the values; None for the cells of a text file.
        """
        exact = {label: code for code, label in enumerate(self.own)}
        given = kind or "text"
        if "text" not in (given, self.kind) and given != self.kind:
            return [-1] * len(labels)
        read = _READERS[self.kind if given == "text" else given]
        alike: dict[Hashable, list[int]] = defaultdict(list)
        for label, code in exact.items():
            alike[read(label)].append(code)
        if read is _real_in:
            for key, codes in [*alike.items()]:
                for shown in _as_shown(key):
                    alike.setdefault(shown, codes)
        places = []
        for label in labels:
            key = read(label)
            # In a column of texts, the number 1067 may stand for 01067 or 1067; a NaN has no key.
            if label in exact and (self.kind != "text" or given == "text" or key is None):
                places.append(exact[label])
                continue
            same = next((alike[one] for one in (key, *_as_shown(key)) if one in alike), [])
            places.append(same[0] if len(same) == 1 and key is not None else -1)
        return places

    def codes(self, values: Sequence[Any]) -> list[int]:
        """Returns the state of each value; -1 where it is missing, or where none or more than one fits."""
        found = [-1] * len(values)
        of_kind: dict[ValueKind, list[int]] = defaultdict(list)
        for at, value in enumerate(values):
            if not is_missing(value):
                of_kind[value_kind(value)].append(at)
        for kind, places in of_kind.items():
            labels = [label_of(values[at]) for at in places]
            for at, code in zip(places, self.places(labels, kind), strict=True):
                found[at] = code
        return found

    def values(self, kind: ValueKind | None = None) -> dict[str, Any]:
        """Returns the value of each label that is not missing; empty if they are texts.

        Numbers in an unusual spelling, such as 0.50, stay texts.

        Args:
            kind: of the values; None for that of the states.
        """
        kind = kind or self.kind
        made = [_READERS[kind](label) if kind != "text" else None for label in self.own]
        if None in made:
            return {}
        if kind == "number":
            made = _numbers(self.own, made)
        if kind == "time":
            made = _times(self.own)
        return dict(zip(self.own, made, strict=True)) if made else {}


def _numbers(labels: Sequence[str], numbers: Sequence[Any]) -> list[Any]:
    """Returns numbers of one type, or nothing if a label is not the usual spelling of its number."""
    if all(str(number) == label for label, number in zip(labels, numbers, strict=True)) and all(
        isinstance(number, int) for number in numbers
    ):
        return list(numbers)
    fits = all(label in (repr(n), label_of(n)) for label, n in zip(labels, numbers, strict=True))
    floats = list(map(float, numbers))
    return floats if fits and len(set(floats)) == len(floats) else []


def _times(labels: Sequence[str]) -> list[Any]:
    """Returns dates, times of day, or times that all have a zone or all none; nothing if they are mixed.

    Times finer than those of Python give nothing either.
    """
    if all(len(label) == len("2024-05-01") and "-" in label for label in labels):
        return [date.fromisoformat(label) for label in labels]
    if any(re.search(rf"\.\d{{{_MICROSECONDS + 1}}}", label) for label in labels):
        return []
    of_day = [_TIME_OF_DAY.fullmatch(label) is not None for label in labels]
    if all(of_day):
        return [time.fromisoformat(label) for label in labels]
    times = [datetime.fromisoformat(label) for label in labels] if not any(of_day) else []
    if len({moment.tzinfo is None for moment in times}) > 1:
        return []
    return [moment if moment.tzinfo is None else moment.astimezone(UTC) for moment in times]
