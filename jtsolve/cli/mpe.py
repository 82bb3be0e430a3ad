"""`jtsolve mpe`: the most probable explanation of evidence."""

from typing import TYPE_CHECKING, Annotated

import typer

from jtsolve.cli.options import Given, Json, Likelihood, LimitOptions, Model, TableMemory
from jtsolve.cli.output import emit

if TYPE_CHECKING:
    from jtsolve.models.inference.gaussian import Mode
    from jtsolve.models.inference.mpe import Configuration


def mpe(
    context: typer.Context,
    model: Model,
    given: Given = None,
    likelihood: Likelihood = None,
    best: Annotated[int, typer.Option(metavar="N", min=1, help="The number of explanations.")] = 1,
    memory_limit: TableMemory = None,
    json: Json = False,
) -> None:
    """Find the most probable explanation of the evidence, a state for every variable; or the N best.

    Real numbers have one, the conditional mean. In the tables of a Bayesian network (.bif), evidence takes
    no room.
    """
    from jtsolve.cli.models import discrete, evidence, numbers
    from jtsolve.core.machine import memory_bytes
    from jtsolve.models.features.tree import FeatureTree
    from jtsolve.models.files.opening import open_model
    from jtsolve.models.gaussian import GaussianTreeModel
    from jtsolve.models.inference.gaussian import gaussian_mode
    from jtsolve.models.queries import explanations
    from jtsolve.networks.network import Network

    room = memory_bytes(memory_limit)
    run = LimitOptions().run(context.obj)
    with run.phase(f"reading {model.name}"):
        opened = open_model(model)
        if isinstance(opened, GaussianTreeModel):
            mode = gaussian_mode(opened, numbers(opened, given, likelihood), best)
            text = _values(opened.names, mode, json=json)
        else:
            found = (
                opened
                if isinstance(opened, Network | FeatureTree)
                else discrete(opened, "the most probable explanation")
            )
            known = evidence(found, given, likelihood)
            answers, of_evidence = explanations(found, known, best, memory=room, run=run)
            text = _states(found.names, answers, of_evidence, json=json)
    emit(text)


def _states(names: tuple[str, ...], answers: "list[Configuration]", of_evidence: float, *, json: bool) -> str:
    """Returns the explanations as text."""
    from math import exp

    from jtsolve.cli.models import json_text, table

    if json:
        listed = [
            {
                "states": dict(zip(names, answer.states, strict=True)),
                "log_probability": answer.log_probability + of_evidence,
                "log_probability_given_evidence": answer.log_probability,
            }
            for answer in answers
        ]
        return json_text({"log_probability_of_evidence": of_evidence, "best": listed})
    rows: list[list[object]] = [
        [name, *(answer.states[v] for answer in answers)] for v, name in enumerate(names)
    ]
    rows.append(["P(all | evidence)", *(exp(answer.log_probability) for answer in answers)])
    rows.append(["ln P(all, evidence)", *(a.log_probability + of_evidence for a in answers)])
    return table(["variable", *(f"best {k + 1}" for k in range(len(answers)))], rows)


def _values(names: tuple[str, ...], mode: "Mode", *, json: bool) -> str:
    """Returns the explanation of a model of real numbers as text."""
    from jtsolve.cli.models import json_text, table

    given_evidence = mode.log_density - mode.of_evidence
    if json:
        one = {
            "values": dict(zip(names, mode.values.tolist(), strict=True)),
            "log_density": mode.log_density,
            "log_density_given_evidence": given_evidence,
        }
        return json_text({"log_density_of_evidence": mode.of_evidence, "best": [one]})
    rows: list[list[object]] = [*map(list, zip(names, mode.values.tolist(), strict=True))]
    rows.append(["ln density(all | evidence)", given_evidence])
    rows.append(["ln density(all, evidence)", mode.log_density])
    return table(["variable", "best 1"], rows)
