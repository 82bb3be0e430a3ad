"""The exceptions of jtsolve, drawn as a tree.

    JtsolveError
    ├── InputError          the user's input: a malformed file or value                      (exit code 2)
    ├── ChoiceError         the user's choice: an option, name or combination not available  (exit code 2)
    │   └── RefusedError    a backend that cannot accept this problem, with every reason
    ├── LimitError          the limits are too small for the work; refused before it starts  (exit code 4)
    │   └── NotConvergedError  chains that disagree: their estimates must not be used        (exit code 5)
    └── InternalError       our bug: the check rejects the answer of a backend               (exit code 70)

Every message names the fault, its place, its reason and a remedy.
"""

from __future__ import annotations

from contextlib import ContextDecorator
from inspect import isfunction
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from jtsolve.options import DOOR, worded

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jtsolve.options import Door, Option

_Kind = TypeVar("_Kind")

_LONGEST_PART = 1000
_LONGEST_REMEDY = 4000
_LONGEST_MESSAGE = 8000
"""Characters; every message that lists all backends with their reasons is shorter."""


def printable(text: str) -> str:
    r"""Returns a text whose unprintable characters, except newlines, are escaped.

    These are control characters, surrogates, and characters that break, reverse or hide text.

    >>> printable("a\x1b[2J")
    'a\\u001b[2J'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else _escape(ord(c)) for c in text)


def _escape(code: int) -> str:
    return f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"


def on_one_line(text: str, longest: int) -> str:
    r"""Returns a text that quotes input: printable, newlines escaped too, its middle cut out if it is long.

    >>> on_one_line("a" * 9 + "\nb", 8)
    'aaaa…a\\u000ab'
    """
    if len(text) > longest:
        text = f"{text[: longest // 2]}…{text[len(text) - (longest - longest // 2 - 1) :]}"
    return printable(text).replace("\n", "\\u000a")


def name_list(names: Sequence[str]) -> str:
    """Returns the first names in quotes, and the number of others."""
    shown = ", ".join(f"'{name}'" for name in names[:8])
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"  # noqa: PLR2004 - a line of text


def require_type(option: Option, value: Any) -> None:
    """Checks the type of a value from Python: a number, True or False, or a path where the option is one.

    Raises:
        ChoiceError: it is another.
    """
    if value is None or value is option.default:
        return
    is_bool = type(value).__name__ in ("bool", "bool_")  # bool_ is that of numpy
    checks = {
        bool: (is_bool, "True or False"),
        int: (isinstance(value, Integral) and not is_bool, "a whole number"),
        float: (isinstance(value, Real) and not is_bool, "a number"),
        Path: (not (is_bool or isinstance(value, Real)), "a path"),
    }
    fits, words = checks.get(option.type, (True, ""))
    if not fits:
        raise ChoiceError(f"{option.name}={on_one_line(repr(value), 60)}: give {words}")


def no_such(kind: str, name: str, known: Iterable[str]) -> str:
    """Returns the sentence that refuses an unknown name.

    Args:
        kind: of the thing, such as a format.
        name: that does not exist.
        known: the names that exist.

    >>> no_such("format", "JSON", ["json", "bif"])
    "there is no format 'JSON'; did you mean 'json'? There are: json, bif"
    """
    near = nearest_word(name, known := tuple(known))
    hint = f"did you mean '{near}'? There" if near else "there"
    return f"there is no {kind} '{name}'; {hint} are: {', '.join(known)}"


def use_one_of(name: str, known: Iterable[str]) -> str:
    """Returns the remedy for an unknown name, such as that of a variable, of which there may be many.

    >>> use_one_of("smokr", ["Age", "Smoker"])
    "did you mean 'Smoker'? Use one of 'Age', 'Smoker'"
    """
    near = nearest_word(name, known := tuple(known))
    hint = f"did you mean '{near}'? Use" if near else "use"
    return f"{hint} one of {name_list(known)}"


def nearest_word(word: str, words: Iterable[str]) -> str | None:
    """Returns the word nearest to a misspelt one, ignoring case; None if all are far."""
    from difflib import get_close_matches

    by_lower = {known.lower(): known for known in words}
    near = get_close_matches(str(word).lower(), by_lower, n=1)  # Python may be given any value
    return by_lower[near[0]] if near else None


class JtsolveError(Exception):
    """The root of all errors that jtsolve raises on purpose; its message is printable.

    Attributes:
        door: whose spelling of options the message has; None for that of the context that prints it.
    """

    door: Door | None = None

    def __str__(self) -> str:
        return self._shown(self.args[0], _LONGEST_MESSAGE)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def _shown(self, text: str, longest: int) -> str:
        return on_one_line(worded(text, self.door), longest)


class InputError(JtsolveError):
    """The user's input is wrong: names the place (in a file or an argument), the reason and the fix.

    >>> print(InputError("a.json", "scores.values[3]", "NaN is not a score", "write a finite number"))
    a.json: scores.values[3]: NaN is not a score. Fix: write a finite number.
    """

    def __init__(self, source: str, place: str, reason: str, remedy: str) -> None:
        super().__init__(source, place, reason, remedy)
        self.source = source
        self.place = place
        self.reason = reason
        self.remedy = remedy

    def __str__(self) -> str:
        parts = (self.source, self.place, f"{self.reason}.")
        quoting = ": ".join(self._shown(part, _LONGEST_PART) for part in parts if part)
        return f"{quoting} {self._shown(f'Fix: {self.remedy}.', _LONGEST_REMEDY)}"


class ChoiceError(JtsolveError):
    """The user's choice is not available; the message lists the available ones."""


class RefusedError(ChoiceError):
    """A backend refuses a problem.

    Attributes:
        backend: its name.
        reasons: every objection, one sentence each.
    """

    def __init__(self, backend: str, reasons: Sequence[str]) -> None:
        super().__init__(backend, tuple(reasons))
        self.backend = backend
        self.reasons = tuple(reasons)

    def __str__(self) -> str:
        message = f"backend '{self.backend}' refuses this problem: {' '.join(self.reasons)}"
        return self._shown(message, _LONGEST_MESSAGE)


class LimitError(JtsolveError):
    """A limit is too small for the work; the message names the need and the remedies."""


class NotConvergedError(LimitError):
    """The chains over graphs disagree within the limits: their estimates must not be used."""


class InternalError(JtsolveError):
    """A bug of jtsolve or of a solver under it: an answer that the independent check rejects."""


class at(ContextDecorator):  # noqa: N801 - reads as a preposition
    """Words messages for a door in a block or function, and for good the errors that leave it.

    These begin where the user called: frames of ours explain nothing, except those of our bugs.

    Args:
        door: None for that of the context.
    """

    def __init__(self, door: Door | None) -> None:
        self._door = door

    def _recreate_cm(self) -> at:
        """Returns a context for each call of a decorated function."""
        return at(self._door)

    def __enter__(self) -> Any:
        self._token = DOOR.set(self._door or DOOR.get())

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, JtsolveError):
            error.door = error.door or DOOR.get()
            if not isinstance(error, InternalError):
                error.__traceback__ = None
        DOOR.reset(self._token)


def public(kind: type[_Kind]) -> type[_Kind]:
    """Makes the tracebacks of errors of a class's public methods begin where the user called; see `at`."""
    for name, member in vars(kind).copy().items():
        if name.startswith("_"):
            continue
        if isinstance(member, classmethod):
            setattr(kind, name, classmethod(at(None)(member.__func__)))
        elif isinstance(member, property):
            assert member.fget is not None, "all are read"
            setattr(kind, name, property(at(None)(member.fget)))
        elif isfunction(member):
            setattr(kind, name, at(None)(member))
    return kind
