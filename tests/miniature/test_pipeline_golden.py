"""The quick miniature, from text to checks: it ends where it did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analysis.store.runs_table import read_runs
from common.provenance import ROOT
from miniature.checks import checks
from miniature.data import MADE_UP
from miniature.forms import FORMS, RANDOM
from miniature.pipeline import make_miniature
from miniature.toy_study import ANALYSED, PRETRAINED, TABLE, Miniature
from tests.miniature.golden import ends

FORM = FORMS["quick"]

LOSS, SCORE = 0.02, 6.0
"""Tolerances: nats, and points of a mean over two seeds of 60 to 200 examples. Processors round differently."""


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_the_quick_miniature_ends_where_it_did(tmp_path: Path) -> None:
    miniature = Miniature.below(tmp_path, FORM, MADE_UP)
    summary = make_miniature(miniature)
    assert "MINIATURE" in summary and "Draw no conclusions" in summary
    golden = json.loads((ROOT / "tests/golden/miniature.json").read_text())
    found = ends(tmp_path)
    assert found["losses"] == pytest.approx(golden["losses"], abs=LOSS)
    assert found["scores"].keys() == golden["scores"].keys()
    for model, scores in golden["scores"].items():
        assert found["scores"][model] == pytest.approx(scores, abs=SCORE), model
    runs = read_runs(miniature.root / TABLE, add_models=miniature.model_names)
    _, differ, lower = checks(FORM, miniature.root / PRETRAINED, runs)
    assert differ.holds and lower.holds, (differ.seen, lower.seen)
    # Words alone decide the made-up SC and IR, so pretraining has something to give only where a word's kind counts.
    tags = {name: scores["uner_en"] for name, scores in found["scores"].items()}
    assert max(tags.values()) > tags[RANDOM] + 2
    analysed = miniature.root / ANALYSED
    assert "MINIATURE" in (analysed / "tables" / "table02.md").read_text()
    assert "MINIATURE" in (analysed / "claims.md").read_text()
    assert "MINIATURE. Figure 2." in (analysed / "figures" / "figure2.svg").read_text()
    assert (analysed / "report" / "index.html").is_file()
