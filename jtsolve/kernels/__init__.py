"""The compiled inner loops (numba): arrays in, arrays out, no domain types.

Every kernel releases the global lock, so that Python threads run kernels side by side and the main thread
stays free to take Ctrl-C; and every kernel is cached on disk, so that only the first run compiles.

The cache lies beside the kernels, or in the user's cache folder where the package is read-only. Where neither
can be written (a container with a read-only file system), numba would refuse to load a cached kernel at all;
then each process compiles into a temporary folder of its own.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path


def _is_writable(folder: Path) -> bool:
    """Tells whether a file can be made in the folder, or in the nearest folder above that exists."""
    while not folder.exists():
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _ensure_cache() -> None:
    """Gives numba a temporary cache if it would find no place for one."""
    places = (Path(__file__).parent / "__pycache__", Path.home() / ".cache")
    if "NUMBA_CACHE_DIR" not in os.environ and not any(map(_is_writable, places)):
        folder = tempfile.mkdtemp(prefix="jtsolve-kernels-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.environ["NUMBA_CACHE_DIR"] = folder


_ensure_cache()
