"""A result in words for people, and its tree."""

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from json import dumps
from typing import TYPE_CHECKING

from jtsolve.errors import InputError

if TYPE_CHECKING:
    from jtsolve.result import ResultDocument
    from jtsolve.tree import JunctionTree


def describe(document: "ResultDocument", source: str, facts: Mapping[str, str]) -> str:
    """Returns what is known, a fact a line, and then the tree.

    Args:
        document: the result.
        source: where it is from, for messages.
        facts: further lines, by their heading.

    Raises:
        InputError: the tree is none.
    """
    total = document.seconds["total"]
    lines = {
        "status": f"{document.status.value} ({_STOPS[document.stop.value]})",
        "score": _nats(document.score),
        "bound": _nats(document.bound),
        "gap": _nats(document.gap),
        "treewidth": "none" if document.treewidth is None else str(document.treewidth),
        "time": f"{total:.3g} s" if total < 100 else f"{total:.0f} s",  # noqa: PLR2004 - three digits
        **facts,
    }
    name = document.instance.name or "(without a name)"
    text = [name if name.isprintable() else dumps(name)]  # no control sequences to the terminal
    text += [f"  {heading:<10} {fact}" for heading, fact in lines.items()]
    if document.cliques:
        from jtsolve.draw import tree_text

        text += ["", tree_text(*tree_of(document, source))]
    return "\n".join(text)


_STOPS = {
    "finished": "finished",
    "time": "the time limit ended the run",
    "memory": "the memory limit ended the run",
    "steps": "the limit of steps ended the run",
    "interrupted": "interrupted",
}


def _nats(value: float | None) -> str:
    return "none" if value is None else f"{value:.6f} nats"


def tree_of(document: "ResultDocument", source: str) -> "tuple[JunctionTree, tuple[str, ...]]":
    """Returns the tree of a result, and the names of its variables in an order that agrees with every clique.

    Raises:
        InputError: there is no tree, or it is no junction tree.
    """
    from jtsolve.tree import JunctionTree
    from jtsolve.varset import varset

    if not document.cliques:
        status = document.status.value
        raise InputError(source, "$.cliques", f"there is no tree (status {status})", "give a result with one")
    names = _variables(document.cliques)
    index = {name: v for v, name in enumerate(names)}
    cliques = [varset(index[name] for name in clique) for clique in document.cliques]
    try:
        return JunctionTree(len(names), tuple(cliques), tuple(document.tree_edges)), names
    except ValueError as error:
        raise InputError(
            source, "$.cliques", str(error), "solve again; 'jtsolve check' lists every fault"
        ) from None


def _variables(cliques: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Returns all names, in an order in which those of each clique are as they are there.

    A result lists cliques, not variables; its cliques are in the order of the variables. In a file made
    otherwise no such order may exist: then a name stands where it first occurs.
    """
    order: TopologicalSorter[str] = TopologicalSorter()
    for clique in cliques:
        for name in clique:
            order.add(name)
        for before, after in pairwise(clique):
            order.add(after, before)
    try:
        return tuple(order.static_order())
    except CycleError:
        return tuple(dict.fromkeys(name for clique in cliques for name in clique))
