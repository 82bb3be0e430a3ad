"""`Solution`: the answer of `learn` and `solve`, by names; its `fit` returns a model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from jtsolve.api.arguments import coding_of, display, read_table, style_of
from jtsolve.core.result import Status
from jtsolve.core.version import __version__
from jtsolve.draw import as_html, draw_graph, draw_tree, graph_text, tree_text
from jtsolve.errors import ChoiceError, LimitError
from jtsolve.io.documents import names_of
from jtsolve.models.columns import columns_of
from jtsolve.models.framed import Model
from jtsolve.models.learning.averaged import fit_averaged
from jtsolve.models.learning.context_trees import ContextTrees
from jtsolve.models.learning.feature_trees import feature_learner, fit_feature_tree
from jtsolve.models.learning.fit import fit_gaussian, fit_validated
from jtsolve.models.learning.learner import Learner
from jtsolve.models.rows import read_rows
from jtsolve.progress import tell
from jtsolve.scoring.registry import named_score
from jtsolve.scoring.score import is_discrete
from jtsolve.scoring.scores.bic import Bic
from jtsolve.tables.frames import FrameStyle
from jtsolve.tables.table import ContinuousTable, DataTable
from jtsolve.wording import in_python, python_words

if TYPE_CHECKING:
    import networkx as nx

    from jtsolve.core.problem import Problem
    from jtsolve.core.result import Result
    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.features.tree import FeatureTree
    from jtsolve.scoring.score import LocalScore
    from jtsolve.tables.frames import Frame
    from jtsolve.tables.partitions import AnyTable
    from jtsolve.tables.table import Codes

_SHOWN = ("rows", "index", "columns_dropped", "missing_values", "cuts")
"""Remarks on the data that a notebook shows."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Solution:
    """The answer of `learn` or `solve`, by names.

    Args:
        problem: the problem.
        result: the verified result; its sets are bit masks.
        table: the data, or None.
        style: how the data held their values.
        local_score: by which the data were scored, or None; `fit` takes its equivalent sample size.
        trees: drawn from the posterior, which `fit` mixes; none where `learn` was not asked to average.

    >>> import jtsolve as jt
    >>> solution = jt.solve("instances/uci/zoo.json.gz", treewidth=1)
    >>> solution.status, solution.gap, len(solution.cliques)
    ('optimal', 0.0, 16)
    >>> sorted(solution.graph()["hair"])
    ['type']
    """

    problem: Problem
    result: Result
    table: AnyTable | None = None
    style: FrameStyle = FrameStyle()  # noqa: RUF009 - a frozen value
    local_score: LocalScore | None = None
    trees: tuple[JunctionTree, ...] = ()

    @property
    def status(self) -> str:
        """One of "optimal", "feasible", "infeasible" and "unknown"; without a tree, one of the last two."""
        return self.result.status.value

    @property
    def score(self) -> float | None:
        """The score of the tree, in nats, or None."""
        return self.result.score

    @property
    def bound(self) -> float:
        """No tree of the problem scores more, in nats."""
        return self.result.bound

    @property
    def gap(self) -> float:
        """The bound minus the score, in nats."""
        return self.result.gap

    @property
    def treewidth(self) -> int:
        """The size of the largest clique minus one."""
        return self.tree.treewidth

    @property
    def tree(self) -> JunctionTree:
        """The tree, whose sets are bit masks.

        Raises:
            LimitError: there is none within the limits.
            ChoiceError: there is none that meets the constraints, which is proved.
        """
        if self.result.tree is not None:
            return self.result.tree
        if self.result.status is Status.INFEASIBLE:
            raise ChoiceError("no tree meets the constraints, which is proved; relax them")
        raise LimitError("no tree was found within the limits; allow more time or memory")

    @property
    def cliques(self) -> list[tuple[str, ...]]:
        """The maximal cliques."""
        return [tuple(names_of(clique, self.result.names)) for clique in self.tree.cliques]

    @property
    def separators(self) -> list[tuple[str, ...]]:
        """The separators, one for each edge of the tree."""
        return [tuple(names_of(separator, self.result.names)) for separator in self.tree.separators]

    def graph(self) -> nx.Graph:
        """Returns the chordal graph, a networkx graph whose nodes are the names."""
        import networkx as nx

        return nx.relabel_nodes(self.tree.to_graph(), dict(enumerate(self.result.names)))

    def show(self, path: str | Path | None = None, *, graph: bool = False) -> None:
        """Draws the tree, or the graph of the variables, into a file (.svg, .png), or prints it as text.

        Raises:
            ChoiceError: the suffix is another, or it is too large for a picture.
        """
        names = self.result.names
        if path is None:
            print((graph_text if graph else tree_text)(self.tree, names))  # noqa: T201 - asked for
            return
        kind = Path(path).suffix
        if kind not in (".svg", ".png"):
            raise ChoiceError(
                f"{path}: a picture is .svg or .png; give such a name, or none to print the tree"
            )
        draw = draw_graph if graph else draw_tree
        draw(self.tree, names, path, format="png" if kind == ".png" else "svg")

    @python_words()
    def fit(
        self,
        data: Frame = None,
        *,
        ess: float | None = None,
        features: str | None = None,
        validate: Frame = None,
        time: float | None = None,
        show_progress: bool | None = None,
        **coding: Any,
    ) -> Model:
        """Returns the model of the tree, or the mixture of the drawn trees, its tables fitted to the data.

        Args:
            data: other data with these columns; None for those that the tree was learned from.
            ess: equivalent sample size of the tables' prior; None for that of the score, 0 for maximum
                likelihood. A Gaussian model has none by default.
            features: a feature tree in place of the tree, with options as in "trees:support=50": "trees"
                begins with the tree and branches where the data pay for it, with trees of its treewidth at
                the leaves, found by `forward`; "lem" and "published" have tables there.
            validate: rows that choose the prior, and the penalty or threshold of a feature tree.
            time: seconds for a feature tree, after which the one so far is returned, as by Ctrl-C.
            show_progress: of a feature tree; see `learn`.
            coding: see `learn`; for other data.

        Raises:
            ChoiceError: there are no data, options that have no meaning here, or no such feature tree.
            InputError: the data do not match the tree.
            LimitError: the time ended before there was a feature tree.
        """
        table, style = self.table, self.style
        if data is not None:
            score = named_score("bdeu" if table is None or isinstance(table, DataTable) else "gaussian-bic")
            table = read_table(data, score, coding_of({**coding, "columns": self.result.names}))
            style = style_of(data, table)
        elif coding:
            raise ChoiceError(f"{', '.join(coding)}: for other data only; give them, or learn again")
        if table is None:
            raise ChoiceError("an instance has no rows to fit a model to; give them: fit(data)")
        if ess is not None and validate is not None:
            raise ChoiceError("ess fixes the prior, and validate chooses it; give one of the two")
        if features is None and time is not None:
            raise ChoiceError("time is for feature trees: tables take none; leave it out, or give features")
        facts = {"backend": self.result.backend, "status": self.status, "jtsolve": __version__}
        table = replace(table, provenance={**table.provenance, **facts})
        if isinstance(table, ContinuousTable):
            if features is not None or validate is not None:
                raise ChoiceError("features and validate are for models of states, not of real numbers")
            return Model(fit_gaussian(self.tree, table, ess=ess or 0.0), style)
        prior = getattr(self.local_score, "ess", 1.0) if ess is None else ess
        rows = None if validate is None else read_rows(validate, columns_of(table))
        if features is not None:
            return Model(self._features(table, features, prior, rows, time, show_progress), style)
        if rows is not None and self.trees:
            raise ChoiceError("the mixture of drawn trees has the prior of its score; leave out validate")
        if rows is not None:
            return Model(fit_validated(self.tree, table, rows), style)
        return Model(fit_averaged(self.trees or (self.tree,), table, ess=prior), style)

    def _features(  # noqa: PLR0917 - one for each parameter of `fit`
        self,
        table: AnyTable,
        text: str,
        ess: float,
        rows: Codes | None,
        time: float | None,
        show_progress: bool | None,  # noqa: FBT001
    ) -> FeatureTree:
        """Returns the feature tree of a table; one of junction trees begins with the tree."""
        if not isinstance(table, DataTable):
            raise ChoiceError("features takes all rows in one place, not partitions; give a frame or a file")
        size, score = self.problem.max_clique_size, self.local_score or Bic()
        assert is_discrete(score), "of states"
        how = feature_learner(text, Learner(score, treewidth=size - 1), ess)
        if isinstance(how, ContextTrees):
            learner = replace(how.learner, constraints=self.problem.constraints)
            how = replace(how, learner=learner, root=self.tree)
        deadline = None if time is None else monotonic() + time
        with display("growing a feature tree", show_progress) as listener:
            return fit_feature_tree(table, how, rows, lambda words: tell(listener, words), deadline=deadline)

    def __repr__(self) -> str:
        return repr(self.result).replace("Result", "Solution", 1)

    def _repr_html_(self) -> str:
        remarks = {} if self.table is None else self.table.provenance
        said = [f"{key}: {value}" for key, value in remarks.items() if key in _SHOWN]
        said += [in_python(f"{one['sentence']}. {one['advice']}") for one in remarks.get("warnings", ())]
        return as_html([repr(self), *self.result.remarks, *said], self.result.tree, self.result.names)
