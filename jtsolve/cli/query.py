"""`jtsolve query`: marginal distributions given evidence."""

from typing import TYPE_CHECKING, Annotated

import typer

from jtsolve.cli.options import Given, Json, Likelihood, LimitOptions, Model, TableMemory
from jtsolve.cli.output import emit

if TYPE_CHECKING:
    from jtsolve.models.gaussian import GaussianTreeModel
    from jtsolve.models.queries import Asked
    from jtsolve.models.relevance import Posterior


def query(
    context: typer.Context,
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

    Of a Bayesian network (.bif), only the part that the answer depends on is looked at. A joint distribution
    or tables that are too large are refused with their size, before any work.
    """
    from jtsolve.cli.models import evidence
    from jtsolve.core.machine import memory_bytes
    from jtsolve.models.files.opening import open_model
    from jtsolve.models.gaussian import GaussianTreeModel
    from jtsolve.models.queries import answers

    room = memory_bytes(memory_limit)
    run = LimitOptions().run(context.obj)
    with run.phase(f"reading {model.name}"):
        found = open_model(model)
        groups = [_names(text, found.names) for text in target or found.names]
        if isinstance(found, GaussianTreeModel):
            text = _numbers(found, groups, given, likelihood, json=json)
        else:
            known = evidence(found, given, likelihood)
            answered = answers(found, groups, known, memory=room, run=run)
            text = _states(found, groups, answered, json=json, conditional=bool(known))
    emit(text)


def _names(text: str, names: tuple[str, ...]) -> list[str]:
    """Returns the variables named; a name may contain commas."""
    return [text] if text in names else [name.strip() for name in text.split(",")]


def _states(
    model: "Asked", groups: list[list[str]], answered: "Posterior", *, json: bool, conditional: bool
) -> str:
    """Returns the answers as text."""
    from itertools import product

    from jtsolve.cli.models import json_text, table
    from jtsolve.models.queries import columns_of_states

    states = {column.name: column.states for column in columns_of_states(model)}
    rows = [list(product(*(states[name] for name in group))) for group in groups]
    values = [answer.ravel().tolist() for answer in answered.tables]
    if json:
        targets = [
            {"variables": group, "states": labels, "probabilities": numbers}
            for group, labels, numbers in zip(groups, rows, values, strict=True)
        ]
        return json_text({"log_probability_of_evidence": answered.log_probability, "targets": targets})
    texts = [
        table([*group, "P"], [[*label, number] for label, number in zip(labels, numbers, strict=True)])
        for group, labels, numbers in zip(groups, rows, values, strict=True)
    ]
    if answered.log_probability is None:
        texts.append(f"ln P(evidence) is left out, and the evidence taken to be possible: {answered.refusal}")
    elif conditional:
        texts.append(f"ln P(evidence) = {answered.log_probability:.6f} nats")
    return "\n\n".join(texts)


def _numbers(
    model: "GaussianTreeModel",
    groups: list[list[str]],
    given: list[str] | None,
    likelihood: list[str] | None,
    *,
    json: bool,
) -> str:
    """Returns the answers of a model of real numbers as text."""
    from jtsolve.cli.models import json_text, numbers, table
    from jtsolve.models.inference.gaussian import condition_gaussian, covariance

    known, log_density = condition_gaussian(model, numbers(model, given, likelihood))
    left = [group for group in groups if len(groups) < model.n or group[0] in known.names]
    answers = [
        (group, [float(known.mean[known.variable(name)]) for name in group], covariance(known, group))
        for group in left
    ]
    if json:
        targets = [
            {"variables": group, "mean": mean, "covariance": matrix.tolist()}
            for group, mean, matrix in answers
        ]
        return json_text({"log_density_of_evidence": log_density, "targets": targets})
    rows = [
        [name, mean[k], float(matrix[k, k]) ** 0.5, *(float(c) for c in matrix[k])]
        if len(group) > 1
        else [name, mean[k], float(matrix[k, k]) ** 0.5]
        for group, mean, matrix in answers
        for k, name in enumerate(group)
    ]
    widest = max(map(len, rows))
    headings = ["variable", "mean", "deviation", *(f"cov {k + 1}" for k in range(widest - 3))]
    return table(headings, [[*row, *[""] * (widest - len(row))] for row in rows])
