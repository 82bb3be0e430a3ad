"""Backends from text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Optional

import pytest

from jtsolve.backends.parse import make_backend, parse_backend, shown_options
from jtsolve.backends.registry import REGISTRY
from jtsolve.core.backend import Backend, Capabilities, Estimate, Report
from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from jtsolve.core.problem import Problem
    from jtsolve.core.result import Outcome
    from jtsolve.core.run import Limits


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Painter:
    """Does nothing."""

    colour: Colour = Colour.RED
    steps: int = 10
    rate: float = 0.5
    label: str = "x"
    eager: bool = False
    mode: Literal["fast", "slow"] = "fast"
    most: int | None = None
    start: Backend | None = None
    either: Optional[Literal["auto"] | float] = None  # noqa: UP045 - both ways of writing are met
    sizes: tuple[int, ...] = ()
    helpers: tuple[Backend, ...] = ()
    odd: bytes = b""

    name: ClassVar[str] = "painter"
    capabilities: ClassVar[Capabilities] = Capabilities()

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"{self.steps} steps are too few")

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:
        raise NotImplementedError

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        raise NotImplementedError


class Plain:
    """A backend that is no dataclass has no options."""

    name = "plain"
    capabilities = Capabilities()

    estimate = Painter.estimate
    solve = Painter.solve


@pytest.fixture(autouse=True)
def painter(monkeypatch: pytest.MonkeyPatch) -> Painter:
    backend = Painter()
    monkeypatch.setitem(REGISTRY, "painter", backend)
    monkeypatch.setitem(REGISTRY, "plain", Plain())
    return backend


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("colour", "blue", Colour.BLUE),
        ("steps", "25", 25),
        ("rate", "1e-3", 0.001),
        ("rate", "inf", float("inf")),
        ("label", "none", "none"),
        ("label", "a=b", "a=b"),
        ("eager", "true", True),
        ("eager", "false", False),
        ("mode", "slow", "slow"),
        ("most", "none", None),
        ("most", "3", 3),
        ("start", "none", None),
        ("start", "painter", Painter()),
        ("either", "auto", "auto"),
        ("either", "0.25", 0.25),
        ("sizes", "1+2", (1, 2)),
        ("helpers", "painter+painter", (Painter(), Painter())),
    ],
)
def test_values_are_converted_by_the_type_of_the_field(key: str, text: str, value: Any) -> None:
    made = make_backend("painter", {key: text})
    assert made == replace(Painter(), **{key: value})
    assert type(getattr(made, key)) is type(value)


def test_no_options_give_the_registered_value(painter: Painter) -> None:
    assert make_backend("painter") is painter
    assert parse_backend("painter") is painter


def test_a_text_names_a_backend_and_options() -> None:
    assert parse_backend("painter:steps=3,mode=slow") == Painter(steps=3, mode="slow")


def test_dotted_keys_set_options_of_the_backend_within() -> None:
    made = parse_backend("painter:start.steps=3,start=painter,start.start=painter,start.start.rate=2,steps=4")
    assert made == Painter(steps=4, start=Painter(steps=3, start=Painter(rate=2.0)))
    assert parse_backend("dp:forest=none,precision=int32").forest is None  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("paintre", ["no backend 'paintre'", "did you mean 'painter'?", "brute", "dp"]),
        ("zzz", ["no backend 'zzz'; there are: "]),
        ("painter:stesp=3", ["no option 'stesp'", "did you mean 'steps'?", "steps (a whole number, now 10)"]),
        (
            "painter:zzz=3",
            ["no option 'zzz'", "mode (fast or slow, now fast)", "eager (true or false, now false)"],
        ),
        ("painter:zzz=3", ["most (a whole number or none, now none)", "colour (red or blue, now red)"]),
        ("painter:zzz.x=3", ["no option 'zzz'", "start (the name of a backend or none, now none)"]),
        ("plain:x=1", ["'plain' has no option 'x'", "it has no options"]),
        ("painter:steps=many", ["'steps'", "cannot be 'many'", "a whole number"]),
        ("painter:rate=nan", ["cannot be 'nan'", "a number"]),
        ("painter:eager=1", ["true or false"]),
        ("painter:mode=Fast", ["fast or slow"]),
        ("painter:colour=green", ["red or blue"]),
        ("painter:most=x", ["a whole number or none"]),
        ("painter:start=paintre", ["no backend 'paintre'"]),
        ("painter:sizes=1+x", ["cannot be '1+x'", "a whole number, or several joined by +"]),
        ("painter:helpers=paintre", ["no backend 'paintre'"]),
        ("painter:odd=1", ["cannot be '1'"]),
        ("painter:steps=0", ["does not accept steps=0", "0 steps are too few"]),
        ("painter:start.steps=1", ["'start'", "holds no backend", "'start.steps' does not exist"]),
        ("painter:steps.x=1", ["'steps'", "holds no backend"]),
        ("painter:start=painter,start.steps=0", ["does not accept steps=0"]),
        ("painter:", ["'' is not a key=value pair"]),
        ("painter:steps", ["'steps' is not a key=value pair"]),
        ("painter:=3", ["'=3' is not a key=value pair"]),
        ("painter:steps=3,steps=4", ["'steps' is given twice"]),
    ],
)
def test_what_is_not_on_offer_is_refused_with_what_is(text: str, parts: list[str]) -> None:
    with pytest.raises(ChoiceError) as caught:
        parse_backend(text)
    for part in parts:
        assert part in str(caught.value)


def test_options_of_all_registered_backends_can_be_read_back() -> None:
    for name, backend in REGISTRY.items():
        if name == "painter":
            continue
        # A backend within is shown by its name alone: its own options may differ from the registered ones.
        assert shown_options(make_backend(name, shown_options(backend))) == shown_options(backend)


def test_options_are_shown_as_they_are_written() -> None:
    painter = Painter(start=Painter(), eager=True, colour=Colour.BLUE, helpers=(Painter(), Painter()))
    shown = {
        "start": "painter",
        "eager": "true",
        "colour": "blue",
        "most": "none",
        "helpers": "painter+painter",
    }
    assert shown.items() <= shown_options(painter).items()
