"""Arguments of the Python functions, and of commands, turned into the values underneath."""

from __future__ import annotations

from contextlib import contextmanager
from functools import wraps
from inspect import Parameter, signature
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

from jtsolve.backends.registry import REGISTRY as BACKENDS
from jtsolve.console import display_here
from jtsolve.core.machine import allow_memory, cores, memory_bytes
from jtsolve.core.outputs import one_call
from jtsolve.core.run import LOGGER, Console, Limits, Run
from jtsolve.errors import ChoiceError, at, require_type
from jtsolve.options import (
    BACKEND,
    CONSTRAINTS,
    EXECUTOR,
    FORBID,
    MEMORY,
    REQUIRE,
    SEED,
    THREADS,
    TIME,
    TREEWIDTH,
    Door,
    Option,
    worded,
)
from jtsolve.scoring.registry import REGISTRY as SCORES
from jtsolve.study.restrictions import Restrictions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from jtsolve.cluster import Cluster
    from jtsolve.core.backend import Backend
    from jtsolve.scoring.score import ScoreFunction
    from jtsolve.study.data import Data
    from jtsolve.tables.frames import Frame

_Found = TypeVar("_Found")
SHOW_PROGRESS = Option("show_progress", bool, "Show progress; by default in terminals and notebooks.")
OF_TREE, LIMITS = (FORBID, REQUIRE, CONSTRAINTS), (TIME, MEMORY, THREADS, SHOW_PROGRESS)
OF_RUN = (*LIMITS, SEED)


class Given(SimpleNamespace):
    """The options of a call by their names; `reading` has those of data."""

    def run(self) -> Run:
        """Returns the run: messages are logged, progress is shown in terminals and notebooks."""
        most = memory_bytes(self.memory)
        allow_memory(most)
        limits = Limits(self.time, most, self.threads, vars(self).get("seed", SEED.default))
        return Run(limits, Console(display_here(wanted=self.show_progress), LOGGER.info))

    def restrictions(self) -> Restrictions:
        """Returns the constraints on the tree."""
        return Restrictions.given(self.forbid, self.require, self.constraints)


def with_options(
    *options: Option, reading: bool = False
) -> Callable[[Callable[..., _Found]], Callable[..., _Found]]:
    """Makes a function of `import jtsolve`: one call, with options of the table as keywords.

    The function takes them as its argument `given`. Signature and docstring list them in its place.

    Args:
        options: of the table.
        reading: whether any other keyword is an option of data, which `data_of` checks.
    """

    def decorate(function: Callable[..., _Found]) -> Callable[..., _Found]:
        own = signature(function)
        parameters = [one for one in own.parameters.values() if one.name != "given"]
        parameters += [Parameter(one.name, Parameter.KEYWORD_ONLY, default=one.default) for one in options]
        parameters += [Parameter("reading", Parameter.VAR_KEYWORD)] * reading
        whole = own.replace(parameters=parameters)

        @wraps(function)
        def called(*values: Any, **keywords: Any) -> _Found:
            bound = whole.bind(*values, **keywords)
            bound.apply_defaults()
            names = [*(one.name for one in options), *["reading"] * reading]
            given = Given(**{name: bound.arguments.pop(name) for name in names})
            with at(Door.PYTHON), one_call():
                for one in options:
                    require_type(one, vars(given)[one.name])
                return function(**bound.arguments, given=given)

        called.__signature__ = whole  # type: ignore[attr-defined]  # of `inspect`
        lines = [f"{one.name}: {worded(one.help, Door.PYTHON)}" for one in options]
        lines += ["reading: how the data are read: the options of data in docs/commands.md."] * reading
        before, _, after = (function.__doc__ or "").partition("given: options of the table.")
        indent = before[before.rfind("\n") :]
        called.__doc__ = f"{before}{indent.join(lines)}{after}"
        return called

    return decorate


def backend_of(given: str | Backend) -> Backend | None:
    """Returns the backend; None for `auto`.

    Raises:
        ChoiceError: there is none of that name, or `auto` is given options.
    """
    if isinstance(given, str) and given.startswith((f"{BACKEND.default}:", f"{BACKEND.default}(")):
        raise ChoiceError(f"'{BACKEND.default}' has no options; name a backend: {BACKEND('NAME:OPTIONS')}")
    return None if given == BACKEND.default else BACKENDS.chosen(given, "capabilities")


def data_score(given: str | ScoreFunction | None, data: Data, usual: str) -> ScoreFunction:
    """Returns the score of data.

    Args:
        given: the score or its name; None for the default.
        data: to score; the default of a covariance is Gaussian.
        usual: the default of rows.
    """
    from jtsolve.study.data import COVARIANCE_SCORE

    default = usual if data.reading.rows is None else COVARIANCE_SCORE
    return SCORES.chosen(default if given is None else given, "name")


def treewidth_of(given: Any) -> int | None:
    """Returns a treewidth given as any whole number from 0 on, or None.

    Raises:
        ChoiceError: it is not.
    """
    require_type(TREEWIDTH, given)
    if given is not None and given < 0:
        raise ChoiceError(f"the treewidth is {given}; give a number of 0 or more")
    return given if given is None else int(given)


def data_of(source: Frame, reading: Mapping[str, Any], cluster: Cluster | None) -> Data:
    """Returns data, with the options of `tables.options.DATA` by their names.

    Args:
        source: a file or a frame; None for a covariance.
        reading: options by name.
        cluster: counts the data, if any.

    Raises:
        ChoiceError: an option is invalid, or there are neither data nor a covariance, or both.
    """
    from jtsolve.study.data import Data
    from jtsolve.tables.crosstab import counts_in_rows
    from jtsolve.tables.reading import reading_of

    covariance = reading.get("covariance")
    if covariance is not None and not isinstance(covariance, bool):
        if source is not None:
            raise ChoiceError("data and covariance are alternatives; give one of the two")
        source, reading = covariance, {**reading, "covariance": True}
    if source is None:
        raise ChoiceError("there are no data; give them, or covariance= and rows=")
    if reading.get("covariance"):
        return Data(source, reading_of(reading), cluster)
    source, reading = counts_in_rows(source, reading)
    return Data(source, reading_of(reading), cluster)


@contextmanager
def held_cluster(executor: Any, threads: int | None, data: Frame | None = None) -> Iterator[Cluster | None]:
    """Yields the connected cluster that counts the data; None for this process.

    Args:
        executor: see `jtsolve.learn`.
        threads: workers of a cluster on this machine; None for one a core.
        data: a Dask DataFrame is counted by the client of Dask; None for no data.

    Raises:
        ChoiceError: a Dask DataFrame has no client.
    """
    from jtsolve.tables.partitions import is_dask_frame

    is_local = executor in (None, EXECUTOR.default)
    if is_local and (data is None or not is_dask_frame(data)):
        yield None
        return
    from jtsolve.cluster import Cluster, default_client

    if isinstance(executor, str) and not is_local:
        cluster = Cluster.named(executor, threads or cores())
    else:
        cluster = Cluster(client=default_client() if is_local else executor)
    with cluster.held() as held:
        yield held
