"""Solving a problem for any interface: one tree or the k best, with a certificate on request."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jtsolve.core.ranking import Ranking
from jtsolve.core.run import LOGGER
from jtsolve.errors import InputError, LimitError
from jtsolve.kbest import choose_ranker, k_best, require_ranker
from jtsolve.solving import Choice, choose_backend, require_backend, solve

if TYPE_CHECKING:
    from jtsolve.core.backend import Backend
    from jtsolve.core.problem import Problem
    from jtsolve.core.result import Result
    from jtsolve.core.run import Run
    from jtsolve.errors import JtsolveError


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a solve: a result, or a ranking of several.

    Attributes:
        found: the verified result, or the verified ranking.
        choice: the backend, its predicted cost, and the reason for it.
        uncertified: why a requested certificate was not written; otherwise None.
    """

    found: Result | Ranking
    choice: Choice
    uncertified: JtsolveError | None = None


def answer(
    problem: Problem,
    run: Run,
    *,
    backend: Backend | None = None,
    certificate: str | Path | None = None,
    k: int | None = None,
    within: float | None = None,
) -> Answer:
    """Returns the best tree of a problem, or the best trees in order if `k` or `within` is given.

    Args:
        problem: scores and constraints.
        run: limits, progress and interruption.
        backend: solves it; None for the choice of `auto`.
        certificate: a file for a proof of the bound; None for none. `clutter` writes it, as a member of the
            portfolio, or after another exact backend in the time that is left.
        k: the number of trees; None for one, or with `within` for no limit.
        within: the largest gap to the best score, in nats.

    Raises:
        ChoiceError: a certificate is requested, but the backend proves no bound; or `k` or `within` is
            invalid.
        RefusedError: the backend does not support the problem.
        LimitError: the work does not fit the limits.
    """
    several = k is not None or within is not None
    if backend is not None:
        (require_ranker if several else require_backend)(problem, backend)
        choice = Choice(backend, backend.estimate(problem.with_star(), run.limits), "as requested")
    else:
        choice = (choose_ranker if several else choose_backend)(problem, run)
        LOGGER.info("%s", choice.reason)
    found: Result | Ranking
    if certificate is None:
        with run.phase(choice.backend.name):
            if several:
                found = k_best(problem, choice.backend, run, k=k, within=within)
            else:
                found = solve(problem, choice.backend, run)
        return Answer(found, choice)
    from jtsolve.io.certificate import write_certificate
    from jtsolve.proving import (
        prove,
        prove_ranking,
        require_exact,
        with_own_certificate,
        written_certificate,
    )

    require_exact(choice.backend)
    path = Path(certificate)
    with run.phase(choice.backend.name):
        if several:
            found = k_best(problem, choice.backend, run, k=k, within=within)
        else:
            own, pending = with_own_certificate(choice.backend, path)
            found = solve(problem, own, run)
            certified = found if pending is None else written_certificate(found, path)
            if certified is not None:
                return Answer(certified, choice)
        try:
            if isinstance(found, Ranking):
                found, document = prove_ranking(problem, found, run)
            else:
                found, document = prove(problem, found, run)
            write_certificate(path, document)
        except (InputError, LimitError) as refusal:  # the answer is not lost
            return Answer(found, choice, refusal)
        return Answer(found, choice)
