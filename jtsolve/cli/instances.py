"""`jtsolve score`, `convert`, `decode`: instances from data, to other formats, and back from a solver."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jtsolve.cli.options import (
    JSON,
    LIMITS,
    OF_DATA,
    OF_TREE,
    QUIET,
    Data,
    Instance,
    Options,
    ResultFile,
    declared,
    file_argument,
    file_option,
    with_options,
)
from jtsolve.cli.output import put
from jtsolve.core.formats import CONVERTED, FORMULA, RESULT, SCORED
from jtsolve.core.outputs import claim_outputs
from jtsolve.errors import InputError, InternalError
from jtsolve.options import EXECUTOR, SCORE, TREEWIDTH
from jtsolve.scoring.score import MIXED_SCORE
from jtsolve.tables.options import DATA

if TYPE_CHECKING:
    from jtsolve.core.backend import Backend
    from jtsolve.encodings.answers import SolverAnswer


@with_options(SCORE, *DATA, *OF_TREE, *LIMITS, EXECUTOR, QUIET)
def score(
    *,
    data: Data,
    output: Annotated[Path, file_option("Write it here (.json, .json.gz).", metavar="INSTANCE")],
    max_size: Annotated[
        int,
        typer.Option(
            metavar="K",
            min=1,
            help="The largest sets to score: the treewidth plus one.",
            rich_help_panel=OF_DATA,
        ),
    ],
    options: Options,
) -> None:
    """Score all small sets of the columns of a data file.

    Reads CSV, TSV, blank-separated text, Parquet, Arrow, Weka's ARFF, GOBNILP's and blip's .dat; compressed
    ones too; a folder or a pattern of Parquet files as one table. Predicts time and size first, and refuses
    scoring that exceeds the limits. Ctrl-C leaves no file.
    """
    claim_outputs(output, kind=SCORED)

    from jtsolve.io.instance import write_problem
    from jtsolve.scoring.problem import WHOLE
    from jtsolve.study.arguments import data_of, data_score, held_cluster
    from jtsolve.study.study import Study, forecast

    run, restrictions = options.run(), options.restrictions()
    with held_cluster(options.executor, options.threads) as cluster:
        source = data_of(data, options.reading, cluster)
        named = data_score(options.score, source, MIXED_SCORE)
        study = Study(source, named, restrictions=restrictions, max_size=max_size)
        columns = study.read(run)
        study = study.settled(columns)
        plan = study.plan(columns, run, WHOLE)
        run.say(forecast(plan))
        plan.require_file()
        problem = study.scored(plan, run)
    write_problem(problem, output)


def convert(
    source: Annotated[Path, file_argument("IN", "The instance to read.")],
    target: Annotated[Path, file_argument("OUT", "The file to write; its suffix selects the format.")],
    treewidth: Annotated[int | None, declared(TREEWIDTH)] = None,
    prune_below: Annotated[
        float | None,
        typer.Option(
            metavar="SCORE",
            help="Leave out sets that are provably in no tree of at least this score (nats), that of a known "
            "tree that meets the instance's constraints. Every tree that reaches it stays.",
        ),
    ] = None,
) -> None:
    """Write an instance in another format, which the suffix of OUT selects.

    .json and .score are instances. .wcnf (weighted MaxSAT), .lp and .mps (integer programs) and .pbtxt (a
    model for CP-SAT) are formulas for a solver, whose answer 'jtsolve decode' turns into a checked result.
    """
    claim_outputs(target, kind=CONVERTED)

    from jtsolve.io.instance import read_problem, write_problem

    problem = read_problem(source).with_treewidth(treewidth)
    if prune_below is not None:
        from jtsolve.core.pruning import prune

        problem = prune(problem, prune_below).problem
    if (to := CONVERTED.format_to_write(target)) not in FORMULA.formats:
        write_problem(problem, target)
        return
    from jtsolve.core.run import Limits
    from jtsolve.encodings.formats import export

    put(export(problem.with_star(), to, Limits().memory_bytes).encode(), target)


@with_options(TREEWIDTH, JSON)
def decode(
    instance: Instance,
    model: Annotated[Path, file_argument("MODEL", "The solution that the solver wrote.")],
    output: ResultFile = None,
    *,
    options: Options,
) -> None:
    """Turn a solver's answer to a formula of 'jtsolve convert' into a result.

    MODEL has v lines of a MaxSAT solver, a solution of HiGHS, CBC or SCIP, or lines of a name and a value;
    --treewidth is that of the formula. The tree is checked and its score computed from the instance; the
    bound is our own, not the solver's.
    """
    claim_outputs(output, kind=RESULT)

    from jtsolve.core.files import read_file
    from jtsolve.core.run import Limits, Run
    from jtsolve.encodings.answers import read_answer
    from jtsolve.io.instance import read_problem
    from jtsolve.io.result import result_to_document, result_to_json
    from jtsolve.io.summary import result_text
    from jtsolve.solving import solve

    run = Run(Limits(threads=1, started=options.started))
    problem = read_problem(instance).with_treewidth(options.treewidth)
    answer = read_answer(read_file(model), problem.with_star().n, str(model))
    try:
        result = solve(problem, _outside(answer), run)
    except InternalError as error:  # a fault found by the check is the file's here, not ours
        remedy = "solve the formula of this instance by 'jtsolve convert', with the same constraints"
        raise InputError(str(model), "", str(error), remedy) from None
    facts = {"answer": f"{model} ({answer.kind})"}
    text = partial(result_text, result_to_document(result), "the result", facts)
    options.deliver(result_to_json(result), text, output)


def _outside(answer: "SolverAnswer") -> "Backend":
    """Returns a backend with a given answer: `solve` computes score and bound, and checks it."""
    from jtsolve.backends.support.starts import KnownTree
    from jtsolve.core.result import Outcome

    class Outside(KnownTree):
        name = "outside"

        def solve(self, *_: Any) -> Outcome:
            return Outcome(self.tree, stats={"kind": answer.kind})

    return Outside(answer.tree)
