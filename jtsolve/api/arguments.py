"""What the functions of `import jtsolve` take, turned into the values underneath."""

from __future__ import annotations

from dataclasses import fields, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from jtsolve.backends.registry import REGISTRY
from jtsolve.cluster import Cluster
from jtsolve.core.backend import Limits
from jtsolve.core.graph import UndirectedGraph
from jtsolve.core.machine import cores, memory_bytes
from jtsolve.core.problem import Constraints
from jtsolve.errors import ChoiceError, InputError
from jtsolve.io.documents import (
    ConstraintsDocument,
    constraints_from_document,
    constraints_to_document,
    with_names,
)
from jtsolve.progress import in_notebook, is_watched, progress
from jtsolve.scoring.score import is_discrete, require_counts
from jtsolve.selection.framed import SelectedGraph
from jtsolve.selection.supersets import constraints_within, read_screened, read_superset
from jtsolve.solving import LOGGER
from jtsolve.tables.check import require_none
from jtsolve.tables.distinct import Watch, unwatched
from jtsolve.tables.frames import FRAME, FrameStyle, is_listing, is_path, label_of
from jtsolve.tables.partitions import PartitionedTable, is_dask_frame
from jtsolve.tables.reading import read_checked
from jtsolve.tables.table import ContinuousTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    import networkx as nx

    from jtsolve.core.backend import Backend
    from jtsolve.scoring.score import LocalScore
    from jtsolve.solving import Listener
    from jtsolve.tables.check import Finding
    from jtsolve.tables.frames import Frame
    from jtsolve.tables.options import Reading
    from jtsolve.tables.partitions import AnyTable
    from jtsolve.tables.table import Table

    Pairs = Iterable[tuple[str, str]]
    GraphLike: TypeAlias = SelectedGraph | UndirectedGraph | nx.Graph | str | Path


def superset_of(given: UndirectedGraph | nx.Graph | str | Path | None) -> UndirectedGraph | None:
    """Returns a superset of edges, in any of the forms that `select` takes."""
    if given is None or isinstance(given, UndirectedGraph):
        return given
    return read_superset(given) if is_path(given) else UndirectedGraph.from_networkx(given, "superset")


def limits_of(time: float | None, memory: float | None, threads: int | None, seed: int) -> Limits:
    """Returns the limits; memory is in gigabytes."""
    return Limits(time, memory_bytes(memory), threads, seed)


def treewidth_of(given: Any) -> int | None:
    """Returns a treewidth given as any whole number, or None."""
    if given is not None and (isinstance(given, bool) or not isinstance(given, Integral)):
        raise ChoiceError(f"treewidth={given!r} is not a whole number; give one, or None for no bound")
    return given if given is None else int(given)


def backend_of(backend: str | Backend) -> Backend | None:
    """Returns the backend, or None for `auto`."""
    if isinstance(backend, str):
        return None if backend == "auto" else REGISTRY.parse(backend)
    if not hasattr(backend, "capabilities"):
        raise ChoiceError(f"{backend!r} is not a backend; give a name, as `jt.backends()` lists them")
    return backend


def display(note: str, wanted: bool | None) -> AbstractContextManager[Listener | None]:  # noqa: FBT001
    """Returns the line of progress, shown in terminals and notebooks unless it is said."""
    return progress(note, shown=is_watched() or in_notebook() if wanted is None else wanted)


def read_table(
    data: Frame, score: LocalScore, how: Reading, *, size: int | None = None, watch: Watch = unwatched
) -> Table:
    """Returns the table of states or of numbers, as the score needs, after the data check."""
    heed = finding_handler(data, strict=how.strict)
    discrete = is_discrete(score)
    return read_checked(data, how.coding, how.dialect, discrete=discrete, size=size, tell=heed, watch=watch)


def finding_handler(data: Frame, *, strict: bool) -> Callable[[Sequence[Finding]], None]:
    """Returns what takes the findings of the data check: it logs them, or raises if it is `strict`."""

    def heed(findings: Sequence[Finding]) -> None:
        if strict:
            require_none(findings, str(data) if is_path(data) else FRAME)
        for finding in findings:
            LOGGER.warning("%s", finding)

    return heed


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
