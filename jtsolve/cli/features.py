"""`jtsolve fit --features`: a feature tree from data."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtsolve.cli.options import ConstraintOptions
from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from jtsolve.cli.fit_task import FitTask
    from jtsolve.core.backend import Backend
    from jtsolve.core.run import Run
    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.features.tree import FeatureTree
    from jtsolve.tables.table import DataTable


@dataclass(frozen=True, slots=True)
class FeatureOptions:
    """Which feature tree to fit.

    Attributes:
        text: method and options, such as "trees" or "lem:test=delta,delta=0.01".
        treewidth: of the junction trees at the leaves, for "trees"; None for LEM, whose leaves are tables.
        tree: a result whose junction tree is the first leaf, or None.
        backend: learns the trees; None for `forward`.
        constrain: constraints on every tree.

    Raises:
        ChoiceError: there is no such method or option, or options do not go together.
    """

    text: str
    treewidth: int | None
    tree: Path | None
    backend: "Backend | None"
    constrain: ConstraintOptions

    def __post_init__(self) -> None:
        if self.method == "trees" and self.treewidth is None:
            raise ChoiceError("--features trees has junction trees at the leaves: give --treewidth K")
        searched = self.treewidth is not None or self.tree is not None or self.backend is not None
        if self.method != "trees" and (searched or self.constrain.given):
            raise ChoiceError(
                f"--features {self.method} has tables at the leaves, and no tree is searched: leave out "
                "--treewidth, --tree, --backend and constraints, or give --features trees"
            )

    @property
    def method(self) -> str:
        """The name of the method."""
        from jtsolve.models.learning.feature_trees import feature_method

        return feature_method(self.text)


def fit_features(task: "FitTask", options: FeatureOptions, run: "Run") -> "tuple[FeatureTree, DataTable]":
    """Returns the fitted feature tree, and the data.

    Raises:
        ChoiceError: the score is for real numbers, or a setting is out of range.
        LimitError: the time ended before there was a model.
    """
    from jtsolve.backends.registry import REGISTRY
    from jtsolve.models.learning.context_trees import ContextTrees
    from jtsolve.models.learning.feature_trees import feature_learner, fit_feature_tree
    from jtsolve.models.learning.learner import Learner
    from jtsolve.scoring.score import is_discrete
    from jtsolve.tables.table import DataTable

    if not is_discrete(task.data.score):
        raise ChoiceError(
            f"--features is for models of states, and the score '{task.data.score.name}' is of real numbers; "
            "take another, such as bic, with --discretise where columns are continuous"
        )
    learner = Learner(
        task.data.score,
        options.backend or REGISTRY["forward"],
        options.treewidth or 0,
    )
    how = feature_learner(options.text, learner, task.ess)  # refuses before anything is read
    with run.phase("reading"):
        table, rows = task.read(run, (options.treewidth or 1) + 1)
        assert isinstance(table, DataTable), "a score of states has read states"
        if isinstance(how, ContextTrees):
            learner = replace(how.learner, constraints=options.constrain.of(table.names))
            root = None if options.tree is None else _root(options.tree, table)
            how = replace(how, learner=learner, root=root)
        found = fit_feature_tree(table, how, rows, run)
    return _with_provenance(found, options), table


def _root(path: Path, table: "DataTable") -> "JunctionTree":
    """Returns the junction tree of a result over the columns of the table, in their order."""
    from jtsolve.core.tree import JunctionTree
    from jtsolve.core.varset import members, varset
    from jtsolve.errors import InputError
    from jtsolve.io.result import read_result, tree_of

    tree, names = tree_of(read_result(path), str(path))
    if set(names) != set(table.names):
        raise InputError(
            str(path), "$.cliques", "its variables are not the columns of the data", "name the same columns"
        )
    place = [table.names.index(name) for name in names]
    cliques = tuple(varset(place[v] for v in members(clique)) for clique in tree.cliques)
    return JunctionTree(tree.n, cliques, tree.edges)


def _with_provenance(tree: "FeatureTree", options: FeatureOptions) -> "FeatureTree":
    """Returns the feature tree with its provenance."""
    from jtsolve.core.version import __version__
    from jtsolve.models.features.tree import FeatureTree

    remarks: dict[str, Any] = {**tree.provenance, "method": options.text, "jtsolve": __version__}
    if options.method == "trees":
        backend = "forward" if options.backend is None else options.backend.name
        score = tree.provenance["features"]["score"]  # rows for validation choose it, too
        remarks |= {"score": score, "treewidth_allowed": options.treewidth, "backend": backend}
    return FeatureTree(tree.columns, tree.nodes, remarks)
