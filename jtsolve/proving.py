"""Certificates of results, whichever exact backend found them: `clutter` proves the bound.

Branch and cut begins with the tree of the result, so that only the bound remains to be proved. This may lie
above that of the result, by less than the tolerance of "optimal"; the result then adopts it.

The certificate of k best trees is that of the last solve: no other tree scores more than its bound. The
bounds of the others follow, since every tree that they leave out is a later one, or none of these.
docs/certificates.md states both claims.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from jtsolve.backends.registry import REGISTRY
from jtsolve.core.marks import with_star
from jtsolve.core.result import Status, Stop, optimality_tolerance
from jtsolve.errors import ChoiceError, InternalError, LimitError
from jtsolve.options import PROOF, TIME, TREEWIDTH
from jtsolve.solving import Recorder

if TYPE_CHECKING:
    from pathlib import Path

    from jtsolve.backends.clutter.backend import ClutterCuts
    from jtsolve.core.backend import Backend
    from jtsolve.core.problem import Problem
    from jtsolve.core.ranking import Ranking
    from jtsolve.core.result import Result
    from jtsolve.core.run import Run
    from jtsolve.io.certificate import CertificateDocument


def _proves(backend: Backend) -> bool:
    """Returns whether a backend, or a member of a portfolio, proves bounds."""
    return backend.capabilities.exact or any(map(_proves, getattr(backend, "members", ())))


def require_exact(backend: Backend) -> None:
    """Refuses a backend that proves no bound.

    Raises:
        ChoiceError: it is a heuristic; with the backends that are none.
    """
    if not _proves(backend):
        exact = ", ".join(name for name, one in REGISTRY.items() if one.capabilities.exact)
        raise ChoiceError(
            f"backend '{backend.name}' is a heuristic, without a bound for a certificate to prove; use an "
            f"exact one: {exact}"
        )


def with_own_certificate(backend: Backend, path: Path | None) -> tuple[Backend, Path | None]:
    """Returns a backend that writes its own certificate, and None; or both arguments if it cannot.

    In a portfolio, the first member that can do so writes one too; see `written_certificate`.

    Raises:
        ChoiceError: its options name another file.
    """
    if path is None or not hasattr(backend, "certificate"):
        return _with_member_that_writes(backend, path), path
    if backend.certificate is not None:
        raise ChoiceError(
            f"{PROOF} and the option 'certificate' of backend '{backend.name}' name two files; give one"
        )
    # A backend is a dataclass by contract, which its protocol cannot express.
    return replace(cast("Any", backend), certificate=str(path)), None


def _with_member_that_writes(backend: Backend, path: Path | None) -> Backend:
    """Returns a portfolio with the option `certificate` of one member set; other backends as they are."""
    members = list(getattr(backend, "members", ()))
    writing = [at for at, one in enumerate(members) if getattr(one, "certificate", path) is None]
    if path is None or not writing:
        return backend
    members[writing[0]] = replace(members[writing[0]], certificate=str(path))
    return replace(cast("Any", backend), members=tuple(members))  # type: ignore[no-any-return]


def written_certificate(result: Result, path: Path) -> Result | None:
    """Returns the result if a member of its portfolio has written a certificate of its bound to the file.

    The bound may rise within the tolerance of "optimal". A file that proves less is removed, for None.
    """
    for stats in result.stats.get("members", {}).values():
        if "certified" in stats:
            try:
                return _raised(result, stats["certified"], "")
            except LimitError:
                path.unlink(missing_ok=True)
    return None


def prove(problem: Problem, result: Result, run: Run) -> tuple[Result, CertificateDocument]:
    """Returns a result and a certificate of its bound, which may rise within the tolerance of "optimal".

    Args:
        problem: that of the result, with its constraints.
        result: as `solve` returns it, by any backend.
        run: that of the solve, or another; the proof has the time that is left.

    Raises:
        LimitError: the bound was not proved within the limits.
        InternalError: the result's bound is wrong.
    """
    if result.stop is not Stop.FINISHED:
        raise LimitError(
            f"no certificate is written: backend '{result.backend}' stopped ({result.stop.value}) before its "
            f"own proof was done. Ways out: a larger {TIME}, a smaller {TREEWIDTH}."
        )
    backend: ClutterCuts = REGISTRY["clutter"]  # type: ignore[assignment]
    began = run.elapsed
    problem = problem.with_star()
    with run.interruptible():
        recorder = Recorder(problem, run)
        if result.tree is not None and problem.star:
            recorder(tree=with_star(result.tree, result.constraints.real_variables))
        else:
            recorder(tree=result.tree)
        outcome, certificate = backend.prove(problem, run.limits, recorder)
    if outcome.tree is not None:
        best = outcome.tree.score(problem.scores)
        if best > result.bound + optimality_tolerance(best):
            raise InternalError(
                f"backend '{result.backend}' claims the bound {result.bound}, but a tree scores {best}"
            )
    stopped = "" if outcome.stop is Stop.FINISHED else f", when it stopped ({outcome.stop.value})"
    raised = _raised(result, outcome.bound, stopped)
    seconds = {**result.seconds, "proof": run.elapsed - began, "total": run.elapsed}
    return replace(raised, seconds=seconds), certificate


def prove_ranking(problem: Problem, ranking: Ranking, run: Run) -> tuple[Ranking, CertificateDocument]:
    """Returns k best trees with a certificate that no other tree scores more than their bound.

    Args:
        problem: that of the ranking.
        ranking: as `k_best` returns it.
        run: see `prove`.

    Raises:
        LimitError: the bound was not proved within the limits.
    """
    rest = replace(problem, constraints=ranking.last.constraints)
    last, certificate = prove(rest, ranking.last, run)
    results = [last if result is ranking.last else result for result in ranking.results]
    results = [_raised(result, last.bound, "") for result in results]
    return replace(ranking, results=tuple(results), last=last), certificate


def _raised(result: Result, bound: float, stopped: str) -> Result:
    """Returns a result with a bound no lower than one that is proved.

    Raises:
        LimitError: the result would lose its claim.
    """
    if bound <= result.bound:
        return result
    score = result.score
    if result.status is Status.OPTIMAL and score is not None and bound - score <= optimality_tolerance(score):
        return replace(result, bound=bound)
    claim = "that there is no tree" if result.status is Status.INFEASIBLE else f"the bound {result.bound!r}"
    raise LimitError(
        f"no certificate is written: backend '{result.backend}' claims {claim}, but backend 'clutter', which "
        f"writes proofs, had the bound {bound!r}{stopped}. Ways out: a larger {TIME}, a smaller {TREEWIDTH}."
    )
