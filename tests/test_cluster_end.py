"""Tests of the results kept when work on a cluster ends early: a lost scheduler, or Ctrl-C."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import CancelledError
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from problems import gaussian, named
from runs import ReportingRun

from jtsolve.averaging import chains
from jtsolve.averaging.bootstrap import bootstrap
from jtsolve.averaging.chains import CHAINS, Chains
from jtsolve.averaging.parts import Strengths
from jtsolve.averaging.posterior import GraphPosterior
from jtsolve.averaging.traces import Demands, agreement_of
from jtsolve.backends.chowliu import ChowLiu
from jtsolve.cli import run
from jtsolve.cluster import Cluster, ClusterLostError, Workers, WorkersLostError, local_workers
from jtsolve.core.result import Stop
from jtsolve.core.run import Limits, Run
from jtsolve.errors import ChoiceError
from jtsolve.io.instance import read_problem
from jtsolve.models.learning.learner import Learner
from jtsolve.scoring.scores.bic import Bic
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ENDINGS = (Stop.LOST, Stop.INTERRUPTED)


@pytest.fixture
def own() -> Iterator[Workers]:
    """Workers in this process, whose scheduler a test may end."""
    pytest.importorskip("distributed")
    with local_workers(2, processes=False) as found:
        yield found


def ending(own: Workers, why: Stop) -> Callable[[], None]:
    """Returns a function that ends the work once: by a lost scheduler, or Ctrl-C."""
    begun: list[Stop] = []

    def end() -> None:
        if begun:
            return
        begun.append(why)
        if why is Stop.LOST:
            own.client.cluster.close()
        else:
            signal.raise_signal(signal.SIGINT)

    return end


def rows(count: int = 60) -> DataTable:
    random = np.random.default_rng(0)
    codes = random.integers(0, 2, (4, count))
    codes[1] = codes[0] ^ (random.random(count) < 0.2)
    return DataTable(tuple("abcd"), (("no", "yes"),) * 4, codes)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    table = rows(90)
    place = tmp_path / "rows"
    place.mkdir()
    for part in range(3):
        codes = table.codes[:, 30 * part : 30 * part + 30]
        pl.DataFrame(dict(zip(table.names, codes, strict=True))).write_parquet(place / f"{part}.parquet")
    return place


@pytest.mark.parametrize("why", ENDINGS)
def test_resamples_that_are_done_are_kept(own: Workers, why: Stop, monkeypatch: pytest.MonkeyPatch) -> None:
    end, gate, found = ending(own, why), threading.Event(), Learner.search
    begun = iter(range(100))

    def hindered(*arguments: Any, **options: Any) -> Any:
        if next(begun) > 2:
            gate.wait(20)
        return found(*arguments, **options)

    def listen(*, done: float | None, **_news: object) -> None:
        if done is not None and done > 0.03:  # the second is about to be taken
            if why is Stop.LOST:
                gate.set()  # closing waits for tasks that have begun
            end()

    monkeypatch.setattr(Learner, "search", hindered)
    learner, cluster = Learner(Bic(), ChowLiu(), 1), Cluster(client=own.client)
    try:
        strengths = bootstrap(rows(), 40, learner, ReportingRun(listen, Limits(seed=3)), cluster=cluster)
    finally:
        gate.set()
    assert strengths.stop is why
    assert 1 <= strengths.resamples < 40
    assert (strengths.edges[0, 1], strengths.wanted) == (1.0, 40)
    if why is Stop.LOST:
        with pytest.raises(ClusterLostError):
            bootstrap(rows(), 4, learner, cluster=cluster)


@pytest.mark.parametrize("why", ENDINGS)
def test_rounds_of_chains_that_are_done_are_kept(
    own: Workers, why: Stop, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = ending(own, why)

    def compared(*arguments: Any) -> Any:
        end()
        return agreement_of(*arguments)

    monkeypatch.setattr(chains, "agreement_of", compared)
    run = Run()
    with run.interruptible():
        found = chains.run_chains(
            named(gaussian(3, 5, 3)),
            1.0,
            run,
            how=Chains(chains=2, temperatures=1, rounds=4000),
            start=None,
            cluster=Cluster(client=own.client),
            constants=replace(CHAINS, demands=Demands(least_size=1e9)),  # never converged
        )
    assert 2000 <= found.diagnostics["rounds"] < 4000
    assert found.diagnostics.get("stop") == (why.value if why is Stop.LOST else None)


def test_average_writes_the_resamples_done_and_reports_the_lost_scheduler(
    own: Workers,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(Cluster, "named", lambda *_: Cluster(client=own.client))
    strengths = Strengths(np.zeros((4, 4)), 3, 40, 0, "chowliu", 0, Stop.LOST)
    monkeypatch.setattr("jtsolve.averaging.bootstrap.bootstrap", lambda *_, **__: strengths)
    words = ["average", f"{folder}/0.parquet", "--treewidth", "1", "--method", "bootstrap:40", "--quiet"]
    posterior = tmp_path / "p.json"
    assert run([*words, "--executor", "dask", "--output", str(posterior)], monotonic()) == 4
    assert "its scheduler or all" in capsys.readouterr().err
    kept = GraphPosterior.read(posterior).bootstrap
    assert kept is not None
    assert (kept.resamples, kept.stop) == (3, Stop.LOST)


def test_tasks_do_not_wait_for_ever_for_workers() -> None:
    pytest.importorskip("distributed")
    with local_workers(0, processes=False) as empty, pytest.raises(ClusterLostError, match="all its workers"):
        Workers(empty.client, 0.2).result(empty.submit(abs, -1))


class KilledWorker(Exception):  # noqa: N818 - named as Dask's, which tells tasks by it
    """What Dask raises of a task that has killed its workers."""


class Gone:
    """A client, and a finished future whose result is an error of Dask."""

    def __init__(self, error: Exception, status: str = "closed") -> None:
        self.error, self.client_status = error, status
        self.status = "finished"

    def result(self) -> None:
        raise self.error

    def nthreads(self) -> None:
        raise self.error


def test_a_scheduler_lost_between_two_calls_is_reported(own: Workers) -> None:
    for error in (OSError(), RuntimeError("ConnectionPool is closed")):
        gone = Gone(error)
        with pytest.raises(ClusterLostError):
            Workers(gone).result_of(gone)
        with pytest.raises(ClusterLostError):
            _ = Workers(gone).threads
    bug = Gone(RuntimeError("a bug"))
    bug.status = "running"
    with pytest.raises(RuntimeError, match="a bug"):
        Workers(bug).result_of(bug)
    with pytest.raises(WorkersLostError):
        own.result_of(Gone(CancelledError()))

    def fail() -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        own.result(own.submit(fail))

    def die() -> None:
        raise KilledWorker

    with pytest.raises(WorkersLostError, match="memory ran out"):
        own.result(own.submit(die))


def certificate(folder: Path, name: str) -> dict[str, Any]:
    """Makes a certificate that signs itself; returns Dask's configuration of TLS that names it."""
    if shutil.which("openssl") is None:
        if os.environ.get("CI"):
            pytest.fail("openssl is missing, and CI must run the tests that need it")
        pytest.skip("openssl is missing, which makes the certificates")
    key, path = folder / f"{name}.key", folder / f"{name}.pem"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    words += ["-subj", f"/CN={name}", "-keyout", str(key), "-out", str(path)]
    subprocess.run(words, check=True, capture_output=True)  # noqa: S603 - its arguments are ours
    pair = {"key": str(key), "cert": str(path)}
    return {"ca-file": str(path), "scheduler": pair, "worker": pair, "client": pair}


def test_tls_settings_of_dask_are_passed_through(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    config = pytest.importorskip("dask").config
    ours, other = (certificate(tmp_path, name) for name in ("ours", "other"))
    data, result = tmp_path / "rows.parquet", tmp_path / "r.json"
    pl.DataFrame(dict(zip("abcd", rows().codes, strict=True))).write_parquet(data)

    def configured(files: dict[str, Any]) -> Any:
        return config.set({f"distributed.comm.tls.{name}": value for name, value in files.items()})

    with configured(ours):
        security = distributed.Security(require_encryption=True)
    with distributed.LocalCluster(
        n_workers=1,
        processes=False,
        protocol="tls://",
        security=security,
        dashboard_address=None,
        scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
    ) as cluster:
        address = cluster.scheduler_address
        assert address.startswith("tls://")
        words = ["score", str(data), "--max-size", "2", "--quiet", "--output", str(result)]
        words += ["--executor", f"dask={address}"]
        settings = tmp_path / "dask.yaml"
        settings.write_text(json.dumps({"distributed": {"comm": {"tls": ours}}}), encoding="utf-8")
        done = subprocess.run(  # noqa: S603 - the command that is tested
            [sys.executable, "-m", "jtsolve", *words],
            env={**os.environ, "DASK_CONFIG": str(settings)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert len(read_problem(result).names) == 4
        none = dict.fromkeys(ours)
        none |= {side: {"key": None, "cert": None} for side in ("scheduler", "worker", "client")}
        for files, reason in ((other, "certificate"), (none, "ssl_context")):
            impatient = Cluster(address, patience=3)
            with (
                configured(files),
                pytest.raises(ChoiceError, match=reason) as refused,
                impatient.connected(),
            ):
                pass
            assert "the TLS files in Dask's configuration" in str(refused.value)
