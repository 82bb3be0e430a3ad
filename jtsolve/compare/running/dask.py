"""Many runs on a Dask cluster, each supervised by its worker, so that the limits hold there too.

When a worker dies, Dask gives its run to another; a run during which several workers have died gets a row as
a crash.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jtsolve.compare.running.supervise import PROGRAM, Watcher, supervise
from jtsolve.compare.spec import Row, RunStatus, Spec, new_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.cluster import Cluster, Future, Workers


@dataclass(frozen=True, slots=True)
class DaskExecutor:
    """Runs on a Dask cluster.

    Args:
        cluster: where; each worker on this machine has one run at a time.
        program: the command; for tests.
    """

    cluster: Cluster
    program: tuple[str, ...] = PROGRAM

    def execute(self, specs: Sequence[Spec], watcher: Watcher) -> None:
        """See `local.Executor`. Runs already started on other machines end there by their own limits."""
        with self.cluster.connected() as workers:
            futures = {}
            for spec in specs:
                future = workers.submit(_work, spec, self.program, key=f"jtsolve-{spec.id}")
                futures[future.key] = (spec, future)
            failures: list[BaseException] = []

            def collect() -> None:
                try:
                    for future in workers.as_completed([future for _, future in futures.values()]):
                        watcher.finished(_row_of(workers, future, futures[future.key][0]))
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
                    workers.cancel([future for _, future in futures.values()])
            if failures:
                raise failures[0]


def _work(spec: Spec, program: tuple[str, ...]) -> Row:
    """Does a run; called on a worker."""
    row = supervise(spec, program=program)
    assert row is not None, "nothing cancels it here"
    return row


def _row_of(workers: Workers, future: Future, spec: Spec) -> Row:
    """Returns the row of a future; it is a crash if the workers died."""
    error = future.exception()
    if error is None:
        row: Row = workers.result_of(future)
        return row
    return new_row(spec, RunStatus.CRASHED, f"{type(error).__name__}: {error}")
