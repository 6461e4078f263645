"""Two lists of seeds in any unit: scipy's Welch, Holm, and one sentence for what is no such list."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import clm_or_mlm as cm
from common.errors import UserError
from tests.analysis.adjusted import multipletests


def test_it_is_scipys_welch_with_holm() -> None:
    rng = np.random.default_rng(0)
    mine = {
        name: rng.normal(12 + 0.8 * place, 1, 5) for place, name in enumerate("abcd")
    }
    theirs = {name: rng.normal(12, 2, 4) for name in "abcd"}
    found = cm.compare_scores(mine, theirs, margin=0.5).drop(index="average")
    tests = [
        stats.ttest_ind(mine[name], theirs[name], equal_var=False) for name in "abcd"
    ]
    assert found["p"].to_numpy() == pytest.approx([one.pvalue for one in tests])
    ends = [one.confidence_interval(0.95) for one in tests]
    assert found[["low", "high"]].to_numpy() == pytest.approx(np.array(ends))
    adjusted = multipletests([one.pvalue for one in tests], method="holm")[1]
    assert found["p_holm"].to_numpy() == pytest.approx(adjusted)
    for one, row in zip(tests, found.itertuples(), strict=True):
        error = row.effect / one.statistic
        assert row.p_exceeds == pytest.approx(
            stats.t.sf((0.5 - row.effect) / error, one.df)
        )


def test_outcomes() -> None:
    base = [1.0, 2.0, 3.0, 4.0, 5.0]
    up = [score + 20 for score in base]
    assert cm.compare_scores(up, base)["outcome"].item() == "ahead"
    assert cm.compare_scores(base, up)["outcome"].item() == "behind"
    assert cm.compare_scores(base, base)["outcome"].item() == "open"
    assert cm.compare_scores(base, base, margin=5)["outcome"].item() == "equal"
    one_seed = cm.compare_scores([3.0], base).iloc[0]
    assert (one_seed["effect"], one_seed["outcome"]) == (0, "unknown")
    assert cm.compare_scores([1, 1], [2, 2])["outcome"].item() == "unknown"
    assert cm.compare_scores([1, 1, 1], [2.0, 2.1, 2.2])["outcome"].item() == "behind"


def test_what_is_printed_has_effect_interval_p_and_outcome() -> None:
    found = cm.compare_scores({"a": [2.0, 2.1, 2.2]}, {"a": [1.0, 1.1, 1.3]})
    with pd.option_context("display.width", 80, "display.max_columns", 0):
        head = repr(found).splitlines()[0]
    assert {"effect", "low", "high", "p_holm", "outcome"} <= set(head.split())


@pytest.mark.parametrize(
    ("mine", "baseline", "margin", "words"),
    [
        ([], [1.0], 0, ("mine",)),
        ([1.0, float("nan")], [1.0], 0, ("mine", "finite")),
        ({"a": [1.0]}, {"b": [1.0]}, 0, ("'a', 'b'", "same datasets")),
        ([1.0], ["x"], 0, ("baseline", "numbers")),
        ([1.0], [1.0], -1, ("margin", "-1")),
        ({}, {}, 0, ("empty",)),
    ],
)
def test_what_is_no_list_of_seeds_is_one_sentence(
    mine: Any, baseline: Any, margin: float, words: tuple[str, ...]
) -> None:
    with pytest.raises(UserError) as refusal:
        cm.compare_scores(mine, baseline, margin=margin)
    assert all(word in str(refusal.value) for word in words)
