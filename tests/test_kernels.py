from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from jtsolve.averaging.exact import Exact
from jtsolve.core import compiling
from jtsolve.core.machine import allow_memory, memory_of_call, resident_memory
from jtsolve.core.run import Limits
from jtsolve.core.threads import Pool
from jtsolve.errors import LimitError


def test_a_process_without_a_place_for_a_cache_compiles_for_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)

    def refuse(**_options: object) -> None:
        raise PermissionError

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    monkeypatch.setattr(compiling, "locked_folder", lambda: (-1, tmp_path / "kernels"))
    assert not compiling._ensure_cache()
    assert os.environ["NUMBA_CACHE_DIR"] == str(tmp_path / "kernels")
    monkeypatch.delenv("NUMBA_CACHE_DIR")


def test_a_cache_that_is_named_or_has_a_place_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    assert compiling._ensure_cache()
    assert "NUMBA_CACHE_DIR" not in os.environ


def test_a_folder_is_writable_if_a_file_can_be_made_in_it(tmp_path: Path) -> None:
    assert compiling._is_writable(tmp_path)
    assert compiling._is_writable(tmp_path / "not" / "there" / "yet")
    assert not compiling._is_writable(Path("/proc"))


_KERNEL = """
from jtsolve.core.compiling import kernel

@kernel
def double(x):
    return 2 * x
"""


def loaded(path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = spec_from_file_location("doubling", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "doubling", module)
    spec.loader.exec_module(module)
    return module


def test_damaged_files_of_the_cache_are_compiled_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "doubling.py"
    path.write_text(_KERNEL, encoding="utf-8")

    def hits() -> tuple[int, Path]:
        module = loaded(path, monkeypatch)
        assert module.double(21) == 42
        stats = module.double.stats
        return sum(stats.cache_hits.values()), Path(stats.cache_path)

    (first, cache), (second, _) = hits(), hits()
    assert (first, second) == (0, 1)
    for suffix in ("nbi", "nbc"):
        (file,) = cache.glob(f"doubling.double*.{suffix}")
        whole = file.read_bytes()
        changed = whole[:200] + bytes([whole[200] ^ 1]) + whole[201:]
        for damaged in (b"", whole[:50], whole[:-1], whole + b"x", b"\x80\x04\x95" + 8 * b"\x7f", changed):
            file.write_bytes(damaged)
            assert (hits()[0], hits()[0]) == (0, 1), damaged
        file.unlink()
        file.symlink_to(file)
        assert (hits()[0], hits()[0]) == (0, 1)
    file.unlink()
    file.mkdir()  # like a full disk, it makes writing impossible
    assert (hits()[0], hits()[0]) == (0, 0)


def test_constant_arguments_compile_a_kernel_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    caller = "\n@kernel\ndef both(x):\n    return double(1) + double(2) + double(x)\n"
    path = tmp_path / "doubling.py"
    path.write_text(_KERNEL + caller, encoding="utf-8")
    module = loaded(path, monkeypatch)
    assert module.both(3) == 12
    assert len(module.double.signatures) == 1


def test_kernels_load_before_anything_of_the_domain() -> None:
    code = "import sys, jtsolve.backends.dp.kernels.recurrence; print('jtsolve.core.problem' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "False"


_NAMES = """
import re
import numba, numpy as np
import jtsolve.core.compiling
order = numba.njit("int64[:](int64[:])")(lambda values: np.argsort(values))
print(*set(re.findall(r"define [^@]*@(\\w*quicksort\\w*)", *order.inspect_llvm().values())))
"""


def test_no_two_processes_give_compiled_functions_the_same_names() -> None:
    first, second = (
        set(subprocess.run([sys.executable, "-c", _NAMES], capture_output=True, check=True).stdout.split())  # noqa: S603
        for _ in range(2)
    )
    assert first
    assert second
    assert not first & second


def test_compiling_asks_for_memory_in_the_threads_of_a_call_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "doubling.py"
    path.write_text(_KERNEL, encoding="utf-8")
    double = loaded(path, monkeypatch).double
    with memory_of_call(), Pool(1) as pool:
        allow_memory(resident_memory() + 5 * 10**7)
        with pytest.raises(LimitError, match=r"compiling the kernels needs .* or one run without it"):
            pool.submit(double, 1).result()
    assert double(1) == 2
    assert compiling.compiling_now() is None


def test_exact_sums_of_few_variables_do_not_count_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    limits = Limits(memory=resident_memory() + 5 * 10**7)
    assert Exact().fits(8, 8, limits)
    assert not Exact().fits(8, 8, limits, drawn=True)
