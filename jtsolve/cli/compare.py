"""`jtsolve compare`: backends × instances × treewidths × seeds, one process per run."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jtsolve.cli.options import ConstraintOptions, Executor, expand_option_groups
from jtsolve.cli.output import FAULTY, print_note
from jtsolve.core.formats import TABLE
from jtsolve.errors import ChoiceError
from jtsolve.options import EXECUTOR

if TYPE_CHECKING:
    from jtsolve.compare.folder import ComparisonPlan, Folder
    from jtsolve.compare.grid import Grid
    from jtsolve.compare.running.local import Executor as Place
    from jtsolve.compare.spec import Spec


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
        plan = _planned(folder, instances, _grid(grid), constrain, request, jobs)
        folder.write_plan(plan)
    if plan_only:
        paths = folder.write_specs(plan.specs)
        print_note(
            f"{len(paths)} specifications are in {paths[0].parent}; run each: jtsolve run FILE --output …"
        )
        return
    _execute(folder, plan, chosen, jobs, quiet=quiet, warm=not no_warm_up)

    from jtsolve.cli.report import report_comparison

    if report_comparison(folder, folder.path, quiet=quiet):
        raise typer.Exit(FAULTY)


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


def _planned(
    folder: "Folder",
    places: "Sequence[str]",
    grid: "Grid",
    constrain: ConstraintOptions,
    request: dict[str, Any],
    jobs: int,
) -> "ComparisonPlan":
    """Returns the plan of a grid; writes its instances under the constraints."""
    from datetime import UTC, datetime

    from jtsolve.compare.folder import ComparisonPlan
    from jtsolve.compare.grid import expand, find_files
    from jtsolve.core.machine import cores, describe_machine, free_memory

    specs: list[Spec] = expand(
        grid,
        _instances(folder, constrain, find_files(places)),
        memory=lambda: max(0.1, round(0.8 * free_memory() / jobs / 1e9, 1)),
        threads=lambda: max(1, cores() // jobs),
    )
    machine = describe_machine(cores())
    command = machine.pop("command")
    created = datetime.now(UTC).isoformat(timespec="seconds")
    return ComparisonPlan("jtsolve-comparison", 1, command, created, machine, specs, request)


def _instances(folder: "Folder", constrain: ConstraintOptions, files: Sequence[Path]) -> list[Path]:
    """Returns the instances, under the constraints: those are written into RUN/instances."""
    from jtsolve.compare.grid import labels
    from jtsolve.io.instance import read_problem, write_problem

    for path in files:
        if TABLE.format_to_read(path) is not None:
            raise ChoiceError(
                f"{path}: it holds data; score it first, with 'jtsolve score {path.name} --max-size K "
                "--output INSTANCE', K the widest treewidth plus one"
            )
    restrictions = constrain.restrictions()
    if not restrictions:
        return list(files)
    folder.make()
    instances = [folder.path / "instances" / f"{label}.json.gz" for label in labels(files)]
    for path, instance in zip(files, instances, strict=True):
        instance.parent.mkdir(parents=True, exist_ok=True)
        write_problem(restrictions.on(read_problem(path)), instance)
    return instances


def _execute(
    folder: "Folder", plan: "ComparisonPlan", executor: "Place", jobs: int, *, quiet: bool, warm: bool
) -> None:
    """Does the missing runs, and journals every row."""
    from jtsolve.compare.running.live import Board
    from jtsolve.compare.running.warmup import warm_up

    with folder.journal() as journal:
        rows = folder.rows()  # the journal is locked: no other process adds rows
        missing = [spec for spec in plan.specs if spec.id not in rows]
        report = (lambda _: None) if quiet else print_note
        board = Board(journal, missing, list(rows.values()), jobs, report)
        try:
            if warm and missing:
                warm_up(missing, executor, folder.path)
            executor.execute(missing, board.finished)
        except KeyboardInterrupt:
            left = sum(spec.id not in folder.rows() for spec in plan.specs)
            sys.stderr.write(
                f"jtsolve: stopped; {left} of {len(plan.specs)} runs are left. Continue with: jtsolve "
                f"compare --resume --output {folder.path}\n"
            )
            raise
