"""Runs both verifiers of certificates, which must agree on every certificate of the tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec
from forge import SECOND

from jtsolve.io.instance import _to_json
from jtsolve.verify.certificate import verify as first

if TYPE_CHECKING:
    from jtsolve.core.problem import Problem
    from jtsolve.io.certificate import CertificateDocument
    from jtsolve.io.ranking import RankingDocument
    from jtsolve.io.result import ResultDocument


def verify(
    problem: Problem, result: ResultDocument | RankingDocument, certificate: CertificateDocument
) -> tuple[str, ...]:
    """Returns the verdict of the package's verifier; asserts that the second one agrees."""
    faults, refusal = first(problem, result, certificate), second(problem, result, certificate)
    assert bool(refusal) == bool(faults), (faults, refusal)
    return faults


def second(
    problem: Problem, result: ResultDocument | RankingDocument, certificate: CertificateDocument
) -> str:
    """Returns why the second verifier refuses a certificate; empty if it does not."""
    instance = SECOND.Instance(json.loads(_to_json(problem, "")))
    try:
        SECOND.verify(instance, msgspec.to_builtins(result), msgspec.to_builtins(certificate))
    except (LookupError, TypeError, ValueError) as error:
        return str(error) or "without a reason"
    return ""
