"""`jtsolve mpe`: the most probable explanation of evidence."""

from typing import Annotated

import typer

from jtsolve.cli.options import Given, Json, Likelihood, Model, TableMemory, limit_tables
from jtsolve.cli.output import emit, emit_json


def mpe(
    model: Model,
    given: Given = None,
    likelihood: Likelihood = None,
    best: Annotated[int, typer.Option(metavar="N", min=1, help="The number of explanations.")] = 1,
    memory_limit: TableMemory = None,
    json: Json = False,
) -> None:
    """Find the most probable explanation of the evidence, a state for every variable; or the N best.

    Real numbers have one, the conditional mean. Observed variables of a network (.bif) need no memory.
    """
    from math import exp

    from jtsolve.cli.models import evidence
    from jtsolve.listing import table
    from jtsolve.models.framed import Model as Framed

    limit_tables(memory_limit)
    found = Framed.read(model)
    answers, of_evidence = found.explain(evidence(found.model, given, likelihood), best, memory=memory_limit)
    measure, kind = ("density", "values") if found.model.is_continuous else ("probability", "states")
    if json:
        listed = [
            {
                kind: dict(zip(found.names, answer.values, strict=True)),
                f"log_{measure}": answer.log_probability + of_evidence,
                f"log_{measure}_given_evidence": answer.log_probability,
            }
            for answer in answers
        ]
        emit_json({f"log_{measure}_of_evidence": of_evidence, "best": listed})
        return
    rows: list[list[object]] = [
        [name, *(answer.values[v] for answer in answers)] for v, name in enumerate(found.names)
    ]
    logs = [answer.log_probability for answer in answers]
    if found.model.is_continuous:
        rows.append(["ln density(all | evidence)", *logs])
    else:
        rows.append(["P(all | evidence)", *map(exp, logs)])
    name = "ln density(all, evidence)" if found.model.is_continuous else "ln P(all, evidence)"
    rows.append([name, *(log + of_evidence for log in logs)])
    emit(table(["variable", *(f"best {k + 1}" for k in range(len(answers)))], rows))
