"""The recurrence on a device: its CUDA text run by the C++ compiler, cell by cell as the processor's."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from emulator import COMPILER, Emulator, Ledger
from problems import Recording, gaussian, named
from reference_dp import optimum

from jtsolve.backends.dp.backend import DynamicProgramming
from jtsolve.backends.dp.device.plan import DevicePlan, Tile
from jtsolve.backends.dp.device.run import DeviceTables
from jtsolve.backends.dp.layers import LayeredTables
from jtsolve.backends.dp.plan import BYTES, TablePlan
from jtsolve.backends.dp.ranks import rank_tables
from jtsolve.backends.dp.scores import local_scores
from jtsolve.core import cuda
from jtsolve.core.cuda import DeviceArrays, Launch, open_device
from jtsolve.core.problem import Constraints, Problem
from jtsolve.core.result import Status, Stop
from jtsolve.core.run import Limits
from jtsolve.core.scores import SparseScores
from jtsolve.errors import ChoiceError, LimitError, RefusedError
from jtsolve.solving import solve

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from jtsolve.backends.dp.plan import Precision
    from jtsolve.backends.dp.trace import Tables
    from jtsolve.core.cuda import Device

emulated = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler g++ on the PATH")
SMALL = Tile(1, 1, 1, 1)
CUDA = DynamicProgramming(device="cuda")


def differing(problem: Problem, precision: Precision, tile: Tile | None, device: Device) -> int:
    """Returns how many cells of all tables differ from those of the processor."""
    n, width = problem.n, problem.max_clique_size
    ranks = rank_tables(n - 1, width)
    scores, _ = local_scores(problem, ranks, precision)
    found = DeviceTables(DevicePlan(n, width, precision, tile), ranks, scores, device)
    exact = LayeredTables(TablePlan(n, width), ranks, scores, 1)
    found.fill(Recording())
    exact.fill(Recording())

    def cells(tables: Tables, root: int, own: int) -> NDArray[Any]:
        us = np.arange(1 << (n - 1 - int(ranks.masks[own]).bit_count()))
        return tables.gather(tables.offset[root, own] + tables.step[own] * us)

    return sum(
        int((cells(found, root, own) != cells(exact, root, own)).sum())
        for own, size in enumerate(np.bitwise_count(ranks.masks).tolist())
        for root in range(min(2, width - size + 1))
    )


@emulated
@pytest.mark.parametrize(
    ("n", "width", "precision", "tile"),
    [(n, n, "int32", SMALL) for n in range(1, 7)]
    + [
        (7, 7, "float64", Tile(2, 1, 2, 1)),
        (7, 7, "int64", SMALL),
        (7, 7, "int48", Tile(2, 2, 2, 1)),
        (7, 3, "int32", Tile(2, 2, 1, 1)),
        (7, 7, "int32", None),
    ],
)
def test_all_cells_are_those_of_the_recurrence(
    n: int, width: int, precision: Precision, tile: Tile | None
) -> None:
    assert differing(named(gaussian(n, n)).with_treewidth(width - 1), precision, tile, Emulator()) == 0


@emulated
def test_launches_in_ranges_of_blocks_fill_the_same_cells() -> None:
    device = Emulator(speed=1e-12)
    assert differing(named(gaussian(3, 6)), "int32", SMALL, device) == 0
    assert len(device.launched) > 2 * len(list(DevicePlan(6, 6, "int32", SMALL).launches()))


@emulated
@pytest.mark.parametrize(
    "damage",
    [
        ("c + rho > 1 &&", "c + rho > 2 &&"),
        ("spare > rho)", "spare > rho + 1)"),
        ("j < c; j++", "j < c - 1; j++"),
        ("s - score[rho * known + own]", "s - score[own]"),
        ("with_zero(U, place[j][lane])", "with_zero(U, 0)"),
        ("for (u32 part = rest; part;)", "for (u32 part = rest & (rest - 1); part;)"),
        ("if (turn) best[x]", "if (0) best[x]"),
        ("(middle ^ right)", "middle"),
        ("turn * SERIAL; i", "turn; i"),
        ("i++, right = (right - middle) & middle", "i++"),
        ("U ? LOWEST : (T)0", "LOWEST"),
        ("j > LOW)", "j >= LOW)"),
    ],
)
def test_a_planted_error_is_seen_in_the_cells(damage: tuple[str, str]) -> None:
    damaged = Emulator(damage=damage)
    assert any(
        differing(named(gaussian(0, 7)).with_treewidth(treewidth), "int32", tile, damaged)
        for treewidth in (2, 3)
        for tile in (Tile(0, 3, 2, 1), Tile(1, 2, 2, 1))
    )


def room(problem: Problem, precision: Precision) -> int:
    """Returns the free memory in which a run has this precision."""
    return DevicePlan(problem.n, problem.max_clique_size, precision).memory + 100_000_000


@pytest.fixture
def emulator(monkeypatch: pytest.MonkeyPatch) -> Emulator:
    device = Emulator()
    monkeypatch.setattr(cuda, "may_have_device", lambda: True)
    monkeypatch.setattr(cuda, "open_device", lambda: device)
    return device


@emulated
@pytest.mark.parametrize("precision", ["float64", "int48", "int32"])
@pytest.mark.parametrize("n", [1, 2, 6, 8])
def test_trees_are_optimal(emulator: Emulator, precision: Precision, n: int) -> None:
    constraints = Constraints(
        max_treewidth=3, required_edges=frozenset({0b110}), forbidden_edges=frozenset({0b11, 0b1001})
    )
    problem = named(gaussian(n, n), constraints if n > 3 else Constraints())
    emulator.room = room(problem, precision)
    result = solve(problem, CUDA)
    assert (result.stats["precision"], emulator.launched[-1]) == (precision, "finish")
    assert result.gap < (1e-4 if precision == "int32" else 1e-6)
    assert result.score == pytest.approx(optimum(problem), abs=1e-6)
    assert result.stats["device"] == "cuda"


@emulated
@pytest.mark.usefixtures("emulator")
def test_coarse_scores_give_an_honest_gap_and_more_bits_close_it() -> None:
    wide = named(gaussian(0, 6, scale=1e7))
    coarse = solve(wide, replace(CUDA, precision="int32"))
    assert (coarse.status, coarse.stats["device"]) == (Status.FEASIBLE, "cuda")
    assert 1e-6 < coarse.gap < 10
    assert solve(named(gaussian(0, 6, scale=1e9)), CUDA).stats["precision"] == "int64"


@emulated
def test_cliques_forbidden_with_all_larger_ones_need_one_table(emulator: Emulator) -> None:
    larger = frozenset(mask for mask in range(1 << 6) if mask & 0b111 == 0b111)
    problem = named(gaussian(2, 6), Constraints(forbidden_cliques=larger))
    result = solve(problem, CUDA)
    assert (result.status, result.stats["device"]) == (Status.OPTIMAL, "cuda")
    assert result.score == pytest.approx(optimum(problem), abs=1e-9)
    assert emulator.launched


@emulated
def test_required_edges_that_no_tree_has_are_proved(emulator: Emulator) -> None:
    square = frozenset({0b11, 0b110, 0b1100, 0b1001})
    problem = named(gaussian(1, 4), Constraints(max_treewidth=1, required_edges=square))
    assert solve(problem, CUDA).status is Status.INFEASIBLE
    assert emulator.launched


@emulated
def test_a_run_is_refused_where_no_bits_fit(emulator: Emulator) -> None:
    problem = named(gaussian(0, 7))
    with pytest.raises(LimitError, match=r"backend 'dp' needs .* but the memory limit is 0\.001 GB"):
        CUDA.solve(problem, Limits(memory=10**6), Recording())
    emulator.room = room(problem, "int32") - 1
    with pytest.raises(LimitError, match=r"the device needs .* are free: others .* device=cpu"):
        solve(problem, CUDA)


@emulated
def test_memory_that_others_take_meanwhile_is_explained(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emulator, "free", lambda: (1 << 33, 1 << 34))
    emulator.room = 1000
    with pytest.raises(LimitError, match=r"the device needs .* end the programs that hold it"):
        solve(named(gaussian(0, 7)), CUDA)


@emulated
def test_auto_selects_a_device_where_it_saves_seconds(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = named(gaussian(0, 6))
    assert solve(problem, DynamicProgramming()).stats["device"] == "cpu"
    eager = partial(cuda.choose_device, worth=-10.0)
    monkeypatch.setattr("jtsolve.backends.dp.backend.choose_device", eager)
    assert solve(problem, DynamicProgramming()).stats["device"] == "cuda"
    assert DynamicProgramming().estimate(problem, Limits()).seconds > 1
    ruled = named(gaussian(0, 6), Constraints(max_separator_size=1))
    assert solve(ruled, DynamicProgramming()).stats["device"] == "cpu"
    assert solve(problem, DynamicProgramming(device="cpu")).stats["device"] == "cpu"
    emulator.room = 0
    assert solve(problem, DynamicProgramming()).stats["device"] == "cpu"


@emulated
def test_a_run_on_a_device_stops(emulator: Emulator) -> None:
    emulator.speed = 1e-9  # predicted to be slow: the report is asked between ranges
    outcome = CUDA.solve(named(gaussian(0, 6)), Limits(), Recording(patience=3, reason=Stop.INTERRUPTED))
    assert (outcome.stop, outcome.tree) == (Stop.INTERRUPTED, None)
    assert len(emulator.launched) < 20


def test_a_device_much_slower_than_predicted_asks_within_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, pending, asked = [0.0], [0.0], [0.0]

    class Slow(Emulator):
        def compile(self, source: str) -> Callable[..., None]:  # noqa: ARG002
            return launch

        def wait(self) -> None:
            clock[0] += pending[0]
            pending[0] = 0.0

    def launch(_name: str, blocks: int, *_arguments: Any) -> None:
        pending[0] += 50 * 0.07 * blocks / 10_000

    def report(**_news: object) -> bool:
        asked.append(clock[0])
        return True

    monkeypatch.setattr(cuda, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    launches = [Launch("splits", [(1, 1, 1, 1, 10_000)], 0.07)] * 20
    DeviceArrays(Slow(), "", {}).run(launches, report)
    assert asked[-1] == pytest.approx(70.0)
    assert np.diff(asked).max() < 1


def test_a_device_refuses_unsupported_problems_in_a_sentence(emulator: Emulator) -> None:
    def reasons(problem: Problem) -> str:
        return " ".join(CUDA.capabilities.objections(problem))

    assert "does not support max_separator_size; device=cpu does" in reasons(
        named(gaussian(0, 5), Constraints(max_separator_size=1))
    )
    assert not reasons(named(gaussian(0, 5), Constraints(max_separator_size=4)))
    upward = Constraints(forbidden_cliques=frozenset({0b111, 0b1111, 0b10111, 0b11111}))
    assert not reasons(named(gaussian(0, 5), upward))
    assert "does not support forbidden_cliques" in reasons(
        named(gaussian(0, 5), Constraints(forbidden_cliques=frozenset({0b11})))
    )
    assert "at most 25 variables, not 26" in reasons(named(gaussian(0, 26, 2)))
    assert "at most 25 variables, not 70" in reasons(
        named(SparseScores(70, {1 << v: 0.0 for v in range(70)}))
    )
    holes = named(SparseScores(3, {0: 0.0, 1: 1.0, 2: 1.0, 4: 1.0, 7: 9.0}))
    assert "every subset of a clique needs a score" in reasons(holes)
    with pytest.raises(RefusedError, match="every subset of a clique needs a score; device=cpu"):
        solve(holes, CUDA)
    assert not emulator.launched


@pytest.mark.parametrize(
    ("driver", "message"),
    [
        (None, "CuPy is missing.*pip install 'jtsolve.gpu.'; device=cpu"),
        (0, "no NVIDIA driver"),
        (12040, "driver is for CUDA 12, CuPy for CUDA 13.*cupy-cuda12x"),
        (13000, "finds no usable one"),
    ],
)
def test_a_missing_device_is_explained(
    monkeypatch: pytest.MonkeyPatch, driver: int | None, message: str
) -> None:
    def fail() -> int:
        raise OSError

    runtime = SimpleNamespace(
        driverGetVersion=lambda: driver,
        runtimeGetVersion=lambda: 13020,
        getDevice=fail,
        getDeviceProperties=dict,
        CUDARuntimeError=OSError,
    )
    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime), __spec__=driver)
    if driver is not None:
        monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(cuda, "may_have_device", lambda: driver is not None)
    problem = named(gaussian(0, 5))
    with pytest.raises(ChoiceError, match=message):
        CUDA.solve(problem, Limits(), Recording())
    assert any(re.search(message, reason) for reason in CUDA.capabilities.objections(problem))


@pytest.mark.parametrize(
    ("n", "width", "gigabytes"),
    [
        (18, 18, (1.1, 1.6, 2.1)),
        (20, 20, (9.4, 14.1, 18.8)),
        (22, 22, (83.9, 125.9, 167.9)),
        (22, 4, (7.2, 10.8, 14.4)),
    ],
)
def test_predicted_memory_is_that_used_on_an_h100(n: int, width: int, gigabytes: tuple[float, ...]) -> None:
    plans = [DevicePlan(n, width, name) for name in ("int32", "int48", "float64")]
    assert [round(plan.memory / 1e9, 1) for plan in plans] == pytest.approx(gigabytes, abs=0.06)


@pytest.mark.parametrize("precision", BYTES)
def test_the_memory_used_is_the_predicted_one(precision: Precision) -> None:
    problem, plan, device = named(gaussian(0, 15)), DevicePlan(15, 15, precision), Ledger()
    ranks = rank_tables(14, 15)
    DeviceTables(plan, ranks, local_scores(problem, ranks, precision)[0], device).fill(Recording())
    assert device.taken == pytest.approx(plan.memory, rel=0.02)


def test_predicted_seconds_are_those_of_an_h100() -> None:
    measured = {(20, 20, "int32"): 0.12, (21, 21, "float64"): 0.92, (22, 22, "int32"): 1.42}
    for (n, width, name), seconds in measured.items():
        assert DevicePlan(n, width, name).kernel_seconds == pytest.approx(seconds, rel=0.1)  # type: ignore[arg-type]


@pytest.mark.gpu
@pytest.mark.parametrize("precision", BYTES)
def test_all_cells_on_a_device(precision: Precision) -> None:
    for n in range(1, 8):
        assert differing(named(gaussian(n, n)), precision, SMALL, open_device()) == 0
    assert differing(named(gaussian(0, 10)), precision, Tile(2, 2, 2, 1), open_device()) == 0
