"""Learners of feature trees by name, with options: "trees:penalty=0.2", "lem:test=bic", "published"."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from jtsolve.backends.parse import split_backend
from jtsolve.errors import ChoiceError
from jtsolve.models.learning.context_trees import (
    ContextTrees,
    fit_context_tree,
    fit_context_tree_validated,
)
from jtsolve.models.learning.lem import PUBLISHED, TESTED, Lem, fit_lem, fit_lem_validated

if TYPE_CHECKING:
    from jtsolve.core.run import Run
    from jtsolve.models.features.tree import FeatureTree
    from jtsolve.models.learning.learner import Learner
    from jtsolve.tables.table import Codes, DataTable

FeatureLearner: TypeAlias = ContextTrees | Lem

METHODS = ("trees", "lem", "published")
_ELSEWHERE = ("learner", "root", "ess")
"""Fields that are not options of the text."""


def feature_method(text: str) -> str:
    """Returns the name of the method in a text such as "lem:test=bic".

    Raises:
        ChoiceError: there is no such method.
    """
    name = text.partition(":")[0]
    if name not in METHODS:
        raise ChoiceError(f"features {name}: there are {', '.join(METHODS)}")
    return name


def feature_learner(text: str, learner: Learner, ess: float) -> FeatureLearner:
    """Returns how to fit a feature tree.

    Args:
        text: method and options, which are the fields of `ContextTrees` or `Lem`.
        learner: learns the junction trees at the leaves of "trees"; of no use for the others.
        ess: equivalent sample size of the prior.

    Raises:
        ChoiceError: the method or an option does not exist, or a value is out of range.

    >>> from jtsolve.models.learning.learner import Learner
    >>> feature_learner("lem:q=3,test=bic", Learner(), 1.0).q
    3
    """
    method = feature_method(text)
    how: Any = {"trees": ContextTrees(learner), "lem": TESTED, "published": PUBLISHED}[method]
    own = [field.name for field in fields(how) if field.name not in _ELSEWHERE]
    changed: dict[str, Any] = {}
    for key, value in split_backend(text)[1].items():
        if key not in own:
            raise ChoiceError(f"features {method} has no option '{key}'; it has {', '.join(own)}")
        kind = type(getattr(how, key))
        try:
            changed[key] = msgspec.convert(value, kind, strict=False)
        except msgspec.ValidationError:
            raise ChoiceError(
                f"features {method}: the option {key}={value} is not of type {kind.__name__}"
            ) from None
    found: FeatureLearner = replace(how, ess=ess, **changed)
    return found


def fit_feature_tree(
    table: DataTable,
    how: FeatureLearner,
    validation: DataTable | Codes | None = None,
    run: Run | None = None,
) -> FeatureTree:
    """Returns the feature tree of a table; see `fit_context_tree` and `fit_lem`.

    Args:
        table: the data, with its weights.
        how: the learner.
        validation: rows that choose the prior, and the penalty or the threshold; None to take those of `how`.
        run: see `fit_context_tree`.
    """
    if isinstance(how, ContextTrees):
        if validation is None:
            return fit_context_tree(table, how, run)
        return fit_context_tree_validated(table, validation, how, run=run)
    if validation is None:
        return fit_lem(table, how, run)
    return fit_lem_validated(table, validation, how, run=run)
