"""What `import jtsolve` offers: data frames in and out, names in place of bit masks, around one `solve`."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import wraps
from numbers import Integral
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

import msgspec

from jtsolve import backends
from jtsolve.averaging.average import average as average_problem
from jtsolve.averaging.bootstrap import Search
from jtsolve.averaging.bootstrap import bootstrap as strengths_in_resamples
from jtsolve.averaging.chains import Ladder
from jtsolve.averaging.sampling import draw_trees
from jtsolve.backends.parse import parse_backend
from jtsolve.cluster import Cluster
from jtsolve.core.backend import Limits
from jtsolve.core.compiling import announced
from jtsolve.core.graph import UndirectedGraph
from jtsolve.core.machine import cores, memory_bytes
from jtsolve.core.problem import Constraints, Problem
from jtsolve.core.result import Status
from jtsolve.core.version import __version__
from jtsolve.data.examples import example
from jtsolve.draw import as_html, draw_graph, draw_tree, graph_text, tree_text
from jtsolve.errors import ChoiceError, InputError, JtsolveError, LimitError
from jtsolve.io.documents import (
    ConstraintsDocument,
    constraints_from_document,
    constraints_to_document,
    names_of,
    with_names,
)
from jtsolve.io.instance import read_problem
from jtsolve.models.columns import columns_of, read_codes
from jtsolve.models.framed import Model
from jtsolve.models.learning.averaged import fit_averaged
from jtsolve.models.learning.context_trees import ContextTrees
from jtsolve.models.learning.feature_trees import feature_learner, fit_feature_tree
from jtsolve.models.learning.fit import fit_gaussian, fit_validated
from jtsolve.models.learning.learner import Learner
from jtsolve.progress import in_notebook, is_watched, progress, reading_watch, tell
from jtsolve.scoring.problem import WITHIN_LIMITS, problem_from_table
from jtsolve.scoring.registry import named_score
from jtsolve.scoring.score import DEFAULT_SCORE, is_discrete, require_counts
from jtsolve.scoring.scores.bic import Bic
from jtsolve.selection.framed import SelectedGraph
from jtsolve.selection.framework import select as select_graph
from jtsolve.selection.request import Request
from jtsolve.selection.running import within_limits
from jtsolve.selection.supersets import constraints_within, read_screened, read_superset
from jtsolve.solving import LOGGER
from jtsolve.solving import solve as solve_problem
from jtsolve.tables.check import require_none
from jtsolve.tables.distinct import Watch, unwatched
from jtsolve.tables.frames import FRAME, FrameStyle, is_listing, is_path, label_of
from jtsolve.tables.options import Coding, Discretisation
from jtsolve.tables.partitions import PartitionedTable, is_dask_frame, read_partitioned
from jtsolve.tables.reading import Dialect, read_checked, read_declarations
from jtsolve.tables.suffixes import title_of
from jtsolve.tables.table import ContinuousTable, DataTable
from jtsolve.wording import in_python, python_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    import networkx as nx

    from jtsolve.averaging.posterior import GraphPosterior
    from jtsolve.core.backend import Backend
    from jtsolve.core.result import Result
    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.features.tree import FeatureTree
    from jtsolve.scoring.score import LocalScore
    from jtsolve.solving import Listener
    from jtsolve.tables.check import Finding
    from jtsolve.tables.frames import Frame
    from jtsolve.tables.partitions import AnyTable
    from jtsolve.tables.table import Codes, Table

    Pairs = Iterable[tuple[str, str]]
    GraphLike: TypeAlias = SelectedGraph | UndirectedGraph | nx.Graph | str | Path

__all__ = [
    "ChoiceError",
    "InputError",
    "JtsolveError",
    "LimitError",
    "Model",
    "Problem",
    "Solution",
    "average",
    "backends",
    "example",
    "learn",
    "read",
    "select",
    "solve",
]


_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")


def _worded(function: Callable[_Given, _Found]) -> Callable[_Given, _Found]:
    """Rewords the errors of a function for its caller; a wrapper of this module, so that doctest sees it."""

    @wraps(function)
    def call(*args: _Given.args, **kwargs: _Given.kwargs) -> _Found:
        with python_words():
            return function(*args, **kwargs)

    return call


@_worded
def learn(
    data: Frame,
    treewidth: int | None = 2,
    *,
    score: str | LocalScore | None = None,
    ess: float | None = None,
    backend: str | Backend = "auto",
    average: int | None = None,
    time: float | None = None,
    memory: float | None = None,
    threads: int | None = None,
    seed: int = 0,
    forbid: Pairs = (),
    require: Pairs = (),
    within_graph: GraphLike | None = None,
    require_graph: GraphLike | None = None,
    constraints: Mapping[str, Any] | None = None,
    header: bool = True,
    separator: str | None = None,
    encoding: str = "utf-8",
    strict: bool = False,
    executor: str | Any | None = None,
    show_progress: bool | None = None,
    **coding: Any,
) -> Solution:
    """Learns the best junction tree of the columns of a table.

    Args:
        data: a DataFrame of pandas or polars, an Arrow table, a dictionary of columns, an array of shape
            (rows, columns), the path of a data file, or of a folder of Parquet files; or a Dask DataFrame.
        treewidth: the largest clique size minus one; None for any, with up to 26 columns.
        score: the name of a score or the score itself; gaussian-bic and bge are for real numbers. None for
            bdeu if `ess` or `average` is given, and bic otherwise.
        ess: the equivalent sample size of bdeu; None for 1.
        backend: a name, with options as in "lns:exact=dp", or the backend itself; "auto" chooses.
        average: the number of trees drawn from the posterior beside the best one, which `fit` mixes.
        time: seconds from start to finish, reading included; None for no limit.
        memory: gigabytes; None for 80 % of the free memory.
        threads: None for all cores.
        seed: of everything random.
        forbid: pairs of variables that are not to be adjacent.
        require: pairs of variables that are to be adjacent.
        within_graph: a graph of jtsolve or networkx, or the path of one, a result, results or posterior: no
            edge outside a triangulation of it; of a selection, what its screen left.
        require_graph: a graph in the same forms, all of whose edges are to be there.
        constraints: further ones, as an instance file has them: {"max_cliques": 5}.
        header: see `tables.reading.read_raw`.
        separator: see `tables.reading.read_raw`.
        encoding: of a text file.
        strict: whether warnings of the data check are errors; otherwise they are logged, and kept with the
            result.
        executor: "dask", "dask=ADDRESS" or a client of Dask, to count Parquet files or a Dask DataFrame by
            partitions, as `docs/dask.md` says; None for this process, but for Dask's own client if it is one
            of its frames.
        show_progress: on standard error; None for in terminals and notebooks.
        coding: the fields of `tables.options.Coding`, most named as on the command line: columns, drop,
            weights, missing, gaps, discretise, schema (a mapping, or a file), class_column, max_states.

    Raises:
        InputError: the data cannot be read as states, or as numbers for a Gaussian score.
        ChoiceError: an option does not exist, or the backend refuses the problem.
        LimitError: the work does not fit the limits, or the chains that draw do not converge within them.

    >>> import jtsolve as jt
    >>> survey = {"Age": ["young", "old"] * 20, "Smoker": [True, False] * 20, "Coin": [0, 0, 1, 1] * 10}
    >>> jt.learn(survey, treewidth=1).cliques
    [('Age', 'Smoker'), ('Coin',)]
    >>> jt.learn(survey, treewidth=1, forbid=[("Age", "Smoker")]).cliques
    [('Age',), ('Smoker',), ('Coin',)]
    """
    limits = _limits(time, memory, threads, seed)
    treewidth, searcher = _treewidth(treewidth), _backend(backend)
    score = score or (DEFAULT_SCORE if ess is None and average is None else "bdeu")
    of = named_score(score, ess) if isinstance(score, str) else score
    if average is not None and not is_discrete(of):
        raise ChoiceError(f"average mixes models of states, and '{of.name}' scores real numbers; take bdeu")
    name = title_of(data) if is_path(data) else "data"
    cluster = _cluster(data, executor, of, threads)
    with (
        _display("reading the data", show_progress) as listener,
        nullcontext() if cluster is None else cluster.held() as held,
    ):
        watch = reading_watch(str(data) if is_path(data) else FRAME, limits, listener)
        dialect = Dialect(header, separator, encoding)
        size = None if treewidth is None else treewidth + 1
        table: AnyTable
        if held is None:
            table = _read(data, of, _coding(coding), dialect, size=size, strict=strict, watch=watch)
        else:
            heed = _heed(data, strict=strict)
            table = read_partitioned(data, _coding(coding), held, size=size, tell=heed, watch=watch)
        facts = {key: value for key, value in table.provenance.items() if key != "states"}
        LOGGER.info("%d rows of %d variables; %s", table.total, table.n, facts)
        tell(listener, "scoring")
        with announced(lambda: tell(listener, "compiling the kernels (first run only)")):
            problem = problem_from_table(
                table,
                of,
                treewidth=treewidth,
                constraints=_constraints(
                    Constraints(), table.names, forbid, require, constraints, (within_graph, require_graph)
                ),
                limits=limits,
                backend=searcher,
                tabulation=None if average is None else WITHIN_LIMITS,
                name=name,
            )
        result = solve_problem(problem, searcher, limits, listener)
        draws = None if average is None else draw_trees(problem, average, limits=limits, listener=listener)
    trees = () if draws is None else draws.trees
    if isinstance(table, PartitionedTable) and cluster is not None:
        table = replace(table, cluster=cluster)  # the connection ends here; `fit` makes another
    return Solution(problem, result, table, _style(data, table), of, trees)


@_worded
def select(
    data: Frame,
    method: str = "glasso",
    *,
    superset: UndirectedGraph | nx.Graph | str | Path | None = None,
    executor: str | Any | None = None,
    time: float | None = None,
    seed: int = 0,
    header: bool = True,
    separator: str | None = None,
    encoding: str = "utf-8",
    strict: bool = False,
    show_progress: bool | None = None,
    **options: Any,
) -> SelectedGraph:
    """Selects the undirected graph of the columns of a table.

    Args:
        data: see `learn`.
        method: glasso, neighbourhood, pc, pairs or held-out.
        superset: a graph that holds all edges, of jtsolve or networkx, or the path of a file that
            `selection.supersets.read_superset` reads; None for a screen.
        executor: "dask", "dask=ADDRESS" or a client of Dask, to run the folds of the criterion cv and the
            subsamples of stars as tasks; None for this process.
        time: seconds from start to finish, reading included; None for no limit.
        seed: of everything random.
        header: see `tables.reading.read_raw`.
        separator: see `tables.reading.read_raw`.
        encoding: of a text file.
        strict: see `learn`.
        show_progress: on standard error; None for in terminals and notebooks.
        options: the other fields of `selection.request.Request`: kind, criterion, rule, adaptive, depth,
            ordered, either, direct, test, screen, over, separator_size, shortcuts; and those of
            `tables.options.Coding`, see `learn`.

    Raises:
        InputError: the data cannot be read as numbers, or for the kind states as states; columns are
            linearly dependent; or the superset is not a graph over the columns.
        ChoiceError: an option does not exist, or is not one of the method.
        LimitError: the time is over.

    >>> import numpy as np
    >>> import jtsolve as jt
    >>> rows = np.random.default_rng(0).normal(size=(400, 3))
    >>> rows[:, 1] += rows[:, 0]
    >>> jt.select(rows).edges
    [('V1', 'V2')]
    """
    asked = {entry.name for entry in fields(Request)} - {"method", "cluster"}
    coding = _coding({key: value for key, value in options.items() if key not in asked})
    limits = _limits(time, None, None, seed)
    cluster = Cluster.of(executor, limits.workers)
    with (
        nullcontext() if cluster is None else cluster.held() as held,
        _display("selecting", show_progress) as listener,
    ):
        named = {key: value for key, value in options.items() if key in asked}
        request = Request(method, cluster=held, **named)
        screen = request.screening(_superset(superset), str(superset) if is_path(superset) else "superset")
        of = named_score("bic" if request.data_kind == "states" else "gaussian-bic")
        watch = reading_watch(str(data) if is_path(data) else FRAME, limits, listener)
        table = _read(data, of, coding, Dialect(header, separator, encoding), strict=strict, watch=watch)
        with announced(lambda: tell(listener, "compiling the kernels (first run only)")):
            found = within_limits(
                lambda told: select_graph(
                    table,
                    request.selection_method(),
                    screen,
                    request.framework(),
                    margins=request.margins,
                    direct=request.direct,
                    seed=seed,
                    tell=told,
                ),
                limits,
                listener,
            )
    return SelectedGraph(found, table, _style(data, table))


@_worded
def solve(
    problem: Problem | str | Path,
    treewidth: int | None = None,
    *,
    backend: str | Backend = "auto",
    time: float | None = None,
    memory: float | None = None,
    threads: int | None = None,
    seed: int = 0,
    executor: str | Any | None = None,
    forbid: Pairs = (),
    require: Pairs = (),
    within_graph: GraphLike | None = None,
    require_graph: GraphLike | None = None,
    constraints: Mapping[str, Any] | None = None,
    show_progress: bool | None = None,
) -> Solution:
    """Finds the best junction tree of a problem.

    Args:
        problem: as `read` returns it, or the path of an instance file.
        treewidth: a bound besides that of the problem; None for none.
        backend: see `learn`; so are the others.
        time: seconds.
        memory: gigabytes.
        threads: their number.
        seed: of everything random.
        executor: "dask", "dask=ADDRESS" or a client of Dask, whose workers search (`--executor` of `jtsolve
            solve`); None or "local" for this process.
        forbid: pairs of variables.
        require: pairs of variables.
        within_graph: see `learn`.
        require_graph: see `learn`.
        constraints: further ones, besides those of the problem.
        show_progress: on standard error.

    Raises:
        InputError: the instance is malformed, or the constraints contradict each other.
        ChoiceError: the backend does not exist, or refuses the problem.
        LimitError: the work does not fit the limits.

    >>> import jtsolve as jt
    >>> solution = jt.solve("instances/uci/zoo.json.gz", treewidth=1, backend="chowliu")
    >>> solution.status, round(solution.score, 3)
    ('optimal', -689.216)
    """
    limits = _limits(time, memory, threads, seed)
    searcher = _backend(backend)
    task = problem if isinstance(problem, Problem) else read_problem(problem)
    graphs = (within_graph, require_graph)
    limited = _constraints(task.constraints, task.names, forbid, require, constraints, graphs)
    task = replace(task, constraints=limited).with_treewidth(_treewidth(treewidth))
    with _display(f"solving {task.name}", show_progress) as listener:
        cluster = Cluster.of(executor, limits.workers)
        return Solution(task, solve_problem(task, searcher, limits, listener, cluster))


@_worded
def average(
    problem: Problem | Solution | str | Path,
    treewidth: int | None = None,
    *,
    method: str = "auto",
    edge_odds: float = 1.0,
    prior: str = "graphs",
    treewidths: bool = False,
    draws: int = 0,
    bootstrap: int = 0,
    backend: str | Backend = "auto",
    executor: str | Any | None = None,
    time: float | None = None,
    memory: float | None = None,
    threads: int | None = None,
    seed: int = 0,
    show_progress: bool | None = None,
) -> GraphPosterior:
    """Averages over all decomposable graphs, each weighted by e^score: probabilities of edges and cliques.

    Args:
        problem: as `read` returns it, the path of an instance file, or what `learn` returns.
        treewidth: a bound besides that of the problem; None for none.
        method: "exact" sums; "chains"; "auto": exact where the problem and the memory allow it, else chains.
        edge_odds: prior odds of an edge against none.
        prior: "graphs": each counts once; "rooted-junction-trees": once for each of them.
        treewidths: whether to sum the posterior of the treewidth too.
        draws: exact draws for the posterior of the number of edges; see `averaging.average.average`.
        bootstrap: resamples of the rows of what `learn` returned: the share of their best trees that has an
            edge stands beside its probability, in the field `bootstrap`; see `averaging.bootstrap`.
        backend: that finds the tree of each resample; see `learn`.
        executor: "dask", "dask=ADDRESS" or a client of Dask, to run chains and resamples as tasks; None for
            this process.
        time: see `learn`; so are the others.
        memory: gigabytes.
        threads: their number.
        seed: of everything random.
        show_progress: on standard error.

    Returns:
        The posterior. Chains that disagree are logged, and it says that they have not converged.

    Raises:
        InputError: the instance is malformed.
        ChoiceError: no graph meets the constraints, a method refuses them, or there are no rows to resample.
        LimitError: the work does not fit the limits.

    >>> import jtsolve as jt
    >>> survey = {"Age": ["young", "old"] * 20, "Smoker": [True, False] * 20, "Coin": [0, 0, 1, 1] * 10}
    >>> posterior = jt.average(jt.learn(survey, score="bdeu"), bootstrap=10)
    >>> posterior.edges.round(2).tolist()
    [[0.0, 1.0, 0.1], [1.0, 0.0, 0.1], [0.1, 0.1, 0.0]]
    >>> float(posterior.bootstrap.edges[0, 1])
    1.0
    """
    limits = _limits(time, memory, threads, seed)
    learned = problem if isinstance(problem, Solution) else None
    task = problem.problem if isinstance(problem, Solution) else problem
    task = (task if isinstance(task, Problem) else read_problem(task)).with_treewidth(_treewidth(treewidth))
    cluster = Cluster.of(executor, limits.workers)
    resampling = _resampling(learned, task, backend) if bootstrap else None
    with (
        _display(f"averaging {task.name}", show_progress) as listener,
        nullcontext() if cluster is None else cluster.held() as held,
    ):
        posterior = average_problem(
            task,
            method=method,
            limits=limits,
            listener=listener,
            edge_odds=edge_odds,
            prior=prior,
            treewidths=treewidths,
            draws=draws,
            ladder=None if held is None else Ladder(cluster=held),
        )
        if posterior is None:
            raise ChoiceError("no graph meets the constraints; leave some out")
        if resampling is not None:
            table, search = resampling
            strengths = strengths_in_resamples(table, bootstrap, search, limits, listener, cluster=held)
            posterior = replace(posterior, bootstrap=strengths)
    if not posterior.converged:
        LOGGER.warning("the chains have not converged: their figures must not be used")
    return posterior


def _resampling(learned: Solution | None, problem: Problem, backend: str | Backend) -> tuple[Table, Search]:
    """Returns the rows that were learned from, and the search for the tree of each resample."""
    if learned is None or learned.table is None or learned.local_score is None:
        raise ChoiceError("bootstrap draws rows, and a problem has none; give what learn returns")
    if isinstance(learned.table, PartitionedTable):
        raise ChoiceError("bootstrap draws rows in one place, and these are in partitions; read them as one")
    width = problem.max_clique_size - 1
    return learned.table, Search(learned.local_score, width, _backend(backend), problem.constraints)


@_worded
def read(path: str | Path) -> Problem:
    """Returns the problem in an instance file: jtsolve's own (.json, .json.gz), or one of another program.

    Raises:
        InputError: the file cannot be read, or is malformed.

    >>> import jtsolve as jt
    >>> jt.read("instances/uci/zoo.json.gz")
    Problem('zoo': 17 variables, scores of at most 5)
    """
    return read_problem(path)


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

    @_worded
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
            table = _read(data, score, _coding({**coding, "columns": self.result.names}))
            style = _style(data, table)
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
        rows = None if validate is None else read_codes(validate, columns_of(table))
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
        with _display("growing a feature tree", show_progress) as listener:
            return fit_feature_tree(table, how, rows, lambda words: tell(listener, words), deadline=deadline)

    def __repr__(self) -> str:
        return repr(self.result).replace("Result", "Solution", 1)

    def _repr_html_(self) -> str:
        remarks = {} if self.table is None else self.table.provenance
        said = [f"{key}: {value}" for key, value in remarks.items() if key in _SHOWN]
        said += [in_python(f"{one['sentence']}. {one['advice']}") for one in remarks.get("warnings", ())]
        return as_html([repr(self), *self.result.remarks, *said], self.result.tree, self.result.names)


_SHOWN = ("rows", "index", "columns_dropped", "missing_values", "cuts")
"""Remarks on the data that a notebook shows."""


def _superset(given: UndirectedGraph | nx.Graph | str | Path | None) -> UndirectedGraph | None:
    """Returns a superset of edges, in any of the forms that `select` takes."""
    if given is None or isinstance(given, UndirectedGraph):
        return given
    return read_superset(given) if is_path(given) else UndirectedGraph.from_networkx(given, "superset")


def _limits(time: float | None, memory: float | None, threads: int | None, seed: int) -> Limits:
    return Limits(time, memory_bytes(memory), threads, seed)


def _treewidth(given: Any) -> int | None:
    """Returns a treewidth given as any whole number, or None."""
    if given is not None and (isinstance(given, bool) or not isinstance(given, Integral)):
        raise ChoiceError(f"treewidth={given!r} is not a whole number; give one, or None for no bound")
    return given if given is None else int(given)


def _backend(backend: str | Backend) -> Backend | None:
    """Returns the backend, or None for `auto`."""
    if isinstance(backend, str):
        return None if backend == "auto" else parse_backend(backend)
    if not hasattr(backend, "capabilities"):
        raise ChoiceError(f"{backend!r} is not a backend; give a name, as `jt.backends()` lists them")
    return backend


def _display(note: str, wanted: bool | None) -> AbstractContextManager[Listener | None]:  # noqa: FBT001
    return progress(note, shown=is_watched() or in_notebook() if wanted is None else wanted)


def _coding(options: Mapping[str, Any]) -> Coding:
    """Returns the coding of the cells; "quantile:4" and single names are taken as on the command line."""
    known = [entry.name for entry in fields(Coding)]
    unknown = [name for name in options if name not in known]
    if unknown:
        raise ChoiceError(f"there is no option '{unknown[0]}' for data; there are {', '.join(known)}")
    given = dict(options)
    if not isinstance(given.get("discretise"), Discretisation | None):
        given["discretise"] = Discretisation.parse(str(given["discretise"]))
    if given.get("schema") is not None:
        given["schema"], declared = read_declarations(given["schema"])
        given["class_column"] = given.get("class_column") or declared
    for name in ("columns", "drop", "gaps", "states"):
        if given.get(name) is not None:
            several = given[name] if is_listing(given[name]) else (given[name],)
            given[name] = tuple(map(label_of, several))
    for name in ("weights", "class_column"):
        if given.get(name) is not None:
            given[name] = label_of(given[name])
    return Coding(**given)


def _read(
    data: Frame,
    score: LocalScore,
    coding: Coding,
    dialect: Dialect = Dialect(),  # noqa: B008 - a frozen value
    *,
    size: int | None = None,
    strict: bool = False,
    watch: Watch = unwatched,
) -> Table:
    """Returns the table of states or of numbers, as the score needs, after the data check."""
    heed = _heed(data, strict=strict)
    discrete = is_discrete(score)
    return read_checked(data, coding, dialect, discrete=discrete, size=size, tell=heed, watch=watch)


def _heed(data: Frame, *, strict: bool) -> Callable[[Sequence[Finding]], None]:
    """Returns what is done with the findings of the data check."""

    def heed(findings: Sequence[Finding]) -> None:
        if strict:
            require_none(findings, str(data) if is_path(data) else FRAME)
        for finding in findings:
            LOGGER.warning("%s", in_python(str(finding)))

    return heed


def _cluster(data: Frame, executor: Any, score: LocalScore, threads: int | None) -> Cluster | None:
    """Returns the cluster that counts the data, or None for this process."""
    cluster = Cluster.of(executor, threads or cores())
    if cluster is None and is_dask_frame(data):
        cluster = Cluster.default()
        if cluster is None:
            raise ChoiceError('a Dask DataFrame needs a client of Dask; make one, or give executor="dask"')
    if cluster is not None:
        require_counts(score)
    return cluster


def _style(data: Frame, table: AnyTable) -> FrameStyle:
    states = {} if isinstance(table, ContinuousTable) else dict(zip(table.names, table.states, strict=True))
    if isinstance(table, PartitionedTable):
        return replace(FrameStyle.of("partitions", states), pandas=is_dask_frame(data))
    return FrameStyle.of(data, states)


def _graph(given: GraphLike | None, names: Sequence[str], *, screened: bool) -> UndirectedGraph | None:
    """Returns a graph over variables; of a selection, if it is to be `screened`, what its screen left."""
    if isinstance(given, SelectedGraph):
        return (given.selection.screened if screened else given.selection.markov).aligned(names)
    graph = read_screened(given) if screened and is_path(given) else _superset(given)
    return graph and graph.aligned(names, str(given) if is_path(given) else "graph")


def _pairs(option: str, given: Any) -> list[list[str]]:
    """Returns pairs of names, which a data frame may have as numbers."""
    pairs = list(given) if is_listing(given) else [given]
    if not all(is_listing(pair) and len(pair) == 2 for pair in pairs):  # noqa: PLR2004 - a pair
        raise ChoiceError(
            f'{option}={given!r} is not a list of pairs of names; give one, such as {option}=[("A", "B")]'
        )
    return [list(map(label_of, pair)) for pair in pairs]


def _constraints(  # noqa: PLR0917 - one for each parameter of `learn`
    own: Constraints,
    names: Sequence[str],
    forbid: Pairs,
    require: Pairs,
    more: Mapping[str, Any] | None,
    graphs: tuple[GraphLike | None, GraphLike | None],
) -> Constraints:
    """Returns constraints together with others, given by names as in an instance file, and by graphs."""
    document = constraints_to_document(own, names)
    pairs = {"forbidden_edges": _pairs("forbid", forbid), "required_edges": _pairs("require", require)}
    given = [*pairs.items(), *(more or {}).items()]
    for key, value in given:
        if isinstance(value, list | tuple | set | frozenset):
            known = {frozenset(entry) for entry in document.get(key, ())}
            fresh = [list(entry) for entry in value if frozenset(entry) not in known]
            document[key] = [*document.get(key, ()), *fresh]
        else:
            document[key] = value
    try:
        converted = msgspec.convert(document, ConstraintsDocument)
    except msgspec.ValidationError as error:
        known_keys = ", ".join(entry.name for entry in fields(Constraints))
        raise InputError("constraints", "", str(error), f"give some of {known_keys}, sets by names") from None
    joint = constraints_from_document(converted, names, "constraints", "$")
    within, required = graphs
    more_of_graphs = constraints_within(
        _graph(within, names, screened=True), _graph(required, names, screened=False)
    )
    with with_names(names, "constraints", "$"):
        return joint.joined(more_of_graphs)
