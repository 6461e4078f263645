"""The quick miniature, from text to checks: it ends where it did, on made-up and on real data."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from analysis.store.runs_table import read_runs
from common.provenance import ROOT
from miniature.checks import Check, checks
from miniature.data_source import MADE_UP, DataSource
from miniature.forms import FORMS, RANDOM
from miniature.local import LocalFiles
from miniature.pipeline import folders_of, make_miniature
from tests.miniature.pipeline.golden import ends

REAL = Path(os.environ.get("REAL_DATA", "/nowhere"))
FORM = FORMS["quick"]

LOSS, SCORE = 0.02, 6.0
"""Tolerances: nats, and points of a mean over two seeds of 60 to 200 examples. Processors round differently."""


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_the_quick_miniature_ends_where_it_did(tmp_path: Path) -> None:
    summary = make_miniature(FORM, MADE_UP, tmp_path, report=True)
    assert "MINIATURE" in summary and "Not to be concluded" in summary
    golden = json.loads((ROOT / "tests/golden/miniature.json").read_text())
    found = ends(tmp_path)
    assert found["losses"] == pytest.approx(golden["losses"], abs=LOSS)
    assert found["scores"].keys() == golden["scores"].keys()
    for model, scores in golden["scores"].items():
        assert found["scores"][model] == pytest.approx(scores, abs=SCORE), model
    _, differ, lower = _checks(MADE_UP, tmp_path)
    assert differ.holds and lower.holds, (differ.seen, lower.seen)
    # Words alone decide the made-up SC and IR, so pretraining has something to give only where a word's kind counts.
    tags = {name: scores["uner_en"] for name, scores in found["scores"].items()}
    assert max(tags.values()) > tags[RANDOM] + 10
    analysed = folders_of(FORM, MADE_UP, tmp_path).analysed
    assert "MINIATURE" in (analysed / "tables" / "table02.md").read_text()
    assert "MINIATURE" in (analysed / "claims.md").read_text()
    assert "MINIATURE. Figure 2." in (analysed / "figures" / "figure2.svg").read_text()
    assert (analysed / "report" / "index.html").is_file()


@pytest.mark.slow
@pytest.mark.real_data
@pytest.mark.timeout(3000)
@pytest.mark.skipif(not REAL.is_dir(), reason="REAL_DATA names no folder with original distribution files")
def test_the_quick_miniature_runs_on_real_data(tmp_path: Path) -> None:
    summary = make_miniature(FORM, LocalFiles(REAL), tmp_path, report=False)
    assert "real text and tasks" in summary
    _, differ, lower = _checks(LocalFiles(REAL), tmp_path)
    assert differ.holds and lower.holds, (differ.seen, lower.seen)


def _checks(source: DataSource, out: Path) -> list[Check]:
    folders = folders_of(FORM, source, out)
    return checks(FORM, folders, read_runs(folders.table, add_models=(*FORM.models, RANDOM)))
