from __future__ import annotations

import json

import pytest

from analysis.claims.catalogue import CLAIMS
from analysis.evidence.evidence import Settings
from analysis.sensitivity.report import multiverse_document, sensitivity_document, sensitivity_of
from analysis.sources import Source, open_source
from common.tables import PRINTED, show
from tests.analysis.comparisons.given import best_runs, drawn
from tests.analysis.sensitivity.found import published
from tests.analysis.stores import RELEASED


@pytest.mark.parametrize("form", PRINTED)
def test_every_format_names_every_claim(form: str) -> None:
    text = show(sensitivity_document(published()), form)
    assert text.endswith("\n") and "nan" not in text
    assert all(name in text for name in CLAIMS)


def test_the_text_has_verdicts_between_the_spreads_that_were_measured() -> None:
    lines = show(sensitivity_document(published()), "text").splitlines()
    first, second = (
        next(n for n, line in enumerate(lines) if word in line) for word in ("ELECTRA", "F1, MLM")
    )
    assert first < second and lines[second].split()[:3] == ["0.63"] * 3
    assert any(line.startswith("F12") and "(invalid)" in line for line in lines)
    assert any(line.split()[:2] == ["610m-clm", "24"] for line in lines)
    f8 = [line for line in lines if line.startswith("F8 ") and "trunks and tasks" in line]
    assert len(f8) == 1 and "4 of 12, [+0.95, +2.22]" in f8[0]
    f1 = next(line for line in lines if line.startswith("F1 ") and "1.00  " in line)
    assert f1.split()[1:6] == ["1.00", "0.76", "0.72", "0.58", "0.43"]


def test_json_holds_the_same() -> None:
    content = json.loads(show(sensitivity_document(published()), "json"))
    claims = {one["id"]: one for one in content["claims"]}
    assert list(claims) == list(CLAIMS)
    assert claims["F7"]["p"] is None
    assert ["rho", "0.5", "supported", True] in claims["F4"]["flipped_by"]
    assert claims["F1"]["probability"] > 0.99 > 0.9 > claims["F1"]["probability_over_datasets"]["4"]
    assert claims["F7"]["probability"] is None and "610m-clm-42k" in content["trunks"]["610m-clm"]


@pytest.mark.parametrize("form", PRINTED)
def test_the_multiverse_shows_the_grid_of_the_claims_wanted(form: str) -> None:
    text = show(multiverse_document(published().multiverse, ["F1", "F4"]), form)
    assert text.endswith("\n") and "F4" in text and "F5a" not in text
    if form in ("text", "markdown"):
        assert "50% of 2" in text and "seed/t" in text and "valid" not in text
    elif form == "json":
        content = json.loads(text)
        assert [one["share_supporting"] for one in content["claims"]] == [1.0, 0.5]
        assert len(content["analyses"]) == 2 * 2


def test_the_multiverse_of_runs_has_the_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    from analysis.sensitivity.forks import explore

    released = open_source(str(RELEASED))
    found = explore(released, Settings(interval="t", resamples=100), grid_only=True)
    text = show(multiverse_document(found, ["F1"]), "text")
    assert "91.42 +- 0.62  91.10 +- 0.39  +0.32" in text and "91.74 +- 0.25  91.10 +- 0.39  +0.64" in text
    assert "MLM runs, n = 5; CLM published, n = 5" in text


@pytest.mark.slow
def test_an_interval_without_standard_errors_leaves_them_to_students_t(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = published().multiverse
    monkeypatch.setattr("analysis.sensitivity.report.explore", lambda *_, **__: made)
    levels = {
        f"{size}-{name}-42k": 2.0 * (name == "mlm40")
        for size in ("210m", "610m", "1b")
        for name in ("mlm40", "clm")
    }
    runs = Source(label="x", runs=best_runs(drawn(levels, sd=0.2)))
    by_t, by_bootstrap = (
        sensitivity_of(runs, Settings(interval=name, resamples=200)) for name in ("t", "bootstrap")
    )
    first = by_t.overturned[0]
    assert first.state == "supported" and (first.spread["models"] or 0) > 0.1
    assert by_bootstrap.overturned[0] == first
    assert "Student's t" in by_bootstrap.tests[-1]
