"""`jtsolve fit --hidden`: a hidden Chow–Liu tree from data, or several."""

from dataclasses import replace
from typing import TYPE_CHECKING

from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from jtsolve.cli.fit_task import FitTask
    from jtsolve.cli.options import ConstraintOptions
    from jtsolve.core.run import Run
    from jtsolve.models.mixture import Mixture
    from jtsolve.models.model import JunctionTreeModel
    from jtsolve.tables.table import DataTable


def fit_hidden(
    task: "FitTask",
    states: str,
    trees: str | None,
    run: "Run",
    constrain: "ConstraintOptions",
) -> "tuple[JunctionTreeModel | Mixture, DataTable]":
    """Returns the fitted tree, or a mixture, and the data.

    Args:
        task: the data, and the rows for validation, if any.
        states: numbers of hidden states, with commas.
        trees: how many are mixed; None for one.
        run: time, memory, seed and progress.
        constrain: constraints on the forest.

    Raises:
        ChoiceError: the score is for real numbers, there are several numbers and no validation rows, or a
            number is out of range.
        LimitError: the time ended before there was a model.
    """
    from jtsolve.cli.mixtures import read_sizes
    from jtsolve.core.version import __version__
    from jtsolve.models.learning.hidden_trees import HiddenTrees, fit_hidden_tree
    from jtsolve.scoring.score import is_discrete
    from jtsolve.tables.table import DataTable

    score = task.data.score
    if not is_discrete(score):
        raise ChoiceError(
            f"--hidden is for models of states, and the score '{score.name}' is of real numbers; take "
            "another, such as bic, with --discretise where columns are continuous"
        )
    count, *more = (1,) if trees is None else read_sizes(trees)
    if more:
        raise ChoiceError(f"--components {trees}: give one number of hidden trees to mix")
    how = HiddenTrees(read_sizes(states, "--hidden"), task.ess, seed=run.seed, trees=count)
    if len(how.states) > 1 and task.validate is None:
        raise ChoiceError("--hidden with several numbers needs --validate DATA, rows that choose one")
    with run.phase("reading"):
        table, rows = task.read(run, 2)
        if not isinstance(table, DataTable):
            raise ChoiceError("--hidden takes all rows in one place; leave --executor out")
        learner = replace(
            how.learner,
            score=score,
            constraints=constrain.of(table.names),
        )
        how = replace(how, learner=learner)
        model = fit_hidden_tree(table, how, rows, run=run)
    remarks = {**model.provenance, "score": score.name, "backend": "chowliu", "jtsolve": __version__}
    return replace(model, provenance=remarks), table
