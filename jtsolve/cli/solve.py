"""`jtsolve solve`: the best junction tree of an instance, or the k best."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeVar

import typer

from jtsolve.cli.options import (
    LOCAL,
    ConstraintOptions,
    DataOptions,
    Executor,
    Instance,
    Json,
    LimitOptions,
    Quiet,
    ResultFile,
    ScoringOptions,
    SearchOptions,
    Seed,
    Treewidth,
    cluster_named,
    flags_given,
    grouped,
    held,
    make_score,
)
from jtsolve.cli.output import FOUND, INFEASIBLE, INTERRUPTED, NO_TREE, emit, require_writable
from jtsolve.cli.scoring import DataFile, forecast, plan_file, score_plan
from jtsolve.errors import ChoiceError, InputError, JtsolveError, LimitError
from jtsolve.scoring.score import DEFAULT_SCORE
from jtsolve.tables.suffixes import DATA_SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jtsolve.cluster import Cluster
    from jtsolve.core.backend import Backend
    from jtsolve.core.problem import Problem
    from jtsolve.core.result import Result
    from jtsolve.core.run import Run
    from jtsolve.io.certificate import CertificateDocument
    from jtsolve.solving import Choice
    from jtsolve.tables.check import Finding

Answer = TypeVar("Answer")


class KBestQuery(NamedTuple):
    """The k best trees, or those within some nats of the best, or both."""

    k: int | None
    within: float | None


class Printout(NamedTuple):
    """The exit code, why a certificate is missing, findings, and functions for the document and a text."""

    code: int
    refusal: JtsolveError | None
    findings: "tuple[Finding, ...]"
    data: "Callable[[], bytes]"
    text: "Callable[[], str]"


@grouped
def solve(
    context: typer.Context,
    *,
    instance: Instance,
    search: SearchOptions,
    treewidth: Treewidth = None,
    spend: LimitOptions,
    seed: Seed = 0,
    output: ResultFile = None,
    json: Json = False,
    quiet: Quiet = False,
    certificate: Annotated[
        Path | None,
        typer.Option(readable=False, metavar="FILE", help="Write a proof of the bound (.json, .json.gz)."),
    ] = None,
    k_best: Annotated[int | None, typer.Option(metavar="K", help="The K best trees, in order.")] = None,
    within: Annotated[
        float | None,
        typer.Option(metavar="NATS", help="All trees within NATS of the best; with --k-best, K at most."),
    ] = None,
    executor: Executor = LOCAL,
    constrain: ConstraintOptions,
    scoring: ScoringOptions,
    table: DataOptions,
) -> None:
    """Find the best junction tree of an instance, or of a data file.

    Data files end in .csv, .tsv, .txt, .data, .parquet, .arrow, .feather, .arff or .dat, compressed or not;
    any other file is read as data with --score. The options after --score are for data files, and more than
    26 columns need a --treewidth.

    With --k-best or --within: the best trees in order, by a backend that can forbid graphs.

    With --certificate, 'clutter' proves the bound, as a member of the portfolio or, of any other exact
    backend, in the time that is left; see 'jtsolve check'. Where it cannot, the answer is written without,
    and the exit code is 4.

    --executor dask gives a search that lasts to --threads workers of this machine, or those of a scheduler:
    members of 'portfolio' and open subproblems of 'clutter' are tasks there, any other backend is one task.

    The first Ctrl-C or SIGTERM ends the run with the best tree so far.
    """
    for path in (output, certificate):
        if path is not None:
            require_writable(path, instance)
    if certificate is not None and output is not None and certificate.resolve() == output.resolve():
        raise ChoiceError(f"--certificate and --output both name {output}; give two files")
    query = None
    if k_best is not None or within is not None:
        from jtsolve.kbest import require_number

        if executor != LOCAL:
            raise ChoiceError("the k best trees are found in one process; leave --executor out")
        require_number(k_best, within)
        query = KBestQuery(k_best, within)
    backend = search.chosen()
    run = spend.run(context.obj, seed, quiet=quiet, say=None if json or quiet else emit)

    if scoring.score is None and not instance.name.lower().endswith(DATA_SUFFIXES):
        problem = _instance(instance, run, [*flags_given(scoring), *flags_given(table)])
    else:
        data = DataFile.of(instance, make_score(scoring.score, scoring.ess), table)
        from jtsolve.scoring.problem import largest_scored

        bound = constrain.treewidth if treewidth is None else treewidth
        max_size = scoring.max_size or (None if bound is None else largest_scored(backend, bound))
        problem = _scored(data, max_size, backend, run, named=constrain.of)
    problem = constrain.on(problem).with_treewidth(treewidth)
    if query is None:
        with held(cluster_named(executor, spend.threads)) as cluster:
            answer = _one(problem, backend, run, certificate, cluster)
    else:
        answer = _several(problem, backend, run, query, certificate)

    from jtsolve.core.files import write_atomically

    try:
        if output is not None:
            write_atomically(output, answer.data())
    finally:  # an answer that took hours is printed even if it cannot be written
        if json:
            emit(answer.data())
        elif not quiet:
            emit(answer.text())
        run.warn("check of the answer", answer.findings)
    if answer.refusal is not None:
        raise answer.refusal
    raise typer.Exit(answer.code)


def _instance(path: Path, run: "Run", for_data: list[str]) -> "Problem":
    """Returns the problem in an instance file; refuses options for data."""
    from jtsolve.io.instance import read_problem

    if for_data:
        raise ChoiceError(
            f"{', '.join(for_data)}: for data files only; add --score {DEFAULT_SCORE} to read {path.name} as "
            "data"
        )
    return read_problem(path, run)


def _scored(
    data: DataFile,
    max_size: int | None,
    backend: "Backend | None",
    run: "Run",
    *,
    named: "Callable[[Sequence[str]], object]",
) -> "Problem":
    """Returns the problem of a data file, with a table of scores where that pays for the backend.

    `named` is given the columns' names before they are scored, and may raise an error.
    """
    from jtsolve.scoring.problem import tabulation_for

    plan = plan_file(data, max_size, run, tabulation_for(backend))
    named(plan.scorer.table.names)
    run.say(forecast(plan))
    return score_plan(plan, data.name)


def _one(
    problem: "Problem",
    backend: "Backend | None",
    run: "Run",
    certificate: Path | None,
    cluster: "Cluster | None",
) -> Printout:
    """Returns the best tree."""
    from jtsolve.cli.summary import describe
    from jtsolve.cluster import lost
    from jtsolve.core.result import Stop
    from jtsolve.io.result import result_to_document, result_to_json
    from jtsolve.proving import prove, require_exact, with_own_certificate, written
    from jtsolve.solving import choose, findings_of, require_backend
    from jtsolve.solving import solve as solve_problem

    if backend is not None:
        require_backend(problem, backend)
    choice = _choice(problem, backend, run, choose)
    if certificate is not None:
        require_exact(choice.backend)
    chosen, certificate = with_own_certificate(choice.backend, certificate)
    with run.phase(_predicted(choice)):
        result = solve_problem(problem, chosen, run, cluster)
        refusal = None
        certified = None if certificate is None else written(result, certificate)
        if certified is None:
            proof = partial(prove, problem, result, run)
            result, refusal = _certified(result, proof, certificate)
        else:
            result = certified
    if result.stop is Stop.LOST:
        refusal = lost()
    return Printout(
        _exit_code(result),
        refusal,
        findings_of(problem, result.tree),
        lambda: result_to_json(result),
        lambda: describe(result_to_document(result), "the result", _facts(choice)),
    )


def _several(
    problem: "Problem",
    backend: "Backend | None",
    run: "Run",
    query: KBestQuery,
    certificate: Path | None,
) -> Printout:
    """Returns the best trees in order."""
    from jtsolve.cli.summary import describe_ranking
    from jtsolve.io.ranking import ranking_to_document, ranking_to_json
    from jtsolve.kbest import choose_ranker, k_best, require_ranker
    from jtsolve.proving import prove_ranking, require_exact
    from jtsolve.solving import findings_of

    if backend is not None:
        require_ranker(problem, backend)
    choice = _choice(problem, backend, run, choose_ranker)
    if certificate is not None:
        require_exact(choice.backend)
    with run.phase(_predicted(choice)):
        ranking = k_best(problem, choice.backend, run, k=query.k, within=query.within)
        proof = partial(prove_ranking, problem, ranking, run)
        ranking, refusal = _certified(ranking, proof, certificate)
    return Printout(
        _exit_code(best := ranking.results[0] if ranking.results else ranking.last),
        refusal,
        findings_of(problem, best.tree),
        lambda: ranking_to_json(ranking),
        lambda: describe_ranking(ranking_to_document(ranking), "the results", _facts(choice)),
    )


def _certified(
    answer: Answer, prove: "Callable[[], tuple[Answer, CertificateDocument]]", path: Path | None
) -> tuple[Answer, JtsolveError | None]:
    """Writes a certificate if one is asked for; returns the answer, and why there is none."""
    from jtsolve.io.certificate import write_certificate

    if path is None:
        return answer, None
    try:
        answer, proof = prove()
        write_certificate(path, proof)
    except (InputError, LimitError) as refusal:
        return answer, refusal
    return answer, None


def _choice(
    problem: "Problem",
    backend: "Backend | None",
    run: "Run",
    choose: "Callable[[Problem, Run], Choice]",
) -> "Choice":
    """Returns the backend asked for, or the choice of auto."""
    from jtsolve.solving import Choice

    if backend is None:
        return choose(problem, run)
    return Choice(backend, backend.estimate(problem, run.limits), "as asked for")


def _predicted(choice: "Choice") -> str:
    memory, seconds = choice.estimate.memory / 1e9, choice.estimate.seconds
    return f"{choice.backend.name}: {memory:.2g} GB and {seconds:.2g} s predicted"


def _exit_code(result: "Result") -> int:
    from jtsolve.core.result import Status, Stop

    if result.tree is not None:
        return FOUND
    if result.status is Status.INFEASIBLE:
        return INFEASIBLE
    return INTERRUPTED if result.stop is Stop.INTERRUPTED else NO_TREE


def _facts(choice: "Choice") -> dict[str, str]:
    """Returns the lines of a summary on memory and backend."""
    from jtsolve.core.machine import peak_memory

    predicted = choice.estimate.memory / 1e9
    return {
        "memory": f"{peak_memory() / 1e9:.3g} GB at the peak, {predicted:.3g} GB predicted",
        "backend": f"{choice.backend.name}: {choice.reason.rstrip('.')}",
    }
