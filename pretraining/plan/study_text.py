"""A study file's text from its content."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def study_text(content: Mapping[str, Any]) -> str:
    """Return the TOML text of a study file's content: plain values first, then a table for each size and model."""
    lines = [
        f"{key} = {_value(value)}"
        for key, value in content.items()
        if not isinstance(value, Mapping)
    ]
    for key, content_of_key in content.items():
        if isinstance(content_of_key, Mapping):
            inner = {
                name: table
                for name, table in content_of_key.items()
                if isinstance(table, Mapping)
            }
            for name, table in (inner or {"": content_of_key}).items():
                lines += ["", f"[{key}.{json.dumps(name)}]" if name else f"[{key}]"]
                lines += [
                    f"{field} = {_value(value)}" for field, value in table.items()
                ]
    return "\n".join(lines) + "\n"


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return (
            "{"
            + ", ".join(f"{key} = {_value(one)}" for key, one in value.items())
            + "}"
        )
    if isinstance(value, list | tuple):
        inside = "".join(f"\n    {_value(one)}," for one in value)
        return f"[{inside}\n]" if value else "[]"
    return json.dumps(value)
