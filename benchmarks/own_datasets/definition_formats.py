"""The forms that a file of datasets may have, TOML and YAML: text to plain tables; nothing in a file is run."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.reading import UnreadableError, read_bounded
from common.registry import Registry

__all__ = ["FORMATS", "Format", "read_tables"]

_MOST = 1 << 20
"""Bytes of the largest file that is read."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """A form of the file."""

    name: str
    """How the names of such files end."""
    title: str
    """What it is called."""
    parse: Callable[[str], Any]
    """Returns the content of a text; `ValueError` says what is wrong, and in which line."""


def read_tables(path: Path) -> dict[str, Any]:
    """Return the tables of a file by name.

    Raises:
        UserError: the file is absent, of no known form, or not valid; the line is named.
    """
    known = ", ".join(FORMATS)
    if path.suffix not in FORMATS:
        raise UserError(f"{path} is no file of datasets: its name must end in one of {known}")
    form = FORMATS[path.suffix]
    try:
        content = form.parse(read_bounded(path, _MOST).decode("utf-8"))
    except FileNotFoundError:
        raise UserError(f"there is no file {path}") from None
    except UnreadableError:
        raise
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 ({error.reason})") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not valid {form.title}: {error}") from None
    if not isinstance(content, dict) or not content:
        raise UserError(f"{path} defines no dataset; give each a table such as [reviews]")
    return content


def _yaml(text: str) -> Any:
    """Read YAML with the safe loader, and without what makes a file mean something else than it shows.

    Raises:
        ValueError: no YAML; a key that occurs twice or is no text; an anchor, an alias or a tag.
    """
    import yaml  # type: ignore[import-untyped]

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # yaml is untyped
        def compose_node(self, parent: Any, index: Any) -> Any:
            event = self.peek_event()
            if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
                raise _at(event.start_mark, "anchors and aliases are not read; write the text out")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key, _ in node.value:
                if key.tag != "tag:yaml.org,2002:str":
                    raise _at(key.start_mark, f"the key {key.value!r} must be a text in quotation marks")
                if key.value in seen:
                    raise _at(key.start_mark, f"the key {key.value!r} occurs twice")
                seen.add(key.value)
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise (_at(mark, error.problem) if mark else ValueError(str(error))) from None
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None


def _at(mark: Any, sentence: Any) -> ValueError:
    return ValueError(f"{sentence} (at line {mark.line + 1}, column {mark.column + 1})")


FORMATS: Registry[Format] = Registry(
    "form of a file of datasets",
    [
        Format(name=".toml", title="TOML", parse=tomllib.loads),
        Format(name=".yaml", title="YAML", parse=_yaml),
        Format(name=".yml", title="YAML", parse=_yaml),
    ],
)
"""TOML and YAML, by the end of a file's name."""
