"""Every analysis is made, counted and shown; the selection rule's effect on the gaps is visible."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.claims.catalogue import CLAIMS
from analysis.claims.multiverse import explore, gap_by_selection
from analysis.sources import Source, open_source
from analysis.statistics.interval_kinds import INTERVALS
from analysis.statistics.scores_table import Settings, seed_scores
from common.errors import UserError
from tests.analysis.made_up import made_up_runs, with_instances
from tests.analysis.stores import RELEASED

MLM, CLM = "610m-mlm40-42k", "610m-clm-42k"
SETTINGS = Settings(interval="t", resamples=200)


def test_published_cells_allow_two_analyses():
    found = explore(Source(label="published"), SETTINGS)
    assert set(found.verdicts["interval"]) == {"paper", "t"} and found.gaps.empty
    shares = found.shares()
    assert list(shares.index) == list(CLAIMS)
    assert shares.loc["F1", "share_supporting"] == 1.0
    assert (
        shares.loc["F4", "share_supporting"] == 0.5
    )  # the paper's narrower interval supports it, Welch does not
    assert np.isnan(shares.loc["F7", "share_supporting"]) and shares.loc["F7", "decided"] == 0


@pytest.mark.slow
def test_runs_are_judged_under_every_rule_interval_and_protocol(tmp_path):
    runs, folder = with_instances(
        tmp_path / "instances", np.random.default_rng(0), models=(CLM, MLM), counts={}, shift=0.02
    )
    source = Source(label="x", runs=runs, instances=folder)
    found = explore(source, SETTINGS, standard=Source(label="y", runs=runs)).verdicts
    kinds = found.groupby(["protocol", "selection"])["interval"].agg(lambda values: sorted(set(values)))
    assert kinds["paper", "seed"] == sorted([*INTERVALS, "mixed"])
    assert kinds["standard", "pooled"] == sorted(
        [*(name for name, one in INTERVALS.items() if not one.needs_instances), "mixed"]
    )
    assert set(found[found["interval"] == "mixed"]["id"]) == {"F1", "F2", "F3", "F4"}


def test_the_released_runs_show_how_the_rule_moves_the_gap(capsys):
    source = open_source(str(RELEASED))
    assert source.runs is not None
    gaps = gap_by_selection(source.runs).set_index("selection")
    assert gaps["gap"].round(2).to_dict() == {"seed": 0.32, "mean": 0.64, "pooled": 0.64}
    assert set(gaps["mlm_from"]) == {"runs, n = 5"} and set(gaps["clm_from"]) == {"published, n = 5"}
    assert main(["claims", "--source", str(RELEASED), "--multiverse", "--resamples", "200"]) == 0
    text = capsys.readouterr().out
    assert "91.42 +- 0.62  91.10 +- 0.39  +0.32" in text and "91.74 +- 0.25  91.10 +- 0.39  +0.64" in text


def test_with_runs_of_both_models_both_sides_follow_the_rule():
    runs = made_up_runs(np.random.default_rng(1), models=(CLM, MLM))
    runs["validation_score"] = np.random.default_rng(2).random(len(runs))
    gaps = gap_by_selection(runs)
    for rule in ("seed", "mean", "pooled"):
        values = seed_scores(runs, rule)
        row = gaps[(gaps["selection"] == rule) & (gaps["dataset"] == "nq")].iloc[0]
        expected = (
            values.loc[[(MLM, "IR", "nq")]].mean(axis=1).iloc[0]
            - values.loc[[(CLM, "IR", "nq")]].mean(axis=1).iloc[0]
        )
        assert row["gap"] == pytest.approx(expected)
    assert set(gaps["clm_from"]) == {"runs, n = 5"} and len(gaps) == 3 * 12


def test_a_dataset_of_ones_own_has_no_published_gap():
    runs = made_up_runs(np.random.default_rng(1), models=(CLM,))
    own = runs[runs["dataset"] == "sst2"].assign(dataset="reviews")
    gaps = gap_by_selection(pd.concat([runs, own]))
    assert len(gaps) == 3 * 12
    pd.testing.assert_frame_equal(gaps, gap_by_selection(runs))


def test_a_rule_that_cannot_be_followed_is_refused():
    with pytest.raises(UserError):
        explore(Source(label="x", runs=pd.DataFrame({"model": []})), Settings(selection="best"))
