"""Orders of recipes at two sizes: counted by hand in the published table, scipy's Welch test, a made-up world."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.comparisons.sizes import ALL, kept_decisions, sizes_document, sizes_table
from analysis.published_cells import NORMAL_QUANTILE, published_values
from analysis.sources import PUBLISHED, Source
from common.errors import UserError
from pretraining.models import TABLES
from tests.analysis.made_up import made_up_runs

RECIPES = ("mlm20-42k", "mlm30-42k", "mlm40-42k", "mlm50-42k", "clm-42k")


def published(column: str) -> pd.DataFrame:
    found = published_values()
    found = found[found["model"].isin(TABLES[2]) & (found["dataset"] != "average")]
    return found.drop_duplicates(["model", "dataset"]).pivot(index="model", columns="dataset", values=column)


@pytest.mark.parametrize(("small", "large"), [("210m", "610m"), ("210m", "1b"), ("610m", "1b")])
def test_the_share_is_what_counting_gives(small: str, large: str) -> None:
    means, halves = published("mean"), published("ci95")
    means[ALL] = means.mean(axis=1)
    table = sizes_table(PUBLISHED).set_index(["dataset", "small", "large"])
    for name in means:
        row = table.loc[(name, small, large)]
        kept, decided, both = [], 0, 0
        for first, second in combinations(RECIPES, 2):
            pair = [means[name][f"{size}-{one}"] for size in (small, large) for one in (first, second)]
            kept.append(np.sign(pair[0] - pair[1]) == np.sign(pair[2] - pair[3]))
            if name != ALL:
                sds = [
                    max(halves[name][f"{large}-{one}"], 0.005) / NORMAL_QUANTILE * 5**0.5
                    for one in (first, second)
                ]
                welch = stats.ttest_ind_from_stats(pair[2], sds[0], 5, pair[3], sds[1], 5, equal_var=False)
                decided += welch.pvalue < 0.05
                both += welch.pvalue < 0.05 and kept[-1]
        assert row["kept"] == np.mean(kept)
        if name != ALL:
            assert (row["decided"], row["decided_kept"]) == (decided, both)
        assert row["low"] <= row["high"]


def test_sets_of_three_are_counted_over_all_sizes() -> None:
    means, sets = published("mean"), kept_decisions(PUBLISHED)
    assert len(sets) == 220 and sets["kept"].is_monotonic_decreasing
    total = sizes_table(PUBLISHED).query("dataset == @ALL").drop_duplicates("large")["decided"].sum()
    assert int(sets["decisions"].iloc[0]) >= total  # 610M and 1B; and 210M
    names = sets["datasets"].iloc[-1].split(", ")
    few, whole = means[names].mean(axis=1), means.mean(axis=1)
    orders = [
        np.sign(few[f"{size}-{a}"] - few[f"{size}-{b}"])
        == np.sign(whole[f"{size}-{a}"] - whole[f"{size}-{b}"])
        for size in ("210m", "610m", "1b")
        for a, b in combinations(RECIPES, 2)
    ]
    assert sets["kept"].iloc[-1] <= sum(orders)


def test_a_world_without_noise_is_kept_whole_and_one_of_noise_is_not() -> None:
    models = list(TABLES[2])
    shift = {name: 0.02 * RECIPES.index(name.split("-", 1)[1]) for name in models}
    rng = np.random.default_rng(0)
    clear = sizes_table(
        Source(label="x", runs=made_up_runs(rng, models=models, shift=shift, sd=0.001, rates=[1e-4]))
    )
    assert (clear["kept"] == 1).all() and (clear["low"] == 1).all()
    assert (clear["decided"] == 10).all() and (clear["decided_kept"] == 10).all()
    noise = sizes_table(Source(label="x", runs=made_up_runs(rng, models=models, sd=0.01, rates=[1e-4])))
    single = noise[noise["dataset"] != ALL]
    assert single["kept"].mean() == pytest.approx(0.5, abs=0.12)
    assert ((single["low"] <= 0.5) & (single["high"] >= 0.5)).mean() > 0.9


def test_a_source_without_the_recipes_is_refused() -> None:
    runs = made_up_runs(np.random.default_rng(0), models=["610m-clm-42k"])
    with pytest.raises(UserError, match="no dataset has scores of mlm20-42k"):
        sizes_document(Source(label="x", runs=runs))
