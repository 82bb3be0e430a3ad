"""What several test modules share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tally import Tally


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared data beside the repository; tests that need it are skipped without it."""
    folder = Path(__file__).parents[2] / "shared"
    if not folder.is_dir():
        if os.environ.get("CI"):
            pytest.fail(f"{folder} is missing, and CI must run the tests that need it")
        pytest.skip(f"{folder} is missing: the data of DESIGN, section 5, are not beside this checkout")
    return folder


TALLY = pytest.StashKey[Tally]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TALLY] = Tally()


@pytest.fixture(scope="session")
def tally(request: pytest.FixtureRequest) -> Tally:
    """Counts what each backend ran and refused, for the table at the end of the run."""
    return request.config.stash[TALLY]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.stash[TALLY].counts:
        terminalreporter.section("contract: backends")
        for line in config.stash[TALLY].lines():
            terminalreporter.line(line)
