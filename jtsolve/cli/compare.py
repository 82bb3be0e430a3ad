"""`jtsolve compare`: backends × instances × treewidths × seeds, one process per run."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jtsolve.cli.options import Discretise, Missing, NoHeader, ScoringOptions, flags_given, grouped
from jtsolve.cli.output import FAULTY, murmur
from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from jtsolve.compare.folder import ComparisonPlan, Folder
    from jtsolve.compare.grid import Grid, ScoreChoice
    from jtsolve.compare.running.local import Executor
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


@dataclass(frozen=True, slots=True)
class CodingOptions:
    """How data files are read; 'jtsolve score' has more options."""

    missing: Missing = "refuse"
    discretise: Discretise = None
    no_header: NoHeader = False


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
    executor: Annotated[
        str, typer.Option(metavar="NAME", help="local, dask (workers on this machine), or dask=ADDRESS.")
    ] = "local",
    resume: Annotated[
        bool, typer.Option("--resume", help="Do the missing runs of the comparison in RUN/.")
    ] = False,
    plan_only: Annotated[
        bool, typer.Option("--plan", help="Write a specification per run for 'jtsolve run', and stop.")
    ] = False,
    no_warm_up: Annotated[
        bool, typer.Option("--no-warm-up", help="Skip the uncounted first runs, which compile kernels.")
    ] = False,
    scoring: ScoringOptions,
    coding: CodingOptions,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but faults and errors.")] = False,
) -> None:
    """Compare backends: run them all, check every tree again, and report.

    You can stop it at any moment; --resume does the missing runs. Exit code 1: a tree is wrong, or runs
    contradict each other.
    """
    from jtsolve.compare.folder import Folder

    folder = Folder(output)
    chosen = _executor(executor, jobs)
    if resume:
        more = [*(instances or []), *flags_given(grid), *flags_given(scoring), *flags_given(coding)]
        if more:
            raise ChoiceError(f"--resume continues the plan in the folder; leave out: {', '.join(more)}")
        plan = folder.plan()
    else:
        if folder.exists():
            raise ChoiceError(
                f"{folder.path}: there is a comparison here already; do the missing runs with --resume, or "
                "give another --output"
            )
        plan = _planned(folder, _grid(instances or [], grid, _score(scoring, coding)), jobs, quiet=quiet)
        folder.write_plan(plan)
    if plan_only:
        paths = folder.write_specs(plan.specs)
        murmur(f"{len(paths)} specifications are in {paths[0].parent}; run each: jtsolve run FILE --output …")
        return
    _execute(folder, plan, chosen, jobs, quiet=quiet, warm=not no_warm_up)

    from jtsolve.cli.report import finish

    if finish(folder, folder.path, quiet=quiet):
        raise typer.Exit(FAULTY)


def _executor(name: str, jobs: int) -> "Executor":
    """Returns where to run."""
    if name == "local":
        from jtsolve.compare.running.local import LocalExecutor

        return LocalExecutor(jobs)
    kind, _, address = name.partition("=")
    if kind != "dask":
        raise ChoiceError(f"there is no executor '{name}'; there are local, dask and dask=ADDRESS")
    from jtsolve.compare.running.cluster import DaskExecutor, require_dask

    require_dask()
    return DaskExecutor(address or None, jobs)


def _score(scoring: ScoringOptions, coding: CodingOptions) -> "ScoreChoice | None":
    """Returns how to score data, or None for instances."""
    from jtsolve.compare.grid import ScoreChoice

    if scoring.score is None:
        given = [*flags_given(scoring), *flags_given(coding)]
        if given:
            raise ChoiceError(f"{given[0]} is for data; name a score, such as --score bdeu")
        return None
    return ScoreChoice(
        scoring.score,
        ess=scoring.ess,
        max_size=scoring.max_size,
        missing=coding.missing,
        discretise=coding.discretise,
        header=not coding.no_header,
    )


def _grid(places: Sequence[str], options: GridOptions, score: "ScoreChoice | None") -> "Grid":
    """Returns the grid of the options, or of a file, whose values the options replace."""
    import msgspec

    from jtsolve.compare.grid import Grid, is_grid_file, parse_treewidths, read_grid, split_backends

    known: dict[str, Any] = {name: value for name, value in asdict(options).items() if value is not None}
    if "backends" in known:
        known["backends"] = split_backends(known["backends"])
    if "treewidths" in known:
        known["treewidths"] = parse_treewidths(known["treewidths"])
    if score is not None:
        known["score"] = score
    if len(places) == 1 and is_grid_file(Path(places[0])):
        return msgspec.structs.replace(read_grid(Path(places[0])), **known)
    if not places or "backends" not in known:
        raise ChoiceError("give instances and --backends, a grid file, or --resume")
    try:
        # Checked as a file would be: limits above 0, for example.
        return msgspec.convert(msgspec.to_builtins(Grid(instances=list(places), **known)), Grid)
    except msgspec.ValidationError as error:
        raise ChoiceError(f"{str(error).replace('`', chr(39))}; see 'jtsolve compare --help'") from None


def _planned(folder: "Folder", grid: "Grid", jobs: int, *, quiet: bool) -> "ComparisonPlan":
    """Returns the plan of a grid; scores its data files."""
    from datetime import UTC, datetime

    from jtsolve.compare.folder import ComparisonPlan
    from jtsolve.compare.grid import DATA_SUFFIXES, INSTANCE_SUFFIXES, expand, find_files
    from jtsolve.core.machine import cores, describe, free_memory

    say: Callable[[str], None] = (lambda _text: None) if quiet else murmur
    if grid.score is None:
        files = find_files(grid.instances, INSTANCE_SUFFIXES)
    else:
        files = _scored(folder, grid, find_files(grid.instances, DATA_SUFFIXES), say)
    specs: list[Spec] = expand(
        grid,
        files,
        memory=lambda: max(0.1, round(0.8 * free_memory() / jobs / 1e9, 1)),
        threads=lambda: max(1, cores() // jobs),
    )
    machine = describe(cores())
    command = machine.pop("command")
    created = datetime.now(UTC).isoformat(timespec="seconds")
    return ComparisonPlan("jtsolve-comparison", 1, command, created, machine, specs)


def _scored(folder: "Folder", grid: "Grid", files: Sequence[Path], say: Callable[[str], None]) -> list[Path]:
    """Scores data files into RUN/instances, and returns the instances."""
    from jtsolve.cli.options import DataOptions, make_score
    from jtsolve.cli.scoring import DataFile, score_file
    from jtsolve.compare.grid import labels
    from jtsolve.core.backend import Limits
    from jtsolve.io.instance import write_problem

    choice = grid.score
    assert choice is not None
    widths = [treewidth for treewidth in grid.treewidths if isinstance(treewidth, int)]
    max_size = choice.max_size or (max(widths) + 1 if len(widths) == len(grid.treewidths) else None)
    if max_size is None:
        raise ChoiceError("nothing says how large the scored sets are; give --max-size or --treewidths")
    options = DataOptions(missing=choice.missing, discretise=choice.discretise, no_header=not choice.header)
    folder.make()
    place = folder.path / "instances"
    place.mkdir(exist_ok=True)
    instances = []
    for path, label in zip(files, labels(files), strict=True):
        say(f"scoring {path}")
        data = DataFile.of(path, make_score(choice.name, choice.ess), options)
        problem = score_file(data, max_size, Limits(), say)
        instances.append(place / f"{label.replace('/', '-')}.json.gz")
        write_problem(problem, instances[-1])
    return instances


def _execute(
    folder: "Folder", plan: "ComparisonPlan", executor: "Executor", jobs: int, *, quiet: bool, warm: bool
) -> None:
    """Does the missing runs, and journals every row."""
    from jtsolve.cli.watching import live_view, speaker
    from jtsolve.compare.running.live import Board
    from jtsolve.compare.running.warmup import warm_up
    from jtsolve.progress import is_watched

    console = None
    if not quiet and is_watched():
        from rich.console import Console

        console = Console(stderr=True)
    with folder.journal() as journal:
        rows = folder.rows()  # the journal is locked: no other process adds rows
        missing = [spec for spec in plan.specs if spec.id not in rows]
        board = Board(journal, missing, list(rows.values()), jobs, speaker(console, quiet=quiet))
        try:
            if warm and missing:
                warm_up(missing, executor, folder.path)
            with live_view(board, console):
                executor.execute(missing, board)
        except KeyboardInterrupt:
            left = sum(spec.id not in folder.rows() for spec in plan.specs)
            sys.stderr.write(
                f"jtsolve: stopped; {left} of {len(plan.specs)} runs are left. Continue with: jtsolve "
                f"compare --resume --output {folder.path}\n"
            )
            raise
