"""`jtsolve solve`: the best junction tree of an instance."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from jtsolve.cli.limits import make_limits
from jtsolve.cli.output import FOUND, INFEASIBLE, INTERRUPTED, NO_TREE, emit, require_writable
from jtsolve.cli.progress import is_watched
from jtsolve.cli.scored import Task, chosen_score, make_coding, score_data, silent
from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jtsolve.core.backend import Backend, Estimate, Limits
    from jtsolve.core.problem import Problem
    from jtsolve.core.result import Result

AUTO = "auto"


class Wanted(NamedTuple):
    """Which trees are asked for: so many, or those within so many nats of the best, or both."""

    k: int | None
    within: float | None


class Answer(NamedTuple):
    """The document, the exit code, and what a person wants to know."""

    data: bytes
    code: int
    text: "Callable[[], str]"


def solve(
    context: typer.Context,
    instance: Annotated[Path, typer.Argument(readable=False, metavar="INSTANCE", help="The instance file.")],
    backend: Annotated[
        str, typer.Option(metavar="NAME", help="How to solve it; see 'jtsolve backends'.")
    ] = AUTO,
    treewidth: Annotated[
        int | None, typer.Option(metavar="K", min=0, help="Largest clique size minus one.")
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(metavar="S", help="Seconds from start to finish, reading included.")
    ] = None,
    memory_limit: Annotated[
        float | None, typer.Option(metavar="GB", help="Memory; the default is 80 % of what is free.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Threads; the default is all cores.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of everything random.")] = 0,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="An option of the backend; may be repeated."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(readable=False, metavar="FILE", help="Write the result here.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    k_best: Annotated[
        int | None,
        typer.Option(metavar="K", help="The K best trees, in order."),
    ] = None,
    within: Annotated[
        float | None,
        typer.Option(
            metavar="NATS",
            help="All trees within so many nats of the best; with --k-best, K at most.",
        ),
    ] = None,
    score: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Take INSTANCE for a data file, and score it; see 'jtsolve score'."
        ),
    ] = None,
    max_size: Annotated[
        int | None,
        typer.Option(
            metavar="K", min=1, help="With --score: the largest sets; the default is treewidth + 1."
        ),
    ] = None,
    ess: Annotated[
        float | None, typer.Option(metavar="A", help="With --score bdeu: the equivalent sample size.")
    ] = None,
    missing: Annotated[
        str | None, typer.Option(metavar="HOW", help="With --score: what to do about missing values.")
    ] = None,
    discretise: Annotated[
        str | None, typer.Option(metavar="HOW", help="With --score: how to cut continuous columns.")
    ] = None,
    no_header: Annotated[
        bool, typer.Option("--no-header", help="With --score: the first line is a row.")
    ] = False,
) -> None:
    """Find the best junction tree of an instance, or with --score of a data file.

    With --k-best or --within: the best trees in order, by a backend that can forbid graphs.

    The first Ctrl-C or SIGTERM ends the run with the best tree so far; 'jtsolve score' has more options for
    data.
    """
    if output is not None:
        require_writable(output, instance)
    several = k_best is not None or within is not None
    if several:
        from jtsolve.kbest import require_number

        require_number(k_best, within)
    chosen = _chosen_backend(backend, option or [])
    limits = make_limits(time_limit, memory_limit, threads, seed, context.obj)

    scoring = {
        "score": score,
        "max_size": max_size,
        "ess": ess,
        "missing": missing,
        "discretise": discretise,
        "no_header": no_header or None,
    }
    shows_progress = not quiet and is_watched()
    say = silent if json or quiet else emit
    if score is None:
        problem = _instance(instance, scoring)
    else:
        task = _task(instance, treewidth, scoring)
        exact = chosen is not None and chosen.capabilities.exact  # which reads every score
        problem = score_data(
            task, limits, say, shows_progress=shows_progress, on_demand=True, all_asked=exact
        )
    problem = problem.with_treewidth(treewidth)
    if several:
        answer = _several(problem, chosen, limits, Wanted(k_best, within), shows_progress=shows_progress)
    else:
        answer = _one(problem, chosen, limits, shows_progress=shows_progress)

    from jtsolve.core.files import write_atomically

    try:
        if output is not None:
            write_atomically(output, answer.data)
    finally:  # an answer that took hours is printed even if it cannot be written
        if json:
            emit(answer.data)
        elif not quiet:
            emit(answer.text())
    raise typer.Exit(answer.code)


def _instance(source: Path, scoring: "Mapping[str, Any]") -> "Problem":
    """Returns the problem in an instance file; refuses options that are for data."""
    from jtsolve.io.instance import read_problem

    given = [f"--{key.replace('_', '-')}" for key, value in scoring.items() if value is not None]
    if given:
        raise ChoiceError(f"{', '.join(given)}: for data files only; name a score, such as --score bdeu")
    return read_problem(source)


def _task(source: Path, treewidth: int | None, scoring: "Mapping[str, Any]") -> Task:
    """Returns what to score for the options given; without a size, sets as large as the treewidth allows."""
    max_size = scoring["max_size"] or (None if treewidth is None else treewidth + 1)
    if max_size is None:
        raise ChoiceError(
            "how large the scored sets are to be is not said; give --max-size K or --treewidth K"
        )
    coding = make_coding(missing=scoring["missing"] or "refuse", discretise=scoring["discretise"])
    return Task(
        source,
        chosen_score(scoring["score"], scoring["ess"]),
        max_size,
        coding,
        header=not scoring["no_header"],
    )


def _chosen_backend(name: str, pairs: list[str]) -> "Backend | None":
    """Returns the backend asked for, or None for `auto`."""
    from jtsolve.backends.parse import make_backend, split_backend, split_options

    if name == AUTO:
        if pairs:
            raise ChoiceError(
                f"the option '{pairs[0]}' is for a backend, but auto chooses that; name it: --backend NAME"
            )
        return None
    name, options = split_backend(name)
    return make_backend(name, options | split_options(pairs))


def _one(problem: "Problem", backend: "Backend | None", limits: "Limits", *, shows_progress: bool) -> Answer:
    """Returns the best tree."""
    from jtsolve.cli.progress import progress
    from jtsolve.cli.summary import describe
    from jtsolve.errors import RefusedError
    from jtsolve.io.result import result_to_document, result_to_json
    from jtsolve.solve import choose
    from jtsolve.solve import solve as solve_problem

    if backend is None:
        choice = choose(problem, limits)
        backend, estimate, remark = choice.backend, choice.estimate, choice.reason
    else:
        objections = backend.capabilities.objections(problem)
        if objections:
            raise RefusedError(backend.name, objections)
        estimate, remark = backend.estimate(problem, limits), "as asked for"
    with progress(_predicted(backend, estimate), shown=shows_progress) as listener:
        result = solve_problem(problem, backend, limits, listener)
    facts = _facts(backend, remark, estimate)
    return Answer(
        result_to_json(result),
        _exit_code(result),
        lambda: describe(result_to_document(result), "the result", facts()),
    )


def _several(
    problem: "Problem", backend: "Backend | None", limits: "Limits", wanted: Wanted, *, shows_progress: bool
) -> Answer:
    """Returns the best trees in order."""
    from jtsolve.cli.progress import progress
    from jtsolve.cli.summary import describe_ranking
    from jtsolve.io.ranking import ranking_to_document, ranking_to_json
    from jtsolve.kbest import choose_ranker, k_best, require_ranker

    if backend is None:
        choice = choose_ranker(problem, limits)
        backend, estimate, remark = choice.backend, choice.estimate, choice.reason
    else:
        require_ranker(problem, backend)
        estimate, remark = backend.estimate(problem, limits), "as asked for"
    with progress(_predicted(backend, estimate), shown=shows_progress) as listener:
        ranking = k_best(problem, backend, limits, listener, k=wanted.k, within=wanted.within)
    facts = _facts(backend, remark, estimate)
    return Answer(
        ranking_to_json(ranking),
        _exit_code(ranking.results[0] if ranking.results else ranking.last),
        lambda: describe_ranking(ranking_to_document(ranking), "the results", facts()),
    )


def _predicted(backend: "Backend", estimate: "Estimate") -> str:
    return f"{backend.name}: {estimate.memory / 1e9:.2g} GB and {estimate.seconds:.2g} s predicted"


def _exit_code(result: "Result") -> int:
    from jtsolve.core.result import Status, Stop

    if result.tree is not None:
        return FOUND
    if result.status is Status.INFEASIBLE:
        return INFEASIBLE
    return INTERRUPTED if result.stop is Stop.INTERRUPTED else NO_TREE


def _facts(backend: "Backend", remark: str, estimate: "Estimate") -> "Callable[[], dict[str, str]]":
    """Returns what there is to say of a run, for a summary."""
    from jtsolve.core.machine import peak_memory

    return lambda: {
        "memory": f"{peak_memory() / 1e9:.3g} GB at the peak, {estimate.memory / 1e9:.3g} GB predicted",
        "backend": f"{backend.name}: {remark.rstrip('.')}",
    }
