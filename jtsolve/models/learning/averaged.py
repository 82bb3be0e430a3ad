"""The predictive density of a posterior over trees: a mixture of drawn trees, all of equal weight.

P(row | data) = Σ_G P(G | data) P(row | G, data), by Monte Carlo over draws G. Where the scores are BDeu, the
tables of a tree under the same equivalent sample size are its exact P(row | G, data). Time: that of a fit
for each distinct tree. Reference: D. Madigan and A. E. Raftery, Model selection and accounting for model
uncertainty in graphical models using Occam's window, Journal of the American Statistical Association 89,
1994.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.models.learning.fit import fit
from jtsolve.models.mixture import Mixture

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.model import JunctionTreeModel
    from jtsolve.tables.partitions import PartitionedTable
    from jtsolve.tables.table import DataTable


def fit_averaged(
    trees: Sequence[JunctionTree], table: DataTable | PartitionedTable, *, ess: float = 1.0
) -> JunctionTreeModel | Mixture:
    """Returns the mixture of trees, each as heavy as its share of the draws; one tree is not a mixture.

    Args:
        trees: drawn from the posterior, at least one; equal ones become one component.
        table: the data.
        ess: equivalent sample size of the tables' prior; that of the score for the posterior's own density.

    Raises:
        InputError, ChoiceError, LimitError: as `fit`.
    """
    shares = Counter(trees)
    components = tuple(fit(tree, table, ess=ess) for tree in shares)
    if len(components) == 1:
        return components[0]
    remarks = {**table.provenance, "smoothing_ess": ess, "draws": len(trees)}
    return Mixture(np.array(list(shares.values())) / len(trees), components, remarks)
