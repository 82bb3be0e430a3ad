"""`jtsolve compare`, `report`, `run`: a comparison of backends, its report, and one of its runs."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jtsolve.cli.options import LIMITS, Options, file_argument, file_option, with_options
from jtsolve.cli.output import FAULTY, emit, print_faults, print_note, put
from jtsolve.core.formats import RESULT
from jtsolve.core.outputs import claim_outputs, note_input
from jtsolve.errors import ChoiceError
from jtsolve.options import Option

if TYPE_CHECKING:
    from jtsolve.compare.folder import Folder


_GRID = (
    Option("backends", str, "Backends with options, such as dp,lns:exact=dp.", metavar="A,B:K=V,…"),
    Option("seeds", str, "Seeds; the default is 0.", "0", "N-M,…"),
    Option("treewidths", str, "Treewidths; none: the instance's own constraints alone.", "none", "K,…"),
    Option("grace", float, "Seconds after the time limit until a run is killed.", 10.0, "S", least=0),
    *LIMITS,
)
"""What to run, and the limits of each run."""


@with_options(*_GRID)
def compare(
    *,
    output: Annotated[
        Path,
        typer.Option(file_okay=False, readable=False, metavar="RUN/", help="The folder of the comparison."),
    ],
    instances: Annotated[
        list[str] | None, typer.Argument(metavar="INSTANCES…", help="Instances, or folders of them.")
    ] = None,
    options: Options,
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Runs at a time.")] = 1,
    resume: Annotated[
        bool, typer.Option("--resume", help="Do the missing runs of the comparison in RUN/.")
    ] = False,
    plan_only: Annotated[
        bool, typer.Option("--plan", help="Write a specification per run for 'jtsolve run', and stop.")
    ] = False,
    no_warm_up: Annotated[
        bool, typer.Option("--no-warm-up", help="Skip the uncounted first runs, which compile kernels.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but faults and errors.")] = False,
) -> None:
    """Compare backends: run them all, check every tree again, and report.

    The limits are those of each run; by default, runs at a time share the cores and 80 % of the free memory
    equally. You can stop it at any moment; --resume does the missing runs. Exit code 1: a tree is wrong, or
    runs contradict each other.
    """
    from jtsolve.compare.folder import Folder
    from jtsolve.compare.grid import Grid, parse_numbers, parse_treewidths, split_backends
    from jtsolve.compare.plan import planned
    from jtsolve.compare.running import local

    folder = Folder(output)
    if resume:
        plan = folder.plan()
        if given := [*["INSTANCES"] * bool(instances), *options.flags(_GRID)]:
            raise ChoiceError(f"--resume does the runs that the folder plans; leave out: {', '.join(given)}")
    else:
        if folder.exists():
            raise ChoiceError(
                f"{folder.path}: there is a comparison here already; do the missing runs with --resume, or "
                "give another --output"
            )
        if not instances or options.backends is None:
            raise ChoiceError("give instances and --backends, or --resume")
        grid = Grid(
            split_backends(options.backends),
            parse_treewidths(options.treewidths),
            parse_numbers(options.seeds, "seed"),
            options.time,
            options.memory,
            options.threads,
            options.grace,
        )
        plan = planned(instances, grid, jobs=jobs)
        for spec in plan.specs:
            note_input(spec.instance.path)
        folder.write_plan(plan)
    if plan_only:
        paths = folder.write_specs(plan.specs)
        print_note(
            f"{len(paths)} specifications are in {paths[0].parent}; run each: jtsolve run FILE --output …"
        )
        return
    tell = (lambda _: None) if quiet else print_note
    try:
        local.perform_missing(folder, plan, jobs, tell, warm=not no_warm_up)
    except KeyboardInterrupt:
        left = sum(spec.id not in folder.rows() for spec in plan.specs)
        sys.stderr.write(
            f"jtsolve: stopped; {left} of {len(plan.specs)} runs are left. Continue with: jtsolve compare "
            f"--resume --output {folder.path}\n"
        )
        raise
    if report_comparison(folder, quiet=quiet):
        raise typer.Exit(FAULTY)


def report(
    folder: Annotated[Path, file_argument("RUN/", "The --output of 'jtsolve compare'.")],
) -> None:
    """Report a comparison: report.html, runs.csv.

    Every tree is checked again. Exit code 1: a tree is wrong, or runs contradict each other.
    """
    from jtsolve.compare.folder import Folder

    if report_comparison(Folder(folder)):
        raise typer.Exit(FAULTY)


def run(
    context: typer.Context,
    spec: Annotated[Path, file_argument("SPEC", "The run specification (JSON).")],
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

        assert output is not None, "the supervisor gives it"
        run_inside(read_spec(spec), output, context.obj)
        return
    claim_outputs(output, kind=RESULT)

    from jtsolve.compare.running.supervise import supervise

    wanted = read_spec(spec)
    note_input(wanted.instance.path)  # another process reads it
    answer = supervise(wanted)
    assert answer is not None, "nothing cancels it here"
    put(to_json(answer), output)


def report_comparison(folder: "Folder", *, quiet: bool = False) -> bool:
    """Judges and reports a comparison; returns whether there is a fault.

    Args:
        folder: of the runs and of the report.
        quiet: whether only faults are printed.
    """
    from jtsolve.compare.reporting import exports
    from jtsolve.compare.reporting.report import judged, write_report
    from jtsolve.listing import table

    plan = folder.plan()
    comparison = judged(folder, plan)
    paths = write_report(comparison, plan, folder.path)
    if not quiet:
        tables = (exports.backends_table(comparison), exports.problems_table(comparison))
        emit("\n\n".join(table(*one) for one in tables))
        emit(f"{len(comparison.rows)} of {comparison.planned} runs; written: {', '.join(map(str, paths))}")
    for fault in comparison.faults:
        print_faults(fault.kind, [fault.message])
    return bool(comparison.faults)
