"""Methods, screens and frameworks by name, as in "pc:depth=1,criterion=0.05", and the plan of a selection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from jtsolve.core.choices import Entry, Registry
from jtsolve.errors import ChoiceError, no_such
from jtsolve.selection.framework import select
from jtsolve.selection.running import within_limits
from jtsolve.selection.screens import GivenGraph
from jtsolve.tables import check

if TYPE_CHECKING:
    from jtsolve.core.graph import UndirectedGraph
    from jtsolve.core.run import Run
    from jtsolve.core.selection import Selection
    from jtsolve.selection.choosing import Criterion
    from jtsolve.selection.framework import Framework, Screen
    from jtsolve.selection.method import SelectionMethod
    from jtsolve.selection.samples import Margins
    from jtsolve.tables.table import ContinuousTable, DataTable

ColumnKind = Literal["gaussian", "nonparanormal", "states"]
KINDS: tuple[str, ...] = get_args(ColumnKind)

_MATRICES = 12
"""Peak number of n × n matrices: correlations, precisions, gradients and copies."""

CRITERIA: Registry[Criterion] = Registry(
    "criterion",
    {
        "ebic": Entry("jtsolve.selection.choosing:Ebic"),
        "stars": Entry("jtsolve.selection.choosing:Stars"),
        "cv": Entry("jtsolve.selection.choosing:CrossValidation"),
    },
    annotations=["Criterion"],
)
METHODS: Registry[SelectionMethod] = Registry(
    "selection method",
    {
        "glasso": Entry("jtsolve.selection.lasso:GraphicalLasso"),
        "neighbourhood": Entry("jtsolve.selection.lasso:NeighbourhoodSelection"),
        "pc": Entry("jtsolve.selection.pc:PC"),
    },
    within=[CRITERIA],
)
SCREENS: Registry[Screen] = Registry(
    "screen",
    {
        "complete": Entry("jtsolve.selection.screens:Complete"),
        "correlation": Entry("jtsolve.selection.screens:Correlations"),
        "pc": Entry("jtsolve.selection.screens:PcScreen"),
    },
)
FRAMEWORKS: Registry[Framework] = Registry(
    "framework",
    {
        "junction-tree": Entry("jtsolve.selection.framework:OverJunctionTree"),
        "plain": Entry("jtsolve.selection.framework:Plain"),
    },
)


@dataclass(frozen=True, slots=True)
class SelectionPlan:
    """How the graph of a table is selected; made by `of`.

    Args:
        method: decides the edges.
        kind: the kind of the columns.
        screen: see `framework.select`.
        over: see `framework.select`.

    Raises:
        ChoiceError: the kind does not exist.
    """

    method: SelectionMethod
    kind: ColumnKind
    screen: Screen | None
    over: Framework | None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ChoiceError(no_such("kind of data", self.kind, KINDS))

    @classmethod
    def of(
        cls,
        method: str | SelectionMethod | None = None,
        kind: ColumnKind | None = None,
        screen: str | Screen | None = None,
        over: str | Framework | None = None,
        *,
        superset: UndirectedGraph | None = None,
        source: str = "superset",
    ) -> SelectionPlan:
        """Returns the plan of choices, as texts or values.

        Args:
            method: of `METHODS`; None for pc if the kind is states, else for glasso.
            kind: of the columns; None for gaussian.
            screen: of `SCREENS`.
            over: of `FRAMEWORKS`.
            superset: a graph in place of a screen.
            source: name of the superset's origin in messages.

        Raises:
            ChoiceError: a choice does not exist, or both a superset and a screen are given.
        """
        usual = "pc" if kind == "states" else "glasso"
        method = METHODS.chosen(usual if method is None else method, "decide")
        if superset is not None:
            if screen is not None:
                raise ChoiceError("a superset and a screen are given; give one of the two")
            screen = GivenGraph(superset, source)
        return cls(
            method,
            "gaussian" if kind is None else kind,
            None if screen is None else SCREENS.chosen(screen, "superset"),
            None if over is None else FRAMEWORKS.chosen(over, "steps"),
        )

    @property
    def score(self) -> str:
        """The score whose kind of columns this is: its rules decide how a table is read."""
        return "bic" if self.kind == "states" else "gaussian-bic"

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of findings of the data check that apply: skewness does not affect ranks."""
        return tuple(kind for kind in check.KINDS if self.kind != "nonparanormal" or kind != "skewed")

    @property
    def margins(self) -> Margins:
        """The margins of numeric columns."""
        return "nonparanormal" if self.kind == "nonparanormal" else "gaussian"

    def run(self, table: DataTable | ContinuousTable, run: Run) -> Selection:
        """Selects the graph of a table within the limits of a run; see `framework.select`.

        Raises:
            LimitError: the time limit is reached, or the memory does not suffice.
        """
        run.require_memory(_MATRICES * 8 * table.n**2, "the matrices of the columns need", "fewer columns")
        with run.phase("selecting"):
            return within_limits(
                lambda: select(table, self.method, self.screen, self.over, margins=self.margins, run=run), run
            )
