"""Tasks on a Dask cluster: workers on this machine, or those of a scheduler that the user names.

The operations of Dask that several parts of the package share: connecting, comparing versions, waiting such
that Ctrl-C cancels unfinished work, and summing over many tasks by a tree. Workers on this machine listen on
the loopback interface only, accept connections with the certificate of this run only, and serve no pages; for
a dashboard, start `dask scheduler` and name its address. Encryption is Dask's own: an address `tls://…` with
the files that Dask's configuration names.

Reference: M. Rocklin, Dask: parallel computation with blocked algorithms and task scheduling, SciPy 2015.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import logging
import signal
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from multiprocessing import resource_tracker
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from jtsolve.errors import ChoiceError, LimitError, no_such
from jtsolve.options import EXECUTOR, THREADS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    Future = Any
    """Dask's: a task on the cluster, and its result."""

_PATIENCE = 60.0
"""Seconds until a worker that died has started again. A sixth is the time for a scheduler to answer or to
have a worker, and the polling interval for worker liveness."""
_PULSE = 0.02
"""Polling interval for finished tasks, in seconds."""
_FAN_IN = 8
"""Summands of one task of a summation tree."""


class ClusterLostError(LimitError):
    """The scheduler is lost, with all results not yet fetched."""


class WorkersLostError(LimitError):
    """All workers with a task's data have died."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where tasks run.

    Args:
        address: of a scheduler; None starts workers on this machine.
        workers: on this machine, processes of one thread each.
        client: a client of Dask to use in place of either; it is left open.
        patience: seconds until a worker that died has started again.
        connection: that `held` keeps; None outside its body.
    """

    address: str | None = None
    workers: int = 1
    client: Any = None
    patience: float = _PATIENCE
    connection: Workers | None = field(default=None, repr=False, compare=False)

    @classmethod
    def named(cls, name: str, workers: int) -> Cluster:
        """Returns the cluster that "dask" or "dask=ADDRESS" stands for.

        Raises:
            ChoiceError: it stands for none, or Dask is not installed.

        >>> Cluster.named("dask=tcp://127.0.0.1:8786", 2).address
        'tcp://127.0.0.1:8786'
        """
        kind, _, address = name.partition("=")
        if kind != "dask":
            raise ChoiceError(no_such("executor", name, ("local", "dask", "dask=ADDRESS")))
        for package in ("distributed", "cryptography"):
            if importlib.util.find_spec(package) is None:
                raise ChoiceError(
                    f"the executor dask needs the package '{package}', which is not installed; "
                    "pip install 'jtsolve[dask]'"
                )
        return cls(address or None, workers)

    @contextmanager
    def connected(self) -> Iterator[Workers]:
        """Yields the workers, after checking that they run the versions of this process.

        Raises:
            ChoiceError: there is no scheduler at the address, it has no workers, or they run other versions.
        """
        if self.connection is not None:
            yield self.connection
            return
        if self.client is not None:
            yield _checked(Workers(self.client, self.patience), "of the client")
            return
        dask = _distributed()
        if self.address is None:
            with local_workers(self.workers) as workers:
                yield workers
            return
        # The client logs a lost scheduler with its traceback; `lost` reports it, once.
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        client, reason = None, ""
        try:
            client = dask.Client(self.address, timeout=self.patience / 6)
        except (OSError, ValueError, TypeError) as error:  # TypeError: encryption without its files
            reason = str(error)
        if client is None:
            # Its threads end when it is collected, which otherwise may happen during the start of the next
            # client, where both wait for the same lock.
            gc.collect()
            raise ChoiceError(
                f"there is no Dask scheduler at '{self.address}' ({reason}); start one with 'dask "
                "scheduler', or check the address, and the TLS files in Dask's configuration"
            )
        with client:
            yield _checked(Workers(client, self.patience), f"at '{self.address}'")

    @contextmanager
    def held(self) -> Iterator[Cluster]:
        """Yields this cluster with one connection for all uses in the body; raises as `connected`."""
        with self.connected() as workers:
            yield replace(self, connection=workers)

    def __reduce__(self) -> tuple[type[Cluster], tuple[str | None, int, None, float]]:
        """Returns the cluster for another process, where it has no connection."""
        return Cluster, (self.address, self.workers, None, self.patience)


@dataclass(frozen=True, slots=True, eq=False)
class Workers:
    """A connection to workers.

    Args:
        client: Dask's.
        patience: see `Cluster`.
    """

    client: Any
    patience: float = _PATIENCE

    @contextmanager
    def translated_errors(self) -> Iterator[None]:
        """Translates the errors of Dask calls whose scheduler does not answer.

        Raises:
            ClusterLostError: the scheduler cannot be reached.
        """
        try:
            yield
        except OSError:
            raise lost() from None
        except Exception:  # of various types, of a client that stopped trying
            if self.client.status == "running":
                raise
            raise lost() from None

    @property
    def threads(self) -> int:
        """The number of tasks that run at a time.

        Raises:
            ClusterLostError: the scheduler is lost.
        """
        with self.translated_errors():
            return max(1, sum(map(int, self.client.nthreads().values())))

    def memory(self, free: int) -> float:
        """Returns the bytes available to a task on the smallest worker.

        Args:
            free: the memory of this machine, for workers on it, which have no limit of their own.
        """
        known = self.known
        limits = [
            (facts.get("memory_limit") or free / len(known)) / facts["nthreads"] for facts in known.values()
        ]
        return min(limits, default=float(free))

    @property
    def _has_workers(self) -> bool:
        """Whether the scheduler has workers.

        Raises:
            ClusterLostError: it is lost.
        """
        with self.translated_errors():
            if self.client.status == "running":
                return bool(self.client.nthreads())
        raise lost()

    @property
    def known(self) -> dict[str, Any]:
        """The scheduler's record of each worker."""
        return dict(self.client.scheduler_info(n_workers=-1)["workers"])

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future:
        """Returns the future of a call, which awaits the futures among its arguments.

        Raises:
            ClusterLostError: the scheduler is lost.
        """
        if self.client.status in ("closing", "closed"):
            raise lost()
        return self.client.submit(function, *arguments, pure=False)

    def share(self, value: Any) -> Future:
        """Returns a future that stands for a value in the arguments of `submit`, sent once to each worker.

        Where all workers have just died, it waits up to a minute for one to start again.

        Args:
            value: can be pickled.

        Raises:
            ClusterLostError: the scheduler is lost.
            WorkersLostError: no worker has started.
        """
        end = monotonic() + self.patience
        while True:
            with self.translated_errors():
                try:
                    # Dask would make a future of each member of a tuple.
                    most = max(1, self.patience)
                    return self.client.scatter([value], broadcast=True, hash=False, timeout=most)[0]
                # Dask's errors when a worker was lost, or none is connected.
                except (ValueError, KeyError, TimeoutError):
                    if monotonic() >= end:
                        raise self._loss() from None
                    sleep(_PULSE)

    def as_completed(
        self, futures: Sequence[Future], stop: Callable[[], bool] = lambda: False
    ) -> Generator[Future, None, None]:
        """Yields futures as they finish or fail; leaving early, as by Ctrl-C, cancels the others.

        Args:
            futures: at most once each.
            stop: polled until a future finishes; True leaves early.

        Raises:
            ClusterLostError: the scheduler is lost, or there have been no workers for a minute.
            WorkersLostError: all workers with a task's data have died.
        """
        left = {future.key: future for future in futures}
        finished = _distributed().as_completed(list(futures))
        polled = manned = monotonic()
        try:
            while not finished.is_empty():
                if not finished.has_ready():
                    if stop():
                        return
                    now = monotonic()
                    if now - polled > self.patience / 6:
                        polled, manned = now, now if self._has_workers else manned
                        if now - manned > self.patience:
                            raise lost()
                    sleep(_PULSE)
                    continue
                future = next(finished)
                if future.cancelled():
                    raise self._loss()
                del left[future.key]
                yield future
        finally:
            if left and self.client.status == "running":
                self.cancel(list(left.values()))

    def cancel(self, futures: Sequence[Future]) -> None:
        """Cancels tasks that have not started, and forgets results; without the scheduler there are none."""
        with suppress(ClusterLostError), self.translated_errors():
            self.client.cancel(futures)

    def result_of(self, future: Future) -> Any:
        """Returns the result of a future that has finished.

        Raises:
            ClusterLostError, WorkersLostError: as `as_completed`.
            Exception: the exception of the task.
        """
        if future.status == "error":
            if _is_killed(future.exception()):
                raise _deaths()
            return future.result()
        try:
            with self.translated_errors():
                return future.result()
        except CancelledError:
            raise self._loss() from None

    def _loss(self) -> LimitError:
        """Returns the error of a task that Dask cancelled by itself."""
        try:
            _ = self._has_workers
        except ClusterLostError as error:
            return error
        return _deaths()

    def result(self, future: Future) -> Any:
        """Returns the result of one future, waiting for it; Ctrl-C cancels it.

        Raises:
            ClusterLostError, WorkersLostError: as `as_completed`.
            Exception: the exception of the task.
        """
        for finished in self.as_completed([future]):
            return self.result_of(finished)
        raise lost()

    def total(self, parts: Sequence[Future], add: Callable[[list[Any]], Any]) -> Future:
        """Returns the future of a sum of at least one part, added up on the workers by a tree."""
        level = list(parts)
        while len(level) > 1:
            groups = [level[at : at + _FAN_IN] for at in range(0, len(level), _FAN_IN)]
            level = [group[0] if len(group) == 1 else self.submit(add, group) for group in groups]
        return level[0]


@contextmanager
def local_workers(count: int, *, processes: bool = True) -> Iterator[Workers]:
    """Yields workers on this machine, of one thread each, in separate processes or in this one.

    Raises:
        ClusterLostError: they do not start.
    """
    dask = _distributed()
    # Dask listens for browsers even without a dashboard: no page is there, and soon no port. It gives up a
    # worker that has not started again within 15 s, which on a busy machine is too soon.
    settings: dict[str, Any] = {
        **{f"distributed.{side}.http.routes": [] for side in ("scheduler", "worker")},
        "distributed.deploy.lost-worker-timeout": 10 * _PATIENCE,
        "distributed.worker.profile.enabled": False,  # samples every task a hundred times a second
        # Figures for pages, fifty times a second in each process: 8 % of a core with two workers, else 1 %.
        "distributed.admin.tick.interval": "10s",
        "distributed.admin.system-monitor.interval": "10s",
    }
    with ExitStack() as stack:
        stack.enter_context(importlib.import_module("dask").config.set(settings))
        try:
            with _sigint_blocked():
                cluster = dask.LocalCluster(
                    n_workers=count,
                    threads_per_worker=1,
                    processes=processes,
                    # Without it, every user of this machine could run code as this one.
                    security=dask.Security.temporary() if processes else None,
                    dashboard_address=None,
                    scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
                    memory_limit=0,
                    silence_logs=logging.CRITICAL,  # not how workers end: slowly, or with a traceback
                )
        except (OSError, RuntimeError, TimeoutError) as error:
            raise ClusterLostError(
                f"Dask cannot start workers on this machine: {error}. Fix: request fewer of them with "
                f"{THREADS}, or leave out {EXECUTOR}"
            ) from error
        stack.enter_context(cluster)
        client = stack.enter_context(dask.Client(cluster))
        client.run_on_scheduler(_close_pages)
        client.run(_close_pages)
        yield Workers(client)


@contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Blocks SIGINT in child processes started in the body, and later by threads started there.

    A terminal sends Ctrl-C to all processes; it is meant for this one, which receives it after the body.
    """
    resource_tracker.ensure_running()  # its start, with the first process, would end the block
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def lost_memory(error: BaseException) -> bool:
    """Returns whether a task ran out of memory: by its own error, or by the death of its workers."""
    return isinstance(error, MemoryError | WorkersLostError) or _is_killed(error)


def _is_killed(error: BaseException) -> bool:
    """Returns whether Dask abandoned a task because workers died during it."""
    return type(error).__name__ == "KilledWorker"


def _deaths() -> WorkersLostError:
    """Returns the error of a task whose workers have died."""
    return WorkersLostError(
        "all Dask workers with a task's data have died, probably because memory ran out; give them "
        "more memory, or start more of them"
    )


def lost() -> ClusterLostError:
    """Returns the error of a cluster without its scheduler, or without workers for good."""
    return ClusterLostError(
        "the Dask cluster has lost its tasks: its scheduler or all its workers have ended, or cannot be "
        "reached. Start them again, and repeat the call"
    )


def _distributed() -> Any:
    """Returns the package, which is an extra, slow to load, and untyped."""
    return importlib.import_module("distributed")


def default_client() -> Any:
    """Returns Dask's default client.

    Raises:
        ChoiceError: there is none.
    """
    try:
        return _distributed().default_client()
    except ValueError:
        raise ChoiceError(
            f"a Dask DataFrame needs a client of Dask; make one, or give {EXECUTOR('dask')}"
        ) from None


def _close_pages(dask_scheduler: Any = None, dask_worker: Any = None) -> None:
    """Closes the port for browsers; called on the scheduler or a worker, which Dask passes by these names."""
    (dask_worker if dask_scheduler is None else dask_scheduler).http_server.stop()


def _checked(workers: Workers, place: str) -> Workers:
    """Returns the workers if there are any, all with the versions of this process.

    Raises:
        ChoiceError: there are none, or one has others.
    """
    client = workers.client
    with workers.translated_errors():
        try:
            client.wait_for_workers(1, timeout=workers.patience / 6)
        except TimeoutError:
            raise ChoiceError(
                f"the Dask scheduler {place} has no workers; start some with 'dask worker'"
            ) from None
        known = client.get_versions(packages=["jtsolve"])
    ours = _versions(known["client"])
    for address, facts in sorted(known["workers"].items()):
        theirs = _versions(facts)
        if theirs != ours:
            raise ChoiceError(
                f"the Dask worker {address} has {_in_words(theirs)}, but here is {_in_words(ours)}; install "
                "the same versions there"
            )
    return workers


def _versions(facts: Mapping[str, Any]) -> tuple[str, str | None]:
    """Returns the versions of Python, without the third number, and of this package; None if it is absent."""
    return ".".join(facts["host"]["python"].split(".")[:2]), facts["packages"]["jtsolve"]


def _in_words(versions: tuple[str, str | None]) -> str:
    python, package = versions
    return f"Python {python} and {'no jtsolve' if package is None else f'jtsolve {package}'}"
