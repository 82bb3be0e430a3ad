"""What the functions of `import jtsolve` take, turned into the values underneath."""

from __future__ import annotations

from dataclasses import fields, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from jtsolve.backends.parse import parse_backend
from jtsolve.cluster import Cluster
from jtsolve.console import display_here
from jtsolve.core.graph import UndirectedGraph
from jtsolve.core.machine import cores, memory_bytes
from jtsolve.core.problem import Constraints
from jtsolve.core.run import LOGGER, Console, Limits, Run
from jtsolve.errors import ChoiceError, InputError
from jtsolve.io.documents import (
    ConstraintsDocument,
    constraints_from_document,
    constraints_to_document,
    with_names,
)
from jtsolve.scoring.score import is_discrete, require_counts
from jtsolve.selection.framed import SelectedGraph
from jtsolve.selection.supersets import constraints_within, read_screened, read_superset
from jtsolve.tables.dialect import Dialect
from jtsolve.tables.frames import FrameStyle, is_listing, is_path, label_of
from jtsolve.tables.options import Coding, Discretisation
from jtsolve.tables.partitions import PartitionedTable, is_dask_frame
from jtsolve.tables.reading import read_checked, read_declarations
from jtsolve.tables.table import ContinuousTable
from jtsolve.wording import in_python

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import networkx as nx

    from jtsolve.core.backend import Backend
    from jtsolve.scoring.score import LocalScore
    from jtsolve.tables.frames import Frame
    from jtsolve.tables.partitions import AnyTable
    from jtsolve.tables.table import Table

    Pairs = Iterable[tuple[str, str]]
    GraphLike: TypeAlias = SelectedGraph | UndirectedGraph | nx.Graph | str | Path


def superset_of(given: UndirectedGraph | nx.Graph | str | Path | None) -> UndirectedGraph | None:
    """Returns a superset of edges, in any of the forms that `select` takes."""
    if given is None or isinstance(given, UndirectedGraph):
        return given
    return read_superset(given) if is_path(given) else UndirectedGraph.from_networkx(given, "superset")


def run_of(
    time: float | None,
    memory: float | None,
    threads: int | None,
    seed: int,
    shown: bool | None = None,  # noqa: FBT001
) -> Run:
    """Returns the run of a call; memory is in gigabytes, and progress is shown unless `shown` is False."""
    limits = Limits(time, memory_bytes(memory), threads, seed)
    return Run(limits, Console(None if shown is False else display_here(), warn=log))


def log(title: str, findings: Sequence[object]) -> None:
    """Logs findings, in words of Python."""
    del title
    for finding in findings:
        LOGGER.warning("%s", in_python(str(finding)))


def treewidth_of(given: Any) -> int | None:
    """Returns a treewidth given as any whole number, or None."""
    if given is not None and (isinstance(given, bool) or not isinstance(given, Integral)):
        raise ChoiceError(f"treewidth={given!r} is not a whole number; give one, or None for no bound")
    return given if given is None else int(given)


def backend_of(backend: str | Backend) -> Backend | None:
    """Returns the backend, or None for `auto`."""
    if isinstance(backend, str):
        return None if backend == "auto" else parse_backend(backend)
    if not hasattr(backend, "capabilities"):
        raise ChoiceError(f"{backend!r} is not a backend; give a name, as `jt.backends()` lists them")
    return backend


def coding_of(options: Mapping[str, Any]) -> Coding:
    """Returns the coding of the cells; "quantile:4" and single names are taken as on the command line."""
    known = [entry.name for entry in fields(Coding)]
    unknown = [name for name in options if name not in known]
    if unknown:
        raise ChoiceError(f"there is no option '{unknown[0]}' for data; there are {', '.join(known)}")
    given = dict(options)
    if not isinstance(given.get("discretise"), Discretisation | None):
        given["discretise"] = Discretisation.parse(str(given["discretise"]))
    if given.get("schema") is not None:
        given["schema"], declared = read_declarations(given["schema"])
        given["class_column"] = given.get("class_column") or declared
    for name in ("columns", "drop", "gaps", "states"):
        if given.get(name) is not None:
            several = given[name] if is_listing(given[name]) else (given[name],)
            given[name] = tuple(map(label_of, several))
    for name in ("weights", "class_column"):
        if given.get(name) is not None:
            given[name] = label_of(given[name])
    return Coding(**given)


def read_table(
    data: Frame,
    score: LocalScore,
    coding: Coding,
    dialect: Dialect = Dialect(),  # noqa: B008 - a frozen value
    *,
    size: int | None = None,
    strict: bool = False,
    run: Run | None = None,
) -> Table:
    """Returns the table of states or of numbers, as the score needs, after the data check."""
    return read_checked(data, coding, dialect, discrete=is_discrete(score), size=size, strict=strict, run=run)


def cluster_of(data: Frame, executor: Any, score: LocalScore, threads: int | None) -> Cluster | None:
    """Returns the cluster that counts the data, or None for this process."""
    cluster = Cluster.of(executor, threads or cores())
    if cluster is None and is_dask_frame(data):
        cluster = Cluster.default()
        if cluster is None:
            raise ChoiceError('a Dask DataFrame needs a client of Dask; make one, or give executor="dask"')
    if cluster is not None:
        require_counts(score)
    return cluster


def style_of(data: Frame, table: AnyTable) -> FrameStyle:
    """Returns how the data held their values, for answers in the same form."""
    states = {} if isinstance(table, ContinuousTable) else dict(zip(table.names, table.states, strict=True))
    if isinstance(table, PartitionedTable):
        return replace(FrameStyle.of("partitions", states), pandas=is_dask_frame(data))
    return FrameStyle.of(data, states)


def _graph(given: GraphLike | None, names: Sequence[str], *, screened: bool) -> UndirectedGraph | None:
    """Returns a graph over variables; of a selection, if it is to be `screened`, what its screen left."""
    if isinstance(given, SelectedGraph):
        return (given.selection.screened if screened else given.selection.markov).aligned(names)
    graph = read_screened(given) if screened and is_path(given) else superset_of(given)
    return graph and graph.aligned(names, str(given) if is_path(given) else "graph")


def _pairs(option: str, given: Any) -> list[list[str]]:
    """Returns pairs of names, which a data frame may have as numbers."""
    pairs = list(given) if is_listing(given) else [given]
    if not all(is_listing(pair) and len(pair) == 2 for pair in pairs):  # noqa: PLR2004 - a pair
        raise ChoiceError(
            f'{option}={given!r} is not a list of pairs of names; give one, such as {option}=[("A", "B")]'
        )
    return [list(map(label_of, pair)) for pair in pairs]


def joined_constraints(  # noqa: PLR0917 - one for each parameter of `learn`
    own: Constraints,
    names: Sequence[str],
    forbid: Pairs,
    require: Pairs,
    more: Mapping[str, Any] | None,
    graphs: tuple[GraphLike | None, GraphLike | None],
) -> Constraints:
    """Returns constraints together with others, given by names as in an instance file, and by graphs."""
    document = constraints_to_document(own, names)
    pairs = {"forbidden_edges": _pairs("forbid", forbid), "required_edges": _pairs("require", require)}
    given = [*pairs.items(), *(more or {}).items()]
    for key, value in given:
        if isinstance(value, list | tuple | set | frozenset):
            known = {frozenset(entry) for entry in document.get(key, ())}
            fresh = [list(entry) for entry in value if frozenset(entry) not in known]
            document[key] = [*document.get(key, ()), *fresh]
        else:
            document[key] = value
    try:
        converted = msgspec.convert(document, ConstraintsDocument)
    except msgspec.ValidationError as error:
        known_keys = ", ".join(entry.name for entry in fields(Constraints))
        raise InputError("constraints", "", str(error), f"give some of {known_keys}, sets by names") from None
    joint = constraints_from_document(converted, names, "constraints", "$")
    within, required = graphs
    more_of_graphs = constraints_within(
        _graph(within, names, screened=True), _graph(required, names, screened=False)
    )
    with with_names(names, "constraints", "$"):
        return joint.joined(more_of_graphs)
