"""Verdicts as data: everything about each in plain types, as JSON and as CSV."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

import pandas as pd

from analysis.claims.assessment import Assessment
from analysis.claims.catalogue import FAMILIES, MARGINS
from analysis.claims.pages.dataset_tables import dataset_record
from analysis.claims.verdicts import ALPHA, OPEN, Branch, Verdict
from analysis.claims.wording import seeds_that_decide, sentence
from analysis.evidence.contrasts import Result

__all__ = ["as_record", "contrasts_frame", "verdicts_data", "verdicts_frame"]


def as_record(verdict: Verdict) -> dict[str, object]:
    """Return everything about a verdict in plain types, for JSON."""
    finding, decisive = verdict.finding, verdict.decisive
    record: dict[str, object] = {
        **{name: getattr(finding, name) for name in ("id", "short", "statement", "where", "family", "needs")},
        "verdict": verdict.verdict,
        "sentence": sentence(verdict),
        "remark": finding.remark,
        "parts": len(verdict.tree.units),
        "holds_in": verdict.hold,
        "fails_in": verdict.fail,
        "seeds_that_decide": seeds_that_decide(decisive) if verdict.outcome is OPEN else None,
        "typical": None if verdict.typical is None else _contrast(verdict.typical),
        **{
            f"typical_{name}": None if verdict.typical is None else getattr(verdict.typical, name)
            for name in ("effect", "low", "high")
        },
        **{name: getattr(decisive, name) for name in ("effect", "low", "high")},
        "unit": decisive.comparison.unit,
        "contrast": decisive.comparison.label,
        "region": decisive.comparison.region,
        "p_raw": verdict.p,
        "p_holm": verdict.p_adjusted,
        "direction": "against" if verdict.leans_against else "for",
        "p_for": verdict.p_for,
        "p_for_holm": verdict.p_for_adjusted,
        "p_against": verdict.p_against,
        "p_against_holm": verdict.p_against_adjusted,
        "family_size": verdict.family_size,
        "seeds": verdict.seeds,
        "contrasts": list(map(_contrast, verdict.tree.results)),
        "reported": list(map(_branch, verdict.reported)),
    }
    if not verdict.known:
        record |= dict.fromkeys(("p_raw", "p_holm", "p_for", "p_for_holm", "p_against", "p_against_holm"))
    return _rounded(record)


def _branch(branch: Branch) -> dict[str, object]:
    """Return a statement that is judged next to a finding."""
    numbers = {"verdict": branch.verdict, "p_for": branch.p_for, "p_against": branch.p_against}
    return (
        {"label": branch.node.label} | _rounded(numbers) | {"contrasts": list(map(_contrast, branch.results))}
    )


def _contrast(result: Result) -> dict[str, object]:
    comparison = result.comparison
    record: dict[str, object] = {
        "label": comparison.label,
        "claimed": comparison.region,
        "unit": comparison.unit,
        **{name: getattr(result, name) for name in ("effect", "low", "high")},
        "low90": result.inner_low,
        "high90": result.inner_high,
        "standard_error": result.error,
        "df": result.df,
        "p_for": result.p_for if result.known else None,
        "p_against": result.p_against if result.known else None,
        **{name: getattr(result, name) for name in ("p_zero", "seeds", "test", "instance_share")},
        "inputs": result.inputs,
        "missing": result.missing,
    }
    return _rounded(record)


def _rounded(record: Mapping[str, object]) -> dict[str, object]:
    """Return numbers that JSON can hold: rounded to ten significant digits, None for those that are not finite."""
    return {
        name: (float(f"{value:.10g}") if math.isfinite(value) else None)
        if isinstance(value, float)
        else value
        for name, value in record.items()
    }


def verdicts_data(assessment: Assessment, shown: Sequence[Verdict]) -> dict[str, object]:
    """Return everything about the verdicts in plain types."""
    return {
        "source": assessment.source.label,
        **({"note": assessment.source.own_words} if assessment.source.own_words else {}),
        **asdict(assessment.settings),
        "tests": list(assessment.tests),
        "alpha": ALPHA,
        "margins": MARGINS,
        "families": FAMILIES,
        "findings": [
            as_record(verdict) | {"datasets": dataset_record(assessment.datasets[verdict.finding.id])}
            for verdict in shown
        ],
    }


_CSV_FINDING = (
    "id", "verdict", "holds_in", "fails_in", "parts", "typical_effect", "typical_low", "typical_high",
    "effect", "low", "high", "unit", "contrast", "region", "p_raw", "p_holm", "direction", "p_for",
    "p_for_holm", "p_against", "p_against_holm", "family", "seeds", "short", "statement", "where", "sentence",
)  # fmt: skip
_CSV_CONTRAST = (
    "id", "part", "label", "claimed", "unit", "effect", "low", "high", "low90", "high90", "standard_error", "df",
    "p_for", "p_against", "p_zero", "test", "instance_share", "missing", "seeds",
)  # fmt: skip


def verdicts_frame(assessment: Assessment, shown: Sequence[Verdict]) -> pd.DataFrame:
    """Return one row a finding."""
    return _frame(assessment, _CSV_FINDING, map(as_record, shown))


def contrasts_frame(assessment: Assessment, shown: Sequence[Verdict]) -> pd.DataFrame:
    """Return one row a contrast."""
    rows = (
        {
            **_contrast(result),
            "id": verdict.finding.id,
            "part": part,
            "seeds": "-".join(str(count) for count in result.seeds),
        }
        for verdict in shown
        for part, branches in (("verdict", (verdict.tree,)), ("reported", verdict.reported))
        for branch in branches
        for result in branch.results
    )
    return _frame(assessment, _CSV_CONTRAST, rows)


def _frame(assessment: Assessment, columns: Sequence[str], rows: Iterable[dict[str, object]]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=list(columns)).assign(
        source=assessment.source.label,
        selection=assessment.settings.selection,
        interval=assessment.settings.interval,
    )
