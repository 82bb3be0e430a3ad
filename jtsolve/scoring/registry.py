"""The registry of scores: by name, or from texts such as "bdeu:ess=10"."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtsolve.core.choices import Entry, Registry

if TYPE_CHECKING:
    from jtsolve.scoring.score import ScoreFunction

REGISTRY: Registry[ScoreFunction] = Registry(
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
        "cg": Entry("jtsolve.scoring.scores.cg:ConditionalGaussian"),
        "niw": Entry("jtsolve.scoring.scores.niw:NormalInverseWishart"),
    },
    annotations=("ScoreFunction", "DiscreteScore", "GaussianScore", "MixedScore"),
)
