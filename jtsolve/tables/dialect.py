"""How delimited text is written: header, separator, encoding."""

from __future__ import annotations

from dataclasses import dataclass

from jtsolve.errors import ChoiceError

SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|", "blank": " "}
"""By their names on the command line; a blank matches any run of blanks and tabs."""

UTF_8 = "utf-8"


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a text is written.

    Args:
        header: whether the first line names the columns; otherwise they are V1, V2, ….
        separator: a name in `SEPARATORS`, or the character itself: one of these, or another ASCII mark such
            as "/"; None to guess.
        encoding: a name that Python knows.

    Raises:
        ChoiceError: an invalid value.
    """

    header: bool = True
    separator: str | None = None
    encoding: str = UTF_8

    def __post_init__(self) -> None:
        if not isinstance(self.header, bool):
            raise ChoiceError(f"header={self.header!r} is neither True nor False; give one of them")
        separator = SEPARATORS.get(str(self.separator), self.separator)
        if separator is not None and not _separates(separator):
            raise ChoiceError(
                f"there is no separator '{separator}'; there are {', '.join(SEPARATORS)}, or another mark"
            )
        object.__setattr__(self, "separator", separator)

    def refuse(self, source: str, reason: str) -> None:
        """Checks that nothing is said of data without a dialect.

        Args:
            source: the name of the data.
            reason: why they have none.

        Raises:
            ChoiceError: something is said; names the options.
        """
        said = {
            "--separator": self.separator is not None,
            "--no-header": not self.header,
            "--encoding": self.encoding != UTF_8,
        }
        flags = [flag for flag, given in said.items() if given]
        if flags:
            raise ChoiceError(f"{source}: {reason}; leave out {', '.join(flags)}")


def _separates(mark: object) -> bool:
    """Tells whether a value is a character that can stand between values."""
    if not isinstance(mark, str) or len(mark) != 1:
        return False
    is_mark = mark.isascii() and mark.isprintable() and not mark.isalnum() and mark not in "\"'+-.?"
    return is_mark or mark == "\t"
