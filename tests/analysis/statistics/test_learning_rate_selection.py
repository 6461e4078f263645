"""Learning-rate selection against the released runs, a brute-force rule, and its invariances."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.evidence.evidence import Evidence, scores_of
from analysis.evidence.settings import Settings
from analysis.statistics.learning_rate_selection import (
    SELECTIONS,
    Selection,
    select_runs,
)
from analysis.store.runs_table import COLUMNS, read_runs
from common.errors import UserError
from tests.analysis.stores import RELEASED

RATES = (1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4)


def grid(
    validation: np.ndarray,
    dataset: str = "sst2",
    task: str = "SC",
    model: str = "610m-clm-42k",
) -> pd.DataFrame:
    """A cell whose validation scores are `validation` (rates x seeds) and whose test scores name the rate."""
    rows = [
        (model, task, dataset, RATES[i], seed, validation[i, seed], (i + 1) / 10)
        for i in range(validation.shape[0])
        for seed in range(validation.shape[1])
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS[:7]))


@pytest.fixture(scope="module")
def released() -> pd.DataFrame:
    return read_runs(RELEASED)


def test_published_rule_gives_the_published_cell(released: pd.DataFrame) -> None:
    scores = 100 * select_runs(released, "seed")["test_score"]
    assert round(scores.mean(), 2) == 91.42
    assert round(1.96 * scores.std(ddof=1) / np.sqrt(5), 2) == 0.62


def test_rule_by_mean_gives_another_cell(released: pd.DataFrame) -> None:
    scores = 100 * select_runs(released, "mean")["test_score"]
    assert round(scores.mean(), 2) == 91.74
    assert round(1.96 * scores.std(ddof=1) / np.sqrt(5), 2) == 0.25


@given(
    st.lists(st.lists(st.floats(0, 1), min_size=5, max_size=5), min_size=6, max_size=6)
)
def test_seed_rule_equals_brute_force(validation: list[list[float]]) -> None:
    scores = np.array(validation)
    chosen = select_runs(grid(scores), "seed")
    expected = [RATES[int(np.argmax(scores[:, seed]))] for seed in range(5)]
    assert chosen["lr"].tolist() == expected


@given(st.integers(0, 2**32 - 1), st.sampled_from(["seed", "mean"]))
def test_order_of_rows_changes_nothing(seed: int, selection: str) -> None:
    rng = np.random.default_rng(seed)
    runs = pd.concat(
        [grid(rng.random((6, 5)), d) for d in ("sst2", "qqp", "mnli_m")],
        ignore_index=True,
    )
    shuffled = runs.iloc[rng.permutation(len(runs))]
    pd.testing.assert_frame_equal(
        select_runs(runs, selection), select_runs(shuffled, selection)
    )


def test_ties_go_to_the_smallest_rate() -> None:
    assert set(select_runs(grid(np.full((6, 5), 0.5)), "seed")["lr"]) == {1e-5}
    assert set(select_runs(grid(np.full((6, 5), 0.5)), "mean")["lr"]) == {1e-5}


def test_mean_rule_ignores_a_rate_with_missing_seeds() -> None:
    validation = np.full((6, 5), 0.5)
    validation[2] = 0.6
    validation[5] = 0.9
    runs = grid(validation)
    complete = runs[~((runs["lr"] == 5e-4) & (runs["seed"] > 0))]
    assert set(select_runs(complete, "mean")["lr"]) == {5e-5}


def test_a_new_rule_is_used_under_its_own_name_and_words() -> None:
    rule = Selection(
        name="smallest",
        words="the smallest learning rate",
        choose=lambda runs: runs[runs["lr"] == runs["lr"].min()],
    )
    SELECTIONS.register(rule)
    try:
        runs = grid(np.random.default_rng(0).random((6, 5)))
        assert set(select_runs(runs, "smallest")["lr"]) == {1e-5}
        assert set(
            scores_of(Evidence(Settings(selection="smallest"), runs=runs), source="x")[
                "mean"
            ]
        ) == {10.0}
        assert Settings(selection="smallest").rule.words == "the smallest learning rate"
    finally:
        SELECTIONS.pop("smallest")


@given(st.text(max_size=9).filter(lambda name: name not in SELECTIONS))
def test_an_unknown_rule_is_refused_at_every_entry(name: str) -> None:
    for entry in (
        lambda: select_runs(pd.DataFrame(), name),
        lambda: Settings(selection=name),
    ):
        with pytest.raises(
            UserError, match=r"unknown selection rule .*; use one of seed, mean"
        ):
            entry()
