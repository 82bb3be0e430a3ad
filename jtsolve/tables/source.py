"""The bytes of a data file, unpacked, in pieces, and their hash; text as whole lines."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from jtsolve.core.files import LARGEST, opened
from jtsolve.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PIECE = 1 << 23
"""Bytes that are read, and turned into words, at one time."""
_LONGEST_MARK = 3
"""Bytes of the longest mark of an encoding at the beginning of a text."""
_LONGEST_LINE = 1 << 28
"""Bytes; a longer line is none."""


class Source:
    """A data file that is read once, from its beginning to its end.

    Args:
        path: of the file; gzip data are unpacked.

    Attributes:
        name: the path as text, for messages.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = path
        self.name = str(path)
        self._sha = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """Of what was read, as hexadecimal digits."""
        return self._sha.hexdigest()

    def pieces(self) -> Iterator[bytes]:
        """Yields the content in pieces.

        Raises:
            InputError: the file cannot be read, is empty, or is damaged gzip data.
        """
        with opened(self.path) as stream:
            empty = True
            while piece := stream.read(_PIECE):
                empty = False
                self._sha.update(piece)
                yield piece
            if empty:
                raise InputError(
                    self.name, "", "the file is empty", "check how it was made, and make it again"
                )

    def whole(self) -> bytes:
        """Returns the content; for formats that cannot be read in pieces.

        Raises:
            InputError: as `pieces`; or there are more than `LARGEST` bytes.
        """
        held, size = [], 0
        for piece in self.pieces():
            held.append(piece)
            size += len(piece)
            if size > LARGEST:
                raise InputError(
                    self.name,
                    "",
                    f"it holds more than {LARGEST / 2**30:.3g} GiB unpacked, and cannot be read in pieces",
                    "unpack it, or save it as CSV",
                )
        return b"".join(held)


class Lines:
    """The lines of a text, in pieces: UTF-8 without byte order mark, ended by newlines.

    Iterating yields the number of a piece's first line, from 1, and the piece; every piece but the last ends
    with a newline. Faults are found when their piece is read.
    """

    def __init__(self, source: Source) -> None:
        self.name = source.name
        self._pieces = _whole_lines(source)
        self._held: tuple[int, bytes] | None = None

    def __iter__(self) -> Lines:
        """Is the iterator of what is left."""
        return self

    def __next__(self) -> tuple[int, bytes]:
        """Returns the next piece, and the number of its first line."""
        held, self._held = self._held, None
        return next(self._pieces) if held is None else held

    def first(self) -> tuple[int, str]:
        """Takes the first line that is not blank; returns its number and it, or (0, "") if there is none."""
        for number, piece in self:
            start = 0
            for offset, line in enumerate(piece.split(b"\n")):
                start += len(line) + 1
                if line.strip():
                    if start < len(piece):
                        self._held = number + offset + 1, piece[start:]
                    return number + offset, line.decode()
        return 0, ""


def _whole_lines(source: Source) -> Iterator[tuple[int, bytes]]:
    """Yields pieces of text that end with a line, and the number of the first line of each.

    Raises:
        InputError: it is no UTF-8 text, a line has no end, or there is nothing in it.
    """
    number, rest, first, blank = 1, b"", True, True
    for piece in _then_nothing(source.pieces()):
        data = rest + (piece or b"")
        if first:
            if len(data) < _LONGEST_MARK and piece is not None:
                rest = data
                continue
            if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
                raise InputError(source.name, "", "it is UTF-16", "save the file as UTF-8")
            data, first = data.removeprefix(b"\xef\xbb\xbf"), False
        # A carriage return at the end may be the first half of a line's end.
        cut = len(data) if piece is None else max(data.rfind(b"\n"), data.rfind(b"\r", 0, len(data) - 1)) + 1
        data, rest = data[:cut], data[cut:]
        if len(rest) > _LONGEST_LINE:
            reason = f"it is longer than {_LONGEST_LINE >> 20} MiB"
            raise InputError(source.name, f"line {number}", reason, "give a table as text, a row a line")
        if not data:
            continue
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        _require_text(data, number, source.name)
        blank = blank and data.isspace()
        yield number, data
        number += data.count(b"\n")
    if blank:
        raise InputError(source.name, "", "there is nothing but blanks in it", "give a table with rows")


def _then_nothing(pieces: Iterator[bytes]) -> Iterator[bytes | None]:
    yield from pieces
    yield None


def _require_text(data: bytes, number: int, source: str) -> None:
    """Finds out whether lines are UTF-8 without zero bytes; `number` is that of the first."""
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError as error:
            line = number + data.count(b"\n", 0, error.start)
            raise InputError(
                source, f"line {line}", "a byte is not UTF-8", "save the file as UTF-8"
            ) from None
    if b"\0" in data:
        line = number + data.count(b"\n", 0, data.index(b"\0"))
        raise InputError(
            source, f"line {line}", "it holds a zero byte, as no text does", "give a table as text"
        )
