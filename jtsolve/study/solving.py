"""Solving a problem for any interface: one tree or the k best, with a certificate on request."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from jtsolve.core.run import LOGGER
from jtsolve.errors import InputError, JtsolveError, LimitError
from jtsolve.kbest import choose_ranker, k_best, require_ranker
from jtsolve.solving import Choice, choose_backend, require_backend, solve

if TYPE_CHECKING:
    from collections.abc import Callable

    from jtsolve.core.backend import Backend
    from jtsolve.core.problem import Problem
    from jtsolve.core.ranking import Ranking
    from jtsolve.core.result import Result
    from jtsolve.core.run import Run
    from jtsolve.io.certificate import CertificateDocument

_Answer = TypeVar("_Answer")


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
    if certificate is not None:
        from jtsolve.proving import require_exact

        require_exact(choice.backend)
    proof = None if certificate is None else Path(certificate)
    with run.phase(choice.backend.name):
        if several:
            return _ranking(problem, choice, run, proof, k, within)
        return _one(problem, choice, run, proof)


def _one(problem: Problem, choice: Choice, run: Run, certificate: Path | None) -> Answer:
    """Returns the best tree."""
    if certificate is None:
        return Answer(solve(problem, choice.backend, run), choice)
    from jtsolve.proving import prove, with_own_certificate, written_certificate

    backend, pending = with_own_certificate(choice.backend, certificate)
    result = solve(problem, backend, run)
    if pending is None:
        return Answer(result, choice)
    certified = written_certificate(result, pending)
    if certified is not None:
        return Answer(certified, choice)
    result, refusal = _certified(result, partial(prove, problem, result, run), pending)
    return Answer(result, choice, refusal)


def _ranking(  # noqa: PLR0917 - one for each argument of `answer`
    problem: Problem, choice: Choice, run: Run, certificate: Path | None, k: int | None, within: float | None
) -> Answer:
    """Returns the best trees in order."""
    ranking = k_best(problem, choice.backend, run, k=k, within=within)
    if certificate is None:
        return Answer(ranking, choice)
    from jtsolve.proving import prove_ranking

    ranking, refusal = _certified(ranking, partial(prove_ranking, problem, ranking, run), certificate)
    return Answer(ranking, choice, refusal)


def _certified(
    found: _Answer, prove: Callable[[], tuple[_Answer, CertificateDocument]], path: Path
) -> tuple[_Answer, JtsolveError | None]:
    """Writes a certificate; returns the answer, and the reason if there is none: the answer is not lost."""
    from jtsolve.io.certificate import write_certificate

    try:
        found, proof = prove()
        write_certificate(path, proof)
    except (InputError, LimitError) as refusal:
        return found, refusal
    return found, None
