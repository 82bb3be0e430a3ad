"""User options for reading data: format of a text, columns, missing values, discretisation.

An option of data is declared only here: as an `Option`, and as a field of `Coding`, `Dialect` or `Reading`.
The commands, the Python functions and the estimators derive their spellings from it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from numbers import Integral
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from jtsolve.core.formats import TABLE, stem_of
from jtsolve.errors import ChoiceError, no_such, on_one_line, printable
from jtsolve.options import READ, Option, field_options

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from jtsolve.tables.values import Words

SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|", "blank": " "}
"""By their names; a blank matches any run of blanks and tabs."""
UTF_8 = "utf-8"

Missing: TypeAlias = Literal["refuse", "state", "drop-rows", "drop-columns", "impute-mode", "em"]
TREATMENTS: tuple[str, ...] = get_args(Missing)

_OF_PANDAS = (
    "#N/A,#N/A N/A,#NA,-1.#IND,-1.#QNAN,-NaN,-nan,1.#IND,1.#QNAN,<NA>,N/A,NA,NULL,NaN,None,n/a,nan,null,NaT"
)
_OF_DATABASES = "\\N,(null)"
_OF_SPREADSHEETS = (
    "#NULL!,#DIV/0!,#VALUE!,#REF!,#NAME?,#NUM!,#CALC!,#SPILL!,"
    "#NV,#WERT!,#BEZUG!,#ZAHL!,#VALEUR!,#NOM?,#NOMBRE!,#NUL!,"  # German and French
    "#N/D,#¡VALOR!,#¡REF!,#¿NOMBRE?,#¡NUM!,#¡DIV/0!,#¡NULO!,#VALORE!,#RIF!,#NOME?"  # Spanish and Italian
)
_OF_R = "NA_character_,NA_integer_,NA_real_"
GAPS = ("", "?", *f"{_OF_PANDAS},{_OF_DATABASES},{_OF_SPREADSHEETS},{_OF_R}".split(","))
"""Words that mean a missing value in text formats, which have no null."""


def gap_words(gaps: Sequence[str], *, typed: bool) -> Words:
    """Returns the words that mean a missing value; in typed tables, which have null, only those of the user.

    >>> [word in gap_words(GAPS, typed=typed) for word in ("NA", "#NV") for typed in (False, True)]
    [True, False, True, False]
    >>> "-9.0" in gap_words(["-9"], typed=True)
    True
    """
    return _words(() if typed and tuple(gaps) == GAPS else tuple(gaps))


@lru_cache(maxsize=64)
def _words(gaps: tuple[str, ...]) -> Words:
    """Returns the words; cached, since a table may have 100,000 columns."""
    from jtsolve.tables.values import Words

    return Words(gaps)


Decimal: TypeAlias = Literal["point", "comma"]
DECIMALS: tuple[str, ...] = get_args(Decimal)

Schema: TypeAlias = Mapping[str, "tuple[str, ...] | tuple[float, ...]"]
"""States (strings) or increasing cuts (numbers) by column name."""

HEADER = Option(
    "header",
    bool,
    "Whether the first line names the columns, which are V1, V2, … otherwise.",
    default=True,
    within=READ,
)
SEPARATOR = Option(
    "separator",
    str,
    "comma, semicolon, tab, pipe, blank, or the mark itself; detected by default.",
    metavar="NAME",
    within=READ,
)
ENCODING = Option(
    "encoding", str, "Encoding of text, such as utf-8, utf-16 or cp1252.", UTF_8, "NAME", within=READ
)
COLUMNS = Option(
    "columns", tuple, "Columns to keep, in order; default: all.", metavar="A,B,…", estimator="X[…]"
)
DROP = Option("drop", tuple, "Columns to leave out.", (), "A,B,…", estimator="X.drop(columns=…)")
WEIGHTS = Option(
    "weights",
    str,
    "The column that counts how often each row occurs.",
    metavar="NAME",
    estimator="sample_weight=…",
)
CROSSTAB = Option(
    "crosstab",
    str,
    "In a table of counts: the variable whose states the columns of counts name, all but the first, or those "
    "listed.",
    metavar="NAME=A,B,…",
    within=READ,
)
MISSING = Option(
    "missing",
    str,
    "Missing values: refuse, state, drop-rows, drop-columns, impute-mode, em.",
    "refuse",
    "HOW",
)
MISSING_IN_ROWS = Option(
    "missing", str, "Missing values: sum, over all; state (default): over those that are none.", metavar="HOW"
)
"""Missing values in other rows for a model."""
MISSING_VALUES = Option(
    "missing_values",
    tuple,
    "Words that mean a missing value, in text by default: ?, NA, NULL, None, n/a, #N/A, ….",
    GAPS,
    "W,W,…",
    within=READ,
)
DISCRETISE = Option(
    "discretise", str, "Cut continuous columns: quantile:4, width:4 or mdlp:CLASS.", metavar="HOW"
)
SCHEMA = Option("schema", Path, "Declared states, or cuts, of columns (JSON).", metavar="FILE", within=READ)
CLASS_COLUMN = Option(
    "class_column", str, "The class column, by which mdlp cuts.", metavar="NAME", within=READ
)
MAX_STATES = Option(
    "max_states", int, "The largest number of states of a column.", 1000, "N", least=1, within=READ
)
STATES = Option(
    "states",
    tuple,
    "Columns of numbers that are states, not quantities; never cut.",
    (),
    "A,B,…",
    within=READ,
)
REAL = Option("real", tuple, "Columns of real numbers, which are never cut.", (), "A,B,…", within=READ)
DECIMAL = Option(
    "decimal",
    str,
    "point or comma, in files and in text of frames; with comma, 1.234,5 is read as 1234.5.",
    "point",
    "MARK",
    within=READ,
)
STRICT = Option("strict", bool, "Make the warnings of the data check errors.", default=False, within=READ)
COVARIANCE = Option(
    "covariance",
    bool,
    "The file is the covariance matrix of its columns, with the number of rows behind it.",
    default=False,
    python="covariance=C",
)
ROWS = Option("rows", int, "Number of rows behind a covariance.", metavar="N", least=1)


@dataclass(frozen=True, slots=True)
class Dialect:
    """The format of a text; the options above explain the fields.

    The separator may be any ASCII mark, such as "/", beside those of `SEPARATORS`; None to detect it.

    Raises:
        ChoiceError: an invalid value.
    """

    header: bool = HEADER.field()
    separator: str | None = SEPARATOR.field()
    encoding: str = ENCODING.field()

    def __post_init__(self) -> None:
        separator = SEPARATORS.get(str(self.separator), self.separator)
        if separator is not None and not _separates(separator):
            raise ChoiceError(
                f"there is no separator '{separator}'; there are {', '.join(SEPARATORS)}, or another mark"
            )
        object.__setattr__(self, "separator", separator)

    @property
    def explicit(self) -> dict[str, Any]:
        """The fields that differ from their defaults."""
        options = field_options(Dialect)
        return {one.name: value for one in options if (value := getattr(self, one.name)) != one.default}

    def refuse(self, source: str, reason: str) -> None:
        """Checks that no option of a text is given for data that are no text.

        Args:
            source: the name of the data.
            reason: why the options do not apply.

        Raises:
            ChoiceError: some are given; names them.
        """
        given = [str(option) for option in field_options(Dialect) if option.name in self.explicit]
        if given:
            raise ChoiceError(f"{source}: {reason}; leave out {', '.join(given)}")


def _separates(mark: object) -> bool:
    """Returns whether a value is a character that can separate values."""
    if not isinstance(mark, str) or len(mark) != 1:
        return False
    is_mark = mark.isascii() and mark.isprintable() and not mark.isalnum() and mark not in "\"'+-.?"
    return is_mark or mark == "\t"


_MOST_BINS = 1_000_000


@dataclass(frozen=True, slots=True)
class Discretisation:
    """How to cut numbers into ranges; a number equal to a cut lies below it.

    Args:
        method: "quantile": ranges with equally many rows, cut at observed values; "width": ranges of equal
            width; "mdlp": entropy-based cuts by a class column, see `mdlp`.
        bins: number of ranges, from 2 to a million; ties can leave fewer. 0 for mdlp, which determines it.
        by: the class column for mdlp; None for that of the coding.

    Raises:
        ChoiceError: an invalid method, number of bins, or combination.
    """

    method: Literal["quantile", "width", "mdlp"]
    bins: int = 0
    by: str | None = None

    def __post_init__(self) -> None:
        if self.method == "mdlp":
            fits = self.bins == 0
        else:
            fits = self.method in ("quantile", "width") and 1 < self.bins <= _MOST_BINS and self.by is None
        if not fits:
            raise _no_discretisation(f"{self.method}:{self.bins}")

    @classmethod
    def parse(cls, text: str) -> Discretisation:
        """Parses "quantile:4", "width:4", "mdlp:CLASS" or "mdlp".

        Raises:
            ChoiceError: the text is none of them.

        >>> Discretisation.parse("quantile:4")
        Discretisation(method='quantile', bins=4, by=None)
        >>> Discretisation.parse("mdlp:ill").by
        'ill'
        """
        method, _, rest = text.partition(":")
        if method == "mdlp":
            return cls("mdlp", by=rest or None)
        if not _CUTS.fullmatch(text):
            raise _no_discretisation(text)
        return cls(method, int(rest))  # type: ignore[arg-type]  # as just checked

    def cuts(
        self,
        numbers: NDArray[np.float64],
        times: NDArray[np.int64] | None = None,
        classes: NDArray[np.integer[Any]] | None = None,
    ) -> tuple[float, ...]:
        """Returns the cuts between the ranges of a column, increasing, all below the largest number.

        Args:
            numbers: shape (rows,).
            times: shape (rows,), multiplicity of each row; None for 1.
            classes: shape (rows,), codes from 0; required by mdlp.
        """
        import numpy as np

        if self.method == "mdlp":
            assert classes is not None, "the coding passes them"
            from jtsolve.tables.mdlp import mdlp_cuts

            return mdlp_cuts(numbers, classes, times)
        if self.method == "quantile":
            values, place = np.unique(numbers, return_inverse=True)
            up_to = np.cumsum(np.bincount(place, times).astype(np.int64))
            # Cut i is the least value with at least i/bins of the rows up to it; exact in integers.
            shares = np.arange(1, self.bins) * up_to[-1]
            cuts = values[np.searchsorted(up_to * self.bins, shares)]
        else:
            shares = np.arange(1, self.bins) / self.bins
            cuts = numbers.min() + shares * (numbers.max() - numbers.min())
        return tuple(float(cut) for cut in np.unique(cuts) if cut < numbers.max())


_CUTS = re.compile("(?:quantile|width):[0-9]{1,7}")
_NEAR = re.compile("(quantile|width|)s?[ :=_-]?([0-9]{0,7})", re.IGNORECASE)


def _no_discretisation(text: str) -> ChoiceError:
    """Returns the refusal of a text; it completes a number or a method without the other, in any case."""
    near = _NEAR.fullmatch(text)
    likely = f"{near[1].lower() or 'quantile'}:{near[2] or 4}" if near and text else text
    hint = "give" if likely == text else f"did you mean '{likely}'? Give"
    return ChoiceError(
        f"there is no discretisation '{on_one_line(text, 60)}'; {hint} quantile:B or width:B with B from 2 "
        f"to {_MOST_BINS}, or mdlp:CLASS, where CLASS is a column"
    )


def is_count(name: str) -> bool:
    """Returns whether the name of a column says that it counts how often each row occurs."""
    return re.fullmatch("freq|frequency|counts?", name, re.IGNORECASE) is not None


@dataclass(frozen=True, slots=True)
class Coding:
    """How to code the cells of a file; the options above explain the fields.

    Missing values: "refuse" reports their numbers; "state" adds a state; "drop-rows" and "drop-columns" drop
    rows or columns with missing values; "impute-mode" inserts the column's most frequent state, the first of
    ties; "em" learns from completions drawn under trees, and fits one tree by expectation-maximisation. The
    default words for a missing value apply to text only. Without `discretise`, continuous columns are
    refused.

    Raises:
        ChoiceError: an invalid value or combination.
    """

    columns: tuple[str, ...] | None = COLUMNS.field()
    drop: tuple[str, ...] = DROP.field()
    weights: str | None = WEIGHTS.field()
    crosstab: str | None = CROSSTAB.field()
    missing: Missing = MISSING.field()  # noqa: RUF009 - a field
    missing_values: tuple[str, ...] = MISSING_VALUES.field()
    discretise: Discretisation | None = DISCRETISE.field()  # noqa: RUF009 - a field
    class_column: str | None = CLASS_COLUMN.field()
    schema: Schema = field(default_factory=lambda: MappingProxyType({}), metadata={"option": SCHEMA})
    states: tuple[str, ...] = STATES.field()
    real: tuple[str, ...] = REAL.field()
    max_states: int = MAX_STATES.field()
    decimal: Decimal = DECIMAL.field()  # noqa: RUF009 - a field

    def __post_init__(self) -> None:
        if self.missing not in TREATMENTS:
            raise ChoiceError(no_such("treatment of missing values", self.missing, TREATMENTS))
        if self.discretise is not None and self.discretise.method == "mdlp" and self.classes is None:
            raise ChoiceError(
                "mdlp needs a class column, and none is named; "
                f"give {DISCRETISE('mdlp:CLASS')} or {CLASS_COLUMN}"
            )
        if both := [name for name in self.real if name in self.schema or name in self.states]:
            raise ChoiceError(f"column '{both[0]}' is declared both real and of states; declare it once")
        if self.decimal not in DECIMALS:
            raise ChoiceError(no_such("decimal mark", self.decimal, DECIMALS))
        if self.crosstab is not None and self.weights is not None:
            raise ChoiceError(f"{CROSSTAB} and {WEIGHTS} both name counts; give one of the two")
        if self.max_states < 1:
            raise ChoiceError(f"the largest number of states is {self.max_states}; give 1 or more")
        for word in self.missing_values:  # files of models store them
            if word != word.encode(errors="replace").decode():
                raise ChoiceError(f"the missing value '{word}' is not valid text; give words in UTF-8")

    @property
    def classes(self) -> str | None:
        """The column by which mdlp cuts, or else the class column; None without either."""
        by = None if self.discretise is None else self.discretise.by
        return by or self.class_column

    def declares(self, name: str) -> bool:
        """Returns whether the user declares states or cuts of a column, or declares it real."""
        return name in self.schema or name in self.states or name in self.real

    def reads(self, name: str) -> bool:
        """Returns whether a column of the file is needed, or may count the rows though it is left out."""
        if self.crosstab is not None or name in (self.weights, self.classes):
            return True
        kept = self.columns is None or name in self.columns
        return name not in self.drop and (kept or (self.weights is None and is_count(name)))


@dataclass(frozen=True, slots=True)
class Habits:
    """Options with which data were read, and with which further rows for their model are read.

    Args:
        gaps: words that mean a missing value.
        decimal: decimal mark in texts.
        commas: columns with decimal commas; None for those in which every text is such a number.
        weights: the column that counted the rows, which counts further rows that have it.
        crosstab: the variable that columns of counts made, and these columns; they make it of further rows
            that lack it.
        dialect: of text files.
        given: the dialect given for the further rows; refused if they are no text.
    """

    gaps: tuple[str, ...] = GAPS
    decimal: Decimal = "point"
    commas: tuple[str, ...] | None = None
    weights: str | None = None
    crosstab: str | None = None
    dialect: Dialect = Dialect()
    given: Dialect = Dialect()

    @classmethod
    def of(cls, data: Any) -> Habits:
        """Returns the habits in the provenance of a table, or of a model of one."""
        facts = getattr(data, "provenance", {})
        comma = facts.get("decimal") == "comma"
        return cls(
            tuple(facts.get("missing_value_words", GAPS)),
            "comma" if comma else "point",
            tuple(facts.get("decimal_columns", ())) if comma else None,
            facts.get("weights"),
            facts.get("crosstab"),
            Dialect(**{one.name: facts[one.name] for one in field_options(Dialect) if one.name in facts}),
        )

    @classmethod
    def over(cls, data: Any, how: Reading, given: Container[str]) -> Habits:
        """Returns the habits of a model, with some options replaced.

        Args:
            data: the model.
            how: the options for the further rows.
            given: names of the options that the user gives.
        """
        own, dialect = cls.of(data), how.dialect
        said = {one.name: getattr(dialect, one.name) for one in field_options(Dialect) if one.name in given}
        return cls(
            how.coding.missing_values if "missing_values" in given else own.gaps,
            how.coding.decimal if "decimal" in given else own.decimal,
            None if "decimal" in given and own.decimal == "point" else own.commas,
            own.weights,
            own.crosstab,
            replace(own.dialect, **said),
            dialect,
        )


@dataclass(frozen=True, slots=True)
class Reading:
    """All options of data together.

    Raises:
        ChoiceError: there is a covariance without a number of rows, or the reverse.
    """

    coding: Coding
    dialect: Dialect = Dialect()
    strict: bool = STRICT.field()
    covariance: bool = COVARIANCE.field()
    rows: int | None = ROWS.field()

    def __post_init__(self) -> None:
        if self.covariance and self.rows is None:
            raise ChoiceError(f"a covariance does not give the number of rows behind it; give {ROWS}")
        if self.rows is not None and not self.covariance:
            raise ChoiceError(f"{ROWS(self.rows)} is for a covariance; leave it out, or give {COVARIANCE}")
        is_whole = isinstance(self.rows, Integral) and not isinstance(self.rows, bool)
        if self.rows is not None and not (is_whole and self.rows >= 1):
            raise ChoiceError(f"{ROWS(self.rows)}: give a whole number of 1 or more")


DATA = field_options(Coding, Dialect, Reading)
"""The options of data."""


def names_in(text: str) -> tuple[str, ...]:
    """Returns the words between commas; a word in double quotes may contain commas.

    >>> names_in('a, b,"c,d"')
    ('a', 'b', 'c,d')

    Raises:
        ChoiceError: the text is not a list of names.
    """
    rows = csv.reader([text], skipinitialspace=True)
    try:
        return tuple(name.strip() for name in next(rows, [])) or ("",)
    except csv.Error as error:
        raise ChoiceError(
            f"'{on_one_line(text, 100)}' is not a list of names ({error}); join names by commas, without "
            "line breaks"
        ) from None


def title_of(path: str | Path) -> str:
    """Returns the name of the problem of a data file: its stem; for a pattern, that of the folder.

    >>> title_of("data/zoo.csv.gz"), title_of("data/zoo/*.parquet")
    ('zoo', 'zoo')
    """
    place = Path(path)
    while place.name and is_pattern(place.name):
        place = place.parent
    return printable(stem_of(place))


def is_pattern(path: str) -> bool:
    """Returns whether a path is a pattern of paths."""
    return not {"*", "?", "["}.isdisjoint(path)


def is_data(source: object, score: object) -> bool:
    """Returns whether a source is data, not an instance: by its suffix, or because a score is given."""
    if not isinstance(source, str | Path) or score is not None or Path(source).is_dir():
        return True
    return TABLE.format_to_read(source) is not None
