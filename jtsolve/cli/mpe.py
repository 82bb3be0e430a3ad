"""`jtsolve mpe`: the most probable explanation of evidence."""

from typing import Annotated

import typer

from jtsolve.cli.options import Given, Json, Likelihood, Model, TableMemory, memory_bytes
from jtsolve.cli.output import emit


def mpe(
    model: Model,
    given: Given = None,
    likelihood: Likelihood = None,
    best: Annotated[int, typer.Option(metavar="N", min=1, help="The number of explanations.")] = 1,
    memory_limit: TableMemory = None,
    json: Json = False,
) -> None:
    """Find the most probable explanation of the evidence, a state for every variable; or the N best.

    In the tables of a Bayesian network (.bif), evidence takes no room.
    """
    from math import exp

    from jtsolve.cli.models import discrete, evidence, json_text, table
    from jtsolve.models.features.tree import FeatureTree
    from jtsolve.models.files.opening import open_model
    from jtsolve.models.queries import explanations
    from jtsolve.networks.network import Network
    from jtsolve.progress import is_watched, progress, tell

    room = memory_bytes(memory_limit)
    with progress(f"reading {model.name}", shown=is_watched()) as listener:
        opened = open_model(model)
        found = (
            opened
            if isinstance(opened, Network | FeatureTree)
            else discrete(opened, "the most probable explanation")
        )
        known = evidence(found, given, likelihood)
        answers, of_evidence = explanations(
            found, known, best, memory=room, tell=lambda *say: tell(listener, *say)
        )
    if json:
        listed = [
            {
                "states": dict(zip(found.names, answer.states, strict=True)),
                "log_probability": answer.log_probability + of_evidence,
                "log_probability_given_evidence": answer.log_probability,
            }
            for answer in answers
        ]
        emit(json_text({"log_probability_of_evidence": of_evidence, "best": listed}))
        return
    rows: list[list[object]] = [
        [name, *(answer.states[v] for answer in answers)] for v, name in enumerate(found.names)
    ]
    rows.append(["P(all | evidence)", *(exp(answer.log_probability) for answer in answers)])
    rows.append(["ln P(all, evidence)", *(a.log_probability + of_evidence for a in answers)])
    emit(table(["variable", *(f"best {k + 1}" for k in range(len(answers)))], rows))
