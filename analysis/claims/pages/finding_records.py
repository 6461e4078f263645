"""Verdicts as data: everything about each in plain types, as JSON and as CSV."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from analysis.claims.assessment import Assessment
from analysis.claims.catalogue import FAMILIES, MARGINS, STATEMENTS
from analysis.claims.frame import (
    FindingRow,
    comparisons_of,
    decisive_of,
    main_of,
    mean_of,
    of_finding,
    rows,
)
from analysis.claims.pages.dataset_sentences import dataset_record
from analysis.claims.verdicts import OPEN
from analysis.claims.wording import seeds_that_decide, sentence
from analysis.statistics.inference import ALPHA

_EFFECT = ("effect", "low", "high")
_PS = (
    "p_raw",
    "p_holm",
    "direction",
    "p_for",
    "p_for_holm",
    "p_against",
    "p_against_holm",
)
_CONTRAST = (
    "label",
    "claimed",
    "unit",
    *_EFFECT,
    "low90",
    "high90",
    "standard_error",
    "df",
    "p_for",
    "p_against",
    "p_zero",
    "seeds",
    "test",
    "instance_share",
    "inputs",
    "missing",
)


def as_record(found: pd.DataFrame) -> dict[str, object]:
    """Return everything about a finding in plain types, for JSON; `found`: its rows of the frame."""
    main, mean, decisive = main_of(found), mean_of(found), decisive_of(found)
    finding = STATEMENTS[main.id]
    ps = {name: getattr(main, name) for name in _PS}
    if not main.known:
        ps |= dict.fromkeys(name for name in _PS if name != "direction")
    return _rounded(
        {
            **{
                name: getattr(finding, name)
                for name in ("id", "short", "statement", "where", "family", "needs")
            },
            "verdict": main.verdict,
            "sentence": sentence(found),
            "remark": finding.remark,
            **{name: getattr(main, name) for name in ("parts", "holds_in", "fails_in")},
            "seeds_that_decide": seeds_that_decide(decisive)
            if main.outcome == OPEN.name
            else None,
            "typical": None if mean is None else _contrast(mean),
            **{
                f"typical_{name}": None if mean is None else getattr(mean, name)
                for name in _EFFECT
            },
            **{name: getattr(decisive, name) for name in (*_EFFECT, "unit")},
            "contrast": decisive.label,
            "region": decisive.claimed,
            **ps,
            "family_size": main.holm_over,
            "seeds": _seeds(main),
            "contrasts": [_contrast(row) for row in rows(comparisons_of(found))],
            "reported": _reported(found),
        }
    )


def _reported(found: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the statements that are judged next to a finding, each with its comparisons."""
    statements: list[dict[str, Any]] = []
    for row in rows(found[found["role"] == "reported"]):
        if not row.depth:
            numbers = {
                name: getattr(row, name)
                for name in ("label", "verdict", "p_for", "p_against")
            }
            statements.append(_rounded(numbers) | {"contrasts": []})
        if not row.rule:
            statements[-1]["contrasts"].append(_contrast(row))
    return statements


def _contrast(row: FindingRow) -> dict[str, object]:
    """Return a comparison in plain types; one without scores has no p."""
    record = {name: getattr(row, name) for name in _CONTRAST}
    return _rounded(
        record | (dict.fromkeys(("p_for", "p_against")) if row.missing else {})
    )


def _seeds(row: FindingRow) -> str:
    return "-".join(map(str, row.seeds))


def _rounded(record: Mapping[str, object]) -> dict[str, object]:
    """Return numbers that JSON can hold: rounded to ten significant digits, None for those that are not finite."""
    return {
        name: (float(f"{value:.10g}") if math.isfinite(value) else None)
        if isinstance(value, float)
        else value
        for name, value in record.items()
    }


def verdicts_data(assessment: Assessment, shown: Sequence[str]) -> dict[str, object]:
    """Return everything about the findings in plain types."""
    return {
        "source": assessment.source.label,
        **(
            {"note": assessment.source.own_words} if assessment.source.own_words else {}
        ),
        **asdict(assessment.settings),
        "tests": list(assessment.tests),
        "alpha": ALPHA,
        "margins": MARGINS,
        "families": FAMILIES,
        "findings": [
            as_record(of_finding(assessment.frame, finding))
            | {"datasets": dataset_record(assessment, finding)}
            for finding in shown
        ],
    }


_CSV_FINDING = [
    "id",
    "verdict",
    "holds_in",
    "fails_in",
    "parts",
    "typical_effect",
    "typical_low",
    "typical_high",
    *_EFFECT,
    "unit",
    "contrast",
    "region",
    *_PS,
    "family",
    "seeds",
    "short",
    "statement",
    "where",
    "sentence",
]
_CSV_CONTRAST = [
    "id",
    "part",
    "label",
    "claimed",
    "unit",
    *_EFFECT,
    "low90",
    "high90",
    "standard_error",
    "df",
    "p_for",
    "p_against",
    "p_zero",
    "test",
    "instance_share",
    "missing",
    "seeds",
]


def verdicts_frame(assessment: Assessment, shown: Sequence[str]) -> pd.DataFrame:
    """Return one row a finding."""
    findings = [as_record(of_finding(assessment.frame, finding)) for finding in shown]
    return _with_settings(assessment, pd.DataFrame(findings, columns=_CSV_FINDING))


def contrasts_frame(assessment: Assessment, shown: Sequence[str]) -> pd.DataFrame:
    """Return one row a contrast."""
    contrasts = [
        _contrast(row) | {"id": row.id, "part": row.role, "seeds": _seeds(row)}
        for finding in shown
        for role in ("verdict", "reported")
        for row in rows(comparisons_of(of_finding(assessment.frame, finding), role))
    ]
    return _with_settings(assessment, pd.DataFrame(contrasts, columns=_CSV_CONTRAST))


def _with_settings(assessment: Assessment, frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(
        source=assessment.source.label,
        selection=assessment.settings.selection,
        interval=assessment.settings.interval,
    )
