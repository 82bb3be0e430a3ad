"""`jtsolve compare`: backends × instances × treewidths × seeds, one process per run."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jtsolve.cli.options import ConstraintOptions, Executor, ScoreName, grouped
from jtsolve.cli.output import FAULTY, murmur, show_findings
from jtsolve.core.formats import INSTANCE, TABLE
from jtsolve.errors import ChoiceError
from jtsolve.options import EXECUTOR

if TYPE_CHECKING:
    from jtsolve.compare.folder import ComparisonPlan, Folder
    from jtsolve.compare.grid import Grid, ScoreChoice
    from jtsolve.compare.running.local import Executor as Place
    from jtsolve.compare.spec import Spec
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Run
    from jtsolve.study.restrictions import Restrictions


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


@grouped
def compare(
    *,
    output: Annotated[
        Path,
        typer.Option(file_okay=False, readable=False, metavar="RUN/", help="The folder of the comparison."),
    ],
    instances: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="INSTANCES…", help="Instances, folders of them, or a grid file (.toml, .json)."
        ),
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
    score: ScoreName = None,
    constrain: ConstraintOptions,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but faults and errors.")] = False,
) -> None:
    """Compare backends: run them all, check every tree again, and report.

    You can stop it at any moment; --resume does the missing runs, also beside the words that began the
    comparison. Data files are scored for the widest treewidth; a grid file says how they are read. Exit code
    1: a tree is wrong, or runs contradict each other.
    """
    from jtsolve.compare.folder import Folder

    folder = Folder(output)
    chosen = _executor(executor, jobs)
    request = _request(instances or [], score, grid, constrain)
    if resume:
        plan = folder.plan()
        changed = [word for word, value in request.items() if plan.request.get(word) != value]
        if changed:
            raise ChoiceError(
                f"--resume continues the plan in the folder, which was made with other words; leave out: "
                f"{', '.join(changed)}"
            )
    else:
        if folder.exists():
            raise ChoiceError(
                f"{folder.path}: there is a comparison here already; do the missing runs with --resume, or "
                "give another --output"
            )
        chosen_grid = _grid(instances or [], grid, score)
        plan = _planned(folder, chosen_grid, constrain, request, jobs, quiet=quiet)
        folder.write_plan(plan)
    if plan_only:
        paths = folder.write_specs(plan.specs)
        murmur(f"{len(paths)} specifications are in {paths[0].parent}; run each: jtsolve run FILE --output …")
        return
    _execute(folder, plan, chosen, jobs, quiet=quiet, warm=not no_warm_up)

    from jtsolve.cli.report import finish

    if finish(folder, folder.path, quiet=quiet):
        raise typer.Exit(FAULTY)


def _executor(name: str, jobs: int) -> "Place":
    """Returns where to run."""
    if name == EXECUTOR.default:
        from jtsolve.compare.running.local import LocalExecutor

        return LocalExecutor(jobs)
    from jtsolve.cluster import Cluster
    from jtsolve.compare.running.dask import DaskExecutor

    return DaskExecutor(Cluster.named(name, jobs))


def _request(instances: "Sequence[str]", score: str | None, *groups: Any) -> dict[str, Any]:
    """Returns the words of a command that its plan depends on: a value by flag, and the instances."""
    request: dict[str, Any] = {"INSTANCES": list(instances)} if instances else {}
    if score is not None:
        request["--score"] = score
    for group in groups:
        for entry in fields(group):
            value = getattr(group, entry.name)
            if value != entry.default:
                flag = f"--{entry.name.replace('_', '-')}"
                request[flag] = str(value) if isinstance(value, Path) else value
    return request


def _grid(places: Sequence[str], options: GridOptions, score: str | None) -> "Grid":
    """Returns the grid of the options, or of a file, whose values the options replace."""
    import msgspec

    from jtsolve.compare.grid import (
        Grid,
        ScoreChoice,
        is_grid_file,
        parse_treewidths,
        read_grid,
        split_backends,
    )

    known: dict[str, Any] = {name: value for name, value in asdict(options).items() if value is not None}
    if "backends" in known:
        known["backends"] = split_backends(known["backends"])
    if "treewidths" in known:
        known["treewidths"] = parse_treewidths(known["treewidths"])
    if score is not None:
        known["score"] = ScoreChoice(name=score)
    if len(places) == 1 and is_grid_file(Path(places[0])):
        grid = msgspec.structs.replace(read_grid(Path(places[0])), **known)
    elif not places or "backends" not in known:
        raise ChoiceError("give instances and --backends, a grid file, or --resume")
    else:
        grid = Grid(instances=list(places), **known)
    try:
        return msgspec.convert(msgspec.to_builtins(grid), Grid)  # checks options as values of a file
    except msgspec.ValidationError as error:
        raise ChoiceError(f"{str(error).replace('`', chr(39))}; see 'jtsolve compare --help'") from None


def _planned(
    folder: "Folder",
    grid: "Grid",
    constrain: ConstraintOptions,
    request: dict[str, Any],
    jobs: int,
    *,
    quiet: bool,
) -> "ComparisonPlan":
    """Returns the plan of a grid; scores its data files, and writes instances under the constraints."""
    from datetime import UTC, datetime

    from jtsolve.compare.folder import ComparisonPlan
    from jtsolve.compare.grid import expand, find_files
    from jtsolve.core.machine import cores, describe, free_memory
    from jtsolve.core.run import Console, Limits, Run

    run = Run(Limits(), Console(None, str.strip if quiet else murmur, str.strip if quiet else show_findings))  # type: ignore[arg-type]
    kind = INSTANCE if grid.score is None else TABLE
    files = _instances(folder, grid, constrain, find_files(grid.instances, kind), run)
    specs: list[Spec] = expand(
        grid,
        files,
        memory=lambda: max(0.1, round(0.8 * free_memory() / jobs / 1e9, 1)),
        threads=lambda: max(1, cores() // jobs),
    )
    machine = describe(cores())
    command = machine.pop("command")
    created = datetime.now(UTC).isoformat(timespec="seconds")
    return ComparisonPlan("jtsolve-comparison", 1, command, created, machine, specs, request)


def _instances(
    folder: "Folder",
    grid: "Grid",
    constrain: ConstraintOptions,
    files: Sequence[Path],
    run: "Run",
) -> list[Path]:
    """Returns the instances of files: data are scored, and all constrained, into RUN/instances."""
    from jtsolve.compare.grid import ScoreChoice, labels
    from jtsolve.io.instance import read_problem, write_problem

    restrictions = constrain.restrictions()
    constrained = grid.constraints is not None or bool(restrictions)
    instances = []
    for path, label in zip(files, labels(files), strict=True):
        is_data = grid.score is not None or TABLE.format_to_read(path) is not None
        if not (is_data or constrained):
            instances.append(path)
            continue
        if is_data:
            run.say(f"scoring {path}")
            problem = _scored(path, grid, grid.score or ScoreChoice(), restrictions, run)
        else:
            problem = read_problem(path, run)
        place = folder.path / "instances"
        folder.make()
        place.mkdir(exist_ok=True)
        instances.append(place / f"{label.replace('/', '-')}.json.gz")
        write_problem(_constrained(problem, grid, restrictions), instances[-1])
    return instances


def _constrained(problem: "Problem", grid: "Grid", restrictions: "Restrictions") -> "Problem":
    """Returns a problem under the constraints of the grid file and of the options."""
    from dataclasses import replace

    from jtsolve.io.constraints import constraints_from_document, with_names

    if grid.constraints is not None:
        more = constraints_from_document(grid.constraints, problem.names, "the grid", "constraints")
        with with_names(problem.names, "the grid", "constraints"):
            problem = replace(problem, constraints=problem.constraints.joined(more))
    return restrictions.on(problem)


def _scored(
    path: Path, grid: "Grid", choice: "ScoreChoice", restrictions: "Restrictions", run: "Run"
) -> "Problem":
    """Returns the problem of a data file."""
    from jtsolve.cli.score import score_all
    from jtsolve.study.arguments import score_of
    from jtsolve.study.data import Data
    from jtsolve.study.study import Study

    score = score_of(choice.name)
    widths = [treewidth for treewidth in grid.treewidths if isinstance(treewidth, int)]
    max_size = choice.max_size or (max(widths) + 1 if len(widths) == len(grid.treewidths) else None)
    if max_size is None and restrictions.treewidth is not None:
        max_size = restrictions.treewidth + 1
    if max_size is None:
        raise ChoiceError(
            "nothing says how large the scored sets are; give --treewidths, or max_size in a grid"
        )
    study = Study(Data(path, choice.reading()), score, max_size=max_size)
    return score_all(study, run, check=restrictions.of)


def _execute(
    folder: "Folder", plan: "ComparisonPlan", executor: "Place", jobs: int, *, quiet: bool, warm: bool
) -> None:
    """Does the missing runs, and journals every row."""
    from jtsolve.compare.running.live import Board
    from jtsolve.compare.running.warmup import warm_up

    with folder.journal() as journal:
        rows = folder.rows()  # the journal is locked: no other process adds rows
        missing = [spec for spec in plan.specs if spec.id not in rows]
        board = Board(journal, missing, list(rows.values()), jobs, str.strip if quiet else murmur)  # type: ignore[arg-type]
        try:
            if warm and missing:
                warm_up(missing, executor, folder.path)
            executor.execute(missing, board)
        except KeyboardInterrupt:
            left = sum(spec.id not in folder.rows() for spec in plan.specs)
            sys.stderr.write(
                f"jtsolve: stopped; {left} of {len(plan.specs)} runs are left. Continue with: jtsolve "
                f"compare --resume --output {folder.path}\n"
            )
            raise
