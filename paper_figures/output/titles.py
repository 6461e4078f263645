"""What stands above a figure: the result where the source decides the finding that the figure shows, else its topic.

The words are those of the finding's verdict (`analysis.claims`), judged with its family, so that a figure is entitled
alike whether it is drawn alone or among all.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from matplotlib.figure import Figure

from analysis.claims.catalogue import CLAIMS
from analysis.claims.evidence import PublishedEvidence, RunEvidence
from analysis.claims.grades import CONTRADICTED, GRADES, SUPPORTED
from analysis.claims.statements import Contrast, Spread, comparisons
from analysis.claims.verdicts import Verdict, judge
from paper_figures.figure_types import FigureSpec
from paper_figures.inputs import Inputs

__all__ = ["entitle", "family_models", "heading", "result"]


def family_models(claim: str) -> tuple[str, ...]:
    """Return the models that a finding and those it is judged with compare; none without a finding."""
    if not claim:
        return ()
    models: dict[str, None] = {}
    for member in CLAIMS.values():
        if member.family != CLAIMS[claim].family:
            continue
        for comparison in comparisons(member.body):
            if isinstance(comparison, Contrast):
                models |= dict.fromkeys(term.model for term in comparison.terms)
            elif isinstance(comparison, Spread):
                models |= dict.fromkeys((*comparison.narrow, *comparison.wide))
    return tuple(models)


def result(verdict: Verdict) -> str:
    """Return a verdict as a title; empty where it leaves the finding open.

    A finding that holds in part is entitled by how many of its comparisons hold and fail at least (simultaneous
    95 %); what is decided only before the adjustment over its family is not.
    """
    short, tree = verdict.claim.short, verdict.tree
    short = short[0].upper() + short[1:]
    counts = f"{tree.hold} of {len(tree.units)} comparisons"
    words = {
        SUPPORTED.name: short,
        CONTRADICTED.name: f"Contradicted: {short}",
        GRADES["partly supported"].name: f"{short}: holds in at least {counts}",
        GRADES[
            "mixed"
        ].name: f"{short}: holds in at least {tree.hold}, fails in {tree.fail} of {len(tree.units)} comparisons",
    }
    return words.get(verdict.verdict, "")


def heading(figure: FigureSpec[Any], inputs: Inputs) -> str:
    """Return `Figure 3. Result or topic`, or the title of a figure that the paper does not have."""
    found = result(_verdict(figure.claim, inputs)) if figure.claim else ""
    return f"{figure.label}. {found}" if found else figure.heading


def entitle(drawing: Figure, figure: FigureSpec[Any], inputs: Inputs) -> str:
    """Write above a picture what its source makes of it, and first that the source is not of the paper's kind.

    Returns:
        The title.
    """
    whole = heading(figure, inputs)
    if not inputs.source.comparable:
        whole = f"{inputs.source.title}. {whole}"
    for text in drawing.texts:
        if text.get_text() == figure.heading:
            text.set_text(whole)
    return whole


def _verdict(claim: str, inputs: Inputs) -> Verdict:
    known = inputs.verdicts
    if claim not in known:
        family = {name: one for name, one in CLAIMS.items() if one.family == CLAIMS[claim].family}
        source, settings = inputs.source, inputs.settings
        if source.runs is None:
            finding_of = cache(PublishedEvidence(settings.interval).finding)
        else:
            finding_of = cache(RunEvidence(source.runs, settings, instances=source.instances).finding)
        known.update(zip(family, judge(family, finding_of), strict=True))
    return known[claim]
