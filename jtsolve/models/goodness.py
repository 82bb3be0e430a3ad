"""Goodness of fit of a decomposable log-linear model to a table of counts.

Counts n of N rows are fitted by maximum likelihood: m = Π n(C) / Π n(S), over cliques and separators
(Lauritzen 1996, section 4.4), regardless of the prior of a model's tables. The deviance G² = 2 Σ n ln(n / m)
and Pearson's X² = Σ (n - m)² / m test the model against the saturated one. The adjusted residual of a cell is
(n - m) / √(m (1 - h)) with the leverage h = m (Σ 1 / n(C) - Σ 1 / n(S)); it is approximately standard normal
for large counts (Haberman 1973).

*Degrees of freedom.* All combinations of states count as possible, and an empty cell is a sampling zero.
Where a marginal count n(C) is 0, its cells are fitted as 0, and their parameters cannot be estimated; both
are left out: df = #{m > 0} - (Σ #{n(C) > 0} - Σ #{n(S) > 0}), the adjustment for empty margins (Bishop,
Fienberg and Holland 1975, chapter 3; Agresti 2013, section 10.6). If no margin is empty, df is the number of
cells minus 1 minus the number of free parameters. A structural zero is accounted for if it empties a whole
marginal cell of a clique. Any other structural zero counts as a sampling zero: without its cell, the model
would be one of quasi-independence, which is not decomposable. AIC and BIC count all parameters, as the scores
do.

References:
    A. Agresti, Categorical Data Analysis, 3rd edition, Wiley 2013.
    Y. M. M. Bishop, S. E. Fienberg, P. W. Holland, Discrete Multivariate Analysis, MIT Press 1975.
    S. J. Haberman, The analysis of residuals in cross-classified tables, Biometrics 29, 1973.
    S. L. Lauritzen, Graphical Models, Oxford 1996.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from math import inf, log, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.draw.text import generating_class, r_formula
from jtsolve.errors import ChoiceError, on_one_line
from jtsolve.models.answers import unused
from jtsolve.models.columns import columns_of, hidden_of
from jtsolve.models.edges import chi_squared_tail
from jtsolve.models.layout import table_layout
from jtsolve.models.learning.fit import Counts, count
from jtsolve.models.messages import separator_sums
from jtsolve.models.model import JunctionTreeModel
from jtsolve.models.rows import read_counts
from jtsolve.options import EXECUTOR, TREEWIDTH
from jtsolve.tables.distinct import distinct_rows
from jtsolve.tables.frames import FrameStyle
from jtsolve.tables.options import DISCRETISE, Habits
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from collections.abc import Container, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.layout import Layout
    from jtsolve.models.protocol import Distribution
    from jtsolve.tables.frames import Frame
    from jtsolve.tables.options import Reading

    Cells = NDArray[np.integer[Any]]

_PLAIN = FrameStyle()
_DENSE = 1 << 18
"""Largest number of cells that are all listed; of larger tables, only non-empty cells are."""
_WORST, _LONGEST = 5, 200
"""Number of cells, and of characters of the generating class, that are printed."""
_WHOLE, _LARGEST = 1 << 53, 1 << 1023
"""Whole numbers below the first are exact as floats; those below the second are in the range of floats."""
_EXACT = 1e-9
"""Smallest 1 - h of a cell that the model does not fit by construction: far above rounding."""
_SMALL = 5
"""Expected counts below this make the chi-squared approximation doubtful (Agresti 2013, section 3.2)."""


@dataclass(frozen=True, eq=False, repr=False)
class Goodness:
    """Goodness of fit of the graph of a junction tree to data; see `models.goodness` for the definitions.

    Args:
        tree: over the columns of the table.
        table: the data, with their weights.
        style: of the frames returned.

    Raises:
        ChoiceError: the table has real columns, or is partitioned.

    >>> import jtsolve as jt
    >>> table = {"Wife": ["yes", "yes", "no", "no"], "Husband": ["yes", "no"] * 2, "Freq": [30, 10, 10, 50]}
    >>> jt.learn(table, treewidth=0, weights="Freq").goodness()
    Goodness([Wife][Husband]: G² 35.55, X² 34.03, df 1, p 2.5e-09)
    """

    tree: JunctionTree
    table: DataTable
    style: FrameStyle = _PLAIN

    def __post_init__(self) -> None:
        if not isinstance(self.table, DataTable):
            raise ChoiceError(
                "goodness of fit needs a discrete table in one place; "
                f"cut real columns with {DISCRETISE}, and leave out {EXECUTOR}"
            )

    @cached_property
    def _counts(self) -> Counts:
        return count(self.tree, self.table)

    @cached_property
    def _layout(self) -> Layout:
        return table_layout(self.tree, tuple(self.table.arities.tolist()))

    @property
    def generating_class(self) -> str:
        """The cliques, as in "[A B][B C]"."""
        return generating_class(self.tree, self.table.names)

    @property
    def r_formula(self) -> str:
        """The same as a formula of R, for loglm of MASS or dmod of gRim; see `draw.text.r_formula`."""
        return r_formula(self.tree, self.table.names)

    @property
    def rows(self) -> float:
        """N, the sum of the weights."""
        return self.table.total

    @property
    def cells(self) -> int:
        """The number of cells of the table of all variables."""
        return prod(self.table.arities.tolist())

    @property
    def parameters(self) -> int:
        """The number of free parameters."""
        return self._layout.cells - self._layout.separator_cells

    @cached_property
    def _listed(self) -> tuple[Cells, NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """The listed cells, shape (variables, cells); their counts, ln m, and leverages; -inf if m is 0."""
        layout, counts = self._layout, self._counts
        dims = layout.arities
        codes: Cells
        observed: NDArray[np.float64]
        if self.cells <= _DENSE:
            codes = np.indices(dims).reshape(len(dims), -1)
            observed = _tabulated(self.table, range(len(dims))).ravel()
        else:
            distinct = distinct_rows(self.table)
            once = np.ones(distinct.rows, dtype=np.int64) if distinct.weights is None else distinct.weights
            codes, observed = distinct.codes, once.astype(np.float64) * distinct.unit
        total = counts.total
        logs, inverse = np.full(observed.size, log(total)), np.full(observed.size, 1 / total)
        separators = separator_sums(counts.cells, layout)
        with np.errstate(divide="ignore", invalid="ignore"):
            for place, clique in enumerate(layout.cliques):
                own = layout.table(counts.cells, place)[tuple(codes[list(clique)])]
                inside = [codes[v] if v in layout.separators[place] else 0 for v in clique]
                joint = separators[place][tuple(inside)] if clique else total
                logs += np.log(own / joint)
                inverse += 1 / own - 1 / joint
            logs[np.isnan(logs)] = -inf  # 0 / 0: an empty separator
            return codes, observed, logs, np.where(logs > -inf, np.exp(logs) * inverse, 1.0)

    @property
    def log_likelihood(self) -> float:
        """Σ n ln(m / N), in nats."""
        _, observed, logs, _ = self._listed
        present = observed > 0
        return float(observed[present] @ (logs[present] - log(self._counts.total)))

    @cached_property
    def g2(self) -> float:
        """The deviance, twice the log likelihood ratio to the saturated model."""
        _, observed, logs, _ = self._listed
        present = observed > 0
        return max(0.0, 2 * float(observed[present] @ (np.log(observed[present]) - logs[present])))

    @cached_property
    def x2(self) -> float:
        """Pearson's statistic; inf beyond the range."""
        _, observed, logs, _ = self._listed
        fitted, present = np.exp(logs), logs > -inf
        with np.errstate(over="ignore", divide="ignore"):
            own = np.square((observed - fitted)[present]) / fitted[present]
        # A cell that is not listed is empty, and contributes its fitted count.
        rest = 0.0 if observed.size == self.cells else max(0.0, self._counts.total - fitted.sum())
        return float(own.sum() + rest)

    @cached_property
    def df(self) -> int:
        """The degrees of freedom, without the cells and parameters of empty margins."""
        layout, cells = self._layout, self._counts.cells
        separators = separator_sums(cells, layout)
        known = np.count_nonzero(cells) - sum(np.count_nonzero(one) for one in separators) + 1
        return _support(layout, cells) - int(known)

    @property
    def df_nominal(self) -> int:
        """The degrees of freedom if no margin were empty: cells minus 1 minus free parameters."""
        return self.cells - 1 - self.parameters

    @property
    def p(self) -> float:
        """P(chi-squared ≥ G²) on `df` degrees of freedom; 1 if there are none."""
        return chi_squared_tail(self.g2, self.df)

    @property
    def p_x2(self) -> float:
        """P(chi-squared ≥ X²)."""
        return chi_squared_tail(self.x2, self.df)

    @property
    def aic(self) -> float:
        """-2 ln L + 2 · parameters: on the scale of R, twice the score `aic` with the sign changed."""
        return -2 * self.log_likelihood + 2 * self.parameters

    @property
    def bic(self) -> float:
        """-2 ln L + ln N · parameters: twice the score `bic` with the sign changed."""
        return -2 * self.log_likelihood + log(self._counts.total) * self.parameters

    @property
    def remarks(self) -> list[str]:
        """Reasons to doubt the p-values, a sentence each."""
        _, observed, logs, _ = self._listed
        found = []
        small = int(np.count_nonzero((logs > -inf) & (logs < log(_SMALL))))
        if observed.size < self.cells:
            found.append(f"{_short(self.cells)} cells are too many for the chi-squared approximation")
        elif small:
            found.append(f"{small} of {self.cells} expected counts are below {_SMALL}: p is approximate")
        if self.df != self.df_nominal:
            df, nominal = _short(self.df), _short(self.df_nominal)
            found.append(f"empty margins: {df} degrees of freedom in place of {nominal}")
        if self.table.unit != 1:
            found.append("fractional weights are not counts: p ignores the design of the survey")
        return found

    def residuals(self, most: int = 10) -> Any:
        """Returns the cells with the largest adjusted residuals as a frame: states, counts, residuals.

        Cells that the model fits by construction are left out, and empty cells of tables of more than 2^18.
        """
        codes, observed, logs, leverage = self._listed
        fitted = np.exp(logs)
        free = np.flatnonzero((fitted > 0) & (1 - leverage > _EXACT))
        adjusted = (observed - fitted)[free] / np.sqrt((fitted * (1 - leverage))[free])
        worst = np.argsort(-np.abs(adjusted), kind="stable")[:most]
        cells, names = free[worst], self.table.names
        columns = [
            column.series(self.style, codes[v][cells].astype(np.int64))
            for v, column in enumerate(columns_of(self.table))
        ]
        figures = {"count": observed[cells], "expected": fitted[cells], "adjusted_residual": adjusted[worst]}
        return self.style.frame(
            [*columns, *(self.style.numbers(unused(name, names), one) for name, one in figures.items())]
        )

    def facts(self) -> dict[str, Any]:
        """Returns the figures as JSON values."""
        names = ("rows", "cells", "parameters", "df", "df_nominal", "g2", "x2", "p", "p_x2")
        figures = {name: getattr(self, name) for name in (*names, "log_likelihood", "aic", "bic")}
        for name in ("cells", "df", "df_nominal"):  # programs read larger numbers as floats
            if figures[name] >= _WHOLE:
                figures[name] = float(figures[name]) if figures[name] < _LARGEST else inf
        texts = {"generating_class": self.generating_class, "r_formula": self.r_formula}
        return {**texts, **figures, "remarks": self.remarks}

    def text(self) -> str:
        """Returns the figures, the worst cells and the edges as text."""
        from jtsolve.listing import table

        df = _short(self.df)
        if self.df != self.df_nominal:
            df = f"{df} (nominal {_short(self.df_nominal)})"
        lines = [
            ["generating class", self.generating_class],
            ["R formula", self.r_formula],
            ["rows, cells, parameters", f"{self.rows:.10g}, {_short(self.cells)}, {self.parameters}"],
            ["G² (deviance)", f"{self.g2:.4f}, df {df}, p {self.p:.4g}"],
            ["X² (Pearson)", f"{self.x2:.4f}, df {df}, p {self.p_x2:.4g}"],
            ["ln L, AIC, BIC", f"{self.log_likelihood:.4f}, {self.aic:.4f}, {self.bic:.4f}"],
        ]
        worst = Goodness(self.tree, self.table).residuals(_WORST)
        parts = [table(["goodness of fit", ""], lines), *self.remarks]
        if len(worst):
            parts += ["", table(worst.columns, worst.rows())]
        return "\n".join(parts)

    def mosaic(self, path: str | Path, variables: Sequence[str]) -> None:
        """Draws the counts of some variables, such as a clique, as a mosaic; see `draw.mosaic`.

        Args:
            path: the file to write, .svg or .png.
            variables: up to four.

        Raises:
            InputError: a variable is unknown.
            ChoiceError: the suffix is not .svg or .png, or the variables are too many.
        """
        from jtsolve.draw.mosaic import draw_mosaic, require_drawable
        from jtsolve.models.columns import position

        places = [position(self.table.names, name) for name in variables]
        states = [self.table.states[v] for v in places]
        require_drawable([len(own) for own in states])
        counts = _tabulated(self.table, places)
        draw_mosaic(counts, list(variables), states, path)

    def __repr__(self) -> str:
        figures = f"G² {self.g2:.4g}, X² {self.x2:.4g}, df {_short(self.df)}, p {self.p:.2g}"
        return f"Goodness({on_one_line(self.generating_class, _LONGEST)}: {figures})"

    def _repr_html_(self) -> str:
        from jtsolve.draw.html import as_html

        return as_html([repr(self), *self.remarks], self.tree, self.table.names)


def goodness_of(
    model: Distribution,
    data: Frame,
    how: Reading,
    given: Container[str],
    *,
    style: FrameStyle = _PLAIN,
    run: Run | None = None,
) -> Goodness:
    """Returns the goodness of fit of the graph of a model to a data file or frame.

    Args:
        model: a junction tree of observed states.
        data: see `models.rows.open_rows`.
        how: see `models.rows.read_counts`.
        given: the names of the options given; others about words and numbers are those of the model.
        style: of the frames returned.
        run: shows the findings of the data check; None to skip it.

    Raises:
        InputError: see `models.rows.read_counts`.
        ChoiceError: see `models.rows.read_counts`; or the model is not a discrete junction tree without
            hidden variables.
    """
    if not isinstance(model, JunctionTreeModel) or hidden_of(model.columns):
        raise ChoiceError(
            f"goodness of fit is for one discrete junction tree without hidden variables, not for {model!r}; "
            f"fit one, for example with {TREEWIDTH(2)}"
        )
    return Goodness(
        model.tree, read_counts(data, model.columns, how, Habits.over(model, how, given), run), style
    )


def _tabulated(table: DataTable, variables: Sequence[int]) -> NDArray[np.float64]:
    """Returns the counts of some variables, with one axis for each."""
    dims = tuple(len(table.states[v]) for v in variables)
    places = np.ravel_multi_index(tuple(table.codes[v].astype(np.int64) for v in variables), dims)
    weights = None if table.weights is None else table.weights * table.unit
    return np.bincount(places, weights, minlength=prod(dims)).reshape(dims).astype(np.float64)


def _support(layout: Layout, cells: NDArray[np.float64]) -> int:
    """Returns the number of cells of the whole table whose margins are all positive; exact at any size."""
    tables = [(layout.table(cells, place) > 0).astype(object) for place in range(len(layout.cliques))]
    for place in range(len(tables) - 1, 0, -1):
        message = np.asarray(tables[place].sum(axis=layout.own[place].axes), dtype=object)
        above = layout.parent[place]
        tables[above] = tables[above] * message.reshape(layout.above[place].dims)
    return int(tables[0].sum())


def _short(number: int) -> str:
    """Returns a number of any size as text.

    >>> _short(12345), _short(2**2000)
    ('12345', '1.15e+602')
    """
    return str(number) if number < _WHOLE else f"{Decimal(number):.2e}"
