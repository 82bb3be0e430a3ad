"""The fields of choices: their types, and values of these types from texts and in words."""

from __future__ import annotations

import inspect
import math
import re
import types
import typing
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

from jtsolve.core.choice_texts import parts
from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NONE = "none"

_ARGUMENTS = re.compile(r"^Args:\n((?:[ ]{4}.*\n?|\n)+)", re.MULTILINE)
_ARGUMENT = re.compile(r"^[ ]{4}(\w+): (.*(?:\n(?:[ ]{5,}.*)?)*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FieldTypes:
    """The types of fields.

    Args:
        registries: `choices.Registry` of the values that fields hold, by the name of the type in annotations.
    """

    registries: Mapping[str, Any]

    def of(self, base: object) -> dict[str, Any]:
        """Returns the types of the options of a value or class, by name; none unless it is a dataclass."""
        if not is_dataclass(base):
            return {}
        hints = self._hints(class_of(base))
        return {entry.name: hints[entry.name] for entry in fields(base) if entry.init and entry.repr}

    def _hints(self, kind: type) -> dict[str, Any]:
        """Returns the types of the fields of a class.

        A module may import the names in its annotations only under TYPE_CHECKING. Unresolved names become
        placeholder types; values of those that are not in `registries` cannot be written as text.
        """
        names: dict[str, Any] = {name: type(name, (), {}) for name in self.registries}
        while True:
            try:
                return typing.get_type_hints(kind, localns=names)
            except NameError as error:
                missing = str(error.name)
                names[missing] = getattr(typing, missing, None) or type(missing, (), {})

    def registry_in(self, kind: Any) -> Any:
        """Returns the registry of the values that a field of this type holds, alone or in a tuple."""
        own = self._registry_of(kind)
        inside = (self.registry_in(part) for part in get_args(kind))
        return own or next((found for found in inside if found is not None), None)

    def _registry_of(self, kind: Any) -> Any:
        return self.registries.get(kind.__name__) if isinstance(kind, type) else None

    def value(self, text: str, kind: Any) -> Any:
        """Returns the text as a value of a type.

        Raises:
            ValueError: it is none.
            ChoiceError: it is no registered choice.
        """
        choices = _choices(kind)
        if choices is not None:
            if text not in choices:
                raise ValueError(f"'{text}' is not among {', '.join(choices)}")
            return choices[text]
        if get_origin(kind) in (Union, types.UnionType):
            return self._first_value(text, get_args(kind))
        registry = self._registry_of(kind)
        if registry is not None:
            return registry.parse(text)
        if get_origin(kind) is tuple and get_args(kind)[1:] == (...,):
            several = [] if text == NONE else parts(text, "+,")
            return tuple(self.value(part, get_args(kind)[0]) for part in several)
        if kind is float and math.isnan(float(text)):
            raise ValueError("NaN is not allowed")
        if kind in (int, float, str):
            return kind(text)
        raise ValueError(f"values of the type {kind} cannot be written as text")

    def _first_value(self, text: str, kinds: Iterable[Any]) -> Any:
        """Returns the text as a value of the first type that accepts it; None comes first and str last."""
        refusal: Exception = ValueError("no type accepts it")
        for kind in sorted(kinds, key=lambda kind: (kind is not type(None), kind is str)):
            try:
                return self.value(text, kind)
            except (ValueError, ChoiceError) as error:
                refusal = error  # the refusal of a wrong backend is more specific than "no such value"
        raise refusal

    def words(self, kind: Any) -> str:
        """Returns the values of a type in words."""
        choices = _choices(kind)
        if choices is not None:
            return " or ".join(choices)
        if get_origin(kind) in (Union, types.UnionType):
            return " or ".join(map(self.words, get_args(kind)))
        if get_origin(kind) is tuple:
            return f"{self.words(get_args(kind)[0])}, or several joined by +"
        registry = self._registry_of(kind)
        if registry is not None:
            article = "an" if registry.kind[0] in "aeiou" else "a"
            return f"the name of {article} {registry.kind}"
        words = {int: "a whole number", float: "a number", str: "a text"}
        return words.get(kind, f"a value of type {getattr(kind, '__name__', kind)}, in Python only")


def class_of(base: object) -> type:
    """Returns a class, or the class of a value."""
    return base if isinstance(base, type) else type(base)


def documentation_of(kind: type) -> tuple[str, dict[str, str]]:
    """Returns the first line of the docstring of a class, and a sentence on each of its "Args:"."""
    text = inspect.getdoc(kind) or ""
    section = _ARGUMENTS.search(text + "\n")
    found = [] if section is None else _ARGUMENT.findall(section[1])
    lines = {name: " ".join(meaning.split()) for name, meaning in found}
    return text.partition("\n")[0], {name: line[:1].upper() + line[1:] for name, line in lines.items()}


def fields_without_default(kind: type) -> set[str]:
    """Returns the names of the fields of a class that have to be given."""
    if not is_dataclass(kind):
        return set()
    return {
        entry.name
        for entry in fields(kind)
        if entry.init and entry.default is MISSING and entry.default_factory is MISSING
    }


def value_of(base: object, key: str) -> Any:
    """Returns the value of a field, for a class its default; MISSING without one."""
    if not isinstance(base, type):
        return getattr(base, key)
    entry = base.__dataclass_fields__[key]  # type: ignore[attr-defined]  # a dataclass
    return entry.default if entry.default_factory is MISSING else entry.default_factory()


def _choices(kind: Any) -> dict[str, Any] | None:
    """Returns the values of an enumerable type by text; None for other types."""
    if kind is type(None):
        return {NONE: None}
    if kind is bool:
        return {"true": True, "false": False}
    if get_origin(kind) is Literal:
        return {str(choice): choice for choice in get_args(kind)}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {str(member.value): member for member in kind}
    return None
