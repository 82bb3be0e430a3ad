"""A result in words for people."""

from collections.abc import Mapping
from json import dumps
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jtsolve.result import ResultDocument


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
        from jtsolve.result import tree_of

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
