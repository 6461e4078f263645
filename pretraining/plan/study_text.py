"""A study file's text from its content, and the same study with sizes and steps divided, for a try on a CPU."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pretraining.models import format_steps, parse_steps

_STEPS = re.compile(r"(-(?:clm|mlm\d+(?:to\d+)?)-(?:dec)?)(\d+k?)")
_WHOLE = (
    "warmup_steps",
    "rewarm_steps",
    "eval_every",
    "save_every",
    "eval_sequences",
    "global_batch",
    "microbatch",
)
_HEADS, _CHANNELS, _SEQUENCES = 2, 8, 4
"""Heads of each divided size, what its widths are multiples of, and sequences of its smallest step."""


def study_text(content: Mapping[str, Any]) -> str:
    """Return the TOML text of a study file's content: plain values first, then a table for each size and model."""
    lines = [f"{key} = {_value(value)}" for key, value in content.items() if not isinstance(value, Mapping)]
    for key, content_of_key in content.items():
        if isinstance(content_of_key, Mapping):
            inner = {name: table for name, table in content_of_key.items() if isinstance(table, Mapping)}
            for name, table in (inner or {"": content_of_key}).items():
                lines += ["", f"[{key}.{json.dumps(name)}]" if name else f"[{key}]"]
                lines += [f"{field} = {_value(value)}" for field, value in table.items()]
    return "\n".join(lines) + "\n"


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_value(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        inside = "".join(f"\n    {_value(one)}," for one in value)
        return f"[{inside}\n]" if value else "[]"
    return json.dumps(value)


def divided_study(content: Mapping[str, Any], by: int) -> dict[str, Any]:
    """Return a study file's content with widths, layers, steps and batches divided.

    Args:
        content: models by names in the scheme, or tables whose stages are tables with whole steps.
        by: the divisor, at least 1.
    """
    if by == 1:
        return dict(content)

    def fewer(number: int, least: int = 1) -> int:
        return max(least, number // by)

    def width(number: int) -> int:
        return -(-number // by // _CHANNELS) * _CHANNELS

    sizes = {
        name: {
            **size, "hidden": width(size["hidden"]), "mlp": width(size["mlp"]), "layers": fewer(size["layers"]),
            "heads": _HEADS, "kv_heads": _HEADS,
        }
        for name, size in content.get("sizes", {}).items()
    }  # fmt: skip
    models: Any = content["models"]
    if isinstance(models, Mapping):
        models = {
            name: {
                **table,
                "stages": [{**stage, "steps": fewer(stage["steps"])} for stage in table["stages"]],
            }
            for name, table in models.items()
        }
    else:  # names in the scheme, which have their steps in them
        models = [
            _STEPS.sub(lambda found: found[1] + format_steps(fewer(parse_steps(found[2]))), name)
            for name in models
        ]
    least = {"global_batch": _SEQUENCES, "microbatch": _SEQUENCES}
    settings = {
        key: fewer(value, least.get(key, 1)) if key in _WHOLE and value else value
        for key, value in content["settings"].items()
    }
    divided = {"decay_steps": fewer(content["decay_steps"]), "models": models, "settings": settings}
    return {**content, **divided} | ({"sizes": sizes} if sizes else {})
