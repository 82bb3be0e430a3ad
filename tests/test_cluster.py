"""Tests of `jtsolve.cluster`: connecting to Dask, and losing it."""

from __future__ import annotations

import gc
import signal
import sys
from time import sleep
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest
from problems import gaussian, named

import jtsolve as jt
from jtsolve.averaging.average import average
from jtsolve.averaging.bootstrap import bootstrap
from jtsolve.averaging.chains import Chains
from jtsolve.backends.chowliu import ChowLiu
from jtsolve.cluster import (
    Cluster,
    ClusterLostError,
    Workers,
    WorkersLostError,
    local_workers,
    lost_memory,
)
from jtsolve.core.run import Limits, Run
from jtsolve.errors import ChoiceError, LimitError
from jtsolve.models.learning.learner import Learner
from jtsolve.scoring.problem import Tabulation, problem_from_table
from jtsolve.scoring.scores.bdeu import Bdeu
from jtsolve.scoring.scores.bic import Bic
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jtsolve.averaging.method import Query


IMPATIENT = 0.6


@pytest.fixture(scope="module")
def process() -> Iterator[Workers]:
    """A worker in a separate process, which Dask restarts when it dies."""
    pytest.importorskip("distributed")
    with Cluster().connected() as found:
        yield found


def test_dask_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(ChoiceError, match=r"jtsolve\[dask\]"):
        Cluster.named("dask", 1)
    with pytest.raises(ChoiceError, match="no executor 'slurm'"):
        Cluster.named("slurm", 1)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nowhere:x", "tls://127.0.0.1:1"])
def test_a_missing_scheduler_is_reported(address: str) -> None:
    distributed = pytest.importorskip("distributed")

    def clients() -> int:
        return sum(type(one) is distributed.Client for one in gc.get_objects())

    gc.collect()
    before = clients()
    gc.disable()
    try:
        with (
            pytest.raises(ChoiceError, match="start one with 'dask scheduler'"),
            Cluster(address, patience=IMPATIENT).connected(),
        ):
            pass
        assert clients() <= before, "one that is collected later may block the start of the next"
    finally:
        gc.enable()


def test_workers_without_the_versions_of_this_process_are_refused(workers: Workers) -> None:
    with Cluster(client=workers.client).connected() as same:
        assert same.client is workers.client
        assert same.threads == 2

    class Other:
        """A client whose workers run something else."""

        def __init__(self, python: str, package: str | None) -> None:
            self.known = workers.client.get_versions(packages=["jtsolve"])
            facts = next(iter(self.known["workers"].values()))
            other = {"host": {"python": python}, "packages": {**facts["packages"], "jtsolve": package}}
            self.known["workers"] = {"tcp://w:1": other}

        def wait_for_workers(self, _least: int, timeout: float) -> None:
            del timeout

        def get_versions(self, packages: list[str]) -> Any:
            assert packages == ["jtsolve"]
            return self.known

    ours = workers.client.get_versions(packages=["jtsolve"])["client"]["packages"]["jtsolve"]
    for python, package, words in (("2.7.1", ours, "Python 2.7"), ("3.11.0", None, "no jtsolve")):
        with (
            pytest.raises(ChoiceError, match=f"tcp://w:1 has .*{words}"),
            Cluster(client=Other(python, package)).connected(),
        ):
            pass


def test_a_scheduler_without_workers_is_refused() -> None:
    pytest.importorskip("distributed")
    with (
        local_workers(0, processes=False) as empty,
        pytest.raises(ChoiceError, match="has no workers"),
        Cluster(empty.client.scheduler.address, patience=IMPATIENT).connected(),
    ):
        pass


def test_sums_are_added_by_a_tree(workers: Workers) -> None:
    shared = workers.share(10)
    parts = [workers.submit(lambda i, ten: i + ten, i, shared) for i in range(11)]
    assert workers.result(workers.total(parts, sum)) == sum(range(11)) + 110


def test_leaving_early_cancels_the_rest(workers: Workers) -> None:
    futures = [workers.submit(abs, -i) for i in range(3)]
    waiting = workers.submit(lambda *_: None, *futures)
    for _ in workers.as_completed([*futures, waiting]):
        break
    assert sum(future.cancelled() for future in [*futures, waiting]) == 3


def test_a_lost_scheduler_is_reported() -> None:
    pytest.importorskip("distributed")
    with (
        local_workers(1, processes=False) as own,
        Cluster(own.client.scheduler.address).connected() as workers,
    ):
        assert workers.result(workers.submit(abs, -1)) == 1
        pending = workers.submit(abs, workers.submit(lambda: __import__("time").sleep(1)))
        own.client.cluster.close()
        with pytest.raises(ClusterLostError, match="Start them again"):
            workers.result(pending)


def test_the_death_of_workers_counts_as_a_lack_of_memory() -> None:
    killed = pytest.importorskip("distributed.scheduler").KilledWorker
    assert lost_memory(MemoryError())
    assert lost_memory(killed("task", None, 3))
    assert not lost_memory(ValueError())


def test_resamples_on_workers_are_those_of_one_process(workers: Workers) -> None:
    random = np.random.default_rng(0)
    codes = random.integers(0, 2, (4, 60))
    codes[1] = codes[0] ^ (random.random(60) < 0.2)
    table = DataTable(tuple("abcd"), (("no", "yes"),) * 4, codes)
    search = Learner(Bic(), ChowLiu(), 1)
    here = bootstrap(table, 5, search, Run(Limits(seed=3)))
    there = bootstrap(table, 5, search, Run(Limits(seed=3)), cluster=Cluster(client=workers.client))
    assert (there.edges == here.edges).all()
    assert (there.resamples, there.optimal, there.backend) == (here.resamples, here.optimal, here.backend)
    with pytest.raises(LimitError, match="before the first resample"):
        bootstrap(table, 5, search, Run(Limits(time=1e-9)), cluster=Cluster(client=workers.client))


def test_jt_average_runs_chains_and_resamples_on_workers(workers: Workers) -> None:
    learned = jt.learn({"a": [0, 1, 0, 1, 1, 0], "b": [0, 1, 0, 1, 0, 1], "c": [1, 1, 0, 0, 1, 0]}, 1)
    here, there = (
        jt.average(learned, method="bootstrap:2,posterior=chains", executor=executor)
        for executor in (None, workers.client)
    )
    assert (here.edges == there.edges).all()
    assert here.bootstrap is not None
    assert there.bootstrap is not None
    assert (here.bootstrap.edges == there.bootstrap.edges).all()


def test_chains_on_workers_are_those_of_threads(workers: Workers) -> None:
    problem = named(gaussian(3, 5, 3))
    method = Chains(temperatures=2, rounds=300)
    here = average(problem, method=method)
    there = average(problem, method=method, cluster=Cluster(client=workers.client))
    assert here is not None
    assert there is not None
    assert (there.edges == here.edges).all()


def test_chains_on_workers_compute_scores_on_demand(workers: Workers) -> None:
    n = 19
    codes = np.random.default_rng(1).integers(0, 2, (n, 100))
    data = DataTable(tuple(f"V{v}" for v in range(n)), (("0", "1"),) * n, codes)
    none = Tabulation(seconds=0.0, share=0.0)
    problem = problem_from_table(data, Bdeu(), treewidth=4, tabulation=none)
    method = Chains(chains=2, temperatures=2, rounds=100)
    here = average(problem, method=method)
    cluster = Cluster(client=workers.client)
    there = average(problem, method=method, cluster=cluster)
    assert here is not None
    assert there is not None
    assert (there.edges == here.edges).all()


class Witness:
    """A method of averaging that notes the clusters it is given."""

    def __init__(self) -> None:
        self.clusters: list[Cluster | None] = []

    def average(self, query: Query) -> None:
        self.clusters.append(query.cluster)


def test_the_executor_of_python_runs_the_method(workers: Workers) -> None:
    witness: Any = Witness()
    with pytest.raises(ChoiceError, match="no graph meets"):
        jt.average(named(gaussian(3, 5, 3)), method=witness, executor=workers.client)
    assert witness.clusters == [Cluster(client=workers.client)]


def test_the_death_of_all_workers_counts_as_a_lack_of_memory() -> None:
    pytest.importorskip("distributed")
    with local_workers(1, processes=False) as own:
        shared = own.share(1)
        waiting = own.submit(lambda _one, seconds: sleep(seconds), shared, 0.5)
        (worker,) = own.client.cluster.workers.values()
        own.client.cluster.sync(worker.close, executor_wait=False)
        with pytest.raises(WorkersLostError, match="memory ran out") as lost:
            own.result(waiting)
        assert lost_memory(lost.value)
        with pytest.raises(WorkersLostError):
            Workers(own.client, IMPATIENT).share(2)


def test_a_ctrl_c_of_the_terminal_does_not_reach_workers(process: Workers) -> None:
    (blocked,) = process.client.run(signal.pthread_sigmask, signal.SIG_BLOCK, ()).values()
    assert signal.SIGINT in blocked
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_workers_of_a_run_accept_its_certificate_only(process: Workers) -> None:
    address = process.client.scheduler.address
    assert address.startswith("tls://127.0.0.1:")
    port = address.rpartition(":")[2]
    for name in (f"tcp://127.0.0.1:{port}", address):
        with pytest.raises(ChoiceError, match="no Dask scheduler"), Cluster(name).connected():
            pass


def test_dask_serves_no_pages_unasked(process: Workers) -> None:
    client = process.client
    known = {client.cluster.scheduler.port, *(nanny.port for nanny in client.cluster.workers.values())}
    known |= {int(address.rpartition(":")[2]) for address in client.scheduler_info()["workers"]}
    ours = psutil.Process()
    listening = {
        connection.laddr.port
        for process in (ours, *ours.children(recursive=True))
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening <= known
    assert client.submit(sum, [1, 2]).result() == 3
