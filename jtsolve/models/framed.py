"""A model in the terms of its data: names and values in, data frames out."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from logging import getLogger
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.console import display_here
from jtsolve.core.machine import memory_bytes
from jtsolve.core.run import Console, Run
from jtsolve.errors import ChoiceError, InputError
from jtsolve.models.columns import position, read_codes, read_values
from jtsolve.models.directed import from_network
from jtsolve.models.features.tree import FeatureTree
from jtsolve.models.files.document import write_model
from jtsolve.models.files.opening import open_model
from jtsolve.models.gaussian import GaussianTreeModel, gaussian_log_likelihood
from jtsolve.models.inference.gaussian import condition_gaussian, covariance, gaussian_mode, sample_gaussian
from jtsolve.models.mixture import Mixture
from jtsolve.models.queries import (
    answers,
    columns_of_states,
    explanations,
    log_likelihood,
    sample_given,
    state_log_probabilities,
)
from jtsolve.networks.network import Network
from jtsolve.tables.frames import FrameStyle, label_of
from jtsolve.tables.options import decimal_of, gaps_of
from jtsolve.tables.raw import GAP

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from jtsolve.models.columns import Column
    from jtsolve.models.files.document import AnyModel
    from jtsolve.models.model import JunctionTreeModel
    from jtsolve.models.queries import Asked
    from jtsolve.tables.frames import Frame

    Given = Mapping[str, Any]

_LOGGER = getLogger("jtsolve")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Model:
    """A distribution over named variables, as `Solution.fit` returns it.

    Frames come out as pandas if the data were, otherwise as polars, with the values of the data: True, 3, a
    category. Ranges of cut columns are categories. Frames that come in may have the words for a missing value
    that the data had (`gaps`).

    Args:
        model: the distribution: a junction tree of states or of real numbers, a mixture, or a Bayesian
            network, of which `query` looks only at the relevant part.
        style: how the data held their values.

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

    model: AnyModel | Network
    style: FrameStyle = FrameStyle()  # noqa: RUF009 - a frozen value

    @classmethod
    def read(cls, path: str | Path) -> Model:
        """Returns the model in a file of `write` or `jtsolve fit`, or the network in a .bif or .uai file."""
        found = open_model(path)
        if isinstance(found, GaussianTreeModel):
            return cls(found)
        return cls(
            found, FrameStyle.of(path, {column.name: column.states for column in columns_of_states(found)})
        )

    def write(self, path: str | Path) -> None:
        """Writes the model to a file (.json, .json.gz), for `jtsolve query` and others."""
        write_model(self._whole, path)

    @property
    def _whole(self) -> AnyModel:
        """The distribution of all variables; that of a network is triangulated as a whole."""
        return _triangulated(self.model) if isinstance(self.model, Network) else self.model

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables."""
        return self.model.names

    def __repr__(self) -> str:
        return f"Model({self.model!r})"

    def _repr_html_(self) -> str:
        from jtsolve.draw.html import as_html, branching_html
        from jtsolve.models.features.export import boxes

        if isinstance(self.model, FeatureTree):
            return branching_html([repr(self)], boxes(self.model))
        tree = None if isinstance(self.model, Mixture | Network) else self.model.tree
        return as_html([repr(self)], tree, self.names)

    def query(
        self, variables: str | Sequence[str], given: Given | None = None, *, memory: float | None = None
    ) -> Frame:
        """Returns the joint distribution of some variables, a row for each combination of states.

        Of real numbers: a row for each variable, with mean and deviation.

        Args:
            variables: a name, or several.
            given: the value of each observed variable; in place of a value, a list with a likelihood for each
                state is soft evidence. A number stands for the range that it lies in.
            memory: gigabytes of tables; None for the free memory.

        Raises:
            InputError: a variable or value is unknown, or the evidence is impossible.
            LimitError: the tables are too large; raised before they are built.
        """
        names = [variables] if isinstance(variables, str) else list(variables)
        if isinstance(self.model, GaussianTreeModel):
            known, _ = condition_gaussian(self.model, self._numbers(given))
            means = np.array([known.mean[known.variable(name)] for name in names])
            deviations = np.sqrt(np.diag(covariance(known, names)))
            variable = FrameStyle(self.style.pandas).column("variable", names, np.arange(len(names)))
            numbers = {"mean": means, "deviation": deviations}
            return self.style.frame([variable, *(self.style.numbers(*one) for one in numbers.items())])
        with _display(self.model) as run:
            found = answers(self.model, [names], self._evidence(given), memory=memory_bytes(memory), run=run)
        if found.log_probability is None:
            _LOGGER.warning("whether the evidence is possible was not checked: %s", found.refusal)
        (table,) = found.tables
        columns = self._columns(names, np.indices(table.shape).reshape(len(names), -1))
        return self.style.frame([*columns, self.style.numbers(_free("probability", names), table.ravel())])

    def predict(self, data: Frame, variable: str, *, probabilities: bool = False) -> Any:
        """Returns the most probable value of a variable for each row, given the rest of the row.

        Missing values are summed over; a row whose rest is impossible gets a missing value. Of real numbers:
        the conditional mean.

        Args:
            data: a frame, or the path of a file; it need not hold the variable.
            variable: its name.
            probabilities: return the probability of each state instead, a column for each.

        Raises:
            InputError: another column of the model is missing, or a value unknown.
        """
        model = self.model
        v = position(self.names, variable)
        others = [name for name in self.names if name != variable] or [variable]
        if isinstance(model, GaussianTreeModel):
            if probabilities:
                raise ChoiceError(f"'{variable}' is a real number, without states; leave out probabilities")
            means = _conditional_means(model, others, v, self._values(data, others))
            return self.style.labelled(self.style.numbers(variable, means), data)
        coding = columns_of_states(model)
        found = self._codes(data, [column for column in coding if column.name in others])
        codes = np.insert(found, v, GAP, axis=0) if len(coding) > 1 else found
        logs = state_log_probabilities(model, codes, v)
        if probabilities:
            columns = [
                self.style.numbers(label, np.exp(column))
                for label, column in zip(coding[v].states, logs.T, strict=True)
            ]
            return self.style.frame(columns, data)
        best = np.where(np.isnan(logs).any(axis=1), GAP, np.argmax(logs, axis=1))
        (column,) = self._columns([variable], best[None])
        return self.style.labelled(column, data)

    def sample(self, rows: int, *, given: Given | None = None, seed: int = 0) -> Frame:
        """Returns independent rows; the same seed draws the same ones. For `given`, see `query`."""
        model = self.model
        if isinstance(model, GaussianTreeModel):
            fixed = self._numbers(given)
            known, _ = condition_gaussian(model, fixed)
            drawn = dict(zip(known.names, sample_gaussian(known, rows, seed), strict=True))
            drawn |= {name: np.full(rows, value) for name, value in fixed.items()}
            return self.style.frame([self.style.numbers(name, drawn[name]) for name in self.names])
        codes = sample_given(model, self._evidence(given), rows, seed)
        return self.style.frame(self._columns(self.names, codes))

    def mpe(self, given: Given | None = None, k: int = 1, *, memory: float | None = None) -> Frame:
        """Returns the k most probable configurations, best first, each with ln P of itself, in nats.

        Of real numbers there is one, the conditional mean, with ln of its density. For `given` and `memory`,
        see `query`.

        Raises:
            ChoiceError: the model is a mixture, k is below 1, or above 1 for real numbers.
        """
        if isinstance(self.model, GaussianTreeModel):
            mode = gaussian_mode(self.model, self._numbers(given), k)
            columns = [
                self.style.numbers(name, np.array([value]))
                for name, value in zip(self.names, mode.values, strict=True)
            ]
            logs = np.array([mode.log_density])
        else:
            with _display(self.model) as run:
                found, of_evidence = explanations(
                    self.model, self._evidence(given), k, memory=memory_bytes(memory), run=run
                )
            codes = [
                [column.code(one.states[v]) for one in found]
                for v, column in enumerate(columns_of_states(self.model))
            ]
            columns = self._columns(self.names, np.array(codes))
            logs = np.array([one.log_probability for one in found]) + of_evidence
        return self.style.frame([*columns, self.style.numbers(_free("log_probability", self.names), logs)])

    def loglik(self, data: Frame) -> Any:
        """Returns ln P of every row of a frame or file, in nats; missing values are summed over.

        Raises:
            InputError: a column of the model is missing, or a value unknown.
        """
        model = self.model
        if isinstance(model, GaussianTreeModel):
            logs = gaussian_log_likelihood(model, self._values(data, self.names))
        else:
            logs = log_likelihood(model, self._codes(data, columns_of_states(model)))
        return self.style.labelled(self.style.numbers("loglik", logs), data)

    def _codes(self, data: Frame, columns: Sequence[Column]) -> NDArray[np.int32]:
        """Returns rows in the coding of the model, read as the data were from which it was learned."""
        return read_codes(data, columns, gaps=gaps_of(self.model), decimal=decimal_of(self.model))

    def _values(self, data: Frame, names: Sequence[str]) -> NDArray[np.float64]:
        """Returns rows as numbers, likewise."""
        return read_values(data, names, gaps=gaps_of(self.model), decimal=decimal_of(self.model))

    def _columns(self, names: Sequence[str], codes: NDArray[np.integer[Any]]) -> list[Any]:
        """Returns the columns of states of some variables."""
        assert not isinstance(self.model, GaussianTreeModel), "asked of models of states"
        states = {column.name: column.states for column in columns_of_states(self.model)}
        return [self.style.column(name, states[name], row) for name, row in zip(names, codes, strict=True)]

    def _evidence(self, given: Given | None) -> dict[str, str | Sequence[float]]:
        """Returns evidence with labels in place of values."""
        assert not isinstance(self.model, GaussianTreeModel), "asked of models of states"
        columns = columns_of_states(self.model)
        return {
            name: _label(columns[position(self.names, name)], value) for name, value in (given or {}).items()
        }

    def _numbers(self, given: Given | None) -> dict[str, float]:
        """Returns evidence on real numbers."""
        for name, value in (given or {}).items():
            if not isinstance(value, Real):
                raise InputError("given", f"'{name}'", f"{value!r} is not a number", "give a number")
        return {name: float(value) for name, value in (given or {}).items()}


@lru_cache(maxsize=1)
def _triangulated(network: Network) -> JunctionTreeModel:
    """Returns the network as a junction tree; kept for the next question."""
    return from_network(network)


@contextmanager
def _display(model: Asked) -> Iterator[Run]:
    """Shows progress in terminals and notebooks on a network, whose junction tree is still to be made."""
    run = Run(console=Console(display_here() if isinstance(model, Network) else None))
    with run.phase("looking for the relevant part"):
        yield run


def _label(column: Column, value: Any) -> str | Sequence[float]:
    """Returns the label of an observed value, or a likelihood as it is."""
    if isinstance(value, list | tuple | np.ndarray):
        return list(value)
    if column.cuts is not None and isinstance(value, Real) and not np.isnan(float(value)):
        return column.states[int(np.searchsorted(np.array(column.cuts), float(value), side="left"))]
    return label_of(value)


def _free(name: str, names: Sequence[str]) -> str:
    """Returns the name of a further column, with an underscore if a variable has it."""
    return name if name not in names else f"{name}_"


def _conditional_means(
    model: GaussianTreeModel, names: Sequence[str], v: int, rows: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns the mean of v given the observed numbers of each row, NaN for missing: one solve a pattern."""
    target = model.names[v]
    matrix = covariance(model, [*names, target])
    centred = rows - np.array([[model.mean[model.variable(name)]] for name in names])
    out = np.full(rows.shape[1], model.mean[v])
    patterns, place = np.unique(~np.isnan(rows), axis=1, return_inverse=True)
    for k, observed in enumerate(patterns.T):
        inside = np.flatnonzero(observed & (np.array(names) != target))
        slopes = np.linalg.solve(matrix[np.ix_(inside, inside)], matrix[inside, -1])
        out[place == k] += slopes @ centred[inside][:, place == k]
    return out
