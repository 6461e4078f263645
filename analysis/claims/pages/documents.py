"""Verdicts as a document: a table or their reasoning for a terminal, the page of findings, and everything as data."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.claims.assessment import Assessment
from analysis.claims.pages.explain import explanations, findings_page, verdicts_text
from analysis.claims.pages.records import contrasts_frame, verdicts_data, verdicts_frame
from analysis.claims.verdicts import Verdict
from common.tables import Document, show

__all__ = ["verdicts_document"]


def verdicts_document(assessment: Assessment, shown: Sequence[Verdict], *, explain: bool = False) -> Document:
    """Return verdicts, one row a claim; with `explain` the reasoning behind them, and one row a contrast."""
    text = explanations if explain else verdicts_text
    frame = contrasts_frame if explain else verdicts_frame
    return Document(
        pages={
            "text": lambda: text(assessment, shown),
            "markdown": lambda: findings_page(assessment, shown),
            "csv": lambda: show(Document(records=frame(assessment, shown)), "csv"),
            "json": lambda: show(Document(data=verdicts_data(assessment, shown), indent=2), "json"),
        },
    )
