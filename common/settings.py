"""Settings as frozen keyword-only dataclasses with a docstring under each field, read from TOML and `key=value` words.

Values are checked by pydantic, which is imported once there is something to check.
"""

from __future__ import annotations

import textwrap
import tomllib
import typing
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from docstring_parser import parse_from_object

from common.errors import UserError, nearest
from common.reading import read_bounded

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

__all__ = ["assignments", "describe_settings", "need_table", "read_settings", "read_toml", "refuse_code"]

S = TypeVar("S")

_WANTED = {
    "int": "a whole number", "float": "a number", "bool": "true or false", "string": "text", "tuple": "a list",
}  # fmt: skip
"""What the library's kinds of errors begin with, and what a message calls what was wanted."""
_hints = cache(typing.get_type_hints)
"""The types of a class's fields, which are compiled from their text."""


def read_settings(
    kind: type[S],
    values: Mapping[str, object],
    where: str = "",
    *,
    base: S | None = None,
    typed: bool = True,
) -> S:
    """Return settings of a class.

    Args:
        kind: a dataclass whose fields are numbers, words, booleans or tuples of them.
        values: by field.
        where: where the values stand, for messages: a file, or `--set`.
        base: settings to start from; None: the class's defaults.
        typed: refuse words for numbers and numbers for words, as in a file of typed values; else words are converted.

    Raises:
        UserError: an unknown key, with the field whose docstring names it in backquotes, or else the nearest; a
            missing one; or a value that the field cannot take.
    """
    from pydantic import TypeAdapter, ValidationError

    hints = _hints(cast(Any, kind))
    prefix = f"{where}: " if where else ""
    given: dict[str, Any] = {}
    for key, value in values.items():
        if key not in hints:
            raise UserError(f"{prefix}unknown key {key!r}{_known_as(key, kind) or nearest(key, hints)}")
        plain = _plain(value, number=hints[key] is int and not typed)
        try:
            given[key] = TypeAdapter(hints[key]).validate_python(plain, strict=typed)
        except ValidationError as error:
            raise UserError(f"{prefix}{_sentence(key, error.errors()[0])}") from None
    if base is None:
        needed = (item.name for item in fields(cast(Any, kind)) if item.default is MISSING)
        if missing := [name for name in needed if name not in given]:
            raise UserError(f"{prefix}{missing[0]} is missing")
    try:
        return kind(**given) if base is None else replace(cast(Any, base), **given)
    except UserError as error:
        raise UserError(f"{prefix}{error}") from None


def _plain(value: object, *, number: bool) -> object:
    """Return a value as the library takes it: lists as tuples, 1e6 as a whole number, also as a word for one."""
    if isinstance(value, list):
        return tuple(_plain(item, number=number) for item in value)
    if isinstance(value, str) and number:
        try:
            value = float(value) if "e" in value.lower() else value
        except ValueError:
            return value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _sentence(key: str, error: ErrorDetails) -> str:
    """Return what is wrong with a field in one sentence."""
    value = error["input"]
    if isinstance(value, dict):
        return f"{key} takes a value, not a table"
    if error["type"] == "literal_error":
        known = error["ctx"]["expected"].replace("'", "").replace(" or ", ", ").split(", ")
        return f"unknown {key} {value!r:.60}; use one of {', '.join(known)}{nearest(str(value), known)}"
    wanted = _WANTED.get(error["type"].partition("_")[0], error["msg"])
    return f"{key} takes {'a list; each ' if error['loc'] else ''}{wanted}, not {value!r:.60}"


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file.

    Raises:
        UserError: it is not TOML, no regular file, or too large.
    """
    content = read_bounded(path)
    try:
        return tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is a plain ValueError
        reason = " ".join(str(error).split()) or "nested too deep"
        raise UserError(f"{path}: not a TOML file: {reason}") from None


def need_table(path: Path, key: str, value: object) -> dict[str, Any]:
    """Return a value of a TOML file that has to be a table.

    Raises:
        UserError: it is none.
    """
    if not isinstance(value, dict):
        raise UserError(f"{path}: {key} takes a table, [{key}], not {value!r:.60}")
    return value


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
        values: by setting.
        where: where they stand, for the message.

    Raises:
        UserError: `callbacks`, `algorithms` or `loggers` name a MODULE:CLASS.
    """
    for key in ("callbacks", "algorithms", "loggers"):
        if ":" in str(value := values.get(key, "")):
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
    lines = []
    for name, text in _texts(type(settings)).items():
        if all(word.casefold() in f"{name} {text}".casefold() for word in words):
            lines.append(f"{name} = {getattr(settings, name)!r}")
            lines += textwrap.wrap(text, 96, initial_indent="    ", subsequent_indent="    ")
    return "".join(f"{line}\n" for line in lines)


def _texts(kind: type) -> dict[str, str]:
    """Return the docstring under each field, inherited ones included."""
    kinds = [one for one in reversed(kind.__mro__) if is_dataclass(one)]
    found = {item.arg_name: item.description or "" for one in kinds for item in parse_from_object(one).params}
    return {name: " ".join(found.get(name, "").split()) for name in _hints(kind)}


def _known_as(key: str, kind: type) -> str:
    """Return a hint at the field that another library calls `key`, if a docstring says so."""
    return next(
        (f"; did you mean {name!r}?" for name, text in _texts(kind).items() if f"`{key}`" in text), ""
    )
