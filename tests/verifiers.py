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
    faults = first(problem, result, certificate)
    instance = SECOND.Instance(json.loads(_to_json(problem, "")))
    try:
        SECOND.verify(instance, msgspec.to_builtins(result), msgspec.to_builtins(certificate))
        refusal = ""
    except (LookupError, TypeError, ValueError) as error:
        refusal = str(error) or "without a reason"
    assert bool(refusal) == bool(faults), (faults, refusal)
    return faults
