"""`jtsolve compare`, `report`, `run`: a comparison of backends, its report, and one of its runs."""

import sys
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jtsolve.cli.options import ConstraintOptions, Executor, expand_option_groups, file_argument, file_option
from jtsolve.cli.output import FAULTY, emit, print_faults, print_note, put
from jtsolve.core.formats import RESULT
from jtsolve.core.outputs import claim_outputs
from jtsolve.errors import ChoiceError, InputError
from jtsolve.options import EXECUTOR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.compare.folder import Folder
    from jtsolve.compare.grid import Grid
    from jtsolve.compare.running.local import Executor as Place


@dataclass(frozen=True, slots=True)
class GridOptions:
    """The grid: backends, treewidths, seeds, and the limits of a run."""

    backends: Annotated[
        str | None, typer.Option(metavar="A,B:K=V,…", help="Backends with options, such as dp,lns:exact=dp.")
    ] = None
    seeds: Annotated[str | None, typer.Option(metavar="N-M,…", help="Seeds; the default is 0.")] = None
    treewidths: Annotated[
        str | None,
        typer.Option(metavar="K,…", help="Treewidths; none: the instance's own constraints alone."),
    ] = None
    time_limit: Annotated[float | None, typer.Option(metavar="S", help="Seconds of a run.")] = None
    memory_limit: Annotated[
        float | None,
        typer.Option(metavar="GB", help="Memory of a run; default: an equal share of 80 % of it."),
    ] = None
    threads: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Threads of a run; default: an equal share of the cores."),
    ] = None
    grace: Annotated[
        float | None,
        typer.Option(metavar="S", min=0, help="Seconds after the time limit until a run is killed."),
    ] = None


@expand_option_groups
def compare(
    *,
    output: Annotated[
        Path,
        typer.Option(file_okay=False, readable=False, metavar="RUN/", help="The folder of the comparison."),
    ],
    instances: Annotated[
        list[str] | None, typer.Argument(metavar="INSTANCES…", help="Instances, or folders of them.")
    ] = None,
    grid: GridOptions,
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Runs at a time.")] = 1,
    executor: Executor = EXECUTOR.default,
    resume: Annotated[
        bool, typer.Option("--resume", help="Do the missing runs of the comparison in RUN/.")
    ] = False,
    plan_only: Annotated[
        bool, typer.Option("--plan", help="Write a specification per run for 'jtsolve run', and stop.")
    ] = False,
    no_warm_up: Annotated[
        bool, typer.Option("--no-warm-up", help="Skip the uncounted first runs, which compile kernels.")
    ] = False,
    constrain: ConstraintOptions,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but faults and errors.")] = False,
) -> None:
    """Compare backends: run them all, check every tree again, and report.

    You can stop it at any moment; --resume does the missing runs, alone or with the options of the first
    call. Exit code 1: a tree is wrong, or runs contradict each other.
    """
    from jtsolve.compare.folder import Folder
    from jtsolve.compare.plan import planned
    from jtsolve.compare.running.live import execute

    folder = Folder(output)
    chosen = _executor(executor, jobs)
    request = _request(instances or [], grid, constrain)
    if resume:
        plan = folder.plan()
        changed = [word for word, value in request.items() if plan.request.get(word) != value]
        if changed:
            raise ChoiceError(
                f"--resume continues the plan in the folder, which was made with other options; leave out: "
                f"{', '.join(changed)}"
            )
    else:
        if folder.exists():
            raise ChoiceError(
                f"{folder.path}: there is a comparison here already; do the missing runs with --resume, or "
                "give another --output"
            )
        if not instances or grid.backends is None:
            raise ChoiceError("give instances and --backends, or --resume")
        plan = planned(folder, instances, _grid(grid), constrain.restrictions(), request=request, jobs=jobs)
        folder.write_plan(plan)
    if plan_only:
        paths = folder.write_specs(plan.specs)
        print_note(
            f"{len(paths)} specifications are in {paths[0].parent}; run each: jtsolve run FILE --output …"
        )
        return
    tell = (lambda _: None) if quiet else print_note
    try:
        execute(folder, plan, chosen, jobs, tell, warm=not no_warm_up)
    except KeyboardInterrupt:
        left = sum(spec.id not in folder.rows() for spec in plan.specs)
        sys.stderr.write(
            f"jtsolve: stopped; {left} of {len(plan.specs)} runs are left. Continue with: jtsolve compare "
            f"--resume --output {folder.path}\n"
        )
        raise
    if report_comparison(folder, folder.path, quiet=quiet):
        raise typer.Exit(FAULTY)


def report(
    folder: Annotated[Path, file_argument("RUN/", "The --output of 'jtsolve compare'.")],
    output: Annotated[
        Path | None, file_option("Where to write; the default is RUN/.", metavar="FOLDER")
    ] = None,
) -> None:
    """Report a comparison: report.html, runs.csv, tables.tex.

    Every tree is checked again. Exit code 1: a tree is wrong, or runs contradict each other.
    """
    from jtsolve.compare.folder import Folder

    place = output or folder
    if output is not None and not output.is_dir():
        raise InputError(str(output), "", "there is no such folder", "create it first")
    if report_comparison(Folder(folder), place):
        raise typer.Exit(FAULTY)


def run(
    context: typer.Context,
    spec: Annotated[Path, file_argument("SPEC", "The run specification (JSON).")],
    row: Annotated[Path | None, typer.Argument(hidden=True)] = None,
    trace: Annotated[Path | None, typer.Argument(hidden=True)] = None,
    output: Annotated[Path | None, file_option("Write the row here; default: print it.")] = None,
    inside: Annotated[bool, typer.Option("--inside", hidden=True)] = False,
) -> None:
    """Do one run of a comparison within its limits, and print its row as JSON.

    'jtsolve compare --plan' writes specifications. A crash, a kill or a refusal is a row
    too: exit code 0.
    """
    from jtsolve.compare.spec import read_spec, to_json

    if inside:
        from jtsolve.compare.running.supervise import run_inside

        assert row is not None, "the supervisor gives both"
        assert trace is not None, "the supervisor gives both"
        run_inside(read_spec(spec), row, trace, context.obj)
        return
    if row is not None:
        raise ChoiceError(f"'{row}': 'jtsolve run' runs one specification; its row is written to --output")
    claim_outputs(output, kind=RESULT)

    from jtsolve.compare.running.supervise import supervise

    answer = supervise(read_spec(spec))
    assert answer is not None, "nothing cancels it here"
    put(to_json(answer), output)


def _executor(name: str, jobs: int) -> "Place":
    """Returns where to run."""
    if name == EXECUTOR.default:
        from jtsolve.compare.running.local import LocalExecutor

        return LocalExecutor(jobs)
    from jtsolve.cluster import Cluster
    from jtsolve.compare.running.dask import DaskExecutor

    return DaskExecutor(Cluster.named(name, jobs))


def _request(instances: "Sequence[str]", *groups: Any) -> dict[str, Any]:
    """Returns the instances and options that determine the plan, by flag."""
    request: dict[str, Any] = {"INSTANCES": list(instances)} if instances else {}
    for group in groups:
        for entry in fields(group):
            value = getattr(group, entry.name)
            if value != entry.default:
                flag = f"--{entry.name.replace('_', '-')}"
                request[flag] = str(value) if isinstance(value, Path) else value
    return request


def _grid(options: GridOptions) -> "Grid":
    """Returns the grid of the options."""
    import msgspec

    from jtsolve.compare.grid import Grid, parse_treewidths, split_backends

    known: dict[str, Any] = {name: value for name, value in asdict(options).items() if value is not None}
    known["backends"] = split_backends(known["backends"])
    if "treewidths" in known:
        known["treewidths"] = parse_treewidths(known["treewidths"])
    try:
        return msgspec.convert(known, Grid)
    except msgspec.ValidationError as error:
        raise ChoiceError(f"{str(error).replace('`', chr(39))}; see 'jtsolve compare --help'") from None


def report_comparison(folder: "Folder", place: Path, *, quiet: bool = False) -> bool:
    """Judges and reports a comparison; returns whether there is a fault.

    Args:
        folder: of the runs.
        place: the folder to write to.
        quiet: whether only faults are printed.
    """
    from jtsolve.compare.reporting import exports
    from jtsolve.compare.reporting.report import ComparisonReport
    from jtsolve.listing import table

    report = ComparisonReport.of(folder)
    paths = report.write(place)
    comparison = report.comparison
    if not quiet:
        tables = (exports.backends_table(comparison), exports.problems_table(comparison))
        emit("\n\n".join(table(*one) for one in tables))
        emit(f"{len(comparison.rows)} of {comparison.planned} runs; written: {', '.join(map(str, paths))}")
    for fault in comparison.faults:
        print_faults(fault.kind, [fault.message])
    return bool(comparison.faults)
