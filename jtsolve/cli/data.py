"""`jtsolve data`: installed examples, and public data sets by name."""

from pathlib import Path
from typing import Annotated

import typer

from jtsolve.cli.options import file_option
from jtsolve.cli.output import emit
from jtsolve.core.formats import require_same_format
from jtsolve.core.outputs import claim_outputs

data = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="Get examples or public data sets.")


@data.command("list")
def list_data_sets() -> None:
    """List the data sets that can be fetched by name."""
    from jtsolve.data.registry import registry
    from jtsolve.listing import table

    found = [
        [entry.name, entry.kind, "" if entry.rows is None else entry.rows, entry.columns, entry.terms]
        for entry in registry().values()
    ]
    emit(table(["name", "kind", "rows", "columns", "terms"], found))


@data.command("example")
def find_example(
    name: Annotated[str, typer.Argument(metavar="NAME", help="survey, survey-network, or zoo.")],
    output: Annotated[Path | None, file_option("Copy it to this file.")] = None,
) -> None:
    """Print the path of a small file installed with jtsolve: a data set, its network, or an instance."""
    from jtsolve.core.files import read_bytes, write_atomically
    from jtsolve.data.examples import example

    path = example(name)
    if output is not None:
        require_same_format(output, path)
        claim_outputs(output)
        write_atomically(output, read_bytes(path))
        path = output
    emit(str(path))


@data.command("fetch")
def fetch_data_set(
    name: Annotated[str, typer.Argument(metavar="NAME", help="One of 'jtsolve data list'.")],
    folder: Annotated[
        Path | None,
        typer.Option("--from", metavar="FOLDER", help="Read it from this folder instead of the network."),
    ] = None,
) -> None:
    """Fetch a data set, verify its SHA-256, and print the path of its file.

    Files are cached in the system's cache folder for jtsolve, or in JTSOLVE_CACHE if this environment
    variable is set.
    """
    from jtsolve.data.fetch import copied, download
    from jtsolve.data.registry import data_set_named

    entry = data_set_named(name)
    emit(str(download(entry) if folder is None else copied(entry, folder)))
