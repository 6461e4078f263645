from __future__ import annotations

from analysis.comparisons.questions import QUESTIONS
from pretraining.models import MODELS


def test_splits_are_quarters_of_every_budget() -> None:
    contests = {one.group: one for one in QUESTIONS["split"].contests(MODELS)}
    assert list(contests) == ["12k", "22k", "42k"]
    for one in contests.values():
        assert list(one.alternatives) == [f"{share} % CLM" for share in (0, 25, 50, 75, 100)]
        assert one.union == ("25 % CLM", "50 % CLM")
    assert contests["22k"].alternatives["75 % CLM"] == "610m-clm-17k-mlm40-22k"
    assert contests["42k"].alternatives["0 % CLM"] == "610m-mlm40-42k"


def test_ratios_and_objectives_have_a_contest_for_each_size() -> None:
    ratios = {one.group: one.alternatives for one in QUESTIONS["ratio"].contests(MODELS)}
    assert list(ratios) == ["210m", "610m", "1b"]
    assert ratios["1b"] == {f"{ratio} %": f"1b-mlm{ratio}-42k" for ratio in (20, 30, 40, 50)}
    objectives = {one.group: one.alternatives for one in QUESTIONS["objective"].contests(MODELS)}
    assert objectives["610m, 12k"] == {"MLM": "610m-mlm40-12k", "CLM": "610m-clm-12k"}


def test_models_compete_within_a_budget_and_a_contest_has_two_or_more() -> None:
    budgets = [one.group for one in QUESTIONS["model"].contests(MODELS)]
    assert budgets == ["12k", "22k", "42k", "44k", "54k", "64k"]
    assert QUESTIONS["ratio"].contests(["610m-mlm40-42k", "1b-mlm20-42k"]) == []
