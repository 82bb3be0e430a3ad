"""Weighted MaxSAT: the family formulation, solved by RC2 of python-sat with stratification.

The formulation is that of Berg, Järvisalo and Malone (`encodings.family`), with clutter cuts as clauses. The
other algorithms of python-sat are not offered: FM and RC2 without stratification keep splitting such fine
weights and need seconds to minutes for five variables, and LSU supports no weights.

The solver runs in its own process (`support.solver`, `support.worker`), since python-sat cannot be
interrupted. Weights are whole multiples of a unit, and bounds carry the rounding (`encodings.rounding`);
scores are recomputed.

Time is exponential in the number of variables in the worst case. Memory: the sets or families, and in the
solver's process their clauses, n³ clauses of the order, and learnt clauses.

References:
    Ignatiev, Morgado and Marques-Silva, RC2: an efficient MaxSAT solver, JSAT 2019. Berg, Järvisalo and
    Malone, Learning optimal bounded treewidth Bayesian networks via maximum satisfiability, AISTATS 2014.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jtsolve.backends.support.solver import SolverBackend


@dataclass(frozen=True, slots=True)
class MaximumSatisfiability(SolverBackend):
    """Weighted MaxSAT with python-sat. Exact, for small or well-pruned problems.

    Args:
        start: the backend that finds the first tree, or None: then nothing is pruned.
        relaxation: a backend that relaxes the problem, for a bound, cuts and pruning, or None. Where its
            bound is the tree's score, that bound is the proof of optimality.
    """

    name: ClassVar[str] = "maxsat"
    module: ClassVar[str] = "pysat"
    package: ClassVar[str] = "python-sat"
    process: ClassVar[str] = "jtsolve.backends.maxsat.process:solve"
