"""Claims by dataset in every format."""

import csv
import io
import json

import pytest

from analysis.claims.assessment import Assessment
from analysis.claims.pages.dataset_tables import dataset_sentences
from clm_or_mlm.__main__ import main
from tests.analysis.stores import RELEASED


def test_the_sentences_name_what_one_dataset_makes(assessment: Assessment) -> None:
    said = " ".join(dataset_sentences(assessment, "F3"))
    assert "Results that depend on MNLI: gap on SC, 610m - 210m (+1.33" in said
    assert "SST-2 (0 of 3)" in " ".join(dataset_sentences(assessment, "F1"))
    assert not dataset_sentences(assessment, "F7")


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_every_contrast_has_a_row_a_dataset_and_the_average(form: str, capsys) -> None:
    assert main(["claims", "--datasets", "F3", "--format", form]) == 0
    text = capsys.readouterr().out
    for name in ("SST-2", "QQP", "MNLI", "average", "I2 96%", "Results that depend on MNLI"):
        assert name in text


def test_the_data_have_the_numbers_of_the_text(capsys) -> None:
    assert main(["claims", "--datasets", "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    made = {
        (row["contrast"], row["dataset"])
        for row in rows
        if row["makes_the_result"] == "True" and row["id"] == "F3"
    }
    assert made == {("gap on SC, 610m - 210m", "mnli_m"), ("gap on SC, 1b - 610m", "mnli_m")}
    assert main(["claims", "--datasets", "--format", "json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["findings"]["F8"]["holds_in"] == 4 and len(content["contrasts"]) == len(rows)


def test_one_released_dataset_says_what_it_can(capsys) -> None:
    assert main(["claims", "--source", str(RELEASED), "--datasets"]) == 0
    assert "Open: this source has no scores for it." in capsys.readouterr().out
