"""The selection rule's effect on the gaps is visible."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.evidence.cells import seed_scores
from analysis.sensitivity.gaps import gap_by_selection
from analysis.sources import open_source
from tests.analysis.made_up import made_up_runs
from tests.analysis.stores import RELEASED

MLM, CLM = "610m-mlm40-42k", "610m-clm-42k"


def test_the_released_runs_show_how_the_rule_moves_the_gap() -> None:
    runs = open_source(str(RELEASED)).runs
    gaps = gap_by_selection(runs).set_index("selection")
    assert gaps["gap"].round(2).to_dict() == {"seed": 0.32, "mean": 0.64, "pooled": 0.64}
    assert set(gaps["mlm_from"]) == {"runs, n = 5"} and set(gaps["clm_from"]) == {"published, n = 5"}
    assert gap_by_selection(runs, fill=False).empty and gap_by_selection(None).empty


def test_with_runs_of_both_models_both_sides_follow_the_rule() -> None:
    runs = made_up_runs(np.random.default_rng(1), models=(CLM, MLM))
    runs["validation_score"] = np.random.default_rng(2).random(len(runs))
    gaps = gap_by_selection(runs)
    for rule in ("seed", "mean", "pooled"):
        values = seed_scores(runs, rule).mean(axis=1)
        row = gaps[(gaps["selection"] == rule) & (gaps["dataset"] == "nq")].iloc[0]
        assert row["gap"] == pytest.approx(values[MLM, "IR", "nq"] - values[CLM, "IR", "nq"])
    assert set(gaps["clm_from"]) == {"runs, n = 5"} and len(gaps) == 3 * 12
    own = runs[runs["dataset"] == "sst2"].assign(dataset="reviews")  # has no published gap
    pd.testing.assert_frame_equal(gap_by_selection(pd.concat([runs, own])), gaps)
