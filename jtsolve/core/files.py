"""Whole files: bounded reading, unpacked, and atomic writing."""

from __future__ import annotations

import bz2
import codecs
import errno
import io
import lzma
import os
import re
import stat
import sys
import zipfile
import zlib
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias, cast

from jtsolve.core.formats import descriptor_of, files_in, require_readable
from jtsolve.core.outputs import note_input
from jtsolve.core.run import Run
from jtsolve.core.temporary import locked_file
from jtsolve.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BinaryStream: TypeAlias = "IO[bytes]"

LARGEST = 2 << 30
"""Bytes of the largest text that is read, decompressed: 2 GiB hold some 10^8 scores, or 3 GB as numbers. It
stops small files that decompress to hundreds of gigabytes."""

_CHUNK = 1 << 20
_MOST_PACKED = 1032
"""Maximum number of bytes that a byte of gzip data expands to."""
_GZIP_HEADER = b"\x1f\x8b\x08" + 6 * b"\0" + b"\xff"
"""Header of one member: deflated; no flags, time, or hint at the effort; unknown system (RFC 1952)."""
_END_OF_ZIP = 22
"""Bytes of the last record of an archive, without its comment."""
_PRIVATE = 0o600
_ZSTANDARD = ("compression.zstd", "backports.zstd")
"""From Python 3.14 on, and before it."""


def read_file(path: str | Path, run: Run | None = None) -> bytes:
    """Returns a text file in UTF-8 without byte order mark, unpacked.

    UTF-16 and UTF-32 are recognised by their byte order marks; other bytes are returned unchanged.

    Args:
        path: of the file.
        run: limits time and memory; None for the defaults.

    Raises:
        LimitError: time or memory do not suffice.
        InputError: as `opened`; or the file is empty, or larger than `LARGEST` bytes.
    """
    data = read_bytes(path, run).removeprefix(codecs.BOM_UTF8)
    if (encoding := marked_encoding(data)) is not None:
        with suppress(UnicodeError):  # the reader of the format reports that it is not UTF-8
            data = data.decode(encoding).encode()
    return _require_content(data, path)


def read_bytes(path: str | Path, run: Run | None = None) -> bytes:
    """Returns the contents of a file, unpacked; see `read_file`."""
    source = str(path)
    with opened(path) as stream:
        data = _read_bounded(stream, source, _promised_size(path), run or Run())
    return _require_content(data, path)


def read_xml(path: str | Path) -> bytes:
    """Returns an XML file without entities, in the encoding that it declares.

    Raises:
        InputError: as `opened`; or it declares entities, which could expand to more text than memory holds.
    """
    data = read_bytes(path)
    if re.search(rb"<!\s*ENTITY", data.replace(b"\0", b"")):  # the letters of UTF-16 are apart
        raise InputError(str(path), "", "it declares entities", "remove the declarations '<!ENTITY …>'")
    return data


def _require_content(data: bytes, path: str | Path) -> bytes:
    if not data:
        raise InputError(str(path), "", "the file is empty", "check how it was written, and write it again")
    return data


def marked_encoding(begin: bytes) -> str | None:
    """Returns the encoding that a byte order mark names, other than UTF-8; None without one."""
    if begin.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):  # the first begins with a mark of UTF-16
        return "utf-32"
    return "utf-16" if begin.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else None


def _unzipped(stream: BinaryStream, source: str) -> BinaryStream:
    """Returns the only file of an archive."""
    stream = stream if stream.seekable() else io.BytesIO(stream.read())
    archive = zipfile.ZipFile(stream)
    stream.seek(-_END_OF_ZIP - len(archive.comment), os.SEEK_END)
    if stream.read(4) != b"PK\x05\x06":
        raise zipfile.BadZipFile("something follows its end")
    inside = files_in(archive)
    if len(inside) != 1:
        held = ", ".join(inside[:3]) or "none"
        reason = f"the archive has {len(inside)} files ({held}{', …' * (len(inside) > 3)})"  # noqa: PLR2004
        raise InputError(source, "", reason, "unpack it, and give one of its files")
    try:
        return archive.open(inside[0])
    except RuntimeError as error:  # encrypted, or compressed by a method that zipfile lacks
        raise InputError(source, "zip data", f"it cannot be unpacked ({error})", "unpack it first") from None


class _Members(io.RawIOBase):
    """The contents of packed data: whole streams one after another, with nothing but zeros between them.

    Args:
        stream: the packed data.
        begin: returns the decompressor of a stream.
    """

    def __init__(self, stream: BinaryStream, begin: Callable[[], Any]) -> None:
        self._stream, self._begin, self._data = stream, begin, b""
        self._member = begin()

    def readable(self) -> bool:
        """Returns True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fills the buffer, or a part of it; see `io.RawIOBase`.

        Raises:
            EOFError: the last stream is truncated.
            Exception: of the decompressor: the data are damaged; see `_damages`.
        """
        found = b""
        while not found:
            if self._member.eof:
                self._data = self._member.unused_data.lstrip(b"\0")
                while not self._data and (piece := self._stream.read(_CHUNK)):
                    self._data = piece.lstrip(b"\0")
                if not self._data:
                    return 0
                self._member = self._begin()
            hungry = not self._data and getattr(self._member, "needs_input", True)
            if hungry:
                self._data = self._stream.read(_CHUNK)
            found = self._member.decompress(self._data, len(buffer))
            if hungry and not (self._data or found or self._member.eof):
                raise EOFError("its end is missing")
            self._data = getattr(self._member, "unconsumed_tail", b"")
        buffer[: len(found)] = found
        return len(found)


def _streams(begin: Callable[[], Any]) -> _Unpacker:
    return lambda stream, _: cast("BinaryStream", io.BufferedReader(_Members(stream, begin), _CHUNK))


def _of_zstandard(stream: BinaryStream, source: str) -> BinaryStream:
    for module in _ZSTANDARD:
        try:
            begin: Callable[[], Any] = import_module(module).ZstdDecompressor
        except ImportError:
            continue
        return _streams(begin)(stream, source)
    remedy = "unpack it with 'zstd -d', or install backports.zstd"
    raise InputError(source, "", "it is packed with Zstandard, which this Python does not read", remedy)


def _damages() -> tuple[type[Exception], ...]:
    """Returns the errors of unpackers beside those of the system."""
    zstandard: list[type[Exception]] = [sys.modules[n].ZstdError for n in _ZSTANDARD if n in sys.modules]
    return (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, *zstandard)


_Unpacker: TypeAlias = "Callable[[BinaryStream, str], BinaryStream]"
_PACKINGS: dict[str, tuple[str, tuple[bytes, ...], _Unpacker]] = {
    "gz": ("gzip", (b"\x1f\x8b",), _streams(lambda: zlib.decompressobj(16 + zlib.MAX_WBITS))),
    "bz2": ("bzip2", (b"BZh",), _streams(bz2.BZ2Decompressor)),
    "xz": ("xz", (b"\xfd7zXZ\0",), _streams(lzma.LZMADecompressor)),
    "zst": ("Zstandard", (b"\x28\xb5\x2f\xfd",), _of_zstandard),
    "zip": ("zip", (b"PK\x03\x04", b"PK\x05\x06"), _unzipped),  # the second of an archive without files
}
"""By suffix: name, first bytes, and function that opens them."""
_LONGEST_MAGIC = 6


def is_packed(path: str | Path) -> bool:
    """Returns whether the first bytes of a file are those of packed data.

    Raises:
        OSError: it cannot be read.
    """
    with Path(path).open("rb") as stream:
        return _packing(stream.read(_LONGEST_MAGIC)) is not None


def _packing(head: bytes) -> str | None:
    """Returns the suffix of the packing whose first bytes these are, or None."""
    return next((suffix for suffix, (_, magic, _) in _PACKINGS.items() if head.startswith(magic)), None)


@contextmanager
def opened(path: str | Path) -> Iterator[BinaryStream]:
    """Opens a file to read its contents, unpacked if they are packed data under any name.

    Raises:
        InputError: also from the body: the file is missing, unreadable, damaged packed data, named like
            packed data without being any or empty, an archive of several files, or one of another program
            (`formats.FOREIGN`).
    """
    source, packing = str(path), None
    note_input(path)
    try:
        with open(path, "rb") as stream:  # noqa: PTH123 - a Path would lose a trailing slash
            require_readable(path)
            head = stream.peek(_LONGEST_MAGIC)[:_LONGEST_MAGIC]
            packing = _packing(head)
            named = next((suffix for suffix in _PACKINGS if source.lower().endswith(f".{suffix}")), None)
            if packing is not None:
                with _PACKINGS[packing][2](stream, source) as unpacked:
                    yield unpacked
            elif head and named:
                name = _PACKINGS[named][0]
                reason = f"it is named .{named}, but is not {name} data"
                raise InputError(source, "", reason, f"compress it with {name}, or rename it")
            else:
                yield stream
    except FileNotFoundError:
        require_readable(path)
        raise InputError(source, "", "there is no such file", "check the path") from None
    except IsADirectoryError:
        raise InputError(source, "", "it is a directory", "give a file") from None
    except PermissionError:
        raise InputError(
            source, "", "you have no permission to read it", "change its permissions, or copy it"
        ) from None
    except _damages() as error:
        if packing is not None and getattr(error, "errno", None) is None:  # an unpacker found a fault
            place, remedy = f"{_PACKINGS[packing][0]} data", "fetch or compress the file again"
            raise InputError(source, place, f"it is damaged or truncated ({error})", remedy) from None
        raise InputError(source, "", f"it cannot be read ({_cause(error)})", "give a readable file") from None
    except ValueError as error:
        raise InputError(source, "", f"it cannot be read ({_cause(error)})", "give a readable file") from None


def write_atomically(path: str | Path, data: bytes, *, numbers: bool = False) -> None:
    """Writes a file completely or not at all, compressed if its name ends in .gz.

    The data go to a temporary file in the same folder, which is flushed to disk and then renamed. If anything
    fails, the temporary file is removed and an existing file is unchanged. A device or a pipe, such as
    /dev/stdout, is written directly: replacing it would destroy it.

    Args:
        path: the file.
        data: its contents.
        numbers: whether they are mostly numbers; see `pack_gzip`.

    Raises:
        InputError: the file cannot be written; with the reason.
    """
    source = str(path)
    if source.lower().endswith(".gz"):
        data = pack_gzip(data, numbers=numbers)
    try:
        if (number := descriptor_of(path)) is not None:  # shares its position with what else is written there
            with os.fdopen(os.dup(number), "wb") as stream:
                stream.write(data)
            return
        place = Path(path)
        mode = place.stat().st_mode if place.exists() else None
        if source.endswith("/") or (mode is not None and stat.S_ISDIR(mode)):
            raise InputError(source, "", "it is a directory", "give the name of a file")
        if mode is not None and not stat.S_ISREG(mode):
            with place.open("wb") as stream:
                stream.write(data)
            return
        _replace(place.resolve(), data, mode)
    except FileNotFoundError:
        raise InputError(source, "", "its folder does not exist", "create the folder first") from None
    except (OSError, ValueError, RuntimeError) as error:
        reason = f"it cannot be written ({_cause(error)}); an existing file is unchanged"
        remedy = "free space, change permissions, or write elsewhere"
        raise InputError(source, "", reason, remedy) from None


def pack_gzip(data: bytes, *, numbers: bool = False) -> bytes:
    """Returns gzip data without time or file name, so that equal inputs give equal bytes.

    Args:
        data: to pack.
        numbers: whether nearly all of it is numbers in full precision. They hardly repeat: without a search
            for repetitions, tables of scores are packed eight times as fast, and no worse.

    >>> pack_gzip(b"a") == pack_gzip(b"a"), zlib.decompress(pack_gzip(b"a", numbers=True), wbits=31)
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
    handle, path = locked_file(target.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
            path.chmod(_default_mode() if mode is None else stat.S_IMODE(mode))
            path.replace(target)
    except BaseException:  # including an interruption
        path.unlink(missing_ok=True)
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
    with place.open("rb") as stream:
        packing = _packing(stream.read(_LONGEST_MAGIC))
        if packing != "gz":
            return place.stat().st_size if packing is None else 0
        packed = stream.seek(0, os.SEEK_END)
        stream.seek(-min(4, packed), os.SEEK_CUR)
        promised = int.from_bytes(stream.read(4), "little")  # of the last part, modulo 2^32
    return promised if promised <= _MOST_PACKED * packed else 0  # else the trailer is damaged


def _read_bounded(stream: BinaryStream, source: str, promised: int, run: Run, most: int = LARGEST) -> bytes:
    """Returns the rest of a stream; the size of a pipe or of gzip data is certain only at its end."""
    buffer = io.BytesIO()
    chunk = b"begin"
    while chunk:
        size = max(promised, buffer.tell())
        run.require_reading(size)
        if size > most:
            reason = f"it holds more than {most / 2**30:.3g} GiB once decompressed"
            raise InputError(source, "", reason, "give a table with a smaller max_size")
        chunk = stream.read(_CHUNK)
        buffer.write(chunk)
    return buffer.getvalue()


def _cause(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
