"""The page of findings: a table of verdicts, and for each claim what it hangs on and what it lacks (Markdown)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib import resources

import jinja2

from analysis.claims.assessment import Assessment
from analysis.claims.catalogue import FAMILIES, MARGINS
from analysis.claims.verdicts import SUPPORTED, UNDECIDABLE, VERDICTS, Verdict
from analysis.claims.wording import format_effect, how_tested, p_texts, sentence, shortfall

__all__ = ["findings_page"]

_MOST_LINES = 12


def findings_page(assessment: Assessment, shown: Sequence[Verdict]) -> str:
    """Return the page, `templates/findings.md.jinja` filled in; the text ends in a line break."""
    settings = assessment.settings
    counted = Counter(verdict.verdict for verdict in shown)
    options = f"--source {assessment.source} --selection {settings.selection} --interval {settings.interval}"
    if settings.method.is_resampled:
        options += f" --resamples {settings.resamples} --seed {settings.seed}"
    members = {
        title: [verdict for verdict in shown if verdict.claim.family == family]
        for family, title in FAMILIES.items()
    }
    environment = jinja2.Environment(
        autoescape=False, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )  # fmt: skip
    template = resources.files("analysis.claims") / "templates" / "findings.md.jinja"
    return environment.from_string(template.read_text(encoding="utf-8")).render(
        assessment=assessment,
        shown=shown,
        summary=", ".join(f"{counted[name]} {name}" for name in VERDICTS if counted[name]),
        options=options,
        tests=how_tested(settings.interval, published=assessment.published),
        margins=[f"{margin:g} ({task})" for task, margin in MARGINS.items()],
        families=[(title, verdicts) for title, verdicts in members.items() if verdicts],
        settled=(SUPPORTED, UNDECIDABLE),
        most=_MOST_LINES,
        format_effect=format_effect,
        p_texts=p_texts,
        sentence=sentence,
        shortfall=shortfall,
    )
