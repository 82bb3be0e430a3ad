"""`Solution` and `Solutions`: the answer of a solve by names, to draw, to save, and to fit to data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from jtsolve.core.files import write_atomically
from jtsolve.core.formats import RESULT
from jtsolve.core.result import Result, require_tree
from jtsolve.errors import ChoiceError, InputError, public
from jtsolve.models.framed import Model
from jtsolve.options import BACKEND, EXECUTOR, GRAPH, MODEL, SCORE, SMOOTHING, TREE, VALIDATE
from jtsolve.study.arguments import (
    LIMITS,
    OF_RUN,
    OF_TREE,
    Given,
    backend_of,
    data_of,
    data_score,
    held_cluster,
    treewidth_of,
    with_options,
)
from jtsolve.study.fitting import Fitted, default_score, fitted
from jtsolve.study.kinds import MODELS
from jtsolve.study.study import Study
from jtsolve.study.trees import ByNames, NamedTree, structure_of
from jtsolve.tables.frames import FrameStyle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jtsolve.averaging.posterior import GraphPosterior
    from jtsolve.conflict import ConstraintReport
    from jtsolve.core.problem import Problem
    from jtsolve.core.ranking import Ranking
    from jtsolve.core.tree import JunctionTree
    from jtsolve.errors import JtsolveError
    from jtsolve.models.files.interop import MbiTree
    from jtsolve.models.goodness import Goodness
    from jtsolve.models.learning.task import ModelKind
    from jtsolve.tables.frames import Frame
    from jtsolve.tables.partitions import AnyTable

_SHOWN = ("rows", "index", "columns_dropped", "missing_values")
"""Remarks on the data that a notebook shows."""


@public
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Solution(ByNames):
    """The answer of `learn` or `solve`, by names.

    Args:
        result: the verified result; its sets are bit masks.
        problem: the solved problem; None for a solution read from a file without it.
        study: the data and the score, or None for a problem without data.
        table: the data as read, or None.
        uncertified: why a requested certificate is missing; otherwise None.

    >>> import jtsolve as jt
    >>> solution = jt.solve(jt.example("zoo"), treewidth=1)
    >>> solution.status, solution.gap, len(solution.cliques)
    ('optimal', 0.0, 16)
    >>> sorted(solution.graph()["hair"])
    ['type']
    """

    result: Result
    problem: Problem | None = None
    study: Study | None = None
    table: AnyTable | None = None
    uncertified: JtsolveError | None = None

    @classmethod
    def read(cls, path: str | Path, problem: Problem | None = None) -> Solution:
        """Returns the solution in a result file.

        Args:
            path: of a file by `write` or `jtsolve solve --output`.
            problem: the problem, to verify it; None to check only that the cliques form a junction tree.

        Raises:
            InputError: the file is malformed, or the result is wrong; names every fault.
        """
        from jtsolve.io.result import read_result, result_of

        document = read_result(path)
        if problem is not None:
            from jtsolve.verify.result import check

            if faults := check(problem, document):
                raise InputError(str(path), "", " ".join(faults), "solve the problem again")
        names = None if problem is None else problem.names
        return cls(result_of(document, str(path), names), problem)

    def write(self, path: str | Path) -> None:
        """Writes the result to a file (.json), as `jtsolve solve --output` does.

        Raises:
            ChoiceError: the name has another suffix.
        """
        from jtsolve.io.result import result_to_json

        _write(path, result_to_json(self.result))

    @with_options(BACKEND, *LIMITS)
    def explain(self, *, given: Given) -> ConstraintReport:
        """Explains why no tree meets the constraints, or the cost of each of them, as `jtsolve explain` does.

        Args:
            given: options of the table.

        Returns:
            A minimal conflict, constraints that together exclude every tree, where any of them may be left
            out; or the costs of the constraints, in nats.

        Raises:
            ChoiceError: the solution was read without its problem, or the backend refuses it.
            LimitError: the limits ended a proof of infeasibility.

        >>> import jtsolve as jt
        >>> triangle = [("hair", "eggs"), ("eggs", "milk"), ("hair", "milk")]
        >>> jt.solve(jt.example("zoo"), treewidth=1, require=triangle).explain().conflict[:2]
        ['max_treewidth=1', 'required_edges=hair,eggs']
        """
        from jtsolve.conflict import explained

        if self.problem is None:
            raise ChoiceError("the solution was read without its problem; give Solution.read(path, problem)")
        return explained(self.problem, given.run(), backend_of(given.backend))

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
    def named(self) -> NamedTree:
        """The tree by names; raises as `require_tree` if there is none."""
        tree = require_tree(self.result)
        facts = {"backend": self.result.backend, "status": self.status}
        labels = {} if self.study is None else self.study.data.labels
        return NamedTree(tree, self.result.names, "the tree", facts, labels=labels)

    @property
    def tree(self) -> JunctionTree:
        """The tree, whose sets are bit masks."""
        return self.named.tree

    def to_mbi(self) -> MbiTree:
        """Returns the tree in the words of mbi, which is not imported: domain, cliques, and a graph of them.

        Raises:
            ChoiceError: the number of states of a variable is not known.

        >>> import jtsolve as jt
        >>> pairs = jt.Problem.from_pairs({("A", "B"): 2.0}, {"A": 2, "B": 3, "C": 4}, max_clique_cells=8)
        >>> jt.solve(pairs).to_mbi()[:2]
        ({'A': 2, 'B': 3, 'C': 4}, [('A', 'B'), ('C',)])
        """
        from jtsolve.models.files.interop import to_mbi

        known = {} if self.problem is None else {one.name: one.arity for one in self.problem.variables}
        return to_mbi(self.tree, self.result.names, [known.get(name) for name in self.result.names])

    def goodness(self) -> Goodness:
        """Returns the goodness of fit of the tree to the data that it was learned from; see `Model.goodness`.

        Raises:
            ChoiceError: there are no data, they are real numbers, or partitions.
        """
        from jtsolve.models.goodness import Goodness

        if self.table is None:
            raise ChoiceError("an instance has no rows; fit a model to data, and call model.goodness(data)")
        return Goodness(self.tree, cast("Any", self.table), self.style)

    def edges(self, posterior: GraphPosterior | None = None) -> Frame:
        """Returns the edges of the graph and the cost of removing each, as a frame with a row for each.

        An edge can be removed within the class of decomposable graphs if and only if it lies in exactly one
        clique; the figures of others are missing. Columns, besides `first`, `second` and `removable`:
        `score_loss`, in nats, if the problem is known; of data of states `g2`, `df` and `p` of the test, and
        `delta_bic`, the BIC without the edge minus that with it (`models.edges` has the definitions); and
        `posterior`, the probability of the edge. Positive losses and differences support the edge.

        Args:
            posterior: of `jtsolve.average`; None if it is not known.

        Raises:
            InputError: the posterior is over other variables.

        >>> import jtsolve as jt
        >>> survey = {"Age": ["young", "old"] * 20, "Smoker": [True, False] * 20, "Coin": [0, 0, 1, 1] * 10}
        >>> jt.learn(survey, treewidth=1).edges()["g2"].round(2).to_list()
        [55.45]
        """
        from jtsolve.models.edges import edge_frame

        one, problem, table = self.named, self.problem, self.table
        return edge_frame(one.tree, one.names, self.style, problem=problem, table=table, posterior=posterior)

    def fit(self, data: Frame = None, model: Any = "tree", **options: Any) -> Model:
        """Returns a model on this tree, fitted to the data.

        Args:
            data: other data with these columns; None for those that the tree was learned from.
            model: a kind of model on a tree: "tree", or "features" with options; see `jtsolve models`.
            options: see `jtsolve.fit`.

        Raises:
            ChoiceError: there are no data, or an option has no meaning here.
            InputError: the data do not match the tree.
        """
        return fit(self, model, **options) if data is None else fit(data, model, tree=self, **options)

    @property
    def style(self) -> FrameStyle:
        """How the data held their values."""
        return FrameStyle() if self.study is None or self.table is None else self.study.data.style(self.table)

    def __repr__(self) -> str:
        return repr(self.result).replace("Result", "Solution", 1)

    def _repr_html_(self) -> str:
        from jtsolve.draw.html import as_html

        facts = {} if self.table is None else self.table.provenance
        rows = [(key.replace("_", " "), _words(facts[key])) for key in _SHOWN if key in facts]
        lines = [f"{one['sentence']}. {one['advice']}" for one in facts.get("warnings", ())]
        return as_html([repr(self), *self.result.remarks, *rows, *lines], self.result.tree, self.result.names)


@public
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Solutions:
    """The best trees of a problem in order: a sequence of `Solution`.

    Args:
        ranking: the verified ranking.
        problem: the solved problem.
        study, table, uncertified: see `Solution`.
    """

    ranking: Ranking
    problem: Problem
    study: Study | None = None
    table: AnyTable | None = None
    uncertified: JtsolveError | None = None

    def __len__(self) -> int:
        return len(self.ranking.results)

    def __getitem__(self, at: int) -> Solution:
        return Solution(self.ranking.results[at], self.problem, self.study, self.table)

    def __iter__(self) -> Iterator[Solution]:
        return (self[at] for at in range(len(self)))

    @property
    def complete(self) -> bool:
        """Whether these are proved to be the trees requested."""
        return self.ranking.complete

    @property
    def bound(self) -> float:
        """No other tree scores more, in nats; -inf if there is no other."""
        return self.ranking.bound

    def write(self, path: str | Path) -> None:
        """Writes the results to a file (.json), as `jtsolve solve --k-best --output` does."""
        from jtsolve.io.ranking import ranking_to_json

        _write(path, ranking_to_json(self.ranking))

    def __repr__(self) -> str:
        return repr(self.ranking).replace("Ranking", "Solutions", 1)

    def _repr_html_(self) -> str | None:
        return self.ranking._repr_html_()


def _words(fact: Any) -> str:
    """Returns a remark on the data in words."""
    if isinstance(fact, Mapping):
        return ", ".join(f"{count} in '{name}'" for name, count in fact.items())
    return ", ".join(map(str, fact)) if isinstance(fact, list | tuple) else str(fact)


def _write(path: str | Path, data: bytes) -> None:
    """Writes a JSON document at once or not at all."""
    RESULT.format_to_write(path)
    write_atomically(path, data)


@with_options(TREE, GRAPH, VALIDATE, SMOOTHING, SCORE, BACKEND, *OF_TREE, EXECUTOR, *OF_RUN, reading=True)
def fit(
    data: Frame | Solution = None,
    model: str | ModelKind = MODEL.default,
    treewidth: int | None = None,
    *,
    given: Given,
) -> Model:
    """Fits a model to data: the tables of a junction tree, a mixture, a hidden tree, a feature tree.

    A tree is a solution, a `NamedTree`, or a result file; a graph is one that `triangulate` takes. Options
    of the trees are those of `learn`. At the end of the time, the best model so far is returned.

    Args:
        data: see `learn`; or a solution of `learn`, with its data, tree and score.
        model: a kind of model with options, as in "mixture:components=1,2,4"; `jtsolve models` lists them.
        treewidth: of the trees that the kind learns.
        given: options of the table.

    Raises:
        InputError: the data cannot be read, or do not match the tree.
        ChoiceError: options contradict each other, or have no meaning for the kind of model.
        LimitError: the limits ended the work before there was a model.

    >>> import jtsolve as jt
    >>> survey = {"Age": ["young", "old"] * 20, "Smoker": [True, False] * 20, "Coin": [0, 0, 1, 1] * 10}
    >>> jt.fit(survey, treewidth=1).query("Smoker", given={"Age": "old"})["probability"].round(2).to_list()
    [0.99, 0.01]
    """
    found, study = fitted_by(data, model, treewidth, given)
    return Model(found.model, study.data.style(found.table))


def fitted_by(
    data: Frame | Solution, model: str | ModelKind, treewidth: int | None, given: Any
) -> tuple[Fitted, Study]:
    """Returns a model with the data that it was fitted to, and their study.

    Args:
        data: see `fit`.
        model: see `fit`.
        treewidth: see `fit`.
        given: the other options by name, with their `run` and `restrictions`.

    Raises:
        ChoiceError: there are options of data besides a solution.
    """
    run, tree, kind = given.run(), given.tree, MODELS.chosen(model, "fit")
    structure = structure_of(tree.named if isinstance(tree, Solution) else tree, given.graph)
    table, score = None, given.score
    asked: dict[str, Any] = {
        "treewidth": treewidth_of(treewidth),
        "restrictions": given.restrictions(),
        "backend": backend_of(given.backend),
    }
    if isinstance(data, Solution):
        from jtsolve.tables.reading import reading_of

        reading_of(given.reading)  # refuses the name of no option
        elsewhere = {**given.reading, "score": score}
        useless = [f"{name}=" for name, value in elsewhere.items() if value is not None]
        useless += [str(EXECUTOR)] * (given.executor != EXECUTOR.default)
        if useless:
            raise ChoiceError(f"{', '.join(useless)}: for other data only; leave it out, or give the data")
        if structure is None and "tree" in kind.uses:
            structure = data.named
        study, table = _study_of(data, kind, asked), data.table
    elif isinstance(tree, Solution) and tree.study is not None and score is None:
        score = tree.study.score
    with held_cluster(given.executor, given.threads, None if table is not None else data) as cluster:
        if table is None:
            source = data_of(data, given.reading, cluster)
            study = Study(source, data_score(score, source, default_score(kind, structure)), **asked)
        more = {"validate": given.validate, "smoothing": given.smoothing}
        return fitted(kind, study, run, table=table, structure=structure, **more), study


def _study_of(solution: Solution, kind: ModelKind, asked: dict[str, Any]) -> Study:
    """Returns the study for a model of a solution's data, by default with its treewidth and restrictions."""
    study = solution.study
    if study is None or solution.table is None:
        raise ChoiceError("an instance has no rows to fit a model to; give them: fit(data, tree=solution)")
    if kind.name != "tree":  # of which the tree is known
        if asked["treewidth"] is None and "treewidth" in kind.uses:
            asked = {**asked, "treewidth": study.treewidth}
        if not asked["restrictions"] and "constraints" in kind.uses:
            asked = {**asked, "restrictions": study.restrictions}
    return replace(study, **asked)
