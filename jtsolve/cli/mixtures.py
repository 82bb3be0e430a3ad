"""`jtsolve fit --components`: a mixture of junction trees, or of feature trees, from data."""

import re
import signal
import threading
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from jtsolve.cli.options import ConstraintOptions
from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jtsolve.cli.fit_task import FitTask
    from jtsolve.core.backend import Backend, Limits
    from jtsolve.models.files.document import AnyModel
    from jtsolve.models.learning.mixture_em import EmOptions
    from jtsolve.models.mixture import Component, Mixture
    from jtsolve.tables.partitions import PartitionedTable
    from jtsolve.tables.table import DataTable


@dataclass(frozen=True, slots=True)
class MixtureOptions:
    """Which mixture to fit.

    Attributes:
        sizes: numbers of components; the validation rows choose among several.
        restarts: the number of starts.
        treewidth: of the junction trees; None for LEM, which has none.
        backend: learns the trees; None for `forward`: they are learned again and again, which needs speed.
        constrain: constraints on every tree.
        features: method and options of feature trees, as in `FeatureOptions`; None for junction trees.
    """

    sizes: tuple[int, ...]
    restarts: int
    treewidth: int | None
    backend: "Backend | None"
    constrain: ConstraintOptions
    features: str | None


def read_sizes(text: str, option: str = "--components") -> tuple[int, ...]:
    """Returns the numbers of components, or those of another option, in a text such as "1,2,4".

    Raises:
        ChoiceError: they are not increasing numbers of at least 1.

    >>> read_sizes("1,2,4")
    (1, 2, 4)
    """
    words = [word.strip() for word in text.split(",")]
    sizes = tuple(int(word) for word in words if re.fullmatch(r"\d{1,9}", word))
    if len(sizes) < len(words) or sizes[0] < 1 or any(a >= b for a, b in pairwise(sizes)):
        raise ChoiceError(f"{option} {text}: give increasing numbers of at least 1, such as 2 or 1,2,4,8")
    return sizes


def fit_components(
    task: "FitTask", options: MixtureOptions, limits: "Limits", *, shown: bool
) -> "tuple[AnyModel, DataTable | PartitionedTable]":
    """Returns the fitted mixture, or its tree if it has only one, and the data.

    Raises:
        ChoiceError: the score is for real numbers, there are several sizes and no validation rows, or a
            number is out of range.
        LimitError: the time ended before there was a mixture.
    """
    from jtsolve.models.learning.mixture_em import fit_mixture, fit_mixture_validated
    from jtsolve.models.learning.partitioned_em import fit_mixture_by_partitions
    from jtsolve.progress import progress, tell
    from jtsolve.tables import partitions
    from jtsolve.tables.table import ContinuousTable

    if len(options.sizes) > 1 and task.validate is None:
        raise ChoiceError("--components with several numbers needs --validate DATA, rows that choose one")
    how = _expectation(task, options, limits)  # refuses before anything is read
    deadline = None if limits.time is None else limits.started + limits.time
    with terminable(), progress("reading", shown=shown) as listener:

        def told(words: str) -> None:
            tell(listener, words)

        table, rows = task.read(limits, listener, (options.treewidth or 1) + 1)
        assert not isinstance(table, ContinuousTable), "a score of states has read states"
        how = how.with_trees(constraints=options.constrain.of(table.names))
        if isinstance(table, partitions.PartitionedTable):
            if rows is not None:
                raise ChoiceError(
                    "--validate chooses among mixtures of rows in one place; leave --executor out"
                )
            mixture = fit_mixture_by_partitions(table, options.sizes[0], how, told, deadline=deadline)
        elif rows is None:
            mixture = fit_mixture(table, options.sizes[0], how, told, deadline=deadline)
        else:
            mixture = fit_mixture_validated(
                table, rows, how, sizes=options.sizes, progress=told, deadline=deadline
            )
    return _with_provenance(mixture, task, options, how), table


def _expectation(task: "FitTask", options: MixtureOptions, limits: "Limits") -> "EmOptions":
    """Returns how to fit."""
    from jtsolve.backends.registry import REGISTRY
    from jtsolve.models.learning.feature_trees import feature_learner
    from jtsolve.models.learning.learner import Learner
    from jtsolve.models.learning.mixture_em import EmOptions
    from jtsolve.scoring.score import is_discrete

    score = task.data.score
    if not is_discrete(score):
        raise ChoiceError(
            f"--components is for models of states, and the score '{score.name}' is of real numbers; take "
            "another, such as bic, with --discretise where columns are continuous"
        )
    learner = Learner(
        score,
        options.backend or REGISTRY["forward"],
        options.treewidth or 0,
        threads=limits.threads,
        seed=limits.seed,
        memory=limits.memory,
    )
    how: Any = learner if options.features is None else feature_learner(options.features, learner, task.ess)
    return EmOptions(how, ess=task.ess, restarts=options.restarts, seed=limits.seed)


def _with_provenance(
    mixture: "Mixture", task: "FitTask", options: MixtureOptions, how: "EmOptions"
) -> "AnyModel":
    """Returns the mixture with its provenance; a mixture of one tree is that tree."""
    from jtsolve.core.version import __version__

    remarks = {**mixture.provenance, "jtsolve": __version__}
    if options.features is not None:
        remarks["method"] = options.features
    if options.treewidth is not None:
        backend = how.trees.backend
        assert backend is not None, "never auto"
        score = task.data.score.name
        remarks |= {"score": score, "treewidth_allowed": options.treewidth, "backend": backend.name}
    if len(mixture.components) == 1:
        return replaced(mixture.components[0], remarks)
    return replace(mixture, provenance=remarks)


def replaced(model: "Component", remarks: "dict[str, Any]") -> "Component":
    """Returns a model with another provenance."""
    from jtsolve.models.features.tree import FeatureTree

    if isinstance(model, FeatureTree):
        return FeatureTree(model.columns, model.nodes, remarks)
    return replace(model, provenance=remarks)


@contextmanager
def terminable() -> "Iterator[None]":
    """Makes SIGTERM act like Ctrl-C: end with the best model so far; only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous: Callable[..., object] | int | None = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
