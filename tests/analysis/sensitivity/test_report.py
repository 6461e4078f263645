from __future__ import annotations

import json

from analysis.claims.catalogue import CLAIMS
from analysis.sensitivity.report import sensitivity_document, sensitivity_of
from analysis.sources import Source
from analysis.statistics.scores_table import Settings
from common.tables import PRINTED, show
from tests.analysis.comparisons.given import best_runs, drawn
from tests.analysis.sensitivity.found import published


def test_every_format_names_every_claim() -> None:
    for form in PRINTED:
        text = show(sensitivity_document(published()), form)
        assert text.endswith("\n") and "nan" not in text
        assert all(name in text for name in CLAIMS)


def test_the_text_has_what_overturns_each_verdict() -> None:
    lines = show(sensitivity_document(published()), "text").splitlines()
    first = next(line for line in lines if line.startswith("F1 "))
    assert first.split()[:2] == ["F1", "supported"] and "0.63" in first
    assert any(line.startswith("F12") and "(invalid)" in line for line in lines)
    assert any("valid analyses" in line for line in lines)


def test_json_holds_the_same() -> None:
    content = json.loads(show(sensitivity_document(published()), "json"))
    claims = {one["id"]: one for one in content["claims"]}
    assert list(claims) == list(CLAIMS)
    assert claims["F4"]["by_rho"]["0.5"] == "supported"
    assert claims["F7"]["p"] is None
    assert ["rho", "0.5", "supported", True] in claims["F4"]["flipped_by"]


def test_the_second_opinion_is_beside_the_verdict() -> None:
    claims = {one["id"]: one for one in json.loads(show(sensitivity_document(published()), "json"))["claims"]}
    assert claims["F1"]["probability"] > 0.99 > 0.9 > claims["F1"]["probability_over_datasets"]
    assert claims["F7"]["probability"] is None
    assert "Second opinion" in show(sensitivity_document(published()), "text")


def test_an_interval_without_standard_errors_leaves_them_to_students_t(monkeypatch) -> None:
    monkeypatch.setattr("analysis.sensitivity.report.forks_of", lambda source, settings: published().forks)
    levels = {
        f"{size}-{name}-42k": 2.0 * (name == "mlm40")
        for size in ("210m", "610m", "1b")
        for name in ("mlm40", "clm")
    }
    runs = Source(label="x", runs=best_runs(drawn(levels, sd=0.2)))
    by_t, by_bootstrap = (
        sensitivity_of(runs, Settings(interval=name, resamples=200)) for name in ("t", "bootstrap")
    )
    assert by_t.overturned[0].state == "supported" and by_t.overturned[0].spread > 0.1
    assert by_bootstrap.overturned[0] == by_t.overturned[0]
