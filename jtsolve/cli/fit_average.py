"""`jtsolve fit --average`: a mixture of trees drawn from the posterior."""

from dataclasses import replace
from typing import TYPE_CHECKING

from jtsolve.cli.scoring import plan_table, score_plan, silent
from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from jtsolve.cli.fit_task import FitTask
    from jtsolve.cli.options import ConstraintOptions
    from jtsolve.core.backend import Limits
    from jtsolve.models.files.document import AnyModel
    from jtsolve.tables.table import DataTable


def fit_average(
    task: "FitTask",
    count: int,
    treewidth: int,
    limits: "Limits",
    constrain: "ConstraintOptions",
    *,
    shown: bool,
) -> "tuple[AnyModel, DataTable]":
    """Returns the mixture of the drawn trees, and the data.

    Raises:
        ChoiceError: the score is for real numbers, rows are to choose the prior, or no graph meets the
            constraints.
        NotConvergedError: the exact draws do not fit, and the chains disagree.
        LimitError: the limits are too small.
    """
    from jtsolve.averaging.average import remark_on_scores
    from jtsolve.averaging.running import tabulation_to_average
    from jtsolve.averaging.sampling import draw_trees
    from jtsolve.cli.output import murmur
    from jtsolve.core.version import __version__
    from jtsolve.models.learning.averaged import fit_averaged
    from jtsolve.progress import progress
    from jtsolve.scoring.score import is_discrete
    from jtsolve.tables.table import DataTable

    score = task.data.score
    if not is_discrete(score):
        raise ChoiceError(
            f"--average mixes models of states, and the score '{score.name}' is of real numbers; take "
            "another, such as bdeu, with --discretise where columns are continuous"
        )
    if task.validate is not None:
        raise ChoiceError(
            "--average has the prior of its score; leave out --validate, or fix the prior by --smoothing A"
        )
    with progress(f"reading {task.data.path.name}", shown=shown) as listener:
        table, _ = task.read(limits, listener, treewidth + 1)
    assert isinstance(table, DataTable), "a score of states has read states"
    constraints = constrain.of(table.names)
    rule = tabulation_to_average(table.n, treewidth + 1, "auto", limits, drawn=True)
    plan = plan_table(table, score, treewidth + 1, limits, rule, shown=shown)
    problem = score_plan(plan, task.data.name, silent, shown=shown)
    problem = replace(problem, constraints=constraints).with_treewidth(treewidth)
    if not task.data.quiet and (remark := remark_on_scores(problem)) is not None:
        murmur(remark)
    with progress("drawing", shown=shown) as listener:
        draws = draw_trees(problem, count, limits=limits, listener=listener)
    if draws is None:
        raise ChoiceError("no graph meets the constraints; leave some out")
    remarks = {
        **table.provenance,
        "score": score.name,
        "treewidth_allowed": treewidth,
        "draws": count,
        "drawn_by": draws.method,
        "seed": limits.seed,
        "jtsolve": __version__,
    }
    return fit_averaged(draws.trees, replace(table, provenance=remarks), ess=task.ess), table
