"""Constraint programming with CP-SAT (OR-Tools): exact, in two formulations.

The problem is prepared (`support.prepare`: a first tree, a root, pruning and cuts by a relaxation), written
as a formula, and solved by CP-SAT in its own process (`cpsat.process`), with the first tree as a hint. Trees
and bounds come back as they are found.

- `family`: the parents of each vertex (`encodings.family`), with the cuts of the relaxation.
- `balancing`: the cliques and the edges of the tree (`encodings.balancing`), with the same cuts.

Scores are rounded to a fine unit, and `bound` carries the rounding; the scores of trees are recomputed.

Time: exponential in the worst case; it depends on the scores more than on the sizes. Memory: linear in the
families; for `balancing` quadratic in the cliques that are left.

References:
    Corander, Janhunen, Rintanen, Nyman and Pensar, Learning chordal Markov networks by constraint
    satisfaction, NIPS 2013. Ohrimenko, Stuckey and Codish, Propagation via lazy clause generation,
    Constraints 2009 (how CP-SAT works).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from jtsolve.backends.support.solver import SolverBackend
from jtsolve.backends.support.worker import Call, in_worker
from jtsolve.encodings.balancing import predicted_memory
from jtsolve.errors import ChoiceError
from jtsolve.options import MEMORY, SEED, THREADS, TIME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jtsolve.core.backend import Estimate, Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.result import Outcome
    from jtsolve.core.run import Limits

_REJECTED = "jtsolve.backends.cpsat.process:rejected"
_STRATEGIES = ("linearization_level:2", 'subsolvers:["max_lp","reduced_costs"]')
"""CP-SAT strategies that prove most; its defaults search for trees, and a good one is known already."""

_OURS: Mapping[str, str] = {
    "num_workers": f"give {THREADS}",
    "num_search_workers": f"give {THREADS}",
    "random_seed": f"give {SEED}",
    "max_time_in_seconds": f"give {TIME}",
    "max_deterministic_time": f"give {TIME}",
    "max_number_of_conflicts": f"give {TIME}",
    "max_num_deterministic_batches": f"give {TIME}",
    "max_memory_in_mb": f"give {MEMORY}",
    "absolute_gap_limit": "an answer is proved or has its bound",
    "relative_gap_limit": "an answer is proved or has its bound",
    "stop_after_first_solution": "an answer is proved or has its bound",
    "stop_after_presolve": "an answer is proved or has its bound",
    "stop_after_root_propagation": "an answer is proved or has its bound",
    "enumerate_all_solutions": "one optimum is enough",
    "catch_sigint_signal": "Ctrl-C is handled here",
}
"""Parameters that the option refuses, and why."""
_PARAMETER = re.compile(r"\w+:([\w.+-]+|\[[\w\",]*\]|\"\w*\")")
"""One parameter: a number, a word, a text, or several texts."""


@dataclass(frozen=True, slots=True)
class ConstraintProgramming(SolverBackend):
    """Constraint programming with CP-SAT. Exact, for a few dozen variables.

    Args:
        start: the backend that finds the first tree, or None: then nothing is pruned.
        relaxation: a backend that relaxes the problem, for a bound, cuts and pruning, or None. Its pruning
            rests on its own proof, not on CP-SAT's: see `support.prepare`.
        model: the formulation.
        parameters: of CP-SAT, each "name:value", such as "cp_model_probing_level:0", overriding those set
            here; or None.

    Raises:
        ChoiceError: `relaxation` does not relax problems, or a parameter is refused.
    """

    model: Literal["family", "balancing"] = "family"
    parameters: tuple[str, ...] | None = None

    name: ClassVar[str] = "cpsat"
    module: ClassVar[str] = "ortools"
    package: ClassVar[str] = "ortools"
    process: ClassVar[str] = "jtsolve.backends.cpsat.process:solve"

    def __post_init__(self) -> None:
        SolverBackend.__post_init__(self)
        for text in self.parameters or ():
            parameter, _, _ = text.partition(":")
            refused = f"the option 'parameters' of backend 'cpsat' cannot be '{text}'"
            if not _PARAMETER.fullmatch(text):
                raise ChoiceError(
                    f"{refused}; give name:value, several joined by +, such as "
                    "parameters=linearization_level:1+cp_model_probing_level:0"
                )
            if parameter in _OURS:
                raise ChoiceError(f"{refused}: {_OURS[parameter]}")

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:
        """See `Backend.estimate`.

        The number of pairs of cliques that pruning leaves is unknown beforehand, so they count only if
        nothing prunes.
        """
        estimate = SolverBackend.estimate(self, problem, limits)
        if self.model != "balancing" or self.start is not None:
            return estimate
        return replace(estimate, memory=estimate.memory + predicted_memory(problem))

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        """See `Backend.solve`.

        Raises:
            ChoiceError: CP-SAT has no such parameter.
        """
        if self.parameters:
            self.estimate(problem, limits).require_memory(self.name, limits)
            self._require_parameters(limits, report)
        parameters = *_STRATEGIES, *(self.parameters or ())
        return self.solve_with({"model": self.model, "parameters": parameters}, problem, limits, report)

    def _require_parameters(self, limits: Limits, report: Report) -> None:
        """Refuses parameters unknown to CP-SAT; only its own process can check them."""
        call = Call(self.module, _REJECTED, (self.parameters,))
        text, _ = in_worker(call, lambda _nothing: None, report, limits)
        if text is not None:
            raise ChoiceError(
                f"the option 'parameters' of backend 'cpsat' cannot be '{text}': CP-SAT has no such "
                "parameter, or refuses the value; its parameters are those of OR-Tools' SatParameters"
            )
