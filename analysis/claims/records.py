"""Verdicts as data: everything about each in plain types, as JSON and as CSV."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence

import pandas as pd

from analysis.claims.assessment import Assessment
from analysis.claims.catalogue import FAMILIES, MARGINS
from analysis.claims.evidence import Finding
from analysis.claims.verdicts import ALPHA, CONTRADICTED, INCONCLUSIVE, Verdict
from analysis.claims.wording import mixed_notes, sentence, shortfall

__all__ = ["as_record", "contrasts_csv", "verdicts_csv", "verdicts_json"]


def as_record(verdict: Verdict, mixed: Verdict | None = None) -> dict[str, object]:
    """Return everything about a verdict in plain types, for JSON."""
    claim, decisive = verdict.claim, verdict.decisive
    record: dict[str, object] = {
        "id": claim.id,
        "short": claim.short,
        "statement": claim.statement,
        "where": claim.where,
        "family": claim.family,
        "needs": claim.needs,
        "verdict": verdict.verdict,
        "sentence": sentence(verdict),
        "remark": claim.remark,
        "shortfall": shortfall(verdict.tree) if verdict.verdict in (INCONCLUSIVE, CONTRADICTED) else [],
        "effect": _number(decisive.effect),
        "low": _number(decisive.low),
        "high": _number(decisive.high),
        "unit": decisive.comparison.unit,
        "contrast": decisive.comparison.label,
        "region": decisive.comparison.region,
        "p_raw": _number(verdict.p) if verdict.known else None,
        "p_holm": _number(verdict.p_adjusted) if verdict.known else None,
        "direction": "against" if verdict.leans_against else "for",
        "p_for": _number(verdict.p_for) if verdict.known else None,
        "p_for_holm": _number(verdict.p_for_adjusted) if verdict.known else None,
        "p_against": _number(verdict.p_against) if verdict.known else None,
        "p_against_holm": _number(verdict.p_against_adjusted) if verdict.known else None,
        "family_size": verdict.family_size,
        "counts": verdict.counts,
        "seeds": verdict.seeds,
        "contrasts": [_contrast(finding) for finding in verdict.tree.findings],
        "reported": [
            {"label": branch.node.label, "verdict": branch.verdict, "p_for": _number(branch.p_for),
             "p_against": _number(branch.p_against), "contrasts": [_contrast(f) for f in branch.findings]}
            for branch in verdict.reported
        ],
    }  # fmt: skip
    if mixed is not None:
        record["mixed"] = {
            "verdict": mixed.verdict,
            "p_for": _number(mixed.p_for),
            "p_against": _number(mixed.p_against),
            "sentence": sentence(mixed),
            "notes": mixed_notes(mixed),
            "contrasts": [_contrast(finding) for finding in mixed.tree.findings],
        }
    return record


def _contrast(finding: Finding) -> dict[str, object]:
    comparison = finding.comparison
    return {
        "label": comparison.label,
        "claimed": comparison.region,
        "unit": comparison.unit,
        "effect": _number(finding.effect),
        "low": _number(finding.low),
        "high": _number(finding.high),
        "low90": _number(finding.inner_low),
        "high90": _number(finding.inner_high),
        "standard_error": _number(finding.error),
        "df": _number(finding.df),
        "p_for": _number(finding.p_for) if finding.known else None,
        "p_against": _number(finding.p_against) if finding.known else None,
        "p_zero": _number(finding.p_zero),
        "seeds": list(finding.seeds),
        "test": finding.test,
        "instance_share": _number(finding.instance_share),
        "inputs": list(finding.inputs),
        "missing": finding.missing,
    }


def _number(value: float) -> float | None:
    """Return a number that JSON can hold, rounded to ten significant digits."""
    return None if not math.isfinite(value) else float(f"{value:.10g}")


def verdicts_json(assessment: Assessment, shown: Sequence[Verdict]) -> str:
    """Return everything about the verdicts as JSON."""
    settings = assessment.settings
    content = {
        "source": assessment.source,
        **({"note": assessment.own_words} if assessment.own_words else {}),
        "selection": settings.selection,
        "interval": settings.interval,
        "resamples": settings.resamples,
        "seed": settings.seed,
        "alpha": ALPHA,
        "margins": MARGINS,
        "families": FAMILIES,
        "claims": [as_record(verdict, assessment.mixed.get(verdict.claim.id)) for verdict in shown],
    }
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


_CSV_CLAIM = (
    "id", "verdict", "effect", "low", "high", "unit", "contrast", "region", "p_raw", "p_holm", "direction", "p_for",
    "p_for_holm", "p_against", "p_against_holm", "family", "seeds", "short", "statement", "where", "sentence",
)  # fmt: skip
_CSV_CONTRAST = (
    "id", "part", "label", "claimed", "unit", "effect", "low", "high", "low90", "high90", "standard_error", "df",
    "p_for", "p_against", "p_zero", "test", "instance_share", "missing", "seeds",
)  # fmt: skip


def verdicts_csv(assessment: Assessment, shown: Sequence[Verdict]) -> str:
    """Return one row a claim."""
    return _csv(assessment, _CSV_CLAIM, (as_record(verdict) for verdict in shown))


def contrasts_csv(assessment: Assessment, shown: Sequence[Verdict]) -> str:
    """Return one row a contrast."""
    rows = (
        {
            **_contrast(finding),
            "id": verdict.claim.id,
            "part": part,
            "seeds": "-".join(str(count) for count in finding.seeds),
        }
        for verdict in shown
        for part, branches in (("verdict", (verdict.tree,)), ("reported", verdict.reported))
        for branch in branches
        for finding in branch.findings
    )
    return _csv(assessment, _CSV_CONTRAST, rows)


def _csv(assessment: Assessment, columns: Sequence[str], rows: Iterable[dict[str, object]]) -> str:
    frame = pd.DataFrame(list(rows), columns=list(columns)).assign(
        source=assessment.source,
        selection=assessment.settings.selection,
        interval=assessment.settings.interval,
    )
    return frame.to_csv(index=False, lineterminator="\n")
