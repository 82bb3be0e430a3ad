"""`jtsolve compare`: backends × instances × treewidths × seeds, each run in a process of its own."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jtsolve.cli.output import FAULTY, murmur
from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from jtsolve.compare.folder import Folder, Plan
    from jtsolve.compare.grid import Grid, ScoreChoice
    from jtsolve.compare.running.local import Executor
    from jtsolve.compare.spec import Spec


def compare(
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
    backends: Annotated[
        str | None, typer.Option(metavar="A,B:K=V,…", help="Backends with options, such as dp,lns:exact=dp.")
    ] = None,
    seeds: Annotated[str | None, typer.Option(metavar="N-M,…", help="Seeds; the default is 0.")] = None,
    treewidths: Annotated[
        str | None,
        typer.Option(metavar="K,…", help="Treewidths; none: the instance's own constraints alone."),
    ] = None,
    time_limit: Annotated[float | None, typer.Option(metavar="S", help="Seconds of a run.")] = None,
    memory_limit: Annotated[
        float | None,
        typer.Option(metavar="GB", help="Memory of a run; default: an equal share of 80 % of it."),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Threads of a run; default: an equal share of the cores."),
    ] = None,
    grace: Annotated[
        float | None,
        typer.Option(metavar="S", min=0, help="Seconds after the time limit until a run is killed."),
    ] = None,
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Runs at a time.")] = 1,
    executor: Annotated[
        str, typer.Option(metavar="NAME", help="local, dask (workers on this machine), or dask=ADDRESS.")
    ] = "local",
    resume: Annotated[
        bool, typer.Option("--resume", help="Do what is missing of the comparison in RUN/.")
    ] = False,
    plan_only: Annotated[
        bool, typer.Option("--plan", help="Write a specification per run for 'jtsolve run', and end.")
    ] = False,
    no_warm_up: Annotated[
        bool,
        typer.Option("--no-warm-up", help="Leave out the first runs, not counted, that compile kernels."),
    ] = False,
    score: Annotated[
        str | None, typer.Option(metavar="NAME", help="Take INSTANCES for data files, and score them first.")
    ] = None,
    ess: Annotated[float | None, typer.Option(metavar="A", help="With --score bdeu.")] = None,
    max_size: Annotated[
        int | None, typer.Option(metavar="K", min=1, help="With --score; default: largest treewidth + 1.")
    ] = None,
    missing: Annotated[str | None, typer.Option(metavar="HOW", help="With --score: missing values.")] = None,
    discretise: Annotated[
        str | None, typer.Option(metavar="HOW", help="With --score: how to cut continuous columns.")
    ] = None,
    no_header: Annotated[
        bool, typer.Option("--no-header", help="With --score: the first line is a row.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but faults and errors.")] = False,
) -> None:
    """Compare backends: run them all, check every tree again, and report.

    Stop it at any moment; --resume does what is missing. Exit code 1: a tree is wrong, or runs contradict
    each other.
    """
    from jtsolve.compare.folder import Folder

    given: dict[str, Any] = {
        "backends": backends,
        "treewidths": treewidths,
        "seeds": seeds,
        "time_limit": time_limit,
        "memory_limit": memory_limit,
        "threads": threads,
        "grace": grace,
    }
    scoring = {
        "name": score,
        "ess": ess,
        "max_size": max_size,
        "missing": missing,
        "discretise": discretise,
        "header": False if no_header else None,
    }
    folder = Folder(output)
    chosen = _executor(executor, jobs)
    if resume:
        _require_nothing_else(instances, {**given, **scoring})
        plan = folder.plan()
    else:
        _require_new(folder)
        plan = _planned(folder, _grid(instances or [], given, _score(scoring)), jobs, quiet=quiet)
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


def _require_nothing_else(instances: Sequence[str] | None, options: dict[str, Any]) -> None:
    """Refuses with --resume what would ask for another comparison."""
    named = [f"--{name.replace('_', '-')}" for name, value in options.items() if value is not None]
    if instances or named:
        more = ", ".join([*(instances or []), *named])
        raise ChoiceError(
            f"--resume goes on with the plan in the folder, and takes no other one; leave out: {more}"
        )


def _require_new(folder: "Folder") -> None:
    if folder.exists():
        raise ChoiceError(
            f"{folder.path}: there is a comparison here already; do what is missing of it with --resume, or "
            "give another --output"
        )


def _score(options: dict[str, Any]) -> "ScoreChoice | None":
    """Returns how to score data, or None for instances."""
    from jtsolve.compare.grid import ScoreChoice

    known = {name: value for name, value in options.items() if value is not None}
    if not known:
        return None
    if "name" not in known:
        raise ChoiceError(
            f"--{next(iter(known)).replace('_', '-')} is for data; name a score, such as --score bdeu"
        )
    return ScoreChoice(**known)


def _grid(places: Sequence[str], options: dict[str, Any], score: "ScoreChoice | None") -> "Grid":
    """Returns the grid that options, or a file and options, ask for."""
    import msgspec

    from jtsolve.compare.grid import Grid, is_grid_file, parse_treewidths, read_grid, split_backends

    known = {name: value for name, value in options.items() if value is not None}
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


def _planned(folder: "Folder", grid: "Grid", jobs: int, *, quiet: bool) -> "Plan":
    """Returns the plan of a grid; scores data on the way."""
    from datetime import UTC, datetime

    from jtsolve.compare.folder import Plan
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
    return Plan("jtsolve-comparison", 1, command, created, machine, specs)


def _scored(folder: "Folder", grid: "Grid", files: Sequence[Path], say: Callable[[str], None]) -> list[Path]:
    """Scores data files into RUN/instances, and returns the instances."""
    from jtsolve.cli.scored import Task, chosen_score, make_coding, score_data
    from jtsolve.compare.grid import labels
    from jtsolve.core.backend import Limits
    from jtsolve.io.instance import write_problem

    choice = grid.score
    assert choice is not None
    widths = [treewidth for treewidth in grid.treewidths if isinstance(treewidth, int)]
    max_size = choice.max_size or (max(widths) + 1 if len(widths) == len(grid.treewidths) else None)
    if max_size is None:
        raise ChoiceError("how large the scored sets are to be is not said; give --max-size or --treewidths")
    folder.make()
    place = folder.path / "instances"
    place.mkdir(exist_ok=True)
    instances = []
    for path, label in zip(files, labels(files), strict=True):
        task = Task(
            path,
            chosen_score(choice.name, choice.ess),
            max_size,
            make_coding(missing=choice.missing, discretise=choice.discretise),
            header=choice.header,
        )
        say(f"scoring {path}")
        problem = score_data(task, Limits(), say, shows_progress=False)
        instances.append(place / f"{label.replace('/', '-')}.json.gz")
        write_problem(problem, instances[-1])
    return instances


def _execute(
    folder: "Folder", plan: "Plan", executor: "Executor", jobs: int, *, quiet: bool, warm: bool
) -> None:
    """Runs what is missing, and keeps every row."""
    from jtsolve.cli.progress import is_watched
    from jtsolve.cli.watching import live_view, speaker
    from jtsolve.compare.running.live import Board
    from jtsolve.compare.running.warmup import warm_up

    console = None
    if not quiet and is_watched():
        from rich.console import Console

        console = Console(stderr=True)
    with folder.journal() as journal:
        rows = folder.rows()  # only now: no other process adds any
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
                f"jtsolve: stopped; {left} of {len(plan.specs)} runs are left. Go on with: jtsolve "
                f"compare --resume --output {folder.path}\n"
            )
            raise
