"""Python code for the cards of kept encoders, from templates/."""

from __future__ import annotations

from pathlib import Path
from string import Template

_TEMPLATES = Path(__file__).with_name("templates")


def snippet(name: str, **values: str) -> str:
    """Return the text of a template, in which the values replace the placeholders of their names, such as `$task`."""
    template = (_TEMPLATES / f"{name}.txt").read_text("utf-8")
    return Template(template.rstrip()).substitute(values)


def code_of_tokens() -> str:
    """Return code that uses a kept encoder whose head classifies tokens and is a file beside the weights."""
    parts = [snippet("head_beside", vector="hidden"), snippet("token_head")]
    return "\n".join(parts)
