"""Methods and screens by name, as the command line, Python and scikit-learn give them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import isfinite, nan
from typing import TYPE_CHECKING, Literal, get_args

from jtsolve.errors import ChoiceError
from jtsolve.selection.choosing import criterion_named
from jtsolve.selection.framework import OverJunctionTree, Plain
from jtsolve.selection.glasso import GraphicalLasso
from jtsolve.selection.independence import STATE_TESTS
from jtsolve.selection.neighbourhood import NeighbourhoodSelection
from jtsolve.selection.pc import PC
from jtsolve.selection.screens import Complete, Correlations, GivenGraph, PcScreen

if TYPE_CHECKING:
    from collections.abc import Callable

    from jtsolve.core.graph import UndirectedGraph
    from jtsolve.core.selection import Over
    from jtsolve.selection.choosing import Criterion
    from jtsolve.selection.framework import Framework, Screen
    from jtsolve.selection.method import SelectionMethod
    from jtsolve.selection.samples import Margins

Kind = Literal["gaussian", "nonparanormal", "states"]
KINDS: tuple[str, ...] = get_args(Kind)
METHODS = ("glasso", "neighbourhood", "pc")
SCREENS = ("complete", "correlation:R", "pc[:DEPTH[:LEVEL]]")


@dataclass(frozen=True, slots=True)
class Request:
    """A selection as asked for; None leaves an option to its default.

    Args:
        method: of `METHODS`.
        kind: what the columns are; None for states if the test is one of states alone, else gaussian.
        criterion: see `choosing.criterion_named`.
        rule: of neighbourhood: and, or.
        depth: of pc, the largest separating set.
        direct: of pc: direct the edges as far as they can be; over all columns, with sets of either end, of
            any size unless the depth is given.
        test: of pc.
        screen: of `SCREENS`; None for complete in the plain framework, else pc.
        over: the framework; None for the junction tree, or plain for a graph with directions.
        separator_size: of the junction tree.

    Raises:
        ChoiceError: a name is unknown, or an option is not one of the method.
    """

    method: str = "glasso"
    kind: Kind | None = None
    criterion: str | None = None
    rule: str | None = None
    depth: int | None = None
    direct: bool = False
    test: str | None = None
    screen: str | None = None
    over: Over | None = None
    separator_size: int | None = None

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ChoiceError(f"there is no method '{self.method}'; there are {', '.join(METHODS)}")
        if self.kind not in (None, *KINDS):
            raise ChoiceError(f"there is no kind of data '{self.kind}'; there are {', '.join(KINDS)}")
        if self.over not in (None, "plain", "junction-tree"):
            raise ChoiceError(f"there is no framework '{self.over}'; there are plain, junction-tree")
        if self.plain and self.separator_size is not None:
            raise ChoiceError("a separator size is for the junction tree; leave it out")
        allowed = {
            "glasso": {"criterion"},
            "neighbourhood": {"criterion", "rule"},
            "pc": {"criterion", "depth", "direct", "test"},
        }
        given = {entry.name for entry in fields(self) if getattr(self, entry.name) != entry.default}
        wrong = given & set.union(*allowed.values()) - allowed[self.method]
        if wrong:
            raise ChoiceError(
                f"{', '.join(sorted(wrong))}: no option of the method {self.method}; leave it out"
            )
        self.selection_method()  # refuses what the method refuses

    @property
    def plain(self) -> bool:
        """Whether all columns are taken at once."""
        return self.over == "plain" or (self.over is None and self.direct)

    @property
    def data_kind(self) -> Kind:
        """What the columns are."""
        if self.kind is not None:
            return self.kind
        return "states" if self.test in STATE_TESTS and self.test != "bic" else "gaussian"

    @property
    def margins(self) -> Margins:
        """How the numbers are taken, if the columns are numbers."""
        return "nonparanormal" if self.kind == "nonparanormal" else "gaussian"

    def selection_method(self) -> SelectionMethod:
        """Returns the method."""
        makers: dict[str, Callable[[], SelectionMethod]] = {
            "glasso": self._glasso,
            "neighbourhood": self._neighbourhood,
            "pc": self._pc,
        }
        return makers[self.method]()

    def _glasso(self) -> GraphicalLasso:
        return GraphicalLasso() if self.criterion is None else GraphicalLasso(self._criterion())

    def _neighbourhood(self) -> NeighbourhoodSelection:
        rule = self.rule or "and"
        if self.criterion is None:
            return NeighbourhoodSelection(rule)  # type: ignore[arg-type]  # checked there
        return NeighbourhoodSelection(rule, self._criterion())  # type: ignore[arg-type]

    def _pc(self) -> PC:
        if self.criterion is None:
            return PC(self.depth, self.direct, self.test)
        return PC(self.depth, self.direct, self.test, self._criterion())

    def _criterion(self) -> Criterion:
        assert self.criterion is not None, "asked before"
        return criterion_named(self.criterion)

    def framework(self) -> Framework:
        """Returns the framework."""
        return Plain() if self.plain else OverJunctionTree(self.separator_size)

    def screening(self, superset: UndirectedGraph | None = None, source: str = "superset") -> Screen:
        """Returns the screen; a superset that is given takes its place.

        Raises:
            ChoiceError: both are given, or there is no such screen.
        """
        if superset is not None:
            if self.screen is not None:
                raise ChoiceError("a superset and a screen are given; give one of the two")
            return GivenGraph(superset, source)
        name, *values = (self.screen or ("complete" if self.plain else "pc")).split(":")
        numbers = [_number(text) for text in values]
        test = self.test if self.data_kind == "states" else None
        makers: dict[tuple[str, int], Callable[[], Screen]] = {
            ("complete", 0): Complete,
            ("correlation", 1): lambda: Correlations(numbers[0]),
            ("pc", 0): lambda: PcScreen(test=test),
            ("pc", 1): lambda: PcScreen(_whole(numbers[0]), test=test),
            ("pc", 2): lambda: PcScreen(_whole(numbers[0]), numbers[1], test),
        }
        maker = makers.get((name, len(numbers)))
        if maker is None:
            raise ChoiceError(f"there is no screen '{self.screen}'; there are {', '.join(SCREENS)}")
        return maker()


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return nan  # which every screen refuses


def _whole(value: float) -> int:
    return int(value) if isfinite(value) and value == int(value) else -1
