"""Verdicts in the form that is asked for: text, Markdown, JSON or CSV, with the reasoning where it is wanted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from analysis.claims.assessment import Assessment
from analysis.claims.explain import explanations, verdicts_text
from analysis.claims.markdown_page import findings_page
from analysis.claims.records import contrasts_csv, verdicts_csv, verdicts_json
from analysis.claims.verdicts import Verdict

__all__ = ["FORMATS", "render_claims"]

Renderer = Callable[[Assessment, Sequence[Verdict]], str]

FORMATS: dict[str, tuple[Renderer, Renderer]] = {
    "text": (verdicts_text, explanations),
    "markdown": (findings_page, findings_page),
    "json": (verdicts_json, verdicts_json),
    "csv": (verdicts_csv, contrasts_csv),
}
"""By name: how verdicts are printed, and how they are printed with their reasoning."""


def render_claims(
    assessment: Assessment, shown: Sequence[Verdict], form: str, *, explain: bool = False
) -> str:
    """Return the verdicts in one of `FORMATS`; the text ends in a line break."""
    return FORMATS[form][int(explain)](assessment, shown)
