"""Many runs on a Dask cluster, each supervised by its worker, so that the limits hold there too.

When a worker dies, Dask gives its run to another; a run during which several workers have died gets a row as
a crash.
"""

from __future__ import annotations

import importlib
import importlib.util
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jtsolve.compare.running.supervise import PROGRAM, Watcher, supervise
from jtsolve.compare.spec import Row, RunStatus, Spec, new_row
from jtsolve.errors import ChoiceError, LimitError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True, slots=True)
class DaskExecutor:
    """Runs on a Dask cluster.

    Args:
        address: of the scheduler; None starts a cluster on this machine.
        jobs: workers of a cluster on this machine, each with one run at a time.
        program: the command; for tests.
    """

    address: str | None
    jobs: int
    program: tuple[str, ...] = PROGRAM

    def execute(self, specs: Sequence[Spec], watcher: Watcher) -> None:
        """See `local.Executor`. Runs already started on other machines end there by their own limits."""
        as_completed = _distributed().as_completed

        with self._client() as client:
            futures = {}
            for spec in specs:
                future = client.submit(_work, spec, self.program, key=f"jtsolve-{spec.id}", pure=False)
                futures[future.key] = (spec, future)
            failures: list[BaseException] = []

            def collect() -> None:
                try:
                    for future in as_completed([future for _, future in futures.values()]):
                        watcher.finished(_row_of(future, futures[future.key][0]))
                except BaseException as error:  # noqa: BLE001 - raised again in the main thread
                    failures.append(error)

            # In another thread: a Ctrl-C interrupts the main thread, and could lose a finished row there.
            collector = threading.Thread(target=collect, daemon=True)
            collector.start()
            try:
                while collector.is_alive():
                    collector.join(0.1)
            finally:
                if collector.is_alive():
                    client.cancel([future for _, future in futures.values()])
            if failures:
                raise failures[0]

    @contextmanager
    def _client(self) -> Iterator[Any]:
        """Yields a client of the cluster."""
        dask = _distributed()
        if self.address is None:
            # Dask listens for browsers even without a dashboard: no page is there, and soon no port.
            nothing: dict[str, list[str]] = {
                f"distributed.{side}.http.routes": [] for side in ("scheduler", "worker")
            }
            with (
                importlib.import_module("dask").config.set(nothing),
                dask.LocalCluster(
                    n_workers=self.jobs, threads_per_worker=1, dashboard_address=None, memory_limit=0
                ) as cluster,
                dask.Client(cluster) as client,
            ):
                client.run_on_scheduler(_close_pages)
                client.run(_close_pages)
                yield client
            return
        try:
            client = dask.Client(self.address, timeout=10)
        except (OSError, ValueError) as error:
            raise ChoiceError(
                f"there is no Dask scheduler at '{self.address}' ({error}); start one with 'dask scheduler', "
                "or check the address"
            ) from None
        with client:
            yield client


def _distributed() -> Any:
    """Returns the package, which is an extra, slow to load, and untyped."""
    return importlib.import_module("distributed")


def require_dask() -> None:
    """Refuses the executor if Dask is not installed.

    Raises:
        ChoiceError: it is not installed.
    """
    if importlib.util.find_spec("distributed") is None:
        raise ChoiceError(
            "the executor dask needs the package 'distributed', which is not installed; "
            "pip install 'jtsolve[dask]'"
        )


def _close_pages(dask_scheduler: Any = None, dask_worker: Any = None) -> None:
    """Closes the port for browsers; called on the scheduler or a worker, which Dask passes by these names."""
    (dask_worker if dask_scheduler is None else dask_scheduler).http_server.stop()


def _work(spec: Spec, program: tuple[str, ...]) -> Row:
    """Does a run; called on a worker."""
    row = supervise(spec, program=program)
    assert row is not None, "nothing cancels it here"
    return row


def _row_of(future: Any, spec: Spec) -> Row:
    """Returns the row of a future; it is a crash if the workers died."""
    if future.cancelled():
        raise LimitError(
            "the Dask cluster has lost its runs; start it again, and the comparison with --resume"
        )
    error = future.exception()
    if error is None:
        row: Row = future.result()
        return row
    return new_row(spec, RunStatus.CRASHED, f"{type(error).__name__}: {error}")
