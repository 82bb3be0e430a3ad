"""The master problem: the LP over some families and the current rows, kept in HiGHS between solves.

max Σ w(v,P) x(v,P) over Σ_P x(v,P) = 1 for every v, the current rows, and x ≥ 0. An artificial variable, the
*escape*, satisfies all rows at a price, so that the program is never infeasible. The multipliers sum to at
most the price; if no x satisfies the rows, the bound falls below every tree as the price rises.

Cuts are stored in a sparser form: if most families of a vertex v enter the up-set, Σ_P x(v,P) = 1 is
subtracted. This changes the multipliers of vertices, but not those of cuts.
"""

from __future__ import annotations

from functools import cache
from math import frexp
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.backends.clutter.inequalities import CutRows, RowVector
from jtsolve.core.scores import UNSTOPPABLE, Stoppable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.backends.clutter.inequalities import Clutter, SetRow
    from jtsolve.families.families import Families

_OPTIONS = (
    ("output_flag", False),
    ("threads", 1),
    ("presolve", "off"),  # it would lose the basis
    ("solver", "simplex"),
    ("simplex_strategy", 1),  # dual: new cuts keep the basis dual feasible; the primal was slower for columns
    ("dual_feasibility_tolerance", 1e-9),
    ("primal_feasibility_tolerance", 1e-9),
)
_NOTHING = 1e-9


class LPFailure(Exception):  # noqa: N818 - the caller continues without the solver
    """The LP solver failed twice, the second time from scratch; the text is its status."""


@cache
def _silent_solver() -> Any:
    """Returns the class of HiGHS, without the banner that the constructor of 1.16 prints."""
    from highspy import Highs

    class Silent(Highs):
        def enableCallbacks(self) -> None:  # noqa: N802 - the name is that of HiGHS
            self.setOptionValue("output_flag", False)
            super().enableCallbacks()  # type: ignore[no-untyped-call]

    return Silent


class Master:
    """The linear program with its columns, rows and last solution.

    Args:
        families: of the subproblem.
        columns: families with a column, at least one of every vertex; shape (K, width).
        rows: the first rows.
        escape: price of the escape, as a multiple of the largest score and the number of variables.
    """

    def __init__(self, families: Families, columns: NDArray[np.bool_], rows: CutRows, escape: float) -> None:
        import highspy

        self.highspy = highspy
        self.families = families
        self.rows = CutRows(families)
        self.union = self.slot = np.zeros(0, dtype=np.int64)
        self.parents = self.vertex = np.zeros(0, dtype=np.int32)
        self.flips = np.zeros((0, families.n), dtype=np.bool_)  # of cuts and vertices
        self.order: list[tuple[bool, int]] = []  # of the rows after the first n: (is a cut, number)
        self.age = np.zeros(0, dtype=np.int64)
        self.report: Stoppable = UNSTOPPABLE
        solver = self.solver = _silent_solver()()
        for name, value in _OPTIONS:
            solver.setOptionValue(name, value)
        solver.cbSimplexInterrupt.subscribe(self._ask)
        self._add_vertices(escape)
        self.add_columns(*np.nonzero(columns))
        solver.run()  # trivial without rows; the basis stays dual feasible when cuts are added
        self.add_cuts(rows.clutters)
        self.add_set_rows(rows.set_rows)

    def _ask(self, event: Any) -> None:
        """Interrupts the solver if the report requests it; called at every iteration."""
        event.interrupt(self.report.stop is not None)

    def _add_vertices(self, escape: float) -> None:
        """Adds a row for each vertex, and the escape."""
        families, highspy = self.families, self.highspy
        n = families.n
        largest = float(np.abs(families.values).max())
        # HiGHS has absolute tolerances: costs of at most 2^20 keep them meaningful for huge scores.
        self.unit = max(1.0, 2.0 ** (frexp(largest)[1] - 20))  # nats in a unit of the costs
        nothing = np.zeros(0)
        none = np.zeros(0, np.int32)
        self.solver.addRows(n, np.ones(n), np.ones(n), 0, np.zeros(n, np.int32), none, nothing)
        self.price = escape * n * max(1.0, largest) / self.unit
        self.solver.addCol(self.price, 0.0, highspy.kHighsInf, 0, none, nothing)

    def add_columns(self, union: NDArray[np.int64], slot: NDArray[np.int64]) -> None:
        """Adds new families, given by the positions of P∪v and of v in it, shape (m,) each."""
        from scipy.sparse import csr_array  # loads in a fifth of a second

        families, count = self.families, union.size
        parents, vertex = families.facets[union, slot], families.members[union, slot]
        lines = []
        for cut, number in self.order:
            if cut:
                row = self.rows.cut_coefficients(number, union, parents) - self.flips[number, vertex]
            else:
                row = self.rows.set_row_coefficients(number, union, parents)
            at = np.flatnonzero(row)
            lines.append((at, row[at]))
        ends = np.cumsum([0, *(at.size for at, _ in lines)])
        index = np.concatenate([np.zeros(0, dtype=np.int64), *(at for at, _ in lines)])
        value = np.concatenate([np.zeros(0), *(entry for _, entry in lines)])
        entries = csr_array((value, index, ends), shape=(len(lines), count)).tocsc()
        starts = entries.indptr[:-1] + np.arange(count)  # each has one more entry: 1 in the vertex's row
        index = np.insert(entries.indices + families.n, entries.indptr[:-1], vertex).astype(np.int32)
        value = np.insert(entries.data, entries.indptr[:-1], 1.0)
        weight = families.values[union] - families.values[parents]
        self.solver.addCols(
            count, -weight / self.unit, np.zeros(count), np.full(count, self.highspy.kHighsInf),
            index.size, starts.astype(np.int32), index, value,
        )  # fmt: skip
        self.union, self.slot = np.append(self.union, union), np.append(self.slot, slot)
        self.parents, self.vertex = np.append(self.parents, parents), np.append(self.vertex, vertex)

    def add_cuts(self, fresh: Sequence[Clutter]) -> None:
        """Adds cuts."""
        first = len(self.rows.clutters)
        self.rows.add(fresh)
        n = self.families.n
        total = np.bincount(self.vertex, minlength=n)
        flips = np.zeros((len(fresh), n), dtype=np.bool_)
        lines = []
        for k in range(len(fresh)):
            row = self.rows.cut_coefficients(first + k, self.union, self.parents)
            # Subtracting the equation of a vertex gives entries of −1 for its other families, and lowers the
            # limit by 1.
            flips[k] = 2 * np.bincount(self.vertex, weights=row, minlength=n) > total
            lines.append(_entries(row - flips[k, self.vertex]))
        self.flips = np.concatenate((self.flips, flips))
        self.order += [(True, first + k) for k in range(len(fresh))]
        self.age = np.concatenate((self.age, np.zeros(len(fresh), dtype=np.int64)))
        self._add_lines(lines, 1.0 - flips.sum(axis=1))

    def add_set_rows(self, fresh: Sequence[SetRow]) -> None:
        """Adds set rows."""
        first = len(self.rows.set_rows)
        self.rows.add((), fresh)
        numbers = range(first, first + len(fresh))
        self.order += [(False, number) for number in numbers]
        lines = [
            _entries(self.rows.set_row_coefficients(number, self.union, self.parents)) for number in numbers
        ]
        self._add_lines(lines, np.array([float(row.limit) for row in fresh]))

    def _add_lines(
        self, lines: list[tuple[NDArray[np.int32], NDArray[np.float64]]], limits: NDArray[np.float64]
    ) -> None:
        """Adds rows ≥ limits, given by their entries, with 1 for the escape."""
        if not lines:
            return
        ends = np.cumsum([index.size + 1 for index, _ in lines])
        starts = np.concatenate(([0], ends[:-1])).astype(np.int32)
        index, value = np.zeros(ends[-1], dtype=np.int32), np.ones(ends[-1])
        for (columns, coefficients), start, end in zip(lines, starts, ends, strict=True):
            index[start + 1 : end], value[start + 1 : end] = columns, coefficients
        upper = np.full(len(lines), self.highspy.kHighsInf)
        self.solver.addRows(len(lines), limits, upper, index.size, starts, index, value)

    def solve(self, report: Stoppable) -> bool:
        """Solves for x and the multipliers; returns False if it was interrupted.

        Raises:
            LPFailure: the solver failed.
        """
        status = self.highspy.HighsModelStatus
        self.report = report
        for _ in range(2):
            self.solver.run()
            found = self.solver.getModelStatus()
            if found == status.kOptimal:
                break
            if report.stop is not None:
                return False
            self.solver.clearSolver()  # once more from scratch: the basis may be numerically bad
        else:
            raise LPFailure(self.solver.modelStatusToString(found))
        solution = self.solver.getSolution()
        x = np.array(solution.col_value)
        self.escaped, self.x = float(x[0]), x[1:]
        # Rounding may make duals slightly negative; all λ ≥ 0 are valid.
        dual = np.maximum(0.0, np.array(solution.row_dual)[self.families.n :]) * self.unit
        cut = np.array([cut for cut, _ in self.order], dtype=np.bool_)
        # The rows of each kind are in the order of their numbers.
        self.multipliers = RowVector(dual[cut], dual[~cut])
        return True

    def raise_price(self, factor: float, most: float) -> bool:
        """Raises the price of the escape, up to `most` nats; returns whether it has risen."""
        price = min(self.price * factor, most / self.unit)
        if price <= self.price:
            return False
        self.price = price
        self.solver.changeColCost(0, price)
        return True

    def purge(self, patience: int) -> None:
        """Deletes cuts that were slack in more than `patience` successive rounds, once these are a sixth."""
        self.age = np.where(self.multipliers.cuts > _NOTHING, 0, self.age + 1)
        old = self.age > patience
        if int(old.sum()) * 6 < old.size:
            return
        rows = [i for i, (cut, number) in enumerate(self.order) if cut and old[number]]
        # A slack row is basic: the rest of the basis is still a basis without it.
        gone = self.families.n + np.array(rows, dtype=np.int32)
        self.solver.deleteRows(gone.size, gone)
        renumber = np.cumsum(~old) - 1
        self.order = [
            (cut, int(renumber[number]) if cut else number)
            for cut, number in self.order
            if not (cut and old[number])
        ]
        self.rows.keep_cuts(~old)
        self.age, self.flips = self.age[~old], self.flips[~old]
        self.multipliers = self.multipliers._replace(cuts=self.multipliers.cuts[~old])

    def follow(self, families: Families, position: NDArray[np.int64]) -> None:
        """Restricts the families; `position`, shape (K,), is -1 for dropped sets."""
        union = position[self.union]
        keep = union >= 0
        keep[keep] = families.allowed[union[keep], self.slot[keep]]
        # Column 0 is the escape.
        gone = (np.flatnonzero(~keep) + 1).astype(np.int32)
        if gone.size:
            self.solver.deleteCols(gone.size, gone)
        self.families, self.rows = families, self.rows.moved(families, position)
        self.union, self.slot, self.vertex = union[keep], self.slot[keep], self.vertex[keep]
        self.parents = position[self.parents[keep]].astype(np.int32)
        self.x = self.x[keep]


def _entries(line: NDArray[np.float64]) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Returns the columns of the non-zero entries, and the entries."""
    at = np.flatnonzero(line)
    return (at + 1).astype(np.int32), line[at]  # column 0 is the escape
