"""Registries of named values, such as backends and scores, and the texts that describe their values.

A choice is a frozen dataclass with a name, and its options are its fields. `lns:exact=dp,kicks=20` is the
registered value `lns` with two fields replaced, by the types of the fields:

    text     = name [":" options] | name "(" options ")"
    options  = item {"," item}
    item     = key "=" value | value
    value    = anything; several, for a field that is a tuple, are joined by "+" or ","; "none" is None or ()

An item without a key continues the value before it, `components=1,2,4`; the first one sets the field that the
class names as `main`, `quantile:4`. A field that holds another choice accepts its text, and a dotted key
sets an option of the value of that field: `exact=dp,exact.precision=int32`. Parentheses keep commas and
plus signs of a choice within another together: `start=forward(start=none)+chowliu`.

A registry imports the module of a value when it is first used. Values of other packages are found by entry
points, by name only: iterating over a registry leaves them out.
"""

from __future__ import annotations

import sys
import typing
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, is_dataclass, replace
from enum import Enum
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from jtsolve.core.choice_texts import MAIN, key_values, split_choice, split_options
from jtsolve.core.choice_types import (
    NONE,
    FieldTypes,
    class_of,
    documentation_of,
    fields_without_default,
    value_of,
)
from jtsolve.errors import ChoiceError, nearest_word, no_such, on_one_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.metadata import EntryPoint

T = TypeVar("T")

_LONGEST_LINE = 500
"""Characters of a line on standard error."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a registry finds a value.

    Args:
        where: "module:Class".
        options: those of the registered value that differ from the defaults of the class, as text.
    """

    where: str
    options: str = ""


class ChoiceField(NamedTuple):
    """A field of a choice.

    Attributes:
        name: of the field.
        values: its type, in words.
        default: as text; None if the option has to be given.
        meaning: from the section "Args:" of the docstring, on one line; "" without one.
    """

    name: str
    values: str
    default: str | None
    meaning: str


class Explained(NamedTuple):
    """A choice, the first line of its docstring, and its options."""

    name: str
    summary: str
    options: tuple[ChoiceField, ...]


class Registry(MutableMapping[str, T]):
    """The values of a kind by name, each imported on first use. Iteration yields the names.

    Args:
        kind: a noun for messages, such as "backend".
        entries: by name; the attribute `name` of each value is the same.
        annotations: names of the types of fields that hold such values, such as "Backend".
        within: registries of other kinds of values that fields hold.
        group: the group of entry points by which other packages offer values; "" for none.
        fault: returns why a value of another package cannot be used, or None.
    """

    def __init__(
        self,
        kind: str,
        entries: Mapping[str, Entry],
        *,
        annotations: Iterable[str] = (),
        within: Iterable[Registry[Any]] = (),
        group: str = "",
        fault: Callable[[T], str | None] = lambda _: None,
    ) -> None:
        self.kind = kind
        self.annotations = tuple(annotations)
        self._held: dict[str, Any] = dict(entries)  # entries, replaced by their values once loaded
        self._types = FieldTypes({name: one for one in (self, *within) for name in one.annotations})
        self._group = group
        self._fault = fault

    def __getitem__(self, name: str) -> T:
        """Returns the registered value of that name.

        Raises:
            KeyError: there is none.
            ChoiceError: an option has to be given.
        """
        return self._complete(self._loaded(name))

    def __setitem__(self, name: str, value: T) -> None:
        self._held[name] = value

    def __delitem__(self, name: str) -> None:
        del self._held[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, name: object) -> bool:
        return name in self._held

    def find(self, name: str) -> T:
        """Returns the value of that name, of this package or another.

        Raises:
            ChoiceError: there is none, it cannot be used, or an option of it has to be given.
        """
        return self._complete(self._found(name))

    @property
    def names(self) -> list[str]:
        """The names of all values, of other packages too; nothing is imported."""
        return [*self._held, *(name for name in self._entry_points() if name not in self._held)]

    def everything(self) -> dict[str, T]:
        """Returns all values by name.

        One of another package that cannot be used is omitted, with a line on standard error.
        """
        usable = dict(self)
        for name, entry in self._entry_points().items():
            try:
                usable[name] = self._plug_in(entry)
            except ChoiceError as error:
                with suppress(AttributeError, OSError):  # standard error may be closed
                    sys.stderr.write(on_one_line(f"{error}; it is left out", _LONGEST_LINE) + "\n")
        return usable

    def parse(self, text: str) -> T:
        """Returns the value that a text such as "lns:exact=dp,kicks=20" describes; see the module.

        Raises:
            ChoiceError: the value or an option does not exist, or an option's value is invalid.
        """
        name, options = split_choice(text)
        return self.with_options(self._found(name), options) if options else self.find(name)

    def chosen(self, given: object, attribute: str) -> T:
        """Returns the value that a text describes, or the value itself.

        Args:
            given: a text such as "lns:exact=dp", or a value.
            attribute: of such values.

        Raises:
            ChoiceError: as `parse`; or the value is of another kind.
        """
        if isinstance(given, str):
            return self.parse(given)
        if not hasattr(given, attribute):
            raise ChoiceError(f"{given!r} is not a {self.kind}; give one of these: {', '.join(self)}")
        return typing.cast("T", given)

    def with_options(self, base: T | type[T], options: Mapping[str, str]) -> T:
        """Returns a value, or one of a class, with its own options replaced, then those of values within.

        Raises:
            ChoiceError: an option does not exist, is missing, or has an invalid value.
        """
        kinds = self._types.of(base)
        own: dict[str, str] = {}
        inner: dict[str, dict[str, str]] = {}
        for written, text in options.items():
            if written == MAIN and not _main_of(base):
                key_values([text])  # refuses it
            key, dot, rest = (written or _main_of(base)).partition(".")
            if key not in kinds:
                raise ChoiceError(self._no_such_option(base, key, kinds))
            if dot:
                inner.setdefault(key, {})[rest] = text
            elif key in own:
                raise ChoiceError(f"the option '{key}' is given twice; give it once")
            else:
                own[key] = text
        changed = {key: self._convert(base, key, text, kinds[key]) for key, text in own.items()}
        for key, texts in inner.items():
            value, kind = changed.get(key, value_of(base, key)), self._types.registry_in(kinds[key])
            if kind is None or not is_dataclass(value):
                noun = self.kind if kind is None else kind.kind
                raise ChoiceError(
                    f"the option '{key}' of {self._called(base)} holds no {noun}, so "
                    f"'{key}.{next(iter(texts))}' does not exist; set {key} to a {noun} first"
                )
            changed[key] = kind.with_options(value, texts)
        return self._built(base, changed)

    def text_of(self, value: T) -> str:
        """Returns the text of a value: its name, and the options that differ from the registered ones.

        A part that is not registered has its name only.
        """
        name = _name_of(value)
        base = self._found(name) if name in self else value
        options = [
            f"{key}={self._shown(getattr(value, key), kind)}"
            for key, kind in self._types.of(value).items()
            if getattr(value, key) != value_of(base, key)
        ]
        return f"{name}({','.join(options)})" if options else name

    def describe(self, choice: str | T) -> Explained:
        """Returns the name of a value, and its options; the registered value if its name is given.

        Raises:
            ChoiceError: there is none of that name.
        """
        found = self._found(choice) if isinstance(choice, str) else choice
        summary, meanings = documentation_of(class_of(found))
        options = tuple(
            ChoiceField(key, self._types.words(kind), self._default(found, key, kind), meanings.get(key, ""))
            for key, kind in self._types.of(found).items()
        )
        return Explained(_name_of(found), summary, options)

    def _default(self, found: T | type[T], key: str, kind: Any) -> str | None:
        value = value_of(found, key)
        return None if value is MISSING else self._shown(value, kind)

    def _loaded(self, name: str) -> T | type[T]:
        """Returns the registered value, or its class if that needs options."""
        held = self._held[name]
        if isinstance(held, Entry):
            module, _, attribute = held.where.partition(":")
            held, options = getattr(import_module(module), attribute), split_options(held.options)
            if fields_without_default(held) <= options.keys():
                held = self.with_options(held, options)
            self._held[name] = held
        return typing.cast("T | type[T]", held)

    def _found(self, name: str) -> T | type[T]:
        """Returns the value of a name, in this package or another."""
        if name in self._held:
            return self._loaded(name)
        others = self._entry_points()
        if name in others:
            return self._plug_in(others[name])
        raise ChoiceError(no_such(self.kind, name, self.names))

    def _entry_points(self) -> dict[str, EntryPoint]:
        if not self._group:
            return {}
        from importlib.metadata import entry_points

        return {entry.name: entry for entry in sorted(entry_points(group=self._group), key=lambda e: e.name)}

    def _plug_in(self, entry: EntryPoint) -> T:
        """Returns the value of an entry point; raises a ChoiceError if it cannot be used."""
        fault: str | None
        try:
            found = entry.load()
            value: T = found() if isinstance(found, type) else found
            fault = self._fault(value)
            if fault is None and _name_of(value) != entry.name:
                fault = f"it is called '{_name_of(value)}', unlike its entry point"
        except (Exception, SystemExit) as error:  # noqa: BLE001 - faults elsewhere must not end this program
            fault = repr(error)
        if fault is None and entry.name in self._held:
            fault = f"jtsolve has a {self.kind} of this name"
        if fault is not None:
            raise ChoiceError(f"the {self.kind} '{entry.name}' from {entry.value} cannot be used: {fault}")
        return value

    def _complete(self, found: T | type[T]) -> T:
        return self.with_options(found, {}) if isinstance(found, type) else found

    def _built(self, base: T | type[T], changed: Mapping[str, Any]) -> T:
        """Returns the value with some fields replaced; its constructor may reject them."""
        try:
            if not isinstance(base, type):
                return typing.cast("T", replace(typing.cast("Any", base), **changed))
            missing = sorted(fields_without_default(base) - changed.keys())
            if missing:
                values = self._types.words(self._types.of(base)[missing[0]])
                raise ChoiceError(
                    f"{self._called(base)} needs the option '{missing[0]}', {values}; write "
                    f"{_name_of(base)}:{missing[0]}=VALUE"
                )
            return base(**changed)
        except ValueError as error:
            kinds = self._types.of(base)
            given = ", ".join(f"{key}={self._shown(value, kinds[key])}" for key, value in changed.items())
            raise ChoiceError(f"{self._called(base)} does not accept {given}: {error}") from error

    def _convert(self, base: T | type[T], key: str, text: str, kind: Any) -> Any:
        """Returns the text as a value of the field's type."""
        try:
            return self._types.value(text, kind)
        except ValueError:
            raise ChoiceError(
                f"the option '{key}' of {self._called(base)} cannot be '{text}'; give "
                f"{self._types.words(kind)}"
            ) from None

    def _called(self, base: T | type[T]) -> str:
        return f"{self.kind} '{_name_of(base)}'"

    def _no_such_option(self, base: T | type[T], key: str, kinds: Mapping[str, Any]) -> str:
        """Returns the message that lists the existing options."""
        near = nearest_word(key, kinds)
        hint = f"; did you mean '{near}'?" if near else ";"
        shown = []
        for known, kind in kinds.items():
            default = self._default(base, known, kind)
            now = "required" if default is None else f"now {default}"
            shown.append(f"{known} ({self._types.words(kind)}, {now})")
        have = f"its options are: {', '.join(shown)}" if shown else "it has no options"
        return f"{self._called(base)} has no option '{key}'{hint} {have}"

    def _shown(self, value: object, kind: Any) -> str:
        """Returns a value of a field of this type as written in a text."""
        if value is None:
            return NONE
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, Enum):
            return str(value.value)
        if isinstance(value, tuple):
            return "+".join(self._shown(part, kind) for part in value) or NONE
        registry = self._types.registry_in(kind)
        if registry is None or not is_dataclass(value):
            return str(getattr(value, "name", value))
        return str(registry.text_of(value))


def _name_of(base: object) -> str:
    return str(base.name)  # type: ignore[attr-defined]  # a choice has a name by contract


def _main_of(base: object) -> str:
    """Returns the field that an item without a key sets; "" for none."""
    return str(getattr(base, "main", MAIN))
