"""The registry of kinds of models: `jtsolve fit --model KIND`, `jt.fit(data, model=KIND)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtsolve.core.choices import Entry, Registry

if TYPE_CHECKING:
    from jtsolve.models.learning.task import ModelKind

_LEARNING = "jtsolve.models.learning"

MODELS: Registry[ModelKind] = Registry(
    "model",
    {
        "tree": Entry(f"{_LEARNING}.tree:Tree"),
        "mixture": Entry(f"{_LEARNING}.mixture_em:Mixtures"),
        "hidden": Entry(f"{_LEARNING}.hidden_trees:HiddenTrees"),
        "features": Entry(f"{_LEARNING}.context_trees:ContextTrees"),
        "lem": Entry(f"{_LEARNING}.lem:Lem"),
        "average": Entry("jtsolve.averaging.drawn_trees:AveragedTrees"),
    },
    annotations=("ModelKind",),
)
