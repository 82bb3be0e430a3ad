"""Streams of data files, or of all Parquet files of a folder: hashed blocks of bytes, or of whole lines."""

from __future__ import annotations

import codecs
import hashlib
import re
from glob import glob
from io import BytesIO, TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jtsolve.core.files import LARGEST, marked_encoding, opened
from jtsolve.core.formats import require_name
from jtsolve.core.run import Run
from jtsolve.errors import ChoiceError, InputError
from jtsolve.tables.options import ENCODING, is_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_MARK = 3
"""Bytes of the longest byte order mark, that of UTF-8."""
_BINARY = re.compile(rb"[\0-\x08\x0e-\x1a\x1c-\x1f]")
"""A control character that texts do not have."""


class Blocks(NamedTuple):
    """Sizes of the blocks in which a file is read and its equal rows are merged.

    Attributes:
        size: bytes read and parsed at a time.
        values: values of quoted text held as strings at a time: a tenth of a second of work.
        rows: maximum number of rows converted to text at a time.
        kept: maximum number of rows that are kept without merging equal ones.
    """

    size: int = 1 << 23
    values: int = 1 << 19
    rows: int = 1 << 19
    kept: int = 1 << 20


BLOCKS = Blocks()


def files_of(path: str | Path) -> tuple[Path, ...]:
    """Returns the Parquet files of a folder or pattern, in natural order, or any other path itself.

    Numbers in names are ordered by value: part.2 comes before part.10.

    Raises:
        InputError: the folder or pattern has none.
    """
    place = Path(path)
    require_name(path)
    if place.is_dir():
        found = list(place.glob("*.parquet"))
    elif place.exists() or not is_pattern(str(path)) or not place.name.endswith(".parquet"):
        return (place,)
    else:
        found = [Path(name) for name in glob(str(path), recursive=True)]  # noqa: PTH207 - from any root
    if not found:
        raise InputError(str(path), "", "there is no Parquet file", "give a folder or pattern with some")
    return tuple(sorted(found, key=_natural))


def _natural(file: Path) -> list[str | int]:
    """Returns the texts, at even positions, and the numbers of a path."""
    return [int(word) if at % 2 else word for at, word in enumerate(re.split(r"(\d+)", str(file)))]


class Source:
    """A data file, or the Parquet files of a folder or pattern, read once from start to end.

    Args:
        path: of the file, packed or not, of the folder, or the pattern.
        encoding: of its text, if it is text.

    Attributes:
        name: the path as text, for messages.
        files: the files.

    Raises:
        InputError: a folder or pattern has no Parquet file.
    """

    def __init__(self, path: str | Path, encoding: str = "utf-8") -> None:
        try:
            TextIOWrapper(BytesIO(), encoding)  # refuses codecs that are not for text, such as zip
            self.decoder = codecs.getincrementaldecoder(encoding)
        except (LookupError, ValueError):
            raise ChoiceError(
                f"there is no encoding '{encoding}'; give one of Python's, such as utf-8 or cp1252"
            ) from None
        self.is_utf8 = codecs.lookup(encoding).name in ("utf-8", "utf-8-sig", "ascii")
        self.path = path
        self.name = str(path)
        self.files = files_of(path)
        self._sha = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """Digest of the decompressed bytes read so far, as hexadecimal digits."""
        return self._sha.hexdigest()

    def pieces(self, size: int = BLOCKS.size) -> Iterator[bytes]:
        """Yields the decompressed content in blocks of at most `size` bytes.

        Raises:
            InputError: the file cannot be read, is empty, or is damaged packed data.
            LimitError: a block exceeds the memory limit.
        """
        for file in self.files:
            # A single file is opened by the path as given: a Path would lose a trailing slash.
            with opened(self.path if file == Path(self.path) else file) as stream:
                need = 2 * min(size, file.stat().st_size)  # the block and its lines
                Run().require_memory(need, f"{file} needs", "a file of fewer columns or rows")
                empty = True
                while piece := stream.read(size):
                    empty = False
                    self._sha.update(piece)
                    yield piece
                if empty:
                    raise InputError(str(file), "", "the file is empty", "give a table with rows")

    def whole(self, most: int = LARGEST) -> bytes:
        """Returns the whole content of at most `most` bytes, for formats that cannot be streamed.

        Raises:
            InputError: as `pieces`, or there are more bytes.
        """
        held, size = [], 0
        for piece in self.pieces():
            held.append(piece)
            size += len(piece)
            if size > most:
                raise InputError(
                    self.name,
                    "",
                    f"it exceeds {most / 2**30:.3g} GiB decompressed, and its format cannot be streamed",
                    "decompress it, or save it as CSV",
                )
        return b"".join(held)


class Lines:
    """The lines of a UTF-8 text in blocks, without byte order mark, newlines normalised.

    Iteration yields the number of a block's first line, from 1, and the block; every block but the last ends
    with a newline. Errors are raised when their block is reached.

    Args:
        source: the file.
        size: bytes of a block.
        longest: maximum number of bytes of a line; a longer one is binary data.
    """

    def __init__(self, source: Source, size: int = BLOCKS.size, longest: int = 1 << 28) -> None:
        self.name = source.name
        self._pieces = _whole_lines(source, size, longest)
        self._held: tuple[int, bytes] | None = None

    def __iter__(self) -> Lines:
        """Returns itself: consumed lines are not repeated."""
        return self

    def __next__(self) -> tuple[int, bytes]:
        """Returns the number of the next block's first line, and the block."""
        held, self._held = self._held, None
        return next(self._pieces) if held is None else held

    def first(self) -> tuple[int, str]:
        """Consumes the first non-blank line; returns its number and text, or (0, "") at the end."""
        for number, piece in self:
            start = 0
            for offset, line in enumerate(piece.split(b"\n")):
                start += len(line) + 1
                if line.strip():
                    if start < len(piece):
                        self._held = number + offset + 1, piece[start:]
                    return number + offset, line.decode()
        return 0, ""

    def ahead(self, most: int) -> list[str]:
        """Returns the next non-blank lines, at most `most` and from one block, without consuming them."""
        self._held = next(self, None)
        lines = [] if self._held is None else self._held[1].split(b"\n", 2 * most)[: 2 * most]
        return [line.decode() for line in lines if line.strip()][:most]


def _whole_lines(source: Source, size: int, longest: int) -> Iterator[tuple[int, bytes]]:
    """Yields blocks of whole lines, each with the number of its first line.

    Raises:
        InputError: the text is not UTF-8, blank, or has an endless line.
    """
    number, rest, first, blank = 1, b"", True, True
    for piece in chain(_in_utf8(source, size), [None]):
        data = rest + (piece or b"")
        if first:
            if len(data) < _LONGEST_MARK and piece is not None:
                rest = data
                continue
            data, first = data.removeprefix(b"\xef\xbb\xbf"), False
        # A carriage return at the very end may be the first half of a CRLF.
        cut = len(data) if piece is None else max(data.rfind(b"\n"), data.rfind(b"\r", 0, len(data) - 1)) + 1
        data, rest = data[:cut], data[cut:]
        if len(rest) > longest:
            reason = f"it is longer than {longest >> 20} MiB"
            raise InputError(source.name, f"line {number}", reason, "give a text with one row per line")
        if not data:
            continue
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        _require_text(data, number, source.name)
        blank = blank and data.isspace()
        yield number, data
        number += data.count(b"\n")
    if blank:
        raise InputError(source.name, "", "it holds only blanks", "give a table with rows")


def _in_utf8(source: Source, size: int) -> Iterator[bytes]:
    """Yields the content of a text in UTF-8.

    Raises:
        InputError: it is not in its encoding.
    """
    pieces = source.pieces(size)
    begin = next(pieces, b"")
    pieces = chain([begin], pieces)
    encoding = marked_encoding(begin)
    if source.is_utf8 and encoding is None:
        yield from pieces
        return
    decoder = source.decoder() if encoding is None else codecs.getincrementaldecoder(encoding)()
    try:
        for piece in pieces:
            if text := decoder.decode(piece):
                yield text.encode()
        if text := decoder.decode(b"", final=True):
            yield text.encode()
    except UnicodeError as error:
        raise InputError(
            source.name, "", f"it is not in its encoding ({error})", f"give the right {ENCODING}"
        ) from None


def _require_text(data: bytes, number: int, source: str) -> None:
    """Checks that lines are UTF-8 without zero bytes; `number` is that of the first line."""
    at, encoding = data.find(b"\0"), "utf-16"
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError as error:
            encoding = "utf-16" if _BINARY.search(data) else "cp1252"
            at = error.start
    if at < 0:
        return
    reason, remedy = "a byte is not UTF-8", f"name the encoding of the file, such as {ENCODING(encoding)}"
    remedy += ", or save it as UTF-8"
    if encoding == "utf-16":
        reason = "there are control characters, which texts in UTF-8 do not have"
        remedy += "; Parquet and Arrow files need their suffix, and other binary files are not read"
    line = number + data.count(b"\n", 0, at)
    raise InputError(source, f"line {line}", reason, remedy)
