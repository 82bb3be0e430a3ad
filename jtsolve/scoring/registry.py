"""The registry of scores, by name, and scores from texts such as "bdeu:ess=10"."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtsolve.core.choice_texts import split
from jtsolve.core.choices import Entry, Registry

if TYPE_CHECKING:
    from jtsolve.scoring.score import DiscreteScore, GaussianScore, LocalScore

REGISTRY: Registry[DiscreteScore | GaussianScore] = Registry(
    "score",
    {
        "bdeu": Entry("jtsolve.scoring.scores.bdeu:Bdeu"),
        "bdj": Entry("jtsolve.scoring.scores.bdj:Bdj"),
        "ml": Entry("jtsolve.scoring.scores.ml:MaximumLikelihood"),
        "aic": Entry("jtsolve.scoring.scores.aic:Aic"),
        "bic": Entry("jtsolve.scoring.scores.bic:Bic"),
        "mdl": Entry("jtsolve.scoring.scores.mdl:Mdl"),
        "qnml": Entry("jtsolve.scoring.scores.qnml:Qnml"),
        "gaussian-bic": Entry("jtsolve.scoring.scores.gaussian_bic:GaussianBic"),
        "bge": Entry("jtsolve.scoring.scores.bge:Bge"),
    },
    annotations=("LocalScore", "DiscreteScore", "GaussianScore"),
)


def named_score(text: str, ess: float | None = None) -> LocalScore:
    """Returns the score that a text describes, with an equivalent sample size if one is given.

    Raises:
        ChoiceError: there is no such score, or it has no equivalent sample size.
    """
    name, options = split(text)
    return REGISTRY.make(name, options if ess is None else {**options, "ess": repr(float(ess))})
