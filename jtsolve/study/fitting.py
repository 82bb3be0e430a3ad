"""Fitting a model to a study: the one path for every kind of model and every door."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from jtsolve.core.scores import StoppedError
from jtsolve.core.version import __version__
from jtsolve.errors import ChoiceError
from jtsolve.models.learning.task import FitTask
from jtsolve.options import BACKEND, GRAPH, SMOOTHING, TREE, TREEWIDTH, VALIDATE
from jtsolve.scoring.score import DEFAULT_SCORE
from jtsolve.study.kinds import MODELS
from jtsolve.tables.options import COLUMNS

if TYPE_CHECKING:
    from jtsolve.core.run import Run
    from jtsolve.models.files.document import AnyModel
    from jtsolve.models.learning.task import ModelKind
    from jtsolve.study.study import Study
    from jtsolve.study.trees import NamedTree
    from jtsolve.tables.frames import Frame
    from jtsolve.tables.partitions import AnyTable


class Fitted(NamedTuple):
    """A fitted model, and the data that it was fitted to."""

    model: AnyModel
    table: AnyTable


def fitted(
    kind: ModelKind,
    study: Study,
    run: Run,
    *,
    table: AnyTable | None = None,
    structure: NamedTree | None = None,
    validate: Frame = None,
    smoothing: float | None = None,
) -> Fitted:
    """Returns a model of a study.

    Args:
        kind: of model.
        study: data, score, treewidth, restrictions and backend.
        run: limits, progress and interruption.
        table: the data if they are read already; None to read them.
        structure: a junction tree to fit, or to begin with; None to search for one.
        validate: rows that choose among candidates of the kind, and the prior; None for none.
        smoothing: equivalent sample size of the prior of the tables; None for that of the score, else 1.

    Raises:
        ChoiceError: options contradict each other, or have no meaning for the kind.
        InputError: the data cannot be read, or do not match the structure.
        LimitError: the limits ended the work before there was a model.
        KeyboardInterrupt: a signal came before there was one.
    """
    _require_meaning(kind, study, structure)
    if smoothing is not None and validate is not None:
        raise ChoiceError(f"{SMOOTHING} fixes the prior, and {VALIDATE} chooses it; give one of the two")
    if structure is not None and table is None:
        if study.data.reading.coding.columns is not None:
            raise ChoiceError(f"the tree names the columns that are needed; leave out {COLUMNS}")
        study = replace(study, data=study.data.columns(structure.names))
    if table is None:
        table = study.read(run, impute=structure is None or kind.name != "tree")
    study = study.settled(table)
    rows = None
    if validate is not None:
        table, rows = study.data.validation(validate, table, run)
    facts = {} if structure is None else structure.facts
    table = replace(table, provenance=MappingProxyType({**table.provenance, **facts, "jtsolve": __version__}))

    task = FitTask(
        table,
        study.score,
        study.treewidth,
        study.backend,
        study.restrictions.of(table.names),
        smoothing,
        rows,
        None if structure is None else structure.over(table.names),
    )
    with run.phase(f"fitting {kind.name}"), run.interruptible():
        try:
            model = kind.fit(task, run)
        except StoppedError:
            raise KeyboardInterrupt from None
    return Fitted(
        replace(model, provenance=MappingProxyType({**model.provenance, "method": MODELS.text_of(kind)})),
        table,
    )


def default_score(kind: ModelKind, structure: NamedTree | None) -> str:
    """Returns the name of the score where none is named; of a structure of real numbers, it is Gaussian."""
    if structure is not None and structure.gaussian:
        return "gaussian-bic"
    return getattr(kind, "default_score", DEFAULT_SCORE)


def _require_meaning(kind: ModelKind, study: Study, structure: NamedTree | None) -> None:
    """Refuses choices that the kind of model does not use, so that none is ignored."""
    given = {
        "treewidth": (str(TREEWIDTH), study.treewidth is not None),
        "backend": (str(BACKEND), study.backend is not None),
        "constraints": ("constraints", bool(study.restrictions)),
        "tree": (f"{TREE} and {GRAPH}", structure is not None),
    }
    useless = [words for name, (words, present) in given.items() if present and name not in kind.uses]
    if useless:
        them = "it" if len(useless) == 1 else "them"
        raise ChoiceError(f"the model '{kind.name}' does not use {', '.join(useless)}; leave {them} out")
    if kind.name == "tree" and structure is None and study.treewidth is None:
        raise ChoiceError(f"the tree to fit is missing; give {TREEWIDTH}, {TREE} or {GRAPH}")
    if structure is not None and kind.name == "tree":
        named = [words for name, (words, present) in given.items() if present and name != "tree"]
        if named:
            raise ChoiceError(f"the tree is given, and none is searched; leave out {', '.join(named)}")
