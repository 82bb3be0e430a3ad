"""`jtsolve query`: marginal distributions given evidence."""

from typing import Annotated

import typer

from jtsolve.cli.options import Given, Json, Likelihood, Model, TableMemory, limit_tables
from jtsolve.cli.output import emit, emit_json


def query(
    model: Model,
    target: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B,…", help="The joint distribution of these; may be repeated; default: each."
        ),
    ] = None,
    given: Given = None,
    likelihood: Likelihood = None,
    memory_limit: TableMemory = None,
    json: Json = False,
) -> None:
    """Compute the probabilities of the states of variables, singly or jointly, given evidence.

    Of a Bayesian network (.bif), only the part that the answer depends on is read. A joint distribution
    or tables that are too large are refused with their size, before any work.
    """
    from jtsolve.cli.models import evidence
    from jtsolve.listing import table
    from jtsolve.models.framed import Model as Framed

    limit_tables(memory_limit)
    found = Framed.read(model)
    known = evidence(found.model, given, likelihood)
    groups = [_names(text, found.names) for text in target] if target else found.singly(known)
    answer = found.posterior(groups, known, memory=memory_limit)
    if json:
        emit_json(answer.facts())
        return
    texts = [table(*one) for one in answer.printed()]
    if answer.log_probability is None:
        texts.append(f"ln P(evidence) is left out, and the evidence assumed possible: {answer.refusal}")
    elif known:
        what = "density" if found.model.is_continuous else "P"
        texts.append(f"ln {what}(evidence) = {answer.log_probability:.6f} nats")
    emit("\n\n".join(texts))


def _names(text: str, names: tuple[str, ...]) -> list[str]:
    """Returns the variables named; a name may contain commas."""
    return [text] if text in names else [name.strip() for name in text.split(",")]
