"""Many runs on a Dask cluster, each supervised by its worker, so that the limits hold there too.

When a worker dies, Dask repeats its run on another; a run that several workers did not survive counts as
crashed.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jtsolve.compare.running.supervise import PROGRAM, supervise
from jtsolve.compare.spec import Row, RunStatus, Spec, new_row

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jtsolve.cluster import Cluster, Future, Workers


@dataclass(frozen=True, slots=True)
class DaskExecutor:
    """Runs on a Dask cluster.

    Args:
        cluster: its workers on this machine have one run at a time.
        program: the command; for tests.
    """

    cluster: Cluster
    program: tuple[str, ...] = PROGRAM

    def execute(self, specs: Sequence[Spec], finished: Callable[[Row], object]) -> None:
        """See `local.Executor`. Runs in progress on other machines end at their own limits."""
        with self.cluster.connected() as workers:
            futures = {}
            for spec in specs:
                future = workers.submit(_work, spec, self.program, key=f"jtsolve-{spec.id}")
                futures[future.key] = (spec, future)
            failures: list[BaseException] = []

            def collect() -> None:
                try:
                    for future in workers.as_completed([future for _, future in futures.values()]):
                        finished(_row_of(workers, future, futures[future.key][0]))
                except BaseException as error:  # noqa: BLE001 - raised again in the main thread
                    failures.append(error)

            # Not in the main thread, where Ctrl-C could lose a finished row.
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
    """Performs a run, on a worker."""
    row = supervise(spec, program=program)
    assert row is not None, "the run is not cancelled here"
    return row


def _row_of(workers: Workers, future: Future, spec: Spec) -> Row:
    """Returns the row of a future, or a crash if the workers died."""
    error = future.exception()
    if error is None:
        row: Row = workers.result_of(future)
        return row
    return new_row(spec, RunStatus.CRASHED, f"{type(error).__name__}: {error}")
