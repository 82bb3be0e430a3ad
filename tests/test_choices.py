"""Choices from texts, and texts of choices: backends, and the values of a registry made here."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Optional

import pytest

from jtsolve.backends.registry import REGISTRY
from jtsolve.core.backend import Backend, Capabilities, Estimate, Report
from jtsolve.core.choices import Entry, Registry
from jtsolve.errors import ChoiceError
from jtsolve.scoring.registry import REGISTRY as SCORES

if TYPE_CHECKING:
    from typing import TypeAlias

    from jtsolve.core.problem import Problem
    from jtsolve.core.result import Outcome
    from jtsolve.core.run import Limits

    Cuts: TypeAlias = object
    Unknown: TypeAlias = object


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
        ("sizes", "1,2", (1, 2)),
        ("sizes", "none", ()),
        ("label", "a,b", "a,b"),
        ("helpers", "painter+painter", (Painter(), Painter())),
        (
            "helpers",
            "painter(steps=3,mode=slow)+painter:steps=4",
            (Painter(steps=3, mode="slow"), Painter(steps=4)),
        ),
        ("start", "painter(start=painter(steps=3))", Painter(start=Painter(steps=3))),
    ],
)
def test_values_are_converted_by_the_type_of_the_field(key: str, text: str, value: Any) -> None:
    made = REGISTRY.with_options(REGISTRY["painter"], {key: text})
    assert made == replace(Painter(), **{key: value})
    assert type(getattr(made, key)) is type(value)


def test_no_options_give_the_registered_value(painter: Painter) -> None:
    assert REGISTRY.parse("painter") is painter


def test_a_text_names_a_backend_and_options() -> None:
    assert REGISTRY.parse("painter:steps=3,mode=slow") == Painter(steps=3, mode="slow")


def test_dotted_keys_set_options_of_the_backend_within() -> None:
    made = REGISTRY.parse(
        "painter:start.steps=3,start=painter,start.start=painter,start.start.rate=2,steps=4"
    )
    assert made == Painter(steps=4, start=Painter(steps=3, start=Painter(rate=2.0)))
    assert REGISTRY.parse("dp:forest=none,precision=int32").forest is None  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("paintre", ["no backend 'paintre'", "did you mean 'painter'?", "brute", "dp"]),
        ("zzz", ["no backend 'zzz'; there are: "]),
        ("PAINTER", ["did you mean 'painter'?"]),
        ("painter:Steps=3", ["no option 'Steps'", "did you mean 'steps'?"]),
        ("painter(steps=3", ["'painter(steps=3' does not end with a closing parenthesis"]),
        ("painter:helpers=painter(steps=3", ["parentheses", "not balanced"]),
        ("painter:steps=3,4", ["cannot be '3,4'", "a whole number"]),
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
def test_unknown_choices_are_refused_with_the_known_ones(text: str, parts: list[str]) -> None:
    with pytest.raises(ChoiceError) as caught:
        REGISTRY.parse(text)
    for part in parts:
        assert part in str(caught.value)


@dataclass(frozen=True, slots=True)
class Quantile:
    """Ranges with equally many rows.

    Args:
        bins: how many,
            before ties.
        columns: of the table; empty for all.
    """

    bins: int = 4
    columns: tuple[str, ...] = ()

    name: ClassVar[str] = "quantile"
    main: ClassVar[str] = "bins"


@dataclass(frozen=True, slots=True)
class Mdlp:
    """Cuts by a class.

    Args:
        target: the class column.
    """

    target: str
    then: Cuts | None = None
    odd: Unknown | None = None

    name: ClassVar[str] = "mdlp"
    main: ClassVar[str] = "target"


CUTS: Registry[Any] = Registry(
    "cut",
    {
        "quantile": Entry(f"{__name__}:Quantile"),
        "mdlp": Entry(f"{__name__}:Mdlp"),
        "mdlp-class": Entry(f"{__name__}:Mdlp", "target=class"),
    },
    annotations=("Cuts",),
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("quantile", Quantile()),
        ("quantile:5", Quantile(5)),
        ("quantile:5,columns=a,b", Quantile(5, ("a", "b"))),
        ("quantile:columns=a,b,bins=2", Quantile(2, ("a", "b"))),
        ("mdlp:CLASS", Mdlp("CLASS")),
        ("mdlp:a=b", None),
        ("mdlp(target=a=b)", Mdlp("a=b")),
        ("mdlp:x,then=quantile(2,columns=a+b)", Mdlp("x", Quantile(2, ("a", "b")))),
        ("mdlp:x,then=quantile:2", Mdlp("x", Quantile(2))),
        ("mdlp:x,then=mdlp,then.target=y", None),
        ("mdlp:x,then=mdlp:y,then.target=z", Mdlp("x", Mdlp("z"))),
        ("quantile:5,bins=6", None),
        ("quantile:bins=5,bins=6", None),
        ("mdlp", None),
        ("mdlp:x,odd=3", None),
    ],
)
def test_one_item_may_set_the_main_option_and_others_continue_values(text: str, value: Any) -> None:
    if value is None:
        with pytest.raises(ChoiceError):
            CUTS.parse(text)
    else:
        assert CUTS.parse(text) == value


def test_an_option_without_a_default_has_to_be_given() -> None:
    for call in (CUTS.parse, CUTS.find, CUTS.__getitem__):
        with pytest.raises(
            ChoiceError, match="cut 'mdlp' needs the option 'target', a text; write mdlp:target="
        ):
            call("mdlp")
    assert CUTS["mdlp-class"] == Mdlp("class")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Quantile(), "quantile"),
        (Quantile(5), "quantile(bins=5)"),
        (Quantile(5, ("a", "b")), "quantile(bins=5,columns=a+b)"),
        (Mdlp("x", Mdlp("y", Quantile(2))), "mdlp(target=x,then=mdlp(target=y,then=quantile(bins=2)))"),
        (Mdlp("a=b"), "mdlp(target=a=b)"),
    ],
)
def test_the_text_of_a_value_describes_it(value: Any, text: str) -> None:
    assert CUTS.text_of(value) == text


def test_texts_of_registered_backends_and_their_options_can_be_read_back() -> None:
    for name, backend in REGISTRY.items():
        assert REGISTRY.text_of(backend) == name
        if name != "painter":
            options = {option.name: option.default or "" for option in REGISTRY.describe(name).options}
            assert not options or REGISTRY.with_options(backend, options) == backend
    painter = Painter(
        start=Painter(steps=2, start=Painter()), either=0.5, helpers=(Painter(steps=3), Painter())
    )
    assert REGISTRY.parse(REGISTRY.text_of(painter)) == painter


def test_a_description_has_types_defaults_and_meanings() -> None:
    about = CUTS.describe("quantile")
    assert about == CUTS.describe(Quantile())
    assert about[:2] == ("quantile", "Ranges with equally many rows.")
    assert about.options == (
        ("bins", "a whole number", "4", "How many, before ties."),
        ("columns", "a text, or several joined by +", "none", "Of the table; empty for all."),
    )
    target, then, odd = CUTS.describe("mdlp").options
    assert target == ("target", "a text", None, "The class column.")
    assert then == ("then", "the name of a cut or none", "none", "")
    assert odd.values == "a value of type Unknown, in Python only or none"


def test_texts_name_no_files_to_write() -> None:
    for text in ("clutter:certificate=a", "lns:exact=clutter,exact.certificate=a"):
        with pytest.raises(ChoiceError, match="has no option 'certificate'"):
            REGISTRY.parse(text)


@pytest.mark.parametrize("registry", [REGISTRY, SCORES])
def test_values_have_the_names_of_their_entries_and_describe_all_options(registry: Registry[Any]) -> None:
    for name, value in registry.items():
        assert value.name == name
        if name not in ("painter", "plain"):
            assert all(option.meaning for option in registry.describe(name).options)


def test_a_value_is_imported_when_it_is_used() -> None:
    program = (
        "import sys\n"
        "from jtsolve.backends.registry import REGISTRY\n"
        "def loaded(): return {m.split('.')[2] for m in sys.modules if m.startswith('jtsolve.backends.')}\n"
        "assert len(REGISTRY) > 9 and 'dp' in REGISTRY and loaded() == {'registry'}, loaded()\n"
        "REGISTRY.parse('dp')\n"
        "assert loaded() == {'registry', 'support', 'dp', 'forward', 'chowliu'}, loaded()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)  # noqa: S603 - our own program
