"""Hand-written files: TOML or JSON.

Files of constraints, for use beside data, have the keys of an instance's constraints:

    max_separator_size = 2
    forbidden_edges = [["Age", "Smoker"]]
"""

from __future__ import annotations

import tomllib
from math import isfinite
from typing import TYPE_CHECKING

import msgspec

from jtsolve.core.files import read_file
from jtsolve.errors import InputError
from jtsolve.io.constraints import ConstraintsDocument
from jtsolve.io.documents import require_unique_keys, require_utf8

if TYPE_CHECKING:
    from pathlib import Path

    from jtsolve.io.documents import Document


def read_constraints(path: Path) -> ConstraintsDocument:
    """Returns the constraints in a file.

    Raises:
        InputError: the file cannot be read or is invalid; names the place.
    """
    return decode_settings(read_file(path), ConstraintsDocument, path, "'Constraints' in docs/formats.md")


def decode_settings(data: bytes, kind: type[Document], path: Path, manual: str) -> Document:
    """Returns the contents of a .toml file, or of a JSON file of any other name, as a struct.

    Args:
        data: the text.
        kind: a struct.
        path: of the file.
        manual: where its keys are explained.

    Raises:
        InputError: the text is invalid; names the place.
    """
    source = str(path)
    require_utf8(data, source)
    try:
        if path.suffix == ".toml":
            values = tomllib.loads(data.decode(), parse_float=_finite)
        else:
            values = msgspec.json.decode(data)
            require_unique_keys(data, source)
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at ")
        place = place.strip("`") or "$"
        raise InputError(source, place, reason.replace("`", "'"), f"see {manual}") from None
    except RecursionError:
        raise InputError(source, "", "its lists or tables are nested too deeply", "nest them less") from None
    except ValueError as error:  # of syntax, and of numbers of thousands of digits
        raise InputError(
            source, "", f"it cannot be read ({error})", "write TOML in a .toml file, JSON in any other"
        ) from None


def _finite(text: str) -> float:
    """Returns a number of TOML, which has infinite ones; JSON has none."""
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number
