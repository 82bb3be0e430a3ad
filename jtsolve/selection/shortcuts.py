"""The shortcuts of the authors' programs for small regions, around any method.

They are not in the paper, and decide most of the regions of its experiments: a region with fewer than 8
columns is decided by cross-validated tests, and one with fewer than 7 candidates by the subgraph of least
EBIC, with γ = 0.5. Other regions go to the method.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from jtsolve.selection.choosing import EbicOfGraphs
from jtsolve.selection.method import Decision, SelectionMethod, Task
from jtsolve.selection.pairwise import HeldOutTests
from jtsolve.selection.samples import Moments

if TYPE_CHECKING:
    from jtsolve.selection.samples import Sample

_FEW_COLUMNS = 8
_FEW_CANDIDATES = 7
_GAMMA = 0.5


@dataclass(frozen=True, slots=True)
class WithShortcuts:
    """A method for large regions, and the authors' shortcuts for small ones; for numbers.

    Args:
        method: of large regions.
        tests: of regions with few columns.
    """

    name: ClassVar[str] = "with-shortcuts"
    method: SelectionMethod
    tests: HeldOutTests = field(default_factory=HeldOutTests)

    def objection(self, sample: Sample) -> str | None:
        """See `SelectionMethod`."""
        return self.tests.objection(sample) or self.method.objection(sample)

    def decide(self, sample: Sample, task: Task, seed: int) -> Decision:
        """See `SelectionMethod`."""
        assert isinstance(sample, Moments), "asked before"
        if sample.n < _FEW_COLUMNS:
            return self.tests.decide(sample, task, seed)
        pairs = task.pairs
        if len(pairs) >= _FEW_CANDIDATES:
            return self.method.decide(sample, task, seed)
        correlation, shrinkage = sample.regular(task.given)
        score = EbicOfGraphs(correlation, sample.rows, task, _GAMMA)
        kept = []
        for chosen in product((False, True), repeat=len(pairs)):
            graph = np.zeros_like(task.candidates)
            for (i, j), there in zip(pairs, chosen, strict=True):
                graph[i, j] = graph[j, i] = there
            kept.append(graph)
        return Decision(min(kept, key=score), None, shrinkage)
