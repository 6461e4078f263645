"""Settings as frozen keyword-only dataclasses with a docstring under each field, read from TOML and `key=value` words.

Command lines convert their options by the same library (`common.cli`), so a value means the same wherever it stands.
"""

from __future__ import annotations

import contextlib
import dataclasses
import textwrap
import tomllib
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from cyclopts import App, CycloptsError, Parameter
from docstring_parser import parse_from_object

from common.cli import sentence, whole_numbers
from common.errors import UserError, nearest
from common.plain_text import visible
from common.reading import UnreadableError, read_bounded

__all__ = ["assignments", "describe_settings", "need_table", "read_settings", "read_toml"]

S = TypeVar("S")

_KINDS: dict[Any, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((int, float), "a whole number"),
    float: ((int, float), "a number"),
}
"""For each type of a field but words: the types of its values in a file, and what they are in a message."""
_MOST_BYTES = 2**24
_SWITCH = {"on": "true", "off": "false"}


def read_settings(
    kind: type[S],
    values: Mapping[str, object],
    where: str = "",
    *,
    base: S | None = None,
    typed: bool = False,
) -> S:
    """Return settings of a class.

    Args:
        kind: a dataclass whose fields are numbers, words, booleans or tuples of them.
        values: by field; words are converted to the field's type.
        where: where the values stand, for messages: a file, or `--set`.
        base: settings to start from; None: the class's defaults.
        typed: refuse words for numbers, numbers for words and lists for single values, as in a file of typed values.

    Raises:
        UserError: an unknown key, with the nearest one; a missing one; or a value that the field cannot take.
    """
    prefix = f"{where}: " if where else ""
    hints = typing.get_type_hints(kind)
    tokens: list[str] = []
    for key, value in values.items():
        if key not in hints:
            raise UserError(f"{prefix}unknown key {key!r}{nearest(key, hints)}")
        if isinstance(value, Mapping):
            raise UserError(f"{prefix}{key} takes a value, not a table")
        if typed and (wanted := _misfit(hints[key], value)):
            raise UserError(f"{prefix}{key} takes {wanted}, not {value!r:.60}")
        for item in value if isinstance(value, list | tuple) else [value]:
            word = str(item).lower() if isinstance(item, bool) else str(item)
            tokens.append(f"--{key}={_SWITCH.get(word.lower(), word) if hints[key] is bool else word}")
    try:
        read = _reader(kind)(tokens)
        given = {key: () if isinstance(value, list | tuple) and not value else getattr(read, key)
                 for key, value in values.items()}  # fmt: skip
        return dataclasses.replace(base or read, **given)  # type: ignore[type-var]
    except CycloptsError as error:
        raise UserError(prefix + sentence(error).replace("--", "")) from None
    except UserError as error:
        raise UserError(f"{prefix}{error}") from None


def _misfit(hint: Any, value: object) -> str:
    """Return what a field takes when a value is not of its type, else an empty string."""
    if typing.get_origin(hint) is tuple:
        each = typing.get_args(hint)[0]
        if not isinstance(value, list | tuple):
            return "a list"
        return next((f"a list; each {wrong}" for item in value if (wrong := _misfit(each, item))), "")
    kinds, words = _KINDS.get(hint, ((str,), "text"))
    return "" if isinstance(value, kinds) and (hint is bool) == isinstance(value, bool) else words


def _reader(kind: Any) -> App:
    def identity(settings: Any) -> Any:
        return settings

    identity.__annotations__ = {"settings": Annotated[kind, Parameter(name="*")]}
    with contextlib.suppress(TypeError):  # a field without a default must be given
        identity.__defaults__ = (kind(),)
    return App(
        default_command=identity,
        config=whole_numbers,
        default_parameter=Parameter(name_transform=str, negative=()),
        help_flags=[],
        version_flags=[],
        exit_on_error=False,
        print_error=False,
        result_action="return_value",
    )


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file.

    Raises:
        UserError: it is not TOML, no regular file, or too large.
    """
    try:
        return tomllib.loads(read_bounded(path, _MOST_BYTES).decode("utf-8"))
    except UnreadableError:
        raise
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is a plain ValueError
        reason = " ".join(visible(str(error)).split()) or "nested too deep"
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


def describe_settings(settings: object) -> str:
    """Return one paragraph a setting: its name, its value and the docstring under its field."""
    texts = {item.arg_name: item.description or "" for item in parse_from_object(type(settings)).params}
    lines = []
    for name in typing.get_type_hints(type(settings)):
        lines.append(f"{name} = {getattr(settings, name)!r}")
        text = " ".join(texts.get(name, "").split())
        lines += textwrap.wrap(text, 96, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines) + "\n"
