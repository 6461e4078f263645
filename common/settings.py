"""Files of settings and records as frozen keyword-only dataclasses with a docstring under each field.

A file's content comes from `common.reading`, and is then held against a class by pydantic, which is imported once there
is something to check. What is wrong is said here, in one sentence for every kind of file.
"""

from __future__ import annotations

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
"""What the library's kinds of errors begin with, and what a message calls what was wanted."""
_BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
"""What the library calls the bounds of a number, and what a message does."""
_hints = cache(typing.get_type_hints)
"""The types of a class's fields, which are compiled from their text."""


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
    for key, (group, _, _) in keys_of(type(settings)).items():
        holder = getattr(settings, group) if group else settings
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
    """Return settings of a class.

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
    keys = keys_of(kind)
    flat = {} if base is None else values_of(base)
    for key, value in values.items():
        if key not in keys:
            raise UserError(f"{prefix}{_unknown(key, kind)}{suffix}")
        flat[key] = _plain(value, number=keys[key].hint is int and not typed)
    table: dict[str, Any] = {key.group: {} for key in keys.values() if key.group}
    for key, value in flat.items():
        group = keys[key].group
        if group:
            table[group][key] = value
        else:
            table[key] = value
    adapter = _adapter(cast(Any, kind))
    try:
        settings = adapter.validate_python(table, strict=None if typed else False)
        return cast(S, settings)
    except ValidationError as error:
        # A misspelt key is reported before the key that is missing because of it.
        faults = sorted(
            error.errors(),
            key=lambda fault: fault["type"] != "unexpected_keyword_argument",
        )
        first = faults[0]
        raise UserError(f"{prefix}{_refusal(kind, first)}{suffix}") from None


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    """Return what checks values of a class: it is compiled once, which takes a thousand times what a check does."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _plain(value: object, *, number: bool = False) -> object:
    """Return a value as the library takes it: lists as tuples, whole floats as int; with `number` also the text 1e6."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(_plain(item) for item in value)
    if isinstance(value, str) and number:
        try:
            value = float(value) if "e" in value.lower() else value
        except ValueError:
            return value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _refusal(kind: type, error: ErrorDetails) -> str:
    """Return what is wrong in one sentence: its table, its key, what it can be and what it is."""
    # Follow the path to the value: `hint` becomes the value's type, `holder` the class that has the key.
    hint, holder = cast(Any, kind), kind
    tables = key = each = ""
    for part in error["loc"]:
        if isinstance(part, int):
            each, hint = "a list; each ", typing.get_args(hint)[0]
            continue
        if _is(hint, FileSettings):
            holder, hint = hint, _hints(hint).get(part)
        elif typing.get_origin(hint) is dict:
            hint = typing.get_args(hint)[1]
        else:
            # In a union, the library adds the name of each type that it tried.
            continue
        if not _is(hint, Group):
            tables, key = f"{tables}.{key}".strip("."), part
    place = f"[{tables}]: " if tables else ""
    path = f"[{tables}.{key}]".replace("[.", "[")
    value, context = error["input"], error.get("ctx", {})
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
    for name, words in _BOUNDS.items():
        if name in context:
            return f"{place}{key} must be {words} {_plain(context[name]):,}, not {value!r:.60}"
    wanted = _WANTED.get(error["type"].partition("_")[0], error["msg"])
    return f"{place}{key} takes {each}{wanted}, not {value!r:.60}"


def _unknown(key: str, kind: type) -> str:
    """Return that a class has no such key, with our name for another library's key, or else the nearest key."""
    hint = nearest(key, keys_of(kind))
    # A field's docstring has other libraries' names of the setting in backquotes.
    for name, text in _texts(kind).items():
        if f"`{key}`" in text:
            hint = f"; did you mean {name!r}?"
            break
    return f"unknown key {key!r:.80}{hint}"


def _is(hint: object, kind: type) -> bool:
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
        words: only settings whose name or docstring contains all of them, in upper or lower case.
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
