"""Python code for the cards of kept encoders, from templates/."""

from __future__ import annotations

from pathlib import Path
from string import Template

_TEMPLATES = Path(__file__).with_name("templates")


def snippet(name: str, **values: str) -> str:
    """Return the template of that name with these values in its places."""
    template = (_TEMPLATES / f"{name}.txt").read_text("utf-8")
    return Template(template.rstrip()).substitute(values)


def code_of_tokens() -> str:
    """Return code for a head beside the weights that says something of each token."""
    parts = [snippet("head_beside", vector="hidden"), snippet("token_head")]
    return "\n".join(parts)
