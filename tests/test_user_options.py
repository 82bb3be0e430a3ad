"""Options are declared once; the shell, Python and the estimators have them in their own words."""

from __future__ import annotations

import pickle
import re
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

import jtsolve as jt
from jtsolve import options
from jtsolve.cli import app
from jtsolve.errors import ChoiceError, InputError, RefusedError, at
from jtsolve.estimator import JunctionTreeClassifier, JunctionTreeDensity, JunctionTreeImputer
from jtsolve.options import MEMORY, SEED, Door, Option, worded
from jtsolve.tables.options import (
    DATA,
    DISCRETISE,
    DROP,
    HEADER,
    MISSING,
    MISSING_VALUES,
    SEPARATOR,
    STRICT,
)
from jtsolve.tables.reading import reading_of

ESTIMATORS = (JunctionTreeClassifier, JunctionTreeDensity, JunctionTreeImputer)
OWN_DEFAULTS = {"discretise": "quantile:4", "missing": "state", "missing_values": ()}
"""Defaults of estimators that differ from the table; see `docs/sklearn.md`."""


@pytest.mark.parametrize(
    ("reference", "spelled"),
    [
        (str(MEMORY), ("--memory-limit", "memory=", "memory=")),
        (str(DROP), ("--drop", "drop=", "X.drop(columns=…)")),
        (DROP(["a"]), ("--drop a", 'drop="a"', 'X.drop(columns="a")')),
        (
            DROP(["a b", "c,d"]),
            ("--drop 'a b,\"c,d\"'", 'drop=["a b", "c,d"]', 'X.drop(columns=["a b", "c,d"])'),
        ),
        (DROP(["it's"]), ("""--drop 'it'"'"'s'""", 'drop="it\'s"', 'X.drop(columns="it\'s")')),
        (DROP([""]), ("""--drop '""'""", 'drop=""', 'X.drop(columns="")')),
        (MISSING("state"), ("--missing state", 'missing="state"', 'missing="state"')),
        (DISCRETISE("mdlp:CLASS"), ("--discretise mdlp:CLASS", *2 * ('discretise="mdlp:CLASS"',))),
        (str(SEPARATOR), ("--read separator=", "separator=", "separator=")),
        (
            MISSING_VALUES(["-9", "a b"]),
            ("--read 'missing_values=-9,a b'", *2 * ('missing_values=["-9", "a b"]',)),
        ),
        (SEED(3), ("--seed 3", "seed=3", "random_state=3")),
        (str(HEADER), ("--read header=false", "header=False", "header=False")),
        (str(STRICT), ("--read strict=true", "strict=True", "strict=True")),
    ],
)
def test_each_door_has_its_own_spelling(reference: str, spelled: tuple[str, ...]) -> None:
    message = f"give {reference}, or do without"
    assert tuple(worded(message, door) for door in Door) == tuple(
        f"give {own}, or do without" for own in spelled
    )


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1), min_size=1))
def test_names_of_any_characters_end_where_their_value_ends(names: list[str]) -> None:
    for door in Door:
        said = worded(f"<{DROP(names)}>", door)
        assert said.startswith("<")
        assert said.endswith(">")
        assert not {"\x02", "\x03", "\x1f"} & set(said)


@given(st.text(st.sampled_from("\x02\x1f\x03ab")))
def test_text_resembling_a_reference_does_no_harm(text: str) -> None:
    assert str(ChoiceError(text)).isprintable()


def test_an_error_is_worded_where_it_is_printed_or_left_a_door() -> None:
    error = InputError("t.csv", "", "every row has some", f"give {MISSING('state')}")
    assert str(error) == 't.csv: every row has some. Fix: give missing="state".'
    with at(Door.SHELL):
        assert "--missing state" in str(error)
        assert "--missing state" in str(pickle.loads(pickle.dumps(error)))  # noqa: S301 - our own
    assert error.door is None

    @at(Door.ESTIMATOR)
    def refuse() -> None:
        raise RefusedError("dp", [f"Leave out {DROP(['a'])}."])

    with pytest.raises(RefusedError) as caught:
        refuse()
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own
    assert (
        str(again)
        == str(caught.value)
        == "backend 'dp' refuses this problem: Leave out X.drop(columns=\"a\")."
    )
    assert again.reasons == caught.value.reasons


def test_a_shell_ends_in_words_of_the_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from jtsolve.cli import run

    path = tmp_path / "t.csv"
    path.write_text("a,b\n0,1\n,0\n")
    assert run(["solve", str(path), "--treewidth", "1"], 0.0) == 2
    assert "--missing state" in capsys.readouterr().err
    with pytest.raises(InputError, match='missing="state"'):
        jt.learn(path, 1)


def test_advice_is_spelled_for_the_door_where_it_is_read() -> None:
    words = {"a": ["x", "y"] * 5, "b": ["u", "v"] * 5}
    with pytest.raises(InputError) as caught:
        jt.select(words)
    states = 'read states: score="bdeu", or for the selection of a graph kind="states"'
    assert str(caught.value).endswith(f'leave it out with drop="a", or {states}.')
    with at(Door.SHELL):
        caught.value.door = None
        assert "--score bdeu, or for the selection of a graph --kind states" in str(caught.value)
    with pytest.raises(ChoiceError, match=re.escape('name the variable: crosstab="NAME=A,B"')):
        jt.learn(words, crosstab=True)


def command_options(name: str) -> dict[str, Any]:
    found: Any = typer.main.get_command(app())
    return {option: one for one in found.commands[name].params for option in one.opts}


def test_limits_are_advised_by_their_options() -> None:
    package = Path(jt.__file__).parent
    words = re.compile(r"a smaller treewidth|lower the treewidth|(?:more|give|allow) time|larger limit\b[^:]")
    in_words = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if words.search(path.read_text(encoding="utf-8"))
    }
    # The note of a posterior is plain text; commands that ask a model have no such option.
    assert in_words == {"averaging/posterior.py", "models/layout.py"}
    assert worded(f"a smaller {options.TREEWIDTH}", Door.SHELL) == "a smaller --treewidth"
    assert worded(f"a smaller {options.TREEWIDTH}", Door.PYTHON) == "a smaller treewidth="


def test_every_option_is_one_of_a_command() -> None:
    commands: Any = typer.main.get_command(app())
    parameters = [parameter for one in commands.commands.values() for parameter in one.params]
    flags = {flag for parameter in parameters for flag in parameter.opts}
    assert {one.flag for one in vars(options).values() if isinstance(one, Option)} <= flags


@pytest.mark.parametrize("name", ["solve", "score", "fit", "average"])
def test_commands_have_all_options_of_data(name: str) -> None:
    own = command_options(name)
    for option in DATA:
        if option.within:
            assert re.search(rf"\b{option.name}\b", own[option.within].help)
        else:
            assert option.help.removesuffix(".") in own[option.flag].help


@pytest.mark.parametrize("option", DATA, ids=lambda option: option.name)
def test_python_has_every_option_and_its_default(option: Option) -> None:
    assert reading_of({option.name: option.default}) == reading_of({})


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_parameters_of_estimators_are_those_of_the_table(estimator: type) -> None:
    own = signature(estimator).parameters
    shared = [option for option in DATA if option.name in own]
    assert {"discretise", "states", "schema", "max_states", "decimal", "strict"} <= {
        one.name for one in shared
    }
    for option in shared:
        assert own[option.name].default == OWN_DEFAULTS.get(option.name, option.default)
        explained = f"{estimator.__doc__}{JunctionTreeDensity.__doc__}"  # to which the others refer
        assert re.search(rf"^ +{option.name}: ", explained, re.MULTILINE)
