"""The registry of scores, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtsolve.errors import ChoiceError
from jtsolve.options import ESS
from jtsolve.scoring.scores.aic import Aic
from jtsolve.scoring.scores.bdeu import Bdeu
from jtsolve.scoring.scores.bdj import Bdj
from jtsolve.scoring.scores.bge import Bge
from jtsolve.scoring.scores.bic import Bic
from jtsolve.scoring.scores.gaussian_bic import GaussianBic
from jtsolve.scoring.scores.mdl import Mdl
from jtsolve.scoring.scores.ml import MaximumLikelihood
from jtsolve.scoring.scores.qnml import Qnml

if TYPE_CHECKING:
    from jtsolve.scoring.score import DiscreteScore, GaussianScore, LocalScore

DISCRETE: dict[str, DiscreteScore] = {
    score.name: score for score in (Bdeu(), Bdj(), MaximumLikelihood(), Aic(), Bic(), Mdl(), Qnml())
}
"""Discrete scores, with default parameters; the first is the default score."""

GAUSSIAN: dict[str, GaussianScore] = {score.name: score for score in (GaussianBic(), Bge())}
"""Gaussian scores, with default parameters."""

REGISTRY: dict[str, DiscreteScore | GaussianScore] = {**DISCRETE, **GAUSSIAN}
"""Every score by its name."""


def named_score(name: str, ess: float | None = None) -> LocalScore:
    """Returns the score of that name, with an equivalent sample size if one is given.

    Raises:
        ChoiceError: there is no such score, or it has no equivalent sample size.
    """
    if name not in REGISTRY:
        raise ChoiceError(f"there is no score '{name}'; there are {', '.join(REGISTRY)}")
    if ess is None:
        return REGISTRY[name]
    if name != Bdeu.name:
        raise ChoiceError(
            f"an equivalent sample size is for the score 'bdeu', not for '{name}'; leave out {ESS}"
        )
    return Bdeu(ess)
