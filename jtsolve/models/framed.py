"""A model with the names and values of its data: values in, data frames out."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from logging import getLogger
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from jtsolve.console import FirstRunLine, display_here
from jtsolve.core.formats import EVIDENCE
from jtsolve.core.machine import allow_memory, memory_bytes, memory_of_call
from jtsolve.errors import ChoiceError, InputError, public
from jtsolve.listing import cell_as_text
from jtsolve.models.answers import unused
from jtsolve.models.columns import position, states_by_name
from jtsolve.models.files.opening import exported, open_model, write_model
from jtsolve.models.mixed import MixedTreeModel
from jtsolve.tables.crosstab import counts_in_rows
from jtsolve.tables.frames import FrameStyle, is_listing, is_pandas, is_path
from jtsolve.tables.options import Habits
from jtsolve.tables.raw import GAP
from jtsolve.tables.values import label_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import networkx as nx
    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.models.answers import Explanation, Posterior
    from jtsolve.models.columns import Column, RealColumn
    from jtsolve.models.files.interop import MbiTree
    from jtsolve.models.goodness import Goodness
    from jtsolve.models.protocol import Distribution
    from jtsolve.tables.frames import Frame

    Given = Mapping[str, Any] | str | Path

Missing: TypeAlias = Literal["state", "sum"]

_LOGGER = getLogger("jtsolve")


@public
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Model:
    """A distribution over named variables, as `Solution.fit` returns it.

    Answers about a frame have its library: pandas, with its index, or polars. Other answers have the library
    of the training data, or polars if the model was read from a file. They hold the values of the data: True,
    3, a category; ranges of cut columns are categories. Frames given may use the words for a missing value of
    the training data (`missing_values`).

    Args:
        model: the distribution: a discrete or mixed junction tree, a feature tree, a mixture, or a Bayesian
            network, of which `query` uses the relevant part only.
        style: the representation of values in the training data.

    >>> import jtsolve as jt
    >>> data = {"Smoker": [True, False] * 20, "Cough": ["often", "never"] * 20}
    >>> model = jt.learn(data, treewidth=1).fit()
    >>> model.query("Cough", given={"Smoker": True})["probability"].round(2).to_list()
    [0.01, 0.99]
    >>> model.predict({"Smoker": [False], "Cough": [None]}, "Cough").to_list()
    ['never']
    >>> model.sample(1000).shape, model.mpe(given={"Cough": "never"})["Smoker"].to_list()
    ((1000, 2), [False])
    """

    model: Distribution
    style: FrameStyle = FrameStyle()  # noqa: RUF009 - a frozen value

    @classmethod
    def read(cls, path: str | Path) -> Model:
        """Returns the model in a file of `write` or `jtsolve fit`, or the network in a .bif or .uai file.

        Raises:
            InputError: the file cannot be read, or does not match its suffix.
            LimitError: the tables do not fit in memory.
        """
        return cls(open_model(path))

    @classmethod
    def of(cls, given: Any) -> Model:
        """Returns the model of a `pyagrum.BayesNet`, a pgmpy network, or a graph of `to_networkx`.

        Raises:
            ChoiceError: it is none of them.
        """
        from jtsolve.models.files.interop import imported

        return cls(imported(given))

    def write(self, path: str | Path) -> None:
        """Writes the model to a file, in the format that its suffix names, also with .gz.

        `read` and all commands read .json; for the other formats, see `export`.

        Raises:
            ChoiceError: there is no such format, or it does not support the model.
            LimitError: it needs tables that do not fit in memory; raised before any work.
        """
        write_model(self.model, path)

    def export(self, to: str) -> str:
        """Returns the model as text.

        Args:
            to: json, bif, bifxml, uai, td (a tree decomposition), or dot.

        Raises:
            ChoiceError, LimitError: see `write`.
        """
        return exported(self.model, to)

    def to_pyagrum(self) -> Any:
        """Returns the model as a `pyagrum.BayesNet`."""
        from jtsolve.models.files.interop import to_pyagrum

        return to_pyagrum(self.model.network("pyAgrum"))

    def to_pgmpy(self) -> Any:
        """Returns the model as a `pgmpy.models.DiscreteBayesianNetwork`."""
        from jtsolve.models.files.interop import to_pgmpy

        return to_pgmpy(self.model.network("pgmpy"))

    def to_networkx(self) -> nx.Graph:
        """Returns the junction tree as a graph of its cliques with their tables."""
        from jtsolve.models.files.interop import to_networkx

        return to_networkx(self.model.junction_tree("networkx"))

    def to_mbi(self) -> MbiTree:
        """Returns domain, cliques and tree for the library mbi; see `Solution.to_mbi`."""
        from jtsolve.models.files.interop import to_mbi

        states = [None if column.states is None else len(column.states) for column in self.model.columns]
        return to_mbi(self.model.structure("mbi"), self.names, states)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables."""
        return self.model.names

    @property
    def parameters(self) -> int:
        """The number of free parameters."""
        return self.model.parameters

    @property
    def entropy(self) -> float:
        """-E ln P, in nats; with real variables, the differential entropy."""
        return self.model.entropy()

    def facts(self) -> dict[str, Any]:
        """Returns sizes, entropies and mutual information, in nats, as `jtsolve show --json` prints them."""
        described = self.model.describe()
        parts = {"parts": list(described.parts)} if described.parts else {}
        return {**described.facts, **parts, "names": list(self.names)}

    def __repr__(self) -> str:
        return f"Model({self.model!r})"

    def _repr_html_(self) -> str:
        from jtsolve.draw.html import as_html, branching_html

        described = self.model.describe()
        if described.boxes and not described.parts:
            return branching_html([repr(self)], described.boxes[0])
        tree, notes = described.trees[0] if len(described.trees) == 1 else (None, None)
        facts = {**described.facts, "components": len(described.parts)}
        rows = [
            (key.replace("_", " "), cell_as_text(fact))
            for key, fact in facts.items()
            if fact and not isinstance(fact, list)
        ]
        return as_html([repr(self), *rows], tree, self.names, notes)

    def show(self, path: str | Path | None = None, *, graph: bool = False) -> None:
        """Draws the model, or the graph of the variables, into a file, or prints it as text.

        A file is .svg, .png, .dot, or .html, which shows the graph at any size; see `NamedTree.show`.

        Raises:
            ChoiceError: the suffix is unknown, or the model is a mixture, or too large for a picture.
            LimitError: the graph of a feature tree needs too large a junction tree.
        """
        from jtsolve.draw.text import graph_text
        from jtsolve.models.views import draw_model, model_text

        if path is not None:
            draw_model(self.model, path, graph=graph)
        elif graph:
            print(graph_text(self.model.structure("a drawing"), self.names))  # noqa: T201 - the method's purpose
        else:
            print(model_text(self.model.describe(), self.names))  # noqa: T201

    def posterior(
        self, groups: Sequence[Sequence[str]], given: Given | None = None, *, memory: float | None = None
    ) -> Posterior:
        """Returns the joint distribution of each group of variables, as arrays; see `query`.

        Args:
            groups: the names in each group.
            given: evidence, see `query`.
            memory: limit in GB.
        """
        with _answering(memory) as run:
            found = self.model.posterior(groups, self._evidence(given), run=run)
        if found.log_probability is None:
            _LOGGER.warning("whether the evidence is possible was not checked: %s", found.refusal)
        return found

    def query(
        self,
        variables: Any = None,
        given: Given | None = None,
        *,
        memory: float | None = None,
    ) -> Frame:
        """Returns the joint distribution of some variables, with a row for each combination of states.

        Real variables have a row each, with mean, deviation, and the quantiles of 5, 50 and 95 %; `posterior`
        has covariances and other quantiles.

        Args:
            variables: a name, or a list of names; None for each variable singly, with a row for each of its
                states.
            given: the value of each observed variable, where a number stands for the range that contains it,
                or a list with a likelihood for each state (soft evidence). Or the path of a file of the UAI
                competitions (.evid).
            memory: limit of the process, in GB; None for 80 % of the free memory.

        Raises:
            InputError: a variable or value is unknown, or the evidence is impossible.
            LimitError: the tables are too large; raised before they are built.
        """
        if variables is None:
            return self.posterior(self.singly(given), given, memory=memory).listed(self.style)
        single = not is_listing(variables) or label_of(variables) in self.names
        names = list(map(self._named, [variables] if single else variables))
        return self.posterior([names], given, memory=memory).frame(self.style)

    def covariance(self) -> Frame:
        """Returns the covariance matrix of a model of real variables as a frame.

        Columns and rows are in the order of the variables; pandas labels the rows.

        Raises:
            ChoiceError: a variable is discrete, or the model is a mixture.
        """
        return self._matrix(0)

    def precision(self) -> Frame:
        """Returns the inverse of `covariance`, with a 0 for each pair of variables in no common clique."""
        return self._matrix(1)

    def _matrix(self, which: int) -> Frame:
        if not isinstance(self.model, MixedTreeModel):
            raise ChoiceError(
                "a covariance matrix is for one junction tree of real variables; query the variables instead"
            )
        matrix = self.model.matrices()[which]
        columns = [self.style.numbers(name, one) for name, one in zip(self.names, matrix, strict=True)]
        found = self.style.frame(columns)
        return found.set_axis(found.columns) if self.style.pandas else found

    def singly(self, given: Given | None) -> list[list[str]]:
        """Returns each variable as a group of its own; if some are real, without the observed ones."""
        observed = self._evidence(given) if self.model.is_continuous else {}
        return [[name] for name in self.names if name not in observed]

    def predict(
        self, data: Frame, variable: Any, *, probabilities: bool = False, missing: Missing = "state"
    ) -> Any:
        """Returns the most probable value of a variable, or its mean, given the rest of each row.

        The value is missing where the rest of a row is impossible.

        Args:
            data: a frame, or the path of a file, with or without the variable.
            variable: its name.
            probabilities: return the probabilities of the states instead, one column for each.
            missing: "state": a missing value is the state that its column has for it, and summed out if there
                is none; "sum": it is always summed out.

        Raises:
            InputError: another column of the model is missing, or a value is unknown.
            ChoiceError: probabilities are requested of a real variable.
        """
        data = self._listed(data)
        v, style = position(self.names, self._named(variable)), self.style.like(data)
        column = self.model.columns[v]
        others = [one for one in self.model.columns if one.name != column.name]
        rows = self._rows(data, others or self.model.columns, missing)
        if others:
            rows = np.insert(rows, v, np.nan if self.model.is_continuous else GAP, axis=0)
        if not probabilities:
            return style.labelled(column.series(style, self.model.predict(rows, v)), data)
        if column.states is None:
            raise ChoiceError(f"'{variable}' is real and has no states; leave out probabilities")
        from jtsolve.models.inference.prediction import state_log_probabilities

        logs = state_log_probabilities(self.model, rows, v)
        found = zip(column.states, logs.T, strict=True)
        return style.frame([style.numbers(label, np.exp(one)) for label, one in found], data)

    def impute(self, data: Frame, *, missing: Missing = "state") -> Any:
        """Returns the most probable completion of each row; real variables get conditional medians.

        The columns are those of the model. Impossible rows keep their gaps.

        Args:
            data: a frame, or the path of a file.
            missing: see `predict`; "sum" also replaces the state for a missing value.

        Raises:
            InputError: a column of the model is missing, or a value is unknown.
            ChoiceError: the model is a mixture or a feature tree.
        """
        data = self._listed(data)
        filled = self.model.complete(self._rows(data, self.model.columns, missing))
        return self._frame(filled, self.style.like(data, states_by_name(self.model.columns)), data)

    def sample(self, rows: int, *, given: Given | None = None, seed: int = 0) -> Frame:
        """Returns independent rows; equal seeds give equal rows.

        Args:
            rows: their number.
            given: evidence, see `query`.
            seed: of the draws.
        """
        return self._frame(self.model.sample(rows, seed, self._evidence(given)), self.style)

    def explain(self, given: Given | None = None, k: int = 1, *, memory: float | None = None) -> Explanation:
        """Returns the k most probable configurations, and ln P of the evidence; see `mpe`.

        Args:
            given: evidence, see `query`.
            k: number of configurations.
            memory: limit in GB.
        """
        with _answering(memory) as run:
            return self.model.explain(self._evidence(given), k, run=run)

    def mpe(self, given: Given | None = None, k: int = 1, *, memory: float | None = None) -> Frame:
        """Returns the k most probable configurations, best first, each with its ln P, in nats.

        With real variables there is one, the conditional median, with ln of its density.

        Args:
            given: evidence, see `query`.
            k: number of configurations.
            memory: limit in GB.

        Raises:
            ChoiceError: the model is a mixture, or k is below 1, or above 1 and there are real variables.
        """
        best, of_evidence = self.explain(given, k, memory=memory)
        codes = [[column.code(one.values[v]) for one in best] for v, column in enumerate(self.model.columns)]
        columns = [
            column.series(self.style, np.array(row))
            for column, row in zip(self.model.columns, codes, strict=True)
        ]
        logs = np.array([one.log_probability for one in best]) + of_evidence
        return self.style.frame([*columns, self.style.numbers(unused("log_probability", self.names), logs)])

    def loglik(self, data: Frame, *, missing: Missing = "state") -> Any:
        """Returns ln P of every row of a frame or file, in nats; for missing values, see `predict`.

        Raises:
            InputError: a column of the model is missing, or a value is unknown.
        """
        data = self._listed(data)
        style = self.style.like(data)
        logs = self.model.log_likelihood(self._rows(data, self.model.columns, missing))
        return style.labelled(style.numbers("loglik", logs), data)

    def goodness(self, data: Frame, **reading: Any) -> Goodness:
        """Returns the goodness of fit of the graph of the model to data: G², X², df, p, AIC, BIC, residuals.

        The tables are fitted to these data by maximum likelihood, whatever the prior of the model.
        `models.goodness` describes the treatment of empty cells and structural zeros.

        Args:
            data: a frame, a table of counts as of `pandas.crosstab`, or the path of a file.
            reading: options of reading, such as weights or missing="drop-rows"; see `jtsolve.learn`.

        Raises:
            InputError: a column of the model is missing, or a value is missing or unknown.
            ChoiceError: the model is not a discrete junction tree without hidden variables.

        >>> import jtsolve as jt
        >>> both = ["yes", "yes", "no", "no"]
        >>> counts = {"Wife": both, "Husband": ["yes", "no"] * 2, "Freq": [30, 10, 10, 50]}
        >>> model = jt.fit(counts, treewidth=0, weights="Freq")
        >>> round(model.goodness(counts, weights="Freq").x2, 2)
        34.03
        """
        from jtsolve.core.run import Run
        from jtsolve.models.goodness import goodness_of
        from jtsolve.tables.reading import reading_of

        source, given = counts_in_rows(data, reading, self.names)
        style = self.style.like(source, states_by_name(self.model.columns))
        return goodness_of(self.model, source, reading_of(given), given, style=style, run=Run())

    def _listed(self, data: Frame) -> Frame:
        """Returns data with a row for each cell of a table of counts of pandas."""
        return counts_in_rows(data, {}, self.names)[0]

    def _rows(self, data: Frame, columns: Sequence[Column | RealColumn], missing: Missing) -> NDArray[Any]:
        """Returns rows in the coding of the model, read with the options of its training data."""
        from jtsolve.models.rows import read_rows

        if missing not in get_args(Missing):
            raise ChoiceError(f"missing={missing!r}: choose among {', '.join(get_args(Missing))}")
        rows: NDArray[Any] = read_rows(data, columns, habits=Habits.of(self.model), sums=missing == "sum")
        return rows

    def _frame(self, rows: NDArray[Any], style: FrameStyle, like: Frame = None) -> Any:
        """Returns rows as a frame, labelled like another."""
        pairs = zip(self.model.columns, rows, strict=True)
        return style.frame([column.series(style, row) for column, row in pairs], like)

    def _named(self, name: Any) -> str:
        """Returns the name of a column in the model."""
        return name if name in self.names else label_of(name)

    def _evidence(self, given: Given | None) -> dict[str, Any]:
        """Returns evidence in the form of distributions."""
        if is_path(given) and EVIDENCE.format_to_read(given):
            from jtsolve.models.files.uai import read_evidence

            given = read_evidence(given, self.model)
        row: Any = given
        if is_pandas(row) and row.ndim == 1:
            given = row.to_dict()
        if given is not None and not isinstance(given, Mapping):
            raise InputError(
                "the evidence",
                "given",
                f"{given!r} is not a mapping of variables to values",
                f'write given={{"{self.names[0]}": VALUE}}, or name a file .evid',
            )
        columns = self.model.columns
        named = {self._named(name): value for name, value in (given or {}).items()}
        return {name: columns[position(self.names, name)].observation(value) for name, value in named.items()}


@contextmanager
def _answering(memory: float | None) -> Iterator[Run]:
    """Limits the memory of an answer, in GB, and shows its progress in interactive sessions."""
    from jtsolve.core.run import Console, Run

    display = display_here()
    with memory_of_call():
        allow_memory(memory_bytes(memory))
        run = Run(console=Console(None if isinstance(display, FirstRunLine) else display))
        with run.phase("finding the relevant part"):
            yield run
