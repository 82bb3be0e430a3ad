"""Strict reading and readable writing of JSON files.

Strict means: valid UTF-8, no repeated or unknown key, no NaN or Infinity, no number in place of a text or
vice versa. Each violation is an `InputError` that names the place.
"""

from __future__ import annotations

import gc
import json
import re
import threading
from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_type_hints

import msgspec

from jtsolve.core.files import read_file
from jtsolve.core.run import Run
from jtsolve.core.varset import VarSet, members
from jtsolve.errors import InputError, use_one_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

Document = TypeVar("Document", bound=msgspec.Struct)

Count = Annotated[int, msgspec.Meta(ge=0)]
Name = Annotated[str, msgspec.Meta(min_length=1)]


def set_of_names(entry: Iterable[str], index: Mapping[str, int], source: str, place: str) -> VarSet:
    """Returns the set of the variables with these names.

    Args:
        entry: the names.
        index: the position of each variable by its name.
        source: the file, for errors.
        place: where the set is in it, as a JSON path.

    Raises:
        InputError: a name is unknown or occurs twice.
    """
    mask = 0
    for position, name in enumerate(entry):
        v = index.get(name)
        if v is None:
            reason = f"there is no variable '{name}'"
            raise InputError(source, f"{place}[{position}]", reason, use_one_of(str(name), index))
        if mask >> v & 1:
            raise InputError(
                source, f"{place}[{position}]", f"'{name}' occurs twice in one set", "name it once"
            )
        mask |= 1 << v
    return mask


def names_of(mask: VarSet, names: Sequence[str]) -> list[str]:
    """Returns the names of the members of a set, in the order of the variables."""
    return [names[v] for v in members(mask)]


_LEVELS = 100
"""Maximum number of levels of lists and objects below an object with any keys (docs/certificates.md)."""
_LONGEST = 40
"""Characters of a value in messages."""
_DECODERS: dict[type, Any] = {}
_BUILDING = threading.Lock()


def _decoder(kind: type[Document]) -> msgspec.json.Decoder[Document]:
    """Returns the decoder of a struct; a lock prevents that two threads build one, which crashes msgspec."""
    with _BUILDING:
        if kind not in _DECODERS:
            _DECODERS[kind] = msgspec.json.Decoder(kind)
        decoder: msgspec.json.Decoder[Document] = _DECODERS[kind]
    return decoder


def decode_json(data: bytes, kind: type[Document], source: str, run: Run | None = None) -> Document:
    """Returns a JSON text as a struct of the given kind.

    Args:
        data: the text, as UTF-8.
        kind: a struct with the fields `format` and `version`.
        source: the file, for messages.
        run: limits time and memory; None for the defaults.

    Raises:
        InputError: the text violates the format; names the place.
        LimitError: time or memory do not suffice.
    """
    run = run or Run()
    require_utf8(data, source)
    run.require_reading(len(data))
    enabled = gc.isenabled()
    gc.disable()  # for many sets, it would take four fifths of the time, and find nothing
    try:
        document = _decoder(kind).decode(data)
    except msgspec.ValidationError as error:
        _require_header(data, kind, source)
        raise _invalid(str(error), source) from None
    except msgspec.DecodeError as error:
        raise _malformed(data, str(error), source) from None
    except RecursionError:
        raise _nested(source) from None
    finally:
        if enabled:
            gc.enable()
    run.require_reading(0)
    if _too_deep(document, _LEVELS):
        raise _nested(source)
    require_unique_keys(data, source)
    run.require_reading(0)
    return document


def _too_deep(value: object, levels: int) -> bool:
    """Returns whether an object with any keys has lists or objects on more than some levels below it."""
    if isinstance(value, msgspec.Struct):
        fields = (getattr(value, name) for name in value.__struct_fields__)
        return any(_too_deep(one, levels) for one in fields if isinstance(one, msgspec.Struct | dict))
    entries = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return entries is not None and (levels < 0 or any(_too_deep(one, levels - 1) for one in entries))


def _nested(source: str) -> InputError:
    return InputError(source, "", "its lists or objects are nested too deeply", "nest them less deeply")


def require_utf8(data: bytes, source: str) -> None:
    """Checks that a text is UTF-8.

    Raises:
        InputError: it is not; gives the position.
    """
    try:
        data.isascii() or data.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            source, position_of(data, error.start), "a byte is not UTF-8", "save the file as UTF-8"
        ) from None


_READERS = {
    "jtsolve-instance": "read",
    "jtsolve-model": "Model.read",
    "jtsolve-graph": "triangulate",
    "jtsolve-result": "Solution.read",
}
"""Functions that read a file of each format."""


class _Header(msgspec.Struct):
    format: Any = msgspec.UNSET
    version: Any = msgspec.UNSET


def format_of(path: str | Path) -> object:
    """Returns the format that a JSON file declares; None if it declares none, or is no JSON.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        return _decoder(_Header).decode(read_file(path)).format
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None  # decoding the whole text reports the fault


def _require_header(data: bytes, kind: type[msgspec.Struct], source: str) -> None:
    """Raises InputError if the format or version is wrong, which explains any other error."""
    hints = get_type_hints(kind)
    try:
        header = _decoder(_Header).decode(data)
    except (msgspec.DecodeError, RecursionError):
        return  # the caller reports that it is not an object, or malformed
    for key in ("format", "version"):
        (wanted,) = get_args(hints[key])
        found = getattr(header, key)
        if found is msgspec.UNSET:
            raise InputError(source, "$", f"the key '{key}' is missing", f'add "{key}": {json.dumps(wanted)}')
        if type(found) is not type(wanted) or found != wanted:
            scalar = found is None or isinstance(found, str | int | float)
            text = json.dumps(found) if scalar else "a list or an object"
            shown = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
            remedy = f"write version {wanted}, or install a jtsolve that supports this one"
            if key == "format":
                remedy = f"give a file whose format is {json.dumps(wanted)}"
                if isinstance(found, str) and found in _READERS:
                    remedy += f", or read this one with jtsolve.{_READERS[found]}"
            raise InputError(source, f"$.{key}", f"the {key} is {shown}, not {json.dumps(wanted)}", remedy)


_REMEDIES = (
    ("missing required field", "add the key"),
    ("unknown field", "remove the key, or correct its spelling"),
    ("out of range", "give a finite number"),
    ("Invalid", "use a value that docs/formats.md lists"),
    ("Expected", "give a value of the expected type"),
)


def _invalid(message: str, source: str) -> InputError:
    """Returns the error for well-formed JSON that violates the format."""
    reason, _, place = message.partition(" - at ")
    remedy = next(remedy for pattern, remedy in _REMEDIES if pattern in reason)
    reason = reason.replace("`", "'")
    return InputError(source, place.strip("`") or "$", reason[0].lower() + reason[1:], remedy)


def _malformed(data: bytes, message: str, source: str) -> InputError:
    """Returns the error for a text that is not JSON."""
    found = re.search(r"\(byte (\d+)\)", message)
    if found is None:
        return InputError(
            source, position_of(data, len(data)), "the text ends too early", "fetch or write the file again"
        )
    at = int(found[1]) - ("trailing" in message)  # in this case, msgspec gives the following byte
    word = re.match(rb"-?(NaN|Infinity)", data[max(0, at - 1) : at + 9].lstrip(b" ,:[\t\r\n"))
    if word is not None:
        reason, remedy = f"{word[0].decode()} is not a number in JSON", "give a finite number"
    else:
        reason = f"this is not JSON: {message.partition('malformed: ')[2]}"
        begins = data.lstrip()[:1] in (b"{", b"[")
        remedy = "correct the text there" if begins else "give a file that jtsolve wrote"
    return InputError(source, position_of(data, at), reason, remedy)


# In well-formed JSON, matches everything up to the next brace or key, and that: one match for 10^6 numbers.
_STEP = re.compile(
    rb'(?:[^"{}]++|"(?:[^"\\]++|\\.)*+"(?!\s*+:))*+(?:([{}])|("(?:[^"\\]++|\\.)*+")\s*+:)', re.DOTALL
)


def require_unique_keys(data: bytes, source: str) -> None:
    """Checks that no object has a key twice: parsers silently keep one of them.

    Raises:
        InputError: a key is repeated; gives the position.
    """
    objects: list[set[str]] = []
    path: list[str] = []
    for step in _STEP.finditer(data, 0, data.rfind(b"}") + 1):
        brace, quoted = step.groups()
        if brace == b"{":
            objects.append(set())
            path.append("")
        elif brace == b"}":
            objects.pop()
            path.pop()
        else:
            key: str = json.loads(quoted)
            if key in objects[-1]:
                reason = f"the key '{key}' occurs twice ({position_of(data, step.start(2))})"
                raise InputError(source, ".".join(["$", *path[:-1], key]), reason, "remove one of them")
            objects[-1].add(key)
            path[-1] = key


def position_of(data: bytes, at: int) -> str:
    r"""Returns the line and column of a byte of a text, both from 1.

    >>> position_of(b"ab\ncd", 4)
    'line 2, column 2'
    """
    return f"line {data.count(bytes([10]), 0, at) + 1}, column {at - data.rfind(bytes([10]), 0, at)}"


def json_bytes(value: Any) -> bytes:
    r"""Returns a JSON value as the contents of a file: UTF-8, laid out, with a newline at its end.

    Names of files may have bytes that are not UTF-8, which Python represents by halves of surrogate pairs;
    these are escaped as in messages.

    Raises:
        ValueError: a number is not finite.

    >>> json_bytes("a\udcff")
    b'"a\\\\udcff"\n'
    """
    return _SURROGATE.sub(lambda half: rf"\\u{ord(half[0]):04x}", indented_json(value) + "\n").encode()


_SURROGATE = re.compile("[\ud800-\udfff]")


def indented_json(value: Any, indent: int = 0) -> str:
    """Returns JSON with one line per key of an object, and per entry of a list of lists or objects.

    Raises:
        ValueError: a number is not finite.

    >>> print(indented_json({"a": [1, 2], "b": [["x"], ["y"]]}))
    {
      "a": [1, 2],
      "b": [
        ["x"],
        ["y"]
      ]
    }
    """
    inner, outer = " " * (indent + 2), " " * indent
    if isinstance(value, dict) and value:
        lines = [
            f"{inner}{json.dumps(key, ensure_ascii=False)}: {indented_json(entry, indent + 2)}"
            for key, entry in value.items()
        ]
        return "{\n" + ",\n".join(lines) + f"\n{outer}}}"
    if isinstance(value, list) and any(isinstance(entry, list | dict) for entry in value):
        return "[\n" + ",\n".join(inner + indented_json(entry, indent + 2) for entry in value) + f"\n{outer}]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def json_value(value: Any) -> Any:
    """Returns a value as JSON: lists for sequences, null for numbers that are not finite.

    Raises:
        TypeError: the value has no form in JSON.

    >>> json_value({"a": (1, float("inf"))})
    {'a': [1, None]}
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float(value) if isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): json_value(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(entry) for entry in value]
    if hasattr(value, "tolist"):  # of numpy
        return json_value(value.tolist())
    raise TypeError(f"{value!r} is not a JSON value: use numbers, texts, lists and mappings")
