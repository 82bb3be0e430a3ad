"""`jtsolve explain`: the constraints that exclude every tree, or the cost of each constraint."""

from pathlib import Path
from typing import Annotated

import typer

from jtsolve.cli.options import (
    BackendName,
    ConstraintOptions,
    Instance,
    Json,
    LimitOptions,
    Seed,
    Treewidth,
    expand_option_groups,
    file_option,
)
from jtsolve.cli.output import FOUND, INFEASIBLE, NO_TREE, emit, emit_json
from jtsolve.core.formats import INSTANCE
from jtsolve.core.outputs import claim_outputs
from jtsolve.options import BACKEND


@expand_option_groups
def explain(
    context: typer.Context,
    *,
    instance: Instance,
    treewidth: Treewidth = None,
    backend: BackendName = BACKEND.default,
    constrain: ConstraintOptions,
    spend: LimitOptions,
    seed: Seed = 0,
    output: Annotated[
        Path | None,
        file_option("Write the problem under the conflict alone here, for 'solve --certificate' (.json)."),
    ] = None,
    json: Json = False,
) -> None:
    """Explain why no tree meets the constraints, or the cost of each of them.

    Without a tree: a minimal conflict. Its constraints together exclude every tree, and without any one of
    them there is a tree. With a tree: the score of the best tree without the constraint minus that with it.
    Limits end the search with the smallest conflict so far. 'jtsolve score' turns data into an instance.

    Exit codes: 0 there is a tree; 3 there is none; 4 the limits ended the search for one.
    """
    claim_outputs(output, kind=INSTANCE)
    from jtsolve.conflict import explained
    from jtsolve.io.instance import read_problem
    from jtsolve.study.arguments import backend_of

    run, searcher = spend.run(context.obj, seed, silent=json), backend_of(backend)
    problem = constrain.restrictions().on(read_problem(instance, run)).with_treewidth(treewidth)
    found = explained(problem, run, searcher)
    if output is not None and not found.is_feasible:
        from jtsolve.io.instance import write_problem

        write_problem(found.problem, output)
    if json:
        emit_json(found.to_document())
    else:
        emit(str(found))
    if not found.is_feasible:
        raise typer.Exit(INFEASIBLE)
    raise typer.Exit(FOUND if found.result is not None else NO_TREE)
