"""`jtsolve recommend`: the backend that `auto` would choose, and the predicted cost of each."""

from math import inf
from typing import TYPE_CHECKING, Any

import typer

from jtsolve.cli.options import Instance, Json, LimitOptions, Treewidth, expand_option_groups
from jtsolve.cli.output import NO_TREE, emit, emit_json

if TYPE_CHECKING:
    from jtsolve.backends.clutter.backend import ProofForecast
    from jtsolve.core.backend import Backend
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits


@expand_option_groups
def recommend(
    context: typer.Context,
    *,
    instance: Instance,
    treewidth: Treewidth = None,
    spend: LimitOptions,
    json: Json = False,
) -> None:
    """Recommend a backend: predicted time and memory of each, objections, and the choice of auto.

    Nothing is solved; a quick tree and a first bound predict the time of a proof, within a few seconds. Exit
    code 4: no backend accepts the instance within the limits.
    """
    from jtsolve.errors import LimitError
    from jtsolve.io.instance import read_problem
    from jtsolve.solving import choose_backend, forecast_of

    run = spend.run(context.obj)
    limits = run.limits
    problem = read_problem(instance, run).with_treewidth(treewidth)
    advice = advise(problem.with_star(), limits)
    forecast = forecast_of(problem, run)
    chosen: str | None = None
    refusals: tuple[str, ...] = ()
    try:
        choice = choose_backend(problem, run, forecast=forecast)
        chosen, reason, refusals = choice.backend.name, choice.reason, choice.refusals
    except LimitError as error:
        reason = str(error)
    if json:
        facts = {
            "instance": problem.name,
            "n": problem.n,
            "treewidth": problem.constraints.max_treewidth,
            "auto": chosen,
            "reason": reason,
            "not_taken": refusals,
            "first_ascent": None if forecast is None else forecast._asdict(),
            "backends": advice,
        }
        emit_json(facts)
    else:
        objecting = {one["name"] for one in advice if one["objections"]}
        reason = " ".join([reason, *(one for one in refusals if one.partition(":")[0] not in objecting)])
        lines = [] if forecast is None else [_forecast_text(forecast)]
        emit("\n".join([_text(problem, chosen, reason, advice), *lines]))
    if chosen is None:
        raise typer.Exit(NO_TREE)


def _forecast_text(forecast: "ProofForecast") -> str:
    """Returns a forecast of a proof as a sentence."""
    if forecast.left == 0:
        return "A quick tree and the first bound meet: the problem is as good as solved."
    gap = "there is no tree yet" if forecast.gap == inf else f"a gap of {forecast.gap:.4g} nats is left"
    return (
        f"After a quick tree and the first bound, {forecast.left:,} of {forecast.families:,} families may be "
        f"in better trees; {gap}: a proof may need about {forecast.seconds:.2g} s, less from a better one."
    )


def advise(problem: "Problem", limits: "Limits") -> list[dict[str, Any]]:
    """Returns, per backend: whether it is exact, predicted seconds and bytes, and every objection."""
    from jtsolve.backends.registry import REGISTRY
    from jtsolve.core.estimates import cached_estimates

    with cached_estimates():
        return [_advice(backend, problem, limits) for backend in REGISTRY.values()]


def _advice(backend: "Backend", problem: "Problem", limits: "Limits") -> dict[str, Any]:
    from math import isfinite

    from jtsolve.core.estimates import estimate_of, objections_of
    from jtsolve.solving import obstacle_to

    objections = list(objections_of(backend, problem))
    facts: dict[str, Any] = {"name": backend.name, "exact": backend.capabilities.exact}
    if objections:
        return {**facts, "seconds": None, "memory": None, "fits": False, "objections": objections}
    estimate = estimate_of(backend, problem, limits)
    obstacle = obstacle_to(backend, estimate, limits, limits.left)
    seconds = float(estimate.seconds)
    return {
        **facts,
        "seconds": seconds if isfinite(seconds) else None,
        "memory": int(estimate.memory),
        "fits": obstacle is None,
        "objections": [] if obstacle is None else [obstacle],
    }


def _text(problem: "Problem", chosen: str | None, reason: str, advice: list[dict[str, Any]]) -> str:
    """Returns the advice for people: a line per backend, the choice of auto, and the reason."""
    bound = problem.constraints.max_treewidth
    width = "" if bound is None else f", treewidth {bound}"
    lines = [f"{problem.name or '(without a name)'}: {problem.n} variables{width}", ""]
    lines.append(f"  {'backend':<12}{'kind':<11}{'seconds':>9}{'GB':>9}  ")
    for one in advice:
        seconds = "–" if one["seconds"] is None else f"{one['seconds']:.3g}"
        memory = "–" if one["memory"] is None else f"{one['memory'] / 1e9:.3g}"
        kind = "exact" if one["exact"] else "heuristic"
        mark = "*" if one["name"] == chosen else " "
        line = f"{mark} {one['name']:<12}{kind:<11}{seconds:>9}{memory:>9}  {' '.join(one['objections'])}"
        lines.append(line.rstrip())
    return "\n".join([*lines, "", reason])
