"""Files of settings and records as frozen keyword-only dataclasses with a docstring under each field.

A file's content comes from `common.reading`, and is then held against a class by pydantic, which is imported once there
is something to check. What is wrong is said here, in one sentence for every kind of file.
"""

from __future__ import annotations

import contextlib
import textwrap
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, fields, is_dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from common.errors import UserError, nearest

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import CoreSchema, ErrorDetails

S = TypeVar("S")

_WANTED = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "tuple": "a list",
}
"""The first word of the library's kinds of errors (`int` of `int_parsing`), and what a message says was wanted."""
_BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
"""The library's names for the bounds of a number, and the words of a message for them."""
_hints = cache(typing.get_type_hints)
"""The types of a class's fields, by field, without bounds. They are compiled from their text, once for each class."""


class FileSettings:
    """Base of the dataclasses that are read from files: values have their fields' types, and numbers are finite.

    A field is text, a number, true or false, a `Literal`, a tuple or a `dict` of these, or another such class, which
    is a table of its own in the file. A bound stands in the type, `Annotated[int, Ge(1)]`; what no type says,
    `__post_init__` refuses with a `UserError`.
    """

    __pydantic_config__ = MappingProxyType(
        {"strict": True, "extra": "forbid", "allow_inf_nan": False}
    )

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: object, handler: Callable[[object], CoreSchema]
    ) -> dict[str, object]:
        # A strict validation would accept only instances of the class, and a table is a dict; fields stay strict.
        return {**handler(source), "strict": False}


class Group(FileSettings):
    """Settings that belong together in the code; in a file and after `--set` they stand among those around them.

        @dataclass(frozen=True, kw_only=True)
        class Optimizer(Group):
            peak_lr: Annotated[float, Gt(0)] = 5e-4

        @dataclass(frozen=True, kw_only=True)
        class Config(FileSettings):
            optimizer: Optimizer = Optimizer()
            seed: int = 0

    `read_settings(Config, {"peak_lr": 1e-3, "seed": 1}).optimizer.peak_lr` is 1e-3. `values_of` goes back,
    `keys_of` gives the fields' metadata by key, and `read_settings(Config, {"peak_lr": 1.0}, base=config)` changes one.
    """


class Key(NamedTuple):
    """One setting of a class, as a file names it."""

    group: str
    """The field of the class that holds its group; empty where it is a field of the class itself."""
    hint: Any
    """Its type, without bounds."""
    field: Field[Any]
    """Its field, with default and metadata."""


def keys_of(kind: type) -> dict[str, Key]:
    """Return the settings of a class by the key that a file has for each; those of a group stand in its place."""
    return _keys_of(kind)


@cache
def _keys_of(kind: type) -> dict[str, Key]:
    """Return what `keys_of` does; each class is looked through once."""
    keys: dict[str, Key] = {}
    hints = _hints(cast(Any, kind))
    for item in fields(kind):
        hint = hints[item.name]
        if _is(hint, Group):
            for key, inner in keys_of(hint).items():
                keys[key] = inner._replace(group=item.name)
        else:
            keys[item.name] = Key("", hint, item)
    return keys


def values_of(settings: object) -> dict[str, Any]:
    """Return the values of settings by the keys of `keys_of`, as `read_settings` takes them."""
    values = {}
    for key, where in keys_of(type(settings)).items():
        holder = getattr(settings, where.group) if where.group else settings
        values[key] = getattr(holder, key)
    return values


def read_settings(
    kind: type[S],
    values: object,
    where: str = "",
    *,
    base: S | None = None,
    typed: bool = True,
    remedy: str = "",
) -> S:
    """Return an object of a settings class, made from values by key.

    Args:
        kind: a dataclass that is a `FileSettings`.
        values: a mapping by key, as a file or `assignments` has it.
        where: where the values stand, for messages: a file, or `--set`.
        base: settings to start from; None: the class's defaults.
        typed: refuse words for numbers and numbers for words, as in a file of typed values; else words are converted.
        remedy: what the user can do, for messages; left out where correcting the value is all there is.

    Raises:
        UserError: an unknown key, with the field whose docstring names it in backquotes, or else the nearest; a
            missing one; or a value that the field cannot take.
    """
    from pydantic import ValidationError

    prefix = f"{where}: " if where else ""
    suffix = f"; {remedy}" if remedy else ""
    if not isinstance(values, Mapping):
        raise UserError(
            f"{prefix}there must be a table of keys and values, not {values!r:.60}{suffix}"
        )

    # All settings by key, as a file has them: those of groups stand among the others.
    keys = keys_of(kind)
    flat = {} if base is None else values_of(base)
    for key, value in values.items():
        if key not in keys:
            raise UserError(f"{prefix}{_unknown(key, kind)}{suffix}")
        is_whole_number = keys[key].hint is int
        flat[key] = _plain(value, from_text=is_whole_number and not typed)

    # The class has a field for each group, so the values of a group's keys become a table of their own.
    table: dict[str, Any] = {key.group: {} for key in keys.values() if key.group}
    for key, value in flat.items():
        group = keys[key].group
        if group:
            table[group][key] = value
        else:
            table[key] = value

    adapter = _adapter(cast(Any, kind))
    # None: as the class says, which is strict; False: words are converted.
    strict = None if typed else False
    try:
        return cast(S, adapter.validate_python(table, strict=strict))
    except ValidationError as error:
        # A misspelt key is reported before the key that is missing because of it (False sorts before True).
        faults = sorted(
            error.errors(),
            key=lambda fault: fault["type"] != "unexpected_keyword_argument",
        )
        raise UserError(f"{prefix}{_refusal(kind, faults[0])}{suffix}") from None


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    """Return what checks values of a class: it is compiled once, which takes a thousand times what a check does."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _plain(value: object, *, from_text: bool = False) -> object:
    """Return a value as the library takes it: lists as tuples, whole floats as int.

    Args:
        value: the value as a file or a word after `--set` says it.
        from_text: whether a text such as 1e6 becomes a number as well.
    """
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(_plain(item) for item in value)

    # The library converts a text such as 1000 itself, but refuses 1e3 for a whole number.
    if from_text and isinstance(value, str) and "e" in value.lower():
        # A text that is not a number stays as it is: the library refuses it.
        with contextlib.suppress(ValueError):
            value = float(value)

    # 1e6 is a float in a file. An int fits fields of both kinds of number, a float only those of float.
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


class _Place(NamedTuple):
    """Where in a file a value stands that the library refused."""

    tables: str
    """The name of the table in which the value's key stands: `sizes.small`; empty at the top of the file."""
    key: str
    """The value's key; empty where all settings of the file together are refused."""
    hint: Any
    """The type that the value should have."""
    holder: type
    """The class that has the key."""
    is_in_list: bool
    """Whether the key is that of a list, and the value an item of it."""


def _place_of(kind: type, parts: tuple[int | str, ...]) -> _Place:
    """Return where a refused value stands.

    Args:
        kind: the class of all settings of the file.
        parts: the way from there to the value, as the library tells it: names of fields, keys of a `dict`, numbers in
            a list. For the second item of `lengths` in a file's table `[sizes.small]` they are `sizes`,
            `small`, `lengths` and 1; its place has the tables `sizes.small` and the key `lengths`.
    """
    hint, holder = cast(Any, kind), kind
    tables = key = ""
    is_in_list = False
    for part in parts:
        # The type of a list's items; the key stays that of the list.
        if isinstance(part, int):
            is_in_list = True
            hint = typing.get_args(hint)[0]
            continue

        if _is(hint, FileSettings):
            holder, hint = hint, _hints(hint).get(part)
        elif typing.get_origin(hint) is dict:
            # The type of a dict's values.
            hint = typing.get_args(hint)[1]
        else:
            # In a union, the library adds the name of each type that it tried.
            continue

        # In a file, a group's settings stand among those around them: the group is not a table.
        if not _is(hint, Group):
            # What was the key so far is a table that has the new key. At first there is neither table nor
            # key, and `strip` takes off the dot beside an empty name.
            tables = f"{tables}.{key}".strip(".")
            key = part

    return _Place(tables, key, hint, holder, is_in_list)


def _refusal(kind: type, error: ErrorDetails) -> str:
    """Return in one sentence what is wrong with a value: its table, its key, what it can be and what it is."""
    tables, key, hint, holder, is_in_list = _place_of(kind, error["loc"])
    place = f"[{tables}]: " if tables else ""
    # The value as a table of its own: `[sizes.small]`, at the top of the file `[sizes]`; of the whole file it
    # is `[]`.
    path = f"[{tables}.{key}]".replace("[.", "[")
    value, context = error["input"], error.get("ctx", {})

    # A `__post_init__` has refused the settings of a table, or of the whole file ("[]"), with a sentence.
    # Before a sentence on the whole file, no table is named.
    if error["type"] == "value_error":
        return f"{path}: {context['error']}".removeprefix("[]: ")
    if error["type"] == "missing":
        return f"{place}{key} is missing"
    if error["type"] == "unexpected_keyword_argument":
        return f"{place}{_unknown(key, holder)}"
    if error["type"] in ("dict_type", "dataclass_type"):
        return f"{place}{key} takes a table, {path}, not {value!r:.60}"
    if isinstance(value, dict):
        return f"{place}{key} takes a value, not a table"
    if error["type"] == "literal_error":
        choices = [str(choice) for choice in typing.get_args(hint)]
        return f"{place}unknown {key} {value!r:.60}; use one of {', '.join(choices)}{nearest(str(value), choices)}"

    if error["type"] == "finite_number":
        return f"{place}{key} must be a finite number, not {value}"
    # An error of a bound has the bound in its context: {"ge": 1}.
    for name, words in _BOUNDS.items():
        if name in context:
            return f"{place}{key} must be {words} {_plain(context[name]):,}, not {value!r:.60}"

    first_word, _, _ = error["type"].partition("_")
    wanted = _WANTED.get(first_word, error["msg"])
    if is_in_list:
        wanted = f"a list; each {wanted}"
    return f"{place}{key} takes {wanted}, not {value!r:.60}"


def _unknown(key: str, kind: type) -> str:
    """Return in words that a class has no such key, with our name for another library's key, or else the nearest."""
    hint = nearest(key, keys_of(kind))
    # A field's docstring has other libraries' names of the setting in backquotes.
    for name, text in _texts(kind).items():
        if f"`{key}`" in text:
            hint = f"; did you mean {name!r}?"
            break
    return f"unknown key {key!r:.80}{hint}"


def _is(hint: object, kind: type) -> bool:
    """Return whether a type is a class, and that class or one that inherits from it; a union is not a class."""
    return isinstance(hint, type) and issubclass(hint, kind)


def assignments(words: Iterable[str]) -> dict[str, str]:
    """Return `key=value` words, as `--set` takes them, as a dictionary.

    Raises:
        UserError: a word without `=`.
    """
    values: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise UserError(f"--set takes key=value, not {word!r}")
        values[key.strip()] = value.strip()
    return values


def refuse_code(values: Mapping[str, object], where: str) -> None:
    """Refuse settings of a file that name code to import: that is for the command line alone.

    Args:
        values: the file's values by setting.
        where: where the values stand, for the message.

    Raises:
        UserError: `callbacks`, `algorithms` or `loggers` name a MODULE:CLASS.
    """
    for key in ("callbacks", "algorithms", "loggers"):
        value = values.get(key, "")
        # MODULE:CLASS is a user's own code; Composer's parts have plain names.
        if ":" in str(value):
            raise UserError(
                f"{where}: {key} names code, {value!r:.60}, and files load none; give it on the command line of "
                f"`train` (--set {key}=MODULE:CLASS) and leave it out here"
            )


def describe_settings(settings: object, words: Iterable[str] = ()) -> str:
    """Return a paragraph for each setting: its name, its value and the docstring under its field.

    Args:
        settings: a settings object.
        words: only settings whose name or docstring contains all these words, in upper or lower case.
    """
    lines: list[str] = []
    wanted = [word.casefold() for word in words]
    values = values_of(settings)
    for name, text in _texts(type(settings)).items():
        folded = f"{name} {text}".casefold()
        if all(word in folded for word in wanted):
            lines.append(f"{name} = {values[name]!r}")
            wrapped = textwrap.wrap(text, 92)
            lines += [f"    {line}" for line in wrapped]
    return "".join(f"{line}\n" for line in lines)


def _texts(kind: type) -> dict[str, str]:
    """Return the docstring under each field by the field's key, including inherited fields and fields of groups."""
    # Imported here: only a description or a mistake needs it.
    from docstring_parser import parse_from_object

    groups = [hint for hint in _hints(kind).values() if _is(hint, Group)]
    texts: dict[str, str] = {}
    for top in (kind, *groups):
        # Reversed, the class itself comes last: its own docstring of a field replaces an inherited one.
        for base in reversed(top.__mro__):
            if is_dataclass(base):
                for item in parse_from_object(base).params:
                    texts[item.arg_name] = " ".join((item.description or "").split())
    return {key: texts.get(key, "") for key in keys_of(kind)}
