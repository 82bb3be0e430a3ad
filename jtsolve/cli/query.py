"""`jtsolve query`: marginal distributions given evidence."""

from typing import TYPE_CHECKING, Annotated

import typer

from jtsolve.cli.options import Given, Json, Likelihood, Model
from jtsolve.cli.output import emit

if TYPE_CHECKING:
    from jtsolve.models.gaussian import GaussianTreeModel
    from jtsolve.models.queries import StateModel


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
    json: Json = False,
) -> None:
    """Compute the probabilities of the states of variables, singly or jointly, given evidence.

    A joint distribution that is too large is refused with its size, before any work.
    """
    from jtsolve.cli.models import load
    from jtsolve.models.gaussian import GaussianTreeModel

    found = load(model)
    groups = [_names(text, found.names) for text in target or found.names]
    if isinstance(found, GaussianTreeModel):
        _numbers(found, groups, given, likelihood, json=json)
    else:
        _states(found, groups, given, likelihood, json=json)


def _names(text: str, names: tuple[str, ...]) -> list[str]:
    """Returns the variables named; a name may contain commas."""
    return [text] if text in names else [name.strip() for name in text.split(",")]


def _states(
    model: "StateModel",
    groups: list[list[str]],
    given: list[str] | None,
    likelihood: list[str] | None,
    *,
    json: bool,
) -> None:
    from itertools import product

    from jtsolve.cli.models import evidence, json_text, table
    from jtsolve.models.queries import condition, marginal, marginals

    known = condition(model, evidence(model, given, likelihood))
    single = marginals(known.model)
    answers = []
    for group in groups:
        states = [model.columns[v].states for v in model.variables(group)]
        values = single[model.variable(group[0])] if len(group) == 1 else marginal(known.model, group)
        answers.append((group, list(product(*states)), values.ravel().tolist()))
    if json:
        targets = [
            {"variables": group, "states": rows, "probabilities": values} for group, rows, values in answers
        ]
        emit(json_text({"log_probability_of_evidence": known.log_probability, "targets": targets}))
        return
    texts = [
        table([*group, "P"], [[*row, value] for row, value in zip(rows, values, strict=True)])
        for group, rows, values in answers
    ]
    if given or likelihood:
        texts.append(f"ln P(evidence) = {known.log_probability:.6f} nats")
    emit("\n\n".join(texts))


def _numbers(
    model: "GaussianTreeModel",
    groups: list[list[str]],
    given: list[str] | None,
    likelihood: list[str] | None,
    *,
    json: bool,
) -> None:
    from jtsolve.cli.models import json_text, numbers, table
    from jtsolve.errors import ChoiceError
    from jtsolve.models.inference.gaussian import condition_gaussian, covariance

    if likelihood:
        raise ChoiceError(
            "soft evidence is for models of states, and this one is of real numbers; drop --likelihood"
        )
    known, log_density = condition_gaussian(model, numbers(model, given))
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
        emit(json_text({"log_density_of_evidence": log_density, "targets": targets}))
        return
    rows = [
        [name, mean[k], float(matrix[k, k]) ** 0.5, *(float(c) for c in matrix[k])]
        if len(group) > 1
        else [name, mean[k], float(matrix[k, k]) ** 0.5]
        for group, mean, matrix in answers
        for k, name in enumerate(group)
    ]
    widest = max(map(len, rows))
    headings = ["variable", "mean", "deviation", *(f"cov {k + 1}" for k in range(widest - 3))]
    emit(table(headings, [[*row, *[""] * (widest - len(row))] for row in rows]))
