from __future__ import annotations

import csv
import io
import json

from analysis.comparisons.best import best_of
from analysis.comparisons.best_report import best_document
from analysis.evidence.evidence import Settings
from analysis.sources import PUBLISHED
from common.tables import PRINTED, show

ANSWER = best_of(PUBLISHED, Settings(interval="t", resamples=500), ["split", "model"])


def test_every_format_has_every_contest() -> None:
    for form in PRINTED:
        text = show(best_document(ANSWER), form)
        assert text.endswith("\n") and "nan" not in text
        assert all(group in text for group in ("12k", "22k", "42k", "64k"))
    rows = list(csv.DictReader(io.StringIO(show(best_document(ANSWER), "csv"))))
    assert len(rows) == len(json.loads(show(best_document(ANSWER), "json"))["chances"]) == len(ANSWER.chances)


def test_the_text_has_chances_ranks_the_union_and_how_it_was_done() -> None:
    lines = show(best_document(ANSWER), "text").splitlines()
    heads = [line for line in lines if line.endswith(" 25-50 %")]
    assert len(heads) == 3
    line = next(line for line in lines if line.startswith("TC average"))
    assert line.endswith("0.00") and "[1-1]" in line
    assert "Student's t" in lines[-1] and "pretrained once" in lines[-1]
