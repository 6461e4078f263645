import json
import re

import pytest

from analysis.claims.catalogue import FINDINGS
from analysis.evidence.evidence import Settings
from analysis.sensitivity.sensitivity_page import sensitivity_document, sensitivity_of
from analysis.sources import Source, open_source
from common.tables import PRINTED, show
from tests.analysis.comparisons.given import best_runs, drawn
from tests.analysis.sensitivity.found import published
from tests.analysis.stores import RELEASED


@pytest.mark.parametrize("form", PRINTED)
def test_every_format_names_every_claim(form: str) -> None:
    text = show(sensitivity_document(published()), form)
    assert text.endswith("\n") and "nan" not in text
    assert all(name in text for name in FINDINGS)


def test_the_text_has_verdicts_between_the_spreads_that_were_measured() -> None:
    lines = show(sensitivity_document(published()), "text").splitlines()
    first, second = (
        next(n for n, line in enumerate(lines) if word in line) for word in ("ELECTRA", "F1, MLM")
    )
    assert first < second and lines[second].split()[:3] == ["0.63"] * 3
    assert any(line.startswith("F4") and "(invalid)" in line for line in lines)
    assert any(line.split()[:2] == ["610m-clm", "24"] for line in lines)
    f8 = [line for line in lines if line.startswith("F8 ") and "trunks and tasks" in line]
    assert len(f8) == 1 and "2 of 12, [+0.95, +2.22]" in f8[0]


def test_json_holds_the_same() -> None:
    content = json.loads(show(sensitivity_document(published()), "json"))
    findings = {one["id"]: one for one in content["findings"]}
    assert list(findings) == list(FINDINGS)
    assert findings["F7"]["p"] is None
    assert ["adjustment", "none", "holds", False] in findings["F4"]["flipped_by"]
    assert "610m-clm-42k" in content["trunks"]["610m-clm"] and content["components"] == []


def test_published_cells_get_a_sentence_in_place_of_a_grid() -> None:
    text = show(sensitivity_document(published()), "text")
    assert "allows only 2 analyses (selection rule/interval: seed/paper, seed/t)" in text
    assert "adjustment none: holds (invalid)" in text


@pytest.mark.slow
def test_runs_get_a_symbol_for_each_finding_and_analysis() -> None:
    found = sensitivity_of(open_source(str(RELEASED)), Settings(interval="t", resamples=100))
    text = show(sensitivity_document(found), "text")
    lines, names = text.splitlines(), re.findall(r"(?m)^ *\d+  (\S+/\S+)$", text)
    assert {"seed/t", "mean/pooled"} <= set(names) and len(names) == len(set(names))
    assert any(line.split()[: len(names) + 1] == ["F1", *"o" * len(names)] for line in lines)


def test_what_moves_a_score_is_shown_where_models_were_pretrained_more_than_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = published().multiverse
    monkeypatch.setattr("analysis.sensitivity.sensitivity_page.explore", lambda *_, **__: made)
    document = sensitivity_document(sensitivity_of(open_source("miniature"), Settings(interval="t")))
    assert (
        "SST-2    3 x 5 x 5                      pretraining                     1.08  [0.43, 2.11]"
        in show(document, "text")
    )
    [sst2, *_] = json.loads(show(document, "json"))["components"]
    assert (sst2["dataset"], sst2["component"]) == ("sst2", "pretraining")


@pytest.mark.slow
def test_an_interval_without_standard_errors_leaves_them_to_students_t(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = published().multiverse
    monkeypatch.setattr("analysis.sensitivity.sensitivity_page.explore", lambda *_, **__: made)
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
    assert first.main.outcome == "holds" and (first.spread["models"] or 0) > 0.1
    assert by_bootstrap.overturned[0] == first
    assert "Student's t" in by_bootstrap.tests[-1]
