"""Arguments of the Python functions, turned into the values underneath."""

from __future__ import annotations

from contextlib import contextmanager
from numbers import Integral
from typing import TYPE_CHECKING, Any

from jtsolve.backends.registry import REGISTRY as BACKENDS
from jtsolve.console import display_here
from jtsolve.core.machine import allow_memory, cores, memory_bytes
from jtsolve.core.run import LOGGER, Console, Limits, Run
from jtsolve.errors import ChoiceError
from jtsolve.options import BACKEND, EXECUTOR
from jtsolve.scoring.registry import REGISTRY as SCORES
from jtsolve.study.kinds import MODELS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jtsolve.cluster import Cluster
    from jtsolve.core.backend import Backend
    from jtsolve.models.learning.task import ModelKind
    from jtsolve.scoring.score import ScoreFunction
    from jtsolve.study.data import Data
    from jtsolve.tables.frames import Frame


def run_of(
    time: float | None,
    memory: float | None,
    threads: int | None,
    seed: int,
    show_progress: bool | None,  # noqa: FBT001 - as the public functions have it
) -> Run:
    """Returns the run of a Python call: messages are logged, progress is shown in terminals and notebooks.

    Args:
        time: limit in seconds.
        memory: limit in GB.
        threads: maximum number.
        seed: for everything random.
        show_progress: see `console.display_here`.
    """
    most = memory_bytes(memory)
    allow_memory(most)
    return Run(Limits(time, most, threads, seed), Console(display_here(wanted=show_progress), LOGGER.info))


def backend_of(given: str | Backend) -> Backend | None:
    """Returns the backend; None for `auto`.

    Raises:
        ChoiceError: there is none of that name, or `auto` is given options.
    """
    if isinstance(given, str) and given.startswith((f"{BACKEND.default}:", f"{BACKEND.default}(")):
        raise ChoiceError(f"'{BACKEND.default}' has no options; name a backend: {BACKEND('NAME:OPTIONS')}")
    return None if given == BACKEND.default else BACKENDS.chosen(given, "capabilities")


def score_argument(given: str | ScoreFunction) -> ScoreFunction:
    """Returns the score."""
    return SCORES.chosen(given, "name")


def data_score(given: str | ScoreFunction | None, data: Data, usual: str) -> ScoreFunction:
    """Returns the score of data.

    Args:
        given: the score or its name; None for the default.
        data: to score; the default of a covariance is Gaussian.
        usual: the default of rows.
    """
    from jtsolve.study.data import COVARIANCE_SCORE

    default = usual if data.reading.rows is None else COVARIANCE_SCORE
    return score_argument(default if given is None else given)


def model_kind_of(given: str | ModelKind) -> ModelKind:
    """Returns the kind of model."""
    return MODELS.chosen(given, "fit")


def treewidth_of(given: Any) -> int | None:
    """Returns a treewidth given as any whole number from 0 on, or None.

    Raises:
        ChoiceError: it is not.
    """
    if given is not None and (isinstance(given, bool) or not isinstance(given, Integral)):
        raise ChoiceError(f"treewidth={given!r} is not a whole number; give one, or None for no bound")
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
