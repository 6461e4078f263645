"""Findings by dataset in sentences."""

from analysis.claims.assessment import Assessment
from analysis.claims.pages.dataset_sentences import dataset_record, dataset_sentences


def test_the_sentences_name_what_one_dataset_makes(assessment: Assessment) -> None:
    said = " ".join(dataset_sentences(assessment, "F3"))
    assert "Results that depend on MNLI: gap on SC, 610m - 210m (+1.33" in said
    assert "SST-2 (0 of 3)" in " ".join(dataset_sentences(assessment, "F1"))
    assert not dataset_sentences(assessment, "F7")


def test_the_record_counts_and_names_the_same(assessment: Assessment) -> None:
    assert dataset_record(assessment, "F3")["made_by"] == ["mnli_m"]
    assert dataset_record(assessment, "F8")["holds_in"] == 4
