"""Whole files: read bounded and decompressed, written atomically."""

from __future__ import annotations

import errno
import gzip
import io
import os
import stat
import tempfile
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from jtsolve.core.outputs import note_input
from jtsolve.core.run import Run
from jtsolve.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

BinaryStream: TypeAlias = "gzip.GzipFile | io.BufferedReader"

LARGEST = 2 << 30
"""Bytes of the largest text that is read, decompressed: 2 GiB hold some 10^8 scores, or 3 GB as numbers. It
stops small files that decompress to hundreds of gigabytes."""

_CHUNK = 1 << 20
_MOST_PACKED = 1032
"""Bytes that a byte of gzip data can stand for."""
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_HEADER = _GZIP_MAGIC + b"\x08" + 6 * b"\0" + b"\xff"
"""Of one member: deflated; no flags, time, or hint at the effort; from an unknown system (RFC 1952)."""
_PRIVATE = 0o600


def read_file(path: str | Path, run: Run | None = None) -> bytes:
    """Returns the contents of a file, decompressed if they are gzip data under any name.

    Args:
        path: of the file.
        run: limits time and memory; None for the defaults.

    Raises:
        LimitError: time or memory do not suffice.
        InputError: the file is missing, unreadable, empty, damaged gzip data, named .gz without being gzip
            data, or larger than `LARGEST` bytes.
    """
    source = str(path)
    with opened(path) as stream:
        data = _read_bounded(stream, source, _promised_size(path), run or Run())
    if not data:
        raise InputError(source, "", "the file is empty", "check how it was written, and write it again")
    return data


def is_packed(path: str | Path) -> bool:
    """Tells whether a file begins like gzip data.

    Raises:
        OSError: it cannot be read.
    """
    with Path(path).open("rb") as stream:
        return stream.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC


@contextmanager
def opened(path: str | Path) -> Iterator[BinaryStream]:
    """Opens a file to read its contents, decompressed if they are gzip data under any name.

    Raises:
        InputError: also from the body: the file is missing, unreadable, damaged gzip data, or named .gz
            without being gzip data or empty.
    """
    source = str(path)
    note_input(path)
    try:
        with open(path, "rb") as stream:  # noqa: PTH123 - a Path would lose a trailing slash
            magic = stream.peek(len(_GZIP_MAGIC))[: len(_GZIP_MAGIC)]
            if magic == _GZIP_MAGIC:
                with gzip.GzipFile(fileobj=stream) as unpacked:
                    yield unpacked
            elif magic and source.endswith(".gz"):
                raise InputError(
                    source, "", "it is named .gz, but is not gzip data", "compress it with gzip, or rename it"
                )
            else:
                yield stream
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(
            source, "gzip data", f"it is damaged or truncated ({error})", "fetch or compress the file again"
        ) from None
    except FileNotFoundError:
        raise InputError(source, "", "there is no such file", "check the path") from None
    except IsADirectoryError:
        raise InputError(source, "", "it is a directory", "give a file") from None
    except PermissionError:
        raise InputError(
            source, "", "you have no permission to read it", "change its permissions, or copy it"
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(source, "", f"it cannot be read ({_cause(error)})", "give a readable file") from None


def write_atomically(path: str | Path, data: bytes, *, numbers: bool = False) -> None:
    """Writes a file completely or not at all, packed if its name ends in .gz; for `numbers` see `pack`.

    The data go to a temporary file in the same folder, which is flushed to disk and then renamed. If anything
    fails, the temporary file is removed and an existing file is unchanged. A device or a pipe, such as
    /dev/stdout, is written directly: replacing it would destroy it.

    Raises:
        InputError: the file cannot be written; says why.
    """
    source = str(path)
    if source.endswith(".gz"):
        data = pack(data, numbers=numbers)
    try:
        place = Path(path)  # not resolved: /dev/stdout may be a pipe, which has no path
        mode = place.stat().st_mode if place.exists() else None
        if mode is not None and stat.S_ISDIR(mode):
            raise InputError(source, "", "it is a directory", "give the name of a file")
        if mode is not None and not stat.S_ISREG(mode):
            with place.open("wb") as stream:
                stream.write(data)
            return
        _replace(place.resolve(), data, mode)
    except FileNotFoundError:
        raise InputError(source, "", "its folder does not exist", "create the folder first") from None
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(
            source,
            "",
            f"it cannot be written ({_cause(error)}); an existing file is unchanged",
            "free space, change permissions, or write elsewhere",
        ) from None


def pack(data: bytes, *, numbers: bool = False) -> bytes:
    """Returns gzip data without time or file name, so that equal inputs give equal bytes.

    Args:
        data: to pack.
        numbers: whether nearly all of it is numbers in full precision. They hardly repeat: without a search
            for repetitions, tables of scores are packed eight times as fast, and no worse.

    >>> pack(b"a") == pack(b"a"), gzip.decompress(pack(b"a", numbers=True))
    (True, b'a')
    """
    strategy = zlib.Z_HUFFMAN_ONLY if numbers else zlib.Z_DEFAULT_STRATEGY
    packer = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, strategy)
    check, parts, view = 0, [_GZIP_HEADER], memoryview(data)
    for start in range(0, len(data), _CHUNK):  # so that Ctrl-C acts at once
        chunk = view[start : start + _CHUNK]
        check = zlib.crc32(chunk, check)
        parts.append(packer.compress(chunk))
    trailer = check.to_bytes(4, "little") + (len(data) % (1 << 32)).to_bytes(4, "little")
    return b"".join([*parts, packer.flush(), trailer])


def _replace(target: Path, data: bytes, mode: int | None) -> None:
    """Writes `data` beside `target` and renames it; `mode` is that of an existing file."""
    if target.is_symlink():  # though resolved: a circle, which is an error by itself only before Python 3.13
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".jtsolve-", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(_default_mode() if mode is None else stat.S_IMODE(mode))
        Path(name).replace(target)
    except BaseException:  # including an interruption
        Path(name).unlink(missing_ok=True)
        raise


def _default_mode() -> int:
    """Returns the permissions of a new file; the umask can only be read by setting it."""
    mask = os.umask(_PRIVATE)
    os.umask(mask)
    return 0o666 & ~mask


def _promised_size(path: str | Path) -> int:
    """Returns the bytes that a file will hold once decompressed, at least; 0 if that is unknown."""
    place = Path(path)
    if not place.is_file():
        return 0
    if not is_packed(place):
        return place.stat().st_size
    with place.open("rb") as stream:
        packed = stream.seek(0, os.SEEK_END)
        stream.seek(-min(4, packed), os.SEEK_CUR)
        promised = int.from_bytes(stream.read(4), "little")  # of the last part, modulo 2^32
    return promised if promised <= _MOST_PACKED * packed else 0  # else the trailer is damaged


def _read_bounded(stream: BinaryStream, source: str, promised: int, run: Run) -> bytes:
    """Returns the rest of a stream; the size of a pipe or of gzip data is certain only at its end."""
    buffer = io.BytesIO()
    chunk = b"begin"
    while chunk:
        size = max(promised, buffer.tell())
        run.require_reading(size)
        if size > LARGEST:
            raise InputError(
                source,
                "",
                f"it holds more than {LARGEST / 2**30:.3g} GiB once decompressed",
                "give a table with a smaller max_size",
            )
        chunk = stream.read(_CHUNK)
        buffer.write(chunk)
    return buffer.getvalue()


def _cause(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
