"""Backends from text: a name and `key=value` options, converted by the types of the backend's fields.

An option of a nested backend has a dotted key: `exact=dp`, `exact.precision=float64`. Several values of one
option are joined by plus signs: `start=forward+chowliu`; `start=none` stands for no value.
"""

from __future__ import annotations

import math
import types
import typing
from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from jtsolve.backends.registry import REGISTRY
from jtsolve.core.backend import Backend
from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NONE = "none"

FILES = frozenset({"certificate"})
"""Options that name a file to write."""


def parse_backend(text: str) -> Backend:
    """Returns the backend that a text such as "lns:exact=dp,exact.precision=int32,seed=3" describes.

    Raises:
        ChoiceError: the backend or an option does not exist, or a value is invalid.
    """
    return make_backend(*split_backend(text))


def parse_untrusted(text: str) -> Backend:
    """Returns the backend that a text of a specification, plan or grid describes; it may not write files.

    Raises:
        ChoiceError: as `parse_backend`, or an option names a file.
    """
    backend = parse_backend(text)
    _require_no_files(backend)
    return backend


def _require_no_files(backend: Backend) -> None:
    for key in _option_types(backend):
        value = getattr(backend, key)
        if key in FILES and value is not None:
            raise ChoiceError(
                f"the option '{key}' of backend '{backend.name}' names a file, which runs of a comparison "
                "may not write; use 'jtsolve solve' for it"
            )
        for part in value if isinstance(value, tuple) else (value,):
            if _is_backend(part):
                _require_no_files(part)


def split_backend(text: str) -> tuple[str, dict[str, str]]:
    """Returns the name and the unconverted options in a text such as "lns:exact=dp,seed=3".

    Raises:
        ChoiceError: an option is not a `key=value` pair, or is given twice.

    >>> split_backend("lns:exact=dp,seed=3")
    ('lns', {'exact': 'dp', 'seed': '3'})
    """
    name, colon, rest = text.partition(":")
    return name, split_options(rest.split(",")) if colon else {}


def split_options(pairs: Iterable[str]) -> dict[str, str]:
    """Returns `key=value` pairs as a dictionary.

    Raises:
        ChoiceError: one is not such a pair, or a key is given twice.

    >>> split_options(["seed=3", "start=forward"])
    {'seed': '3', 'start': 'forward'}
    """
    options: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ChoiceError(f"the option '{pair}' is not a key=value pair; write for example seed=3")
        if key in options:
            raise ChoiceError(f"the option '{key}' is given twice; give it once")
        options[key] = value
    return options


def make_backend(name: str, options: Mapping[str, str] | None = None) -> Backend:
    """Returns the registered backend of that name, with the given options.

    Args:
        name: its name in the registry.
        options: texts by option name; "none" stands for None. A dotted key, `start.steps`, sets an option of
            the backend in `start`, after `start` itself.

    Raises:
        ChoiceError: the backend or an option does not exist, or a value is invalid; lists the existing ones.
    """
    if name not in REGISTRY:
        near = get_close_matches(name, REGISTRY, n=1)
        hint = f"; did you mean '{near[0]}'? There are" if near else "; there are"
        raise ChoiceError(f"there is no backend '{name}'{hint}: {', '.join(REGISTRY)}")
    return _with_options(REGISTRY[name], options or {})


def _with_options(backend: Backend, options: Mapping[str, str]) -> Backend:
    """Returns the backend with its own options replaced first, then those of nested backends."""
    nested: dict[str, dict[str, str]] = {}
    for key in options:
        outer, dot, inner = key.partition(".")
        if dot:
            nested.setdefault(outer, {})[inner] = options[key]
    kinds = _option_types(backend)
    unknown = [key for key in (*options, *nested) if "." not in key and key not in kinds]
    if unknown:
        raise ChoiceError(_no_such_option(backend, unknown[0], kinds))
    changed = {key: _convert(backend, key, text, kinds[key]) for key, text in options.items() if key in kinds}
    for key, inner_options in nested.items():
        inside = changed.get(key, getattr(backend, key))
        if not _is_backend(inside):
            raise ChoiceError(
                f"the option '{key}' of backend '{backend.name}' holds no backend, "
                f"so '{key}.{next(iter(inner_options))}' does not exist; set {key} to a backend first"
            )
        changed[key] = _with_options(inside, inner_options)
    return _replaced(backend, changed)


def _replaced(backend: Backend, changed: Mapping[str, Any]) -> Backend:
    """Returns the backend with some fields replaced; its constructor may reject them."""
    if not changed:
        return backend
    try:
        # A backend is a dataclass by contract, which its protocol cannot say.
        return typing.cast("Backend", replace(typing.cast("Any", backend), **changed))
    except ValueError as error:
        given = ", ".join(f"{key}={_shown(value)}" for key, value in changed.items())
        raise ChoiceError(f"backend '{backend.name}' does not accept {given}: {error}") from error


def _is_backend(value: object) -> bool:
    return is_dataclass(value) and hasattr(value, "capabilities")


def _option_types(backend: Backend) -> dict[str, Any]:
    """Returns the types of the backend's options, by name.

    Backends import annotation names only under TYPE_CHECKING; those that options use are listed here.
    """
    if not is_dataclass(backend):
        return {}
    names = {"Backend": Backend, "Literal": Literal, "Any": Any}
    hints = get_type_hints(type(backend), localns=names)
    return {entry.name: hints[entry.name] for entry in fields(backend) if entry.init}


def _no_such_option(backend: Backend, key: str, kinds: Mapping[str, Any]) -> str:
    """Returns the message that lists the existing options."""
    near = get_close_matches(key, kinds, n=1)
    hint = f"; did you mean '{near[0]}'?" if near else ";"
    shown = [
        f"{known} ({_describe(kind)}, now {_shown(getattr(backend, known))})" for known, kind in kinds.items()
    ]
    have = f"its options are: {', '.join(shown)}" if shown else "it has no options"
    return f"backend '{backend.name}' has no option '{key}'{hint} {have}"


def _convert(backend: Backend, key: str, text: str, kind: Any) -> Any:
    """Returns the text as a value of the field's type."""
    try:
        return _value(text, kind)
    except ValueError:
        raise ChoiceError(
            f"the option '{key}' of backend '{backend.name}' cannot be '{text}'; give {_describe(kind)}"
        ) from None


def _value(text: str, kind: Any) -> Any:
    """Returns the text as a value of a type, or raises ValueError."""
    choices = _choices(kind)
    if choices is not None:
        return _pick(text, choices)
    if get_origin(kind) in (Union, types.UnionType):
        return _first_value(text, get_args(kind))
    if kind is Backend:
        return parse_backend(text)
    if get_origin(kind) is tuple and get_args(kind)[1:] == (...,):
        return () if text == _NONE else tuple(_value(part, get_args(kind)[0]) for part in text.split("+"))
    if kind is float and math.isnan(float(text)):
        raise ValueError("NaN is not allowed")
    if kind in (int, float, str):
        return kind(text)
    raise ValueError(f"values of the type {kind} cannot be written as text")


def _choices(kind: Any) -> dict[str, Any] | None:
    """Returns the values of an enumerable type by text; None for other types."""
    if kind is type(None):
        return {_NONE: None}
    if kind is bool:
        return {"true": True, "false": False}
    if get_origin(kind) is Literal:
        return {_shown(choice): choice for choice in get_args(kind)}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {str(member.value): member for member in kind}
    return None


def _first_value(text: str, kinds: Iterable[Any]) -> Any:
    """Returns the text as a value of the first type that accepts it; None comes first and str last."""
    refusal: Exception = ValueError("no type accepts it")
    for kind in sorted(kinds, key=lambda kind: (kind is not type(None), kind is str)):
        try:
            return _value(text, kind)
        except (ValueError, ChoiceError) as error:
            refusal = error  # a wrong backend says more than "no such value"
    raise refusal


def _pick(text: str, choices: Mapping[str, Any]) -> Any:
    if text not in choices:
        raise ValueError(f"'{text}' is not among {', '.join(choices)}")
    return choices[text]


def _shown(value: object) -> str:
    """Returns a value as written in an option."""
    if value is None:
        return _NONE
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return "+".join(map(_shown, value)) or _NONE
    return str(getattr(value, "name", value))


def _describe(kind: Any) -> str:
    """Returns a description of the values of a type."""
    choices = _choices(kind)
    if choices is not None:
        return " or ".join(choices)
    if get_origin(kind) in (Union, types.UnionType):
        return " or ".join(_describe(part) for part in get_args(kind))
    if get_origin(kind) is tuple:
        return f"{_describe(get_args(kind)[0])}, or several joined by +"
    words = {int: "a whole number", float: "a number", str: "a text", Backend: "the name of a backend"}
    return words.get(kind, str(kind))


def shown_options(backend: Backend) -> dict[str, str]:
    """Returns a backend's options as `key=value` pairs; a nested backend by its name alone.

    >>> from jtsolve.backends.registry import REGISTRY
    >>> all(isinstance(text, str) for text in shown_options(REGISTRY["dp"]).values())
    True
    """
    return {key: _shown(getattr(backend, key)) for key in _option_types(backend)}


def option_values(backend: Backend) -> dict[str, str]:
    """Returns a description of the values of each option of a backend.

    >>> from jtsolve.backends.registry import REGISTRY
    >>> option_values(REGISTRY["dp"])["precision"]
    'auto or float64 or int64 or int32'
    """
    return {key: _describe(kind) for key, kind in _option_types(backend).items()}
