"""`jtsolve mpe`: the most probable explanation of evidence."""

from typing import Annotated

import typer

from jtsolve.cli.options import Given, Json, Likelihood, Model
from jtsolve.cli.output import emit


def mpe(
    model: Model,
    given: Given = None,
    likelihood: Likelihood = None,
    best: Annotated[int, typer.Option(metavar="N", min=1, help="The number of explanations.")] = 1,
    json: Json = False,
) -> None:
    """Find the most probable explanation of the evidence, a state for every variable; or the N best."""
    from math import exp

    from jtsolve.cli.models import discrete, evidence, json_text, load, table
    from jtsolve.models.features.tree import FeatureTree
    from jtsolve.models.queries import condition, most_probable

    read = load(model)
    found = read if isinstance(read, FeatureTree) else discrete(read, "the most probable explanation")
    known = condition(found, evidence(found, given, likelihood))
    answers = most_probable(known.model, best)
    if json:
        explanations = [
            {
                "states": dict(zip(found.names, answer.states, strict=True)),
                "log_probability": answer.log_probability + known.log_probability,
                "log_probability_given_evidence": answer.log_probability,
            }
            for answer in answers
        ]
        emit(json_text({"log_probability_of_evidence": known.log_probability, "best": explanations}))
        return
    rows: list[list[object]] = [
        [name, *(answer.states[v] for answer in answers)] for v, name in enumerate(found.names)
    ]
    rows.append(["P(all | evidence)", *(exp(answer.log_probability) for answer in answers)])
    rows.append(["ln P(all, evidence)", *(a.log_probability + known.log_probability for a in answers)])
    emit(table(["variable", *(f"best {k + 1}" for k in range(len(answers)))], rows))
