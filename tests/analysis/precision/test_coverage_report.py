"""Coverages as text and Markdown."""

from __future__ import annotations

import json

from analysis.precision.coverage import KINDS, TARGETS, simulate
from analysis.precision.coverage_report import CoverageReport, coverage_document
from analysis.sources import PUBLISHED
from common.tables import show


def test_every_format_shows_every_target_and_interval() -> None:
    frame = simulate(PUBLISHED, trials=100, resamples=100, seed=0)
    report = CoverageReport(frame=frame, source="published", trials=100)
    for name in ("text", "markdown"):
        text = show(coverage_document(report), name)
        assert "variances from published; 100 trials a dataset (standard error 2.2)" in text
        assert text.count("MS MARCO") == len(TARGETS)
        assert all(kind in text for kind in KINDS)
    assert len(json.loads(show(coverage_document(report), "json"))) == len(frame)
    assert show(coverage_document(report), "csv").splitlines()[0] == ",".join(frame.columns)
