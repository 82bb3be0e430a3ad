"""`jtsolve fit --components`: a mixture of junction trees from data."""

import signal
import threading
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jtsolve.cli.fit_task import Fit
    from jtsolve.core.backend import Backend, Limits
    from jtsolve.models.learning.mixture_em import EmOptions
    from jtsolve.models.mixture import Mixture
    from jtsolve.models.queries import StateModel
    from jtsolve.tables.table import DataTable

_QUICK = "forward"
"""What `auto` takes: the trees of a mixture are learned again and again, which asks for a quick backend."""


@dataclass(frozen=True, slots=True)
class Components:
    """What mixture is wanted.

    Attributes:
        sizes: numbers of components; of several the validation rows choose.
        restarts: how often to begin anew.
        treewidth: of the trees.
        backend: what looks for the trees: a name, with options or not.
        options: more of them, "key=value".
    """

    sizes: tuple[int, ...]
    restarts: int
    treewidth: int
    backend: str
    options: tuple[str, ...]


def read_sizes(text: str) -> tuple[int, ...]:
    """Returns the numbers of components that "1,2,4" says.

    Raises:
        ChoiceError: they are no increasing numbers of at least 1.

    >>> read_sizes("1,2,4")
    (1, 2, 4)
    """
    words = [word.strip() for word in text.split(",")]
    sizes = tuple(int(word) for word in words if word.isdecimal())
    if len(sizes) < len(words) or sizes[0] < 1 or any(a >= b for a, b in pairwise(sizes)):
        raise ChoiceError(f"--components {text}: give increasing numbers of at least 1, such as 2 or 1,2,4,8")
    return sizes


def fit_components(
    task: "Fit", wanted: Components, limits: "Limits", *, shown: bool
) -> "tuple[StateModel, DataTable]":
    """Returns the fitted mixture, or its tree if it has only one, and the data.

    Raises:
        ChoiceError: the score is one of real numbers, there are several sizes and no validation rows, or a
            number does not fit.
        LimitError: the time ended before there was a mixture.
    """
    from jtsolve.cli.progress import progress
    from jtsolve.models.columns import columns_of, read_codes
    from jtsolve.models.learning.mixture_em import fit_mixture, fit_mixture_validated
    from jtsolve.tables.table import DataTable

    if len(wanted.sizes) > 1 and task.validate is None:
        raise ChoiceError("--components with several numbers needs --validate DATA, rows that choose of them")
    how = _expectation(task, wanted, limits)
    table = task.read(task.coding)
    assert isinstance(table, DataTable), "a score of states has read states"
    deadline = None if limits.time is None else limits.started + limits.time
    with _terminable(), progress("reading", shown=shown) as listener:

        def told(words: str) -> None:
            if listener is not None:
                listener(seconds=limits.elapsed, score=None, bound=float("inf"), done=None, note=words)

        if task.validate is None:
            mixture = fit_mixture(table, wanted.sizes[0], how, told, deadline=deadline)
        else:
            columns = columns_of(table)
            rows = read_codes(task.validate, columns, gaps=task.coding.gaps, header=task.header)
            mixture = fit_mixture_validated(
                table, rows, how, sizes=wanted.sizes, progress=told, deadline=deadline
            )
    return _with_remarks(mixture, task, wanted, how), table


def _expectation(task: "Fit", wanted: Components, limits: "Limits") -> "EmOptions":
    """Returns how to fit."""
    from jtsolve.models.learning.learner import Learner
    from jtsolve.models.learning.mixture_em import EmOptions
    from jtsolve.scoring.score import is_discrete

    if not is_discrete(task.score):
        raise ChoiceError(
            f"--components is for models of states, and the score '{task.score.name}' is of real numbers; "
            "take such as bic, with --discretise where columns are continuous"
        )
    learner = Learner(
        task.score,
        _backend(wanted),
        wanted.treewidth,
        threads=limits.threads,
        seed=limits.seed,
        memory=limits.memory,
    )
    ess = task.smoothing if task.smoothing is not None else getattr(task.score, "ess", 1.0)
    return EmOptions(learner, ess=ess, restarts=wanted.restarts, seed=limits.seed)


def _backend(wanted: Components) -> "Backend":
    from jtsolve.backends.parse import make_backend, split_backend, split_options
    from jtsolve.cli.solve import AUTO

    name, options = split_backend(wanted.backend)
    if name == AUTO and wanted.options:
        raise ChoiceError("--option is for a backend, but auto chooses that; name it: --backend NAME")
    return make_backend(_QUICK if name == AUTO else name, options | split_options(list(wanted.options)))


def _with_remarks(mixture: "Mixture", task: "Fit", wanted: Components, how: "EmOptions") -> "StateModel":
    """Returns the mixture with remarks on where it is from; a mixture of one tree is that tree."""
    from jtsolve import __version__

    backend = how.learner.backend
    assert backend is not None, "auto has been replaced by a name"
    remarks = {
        **mixture.provenance,
        "score": task.score.name,
        "treewidth_allowed": wanted.treewidth,
        "backend": backend.name,
        "jtsolve": __version__,
    }
    if len(mixture.components) == 1:
        return replace(mixture.components[0], provenance=remarks)
    return replace(mixture, provenance=remarks)


@contextmanager
def _terminable() -> "Iterator[None]":
    """Lets SIGTERM do what Ctrl-C does: end with the best mixture so far; only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous: Callable[..., object] | int | None = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
