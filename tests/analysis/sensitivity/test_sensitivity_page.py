import json
import re

import pytest

from analysis.claims.catalogue import FINDINGS, SHOWN
from analysis.evidence.settings import Settings
from analysis.sensitivity.sensitivity_page import sensitivity_document, sensitivity_of
from analysis.sources import Source
from common.tables import PRINTED, show
from tests.analysis.comparisons.given import best_runs, drawn
from tests.analysis.sensitivity.found import published


@pytest.mark.parametrize("form", PRINTED)
def test_every_format_names_every_claim(form: str) -> None:
    text = show(sensitivity_document(published()), form)
    assert text.endswith("\n") and "nan" not in text
    named = {name for name in FINDINGS if re.search(rf"\b{name}\b", text)}
    # F7 and F10 need runs, and in words only what is decided or has a mean is shown.
    assert named == {*FINDINGS} - (
        {"F7", "F10"} if form in ("text", "markdown") else set()
    )


def test_text_has_verdicts_between_measured_spreads() -> None:
    lines = show(sensitivity_document(published()), "text").splitlines()
    first, second = (
        next(n for n, line in enumerate(lines) if word in line)
        for word in ("ELECTRA", "F1, MLM")
    )
    assert first < second and lines[second].split()[:3] == ["0.63"] * 3
    assert any(line.split()[:2] == ["610m-clm", "24"] for line in lines)
    f8 = [
        line for line in lines if line.startswith("F8 ") and "trunks and tasks" in line
    ]
    assert len(f8) == 1 and "2 of 12, [+0.95, +2.22]" in f8[0]


def test_json_holds_the_same() -> None:
    content = json.loads(show(sensitivity_document(published()), "json"))
    findings = {one["id"]: one for one in content["findings"]}
    assert list(findings) == list(SHOWN)
    assert findings["F7"]["p"] is None
    assert "610m-clm-42k" in content["trunks"]["610m-clm"]
    table = published().table.set_index(["id", "sharing"])["pretraining_sd"].dropna()
    assert len(table) == 8 * 3 - 1
    for (name, sharing), sd in table.items():
        assert findings[name]["pretraining_sd"][sharing] == sd


def test_interval_without_errors_gives_way_to_students_t() -> None:
    levels = {
        f"{size}-{name}-42k": 2.0 * (name == "mlm40")
        for size in ("210m", "610m", "1b")
        for name in ("mlm40", "clm")
    }
    runs = Source(label="x", runs=best_runs(drawn(levels, sd=0.2)))
    by_t, by_bootstrap = (
        sensitivity_of(runs, Settings(interval=name, resamples=200))
        for name in ("t", "bootstrap")
    )
    first = by_t.overturned[1]
    assert first.main.outcome == "holds" and (first.spread["models"] or 0) > 0.1
    assert by_bootstrap.overturned[1] == first
    assert "Student's t" in by_bootstrap.tests[-1]
