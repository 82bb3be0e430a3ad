"""The exceptions of jtsolve, drawn as a tree.

    JtsolveError
    ├── InputError          the user's input: a malformed file or value                      (exit code 2)
    ├── ChoiceError         the user's choice: an option, name or combination not available  (exit code 2)
    │   └── RefusedError    a backend that cannot take this problem, with every reason
    ├── LimitError          the limits are too small for the work; refused before it starts  (exit code 4)
    └── InternalError       our bug: the check rejects the answer of a backend               (exit code 70)

Every message says what is wrong, where, why, and what to do about it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class JtsolveError(Exception):
    """The root of all errors that jtsolve raises on purpose."""


class InputError(JtsolveError):
    """The user's input is wrong: names the place (in a file or an argument), the reason and the fix.

    >>> print(InputError("a.json", "scores.values[3]", "NaN is not a score", "write a finite number"))
    a.json: scores.values[3]: NaN is not a score. Fix: write a finite number.
    """

    def __init__(self, source: str, place: str, reason: str, remedy: str) -> None:
        self.source = source
        self.place = place
        self.reason = reason
        self.remedy = remedy
        where = f"{source}: {place}" if place else source
        super().__init__(f"{where}: {reason}. Fix: {remedy}.")


class ChoiceError(JtsolveError):
    """The user's choice is not available; the message lists the available ones."""


class RefusedError(ChoiceError):
    """A backend refuses a problem.

    Attributes:
        backend: its name.
        reasons: every objection, one sentence each.
    """

    def __init__(self, backend: str, reasons: Sequence[str]) -> None:
        self.backend = backend
        self.reasons = tuple(reasons)
        super().__init__(f"backend '{backend}' refuses this problem: " + " ".join(self.reasons))


class LimitError(JtsolveError):
    """A limit is too small for the work; the message names the need and the remedies."""


class InternalError(JtsolveError):
    """A bug of jtsolve or of a solver under it: an answer that the independent check rejects."""
