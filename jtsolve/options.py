"""User options: each is declared once, here or in `tables.options`, and messages name them by reference.

An option becomes an option of the shell, a keyword in Python and a parameter of the estimators. A message
holds references, f"give {MISSING('state')}, or {DROP(names)}", and the *door* that prints it spells them:

    shell       give --missing state, or --drop 'a b'
    Python      give missing="state", or drop="a b"
    estimators  give missing="state", or X.drop(columns="a b")

A reference is text: all three spellings, between control characters that no printable message contains.
`worded` replaces it by the one of the door, in errors as they are printed.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
import shlex
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Door(Enum):
    """Where a message is read, as the position of its spelling in a reference."""

    SHELL = 0
    PYTHON = 1
    ESTIMATOR = 2


DOOR: ContextVar[Door] = ContextVar("door", default=Door.PYTHON)
"""The door at which the current context prints; see `errors.at`."""

_BEGIN, _BETWEEN, _END = "\x02\x1f\x03"
_REFERENCE = re.compile("\x02([^\x1f\x03]*)\x1f([^\x1f\x03]*)\x1f([^\x1f\x03]*)\x03")
_HARMLESS = {ord(mark): f"\\u{ord(mark):04x}" for mark in (_BEGIN, _BETWEEN, _END)}


READ = "--read"
"""The option of the shell that holds those of data that few users need."""


@dataclass(frozen=True, slots=True)
class Option:
    """A user option.

    Args:
        name: the keyword in Python.
        type: of its value: int, float, str, bool, Path, or tuple for names, which the shell takes between
            commas.
        help: a sentence for the help of commands.
        default: its value if it is not given.
        metavar: its value in the help of commands.
        least: lower bound of a number.
        flag: its name in the shell, without hyphens before it; empty for that of Python, after "no-" if it is
            on by default.
        python: its spelling in Python, "…" for the value; empty for a keyword of its name.
        estimator: the same for estimators; empty for the spelling in Python.
        within: the option of the shell that holds it as KEY=VALUE; empty for a separate option.
    """

    name: str
    type: type = str
    help: str = ""
    default: Any = None
    metavar: str | None = None
    least: int | None = None
    flag: str = ""
    python: str = ""
    estimator: str = ""
    within: str = ""

    def __post_init__(self) -> None:
        flag = self.flag or f"{'no-' * (self.default is True)}{self.name.replace('_', '-')}"
        object.__setattr__(self, "flag", f"--{flag}")

    def field(self) -> Any:
        """Returns the field of a dataclass that holds the option."""
        return dataclasses.field(default=self.default, metadata={"option": self})

    def __call__(self, value: Any) -> str:
        """Returns a reference to the option with a value.

        >>> [worded(Option("states", tuple)(["a b", "c"]), door) for door in (Door.SHELL, Door.PYTHON)]
        ["--states 'a b,c'", 'states=["a b", "c"]']
        """
        if self.within:
            shell = f"{self.within} {_word(f'{self.name}={_text(value)}')}"
        else:
            shell = self.flag if self.type is bool else f"{self.flag} {_word(value)}"
        return self._reference(shell, lambda spelling: spelling.replace("…", _literal(value)))

    def __str__(self) -> str:
        """Returns a reference to the option.

        >>> worded(f"leave out {Option('strict', bool, default=False)}", Door.SHELL)
        'leave out --strict'
        """
        if self.type is bool:
            return self(not self.default)
        shell = f"{self.within} {self.name}=" if self.within else self.flag
        return self._reference(shell, lambda spelling: spelling.removesuffix("…"))

    def _reference(self, shell: str, complete: Callable[[str], str]) -> str:
        python = self.python or f"{self.name}=…"
        spelled = (shell, complete(python), complete(self.estimator or python))
        return _BEGIN + _BETWEEN.join(text.translate(_HARMLESS) for text in spelled) + _END


def worded(text: str, door: Door | None = None) -> str:
    """Returns a message with its references spelled for a door, by default that of the current context."""
    return _REFERENCE.sub(lambda found: found[(door or DOOR.get()).value + 1], text)


def field_options(*kinds: type) -> tuple[Option, ...]:
    """Returns the options that dataclasses hold."""
    held = (entry for kind in kinds for entry in dataclasses.fields(kind))
    return tuple(entry.metadata["option"] for entry in held if "option" in entry.metadata)


def names_as_words(names: Sequence[str]) -> str:
    """Returns names as one word of a command line, with commas between them.

    >>> names_as_words(["a", "b c", "d,e"])
    'a,b c,"d,e"'
    """
    stream = io.StringIO()
    csv.writer(stream, lineterminator="").writerow(names)
    return stream.getvalue()


def _text(value: Any) -> str:
    """Returns a value as text between commas."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | float) else names_as_words(value)


def _word(value: Any) -> str:
    """Returns a value in the spelling of the shell, with a visible end."""
    word = _text(value)
    return word if re.fullmatch(r"[\w,:=.…-]*[\w…]", word) else shlex.quote(word)


def _literal(value: Any) -> str:
    """Returns a value as Python writes it; a single name without a list."""
    if isinstance(value, int | float):
        return repr(value)
    if not isinstance(value, str):
        value = value[0] if len(value) == 1 else list(value)
    return json.dumps(value, ensure_ascii=False)


TREEWIDTH = Option("treewidth", int, "Largest clique size minus one.", metavar="K", least=0)
BACKEND = Option("backend", str, "The backend; see 'jtsolve backends'.", "auto", "NAME")
K_BEST = Option("k_best", int, "The K best trees, in order.", metavar="K")
WITHIN = Option(
    "within", float, f"All trees within NATS of the best; with {K_BEST}, K at most.", metavar="NATS"
)
SEED = Option("seed", int, "Seed of everything random.", 0, "N", least=0, estimator="random_state=…")
TIME = Option(
    "time", float, "Seconds from start to finish, reading included.", metavar="S", flag="time-limit"
)
MEMORY = Option(
    "memory",
    float,
    "GB; default: 80 % of free memory. Compiling needs 0.4.",
    metavar="GB",
    flag="memory-limit",
)
THREADS = Option("threads", int, "Threads; the default is all cores.", metavar="N", least=1)
EXECUTOR = Option("executor", str, "local, dask (workers on this machine), or dask=ADDRESS.", "local", "NAME")
SCORE = Option(
    "score",
    str,
    "Score of data, such as bdeu:ess=10; see 'jtsolve scores'.",
    metavar="NAME",
    estimator="local_score=…",
)
MAX_SIZE = Option(
    "max_size",
    int,
    "Size of the largest scored sets of data; the default is treewidth + 1.",
    metavar="K",
    least=1,
    python="treewidth=…",
)
MODEL = Option("model", str, "The kind of model; see 'jtsolve models'.", "tree", "KIND")
PAGE = Option("output", Path, python="show(…)")
TREE = Option("tree", Path, "Begin with the junction tree of this result.", metavar="RESULT")
GRAPH = Option("graph", Path, "Begin with a triangulation of this graph.", metavar="GRAPH")
VALIDATE = Option("validate", Path, "Rows that choose the prior, and among candidates.", metavar="DATA")
SMOOTHING = Option(
    "smoothing",
    float,
    "Equivalent sample size of the prior of the tables; default: that of the score, else 1.",
    metavar="A",
)
FORBID = Option("forbid", tuple, "No edge between these two.", (), "A,B")
REQUIRE = Option("require", tuple, "An edge between these two.", (), "A,B")
CONSTRAINTS = Option(
    "constraints",
    tuple,
    "A constraint of the instance format, such as max_cliques=5, or a file of them.",
    metavar="KEY=VALUE",
    flag="constraint",
)
METHOD = Option(
    "method", str, "Exact or certified sums, chains or bootstrap; see 'jtsolve methods'.", "auto", "METHOD"
)
EDGE_ODDS = Option("edge_odds", float, "Prior odds of an edge.", 1.0, "X")
TREES = Option("trees", int, "Draw N trees instead.", 0, "N", least=0)
KIND = Option(
    "kind", help="gaussian, nonparanormal, or states.", metavar="KIND", estimator="jtsolve.select(kind=…)"
)
SCREEN = Option("screen", str, "complete, correlation:R, or pc as in pc:1,level=0.1.", metavar="TEXT")
SUPERSET = Option("superset", Path, "A graph, result or posterior in place of a screen.", metavar="GRAPH")
OVER = Option("over", str, "junction-tree[:LARGEST SEPARATOR], or plain.", metavar="TEXT")
PROOF = Option("certificate", Path, "Write a proof of the bound (.json, .json.gz).", metavar="FILE")
MOST = Option(
    "most",
    int,
    "Most unobserved cases; default: the number of observed ones, at least 300.",
    metavar="N",
)
STRATA = Option("strata", str, "The column that divides the cases into strata.", metavar="NAME")
DELTA = Option("delta", float, "Prior cases of a cell; default: one in all cells.", metavar="X")

KEYWORDS = {
    word: option.name
    for option in tuple(vars().values())
    if isinstance(option, Option) and not option.python
    for word in (option.name, option.flag.lstrip("-").replace("-", "_"))
}
"""Keywords in Python by their words in Python and in the shell, for hints."""
