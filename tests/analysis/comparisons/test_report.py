from __future__ import annotations

import csv
import io
import json
import math

import pytest

from analysis.comparisons.comparison import compare
from analysis.comparisons.report import comparison_document
from analysis.evidence.evidence import Settings
from analysis.sources import PUBLISHED
from common.tables import PRINTED, show
from tests.analysis.comparisons.given import MADE_UP, REAL, real_and_made_up

SETTINGS = Settings(interval="t", resamples=500)
PAIR = compare(PUBLISHED, [REAL, MADE_UP], SETTINGS)
MANY = compare(PUBLISHED, ["610m-*-12k"], SETTINGS)
RUNS = compare(real_and_made_up(), [REAL, MADE_UP], SETTINGS)


@pytest.mark.parametrize("form", [*PRINTED, "latex"])
@pytest.mark.parametrize("result", [PAIR, MANY, RUNS], ids=["pair", "many", "runs"])
def test_every_format_prints_every_comparison(form, result):
    text = show(comparison_document(result), form)
    assert text.endswith("\n") and not text.endswith("\n\n")
    assert "nan" not in text.lower().replace("finance", "")
    assert all(name.replace("_", "\\_") in text for name in result.field.models)


def test_json_and_csv_hold_the_same_numbers():
    rows = list(csv.DictReader(io.StringIO(show(comparison_document(PAIR), "csv"))))
    content = json.loads(show(comparison_document(PAIR), "json"))
    assert len(rows) == len(content["differences"]) == 17
    for row, one in zip(rows, content["differences"], strict=True):
        assert float(row["effect"]) == pytest.approx(one["effect"], rel=1e-8)
        assert float(row["p_holm"]) == pytest.approx(one["p_holm"], rel=1e-8)
        assert math.fsum(
            float(row[f"posterior_{part}"]) for part in ("below", "within", "above")
        ) == pytest.approx(1)
    assert content["ranking"] is None
    assert len(json.loads(show(comparison_document(MANY), "json"))["ranking"]["ranked"]) == 5


def test_the_text_has_the_table_the_forest_and_how_it_was_done():
    text = show(comparison_document(PAIR), "text")
    assert "SC average  87.00  83.58  +3.42   [+3.13, +3.71]" in text
    assert "Each model was pretrained once" in text
    assert ":" in text and "|o" in text
    assert "|" in show(comparison_document(PAIR), "markdown") and "|o|" not in show(
        comparison_document(PAIR), "markdown"
    )
