"""The tests of the toy study `curves`: those of scipy, over pretrainings, Holm over a question's."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.sources import Source
from common.errors import UserError
from pretraining.models import arm_of
from pretraining.training.log import LOG, write_log
from tests.miniature.questions import (
    ARMS,
    BOTH,
    CONTINUED,
    LENGTHS,
    MLM,
    MODELS,
    answers,
    of_arm,
    spreads,
    values_of,
)


def runs(seed: int, between: float) -> pd.DataFrame:
    """Return a runs table of all models, five fine-tunings each, whose pretrainings spread by `between` points."""
    rng = np.random.default_rng(seed)
    own = {name: rng.normal(0, between) for name in MODELS}
    rows = [
        (
            name,
            task,
            dataset,
            1e-3,
            tuned,
            0.5,
            0.6 + (own[name] + rng.normal(0, 1)) / 100,
            100,
            100,
        )
        for name in MODELS
        for task, dataset in (("SC", "sst2"), ("IR", "nq"))
        for tuned in range(5)
    ]
    columns = (
        "model task dataset lr seed validation_score test_score n_validation n_test"
    )
    return pd.DataFrame(rows, columns=columns.split())


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for place, name in enumerate(MODELS):
        end, loss = MODELS[name].steps, 5 + (place * 7 % 11) / 10
        row = {"split": "validation", "objective": "mlm", "ratio": 40, "stage": name}
        write_log(
            tmp_path / name / LOG,
            [{**row, "step": 10, "loss": 9.0}, {**row, "step": end, "loss": loss}],
        )
    return tmp_path


def test_every_model_of_a_question_has_five_pretrainings() -> None:
    arms = [*(name for names in ARMS.values() for name in names), *CONTINUED]
    assert sorted(arm_of(name)[0] for name in MODELS) == sorted(arms * 5)
    steps = {arm: [MODELS[name].steps for name in names] for arm, names in ARMS.items()}
    assert all(tuple(of_one) == LENGTHS for of_one in steps.values())


def test_two_arms_are_compared_by_welch_and_lengths_by_pairs(logs: Path) -> None:
    values = values_of(Source(label="x", runs=runs(1, 1.0)), logs)
    found = answers(values)
    assert found.groupby("question").size().to_dict() == {1: 12, 2: 8, 3: 3}
    for score in ("loss", "nq", "sst2"):
        part = found[(found["question"] == 1) & (found["score"] == score)].set_index(
            "steps"
        )
        sides = [
            [of_arm(values, ARMS[arm][place], score) for arm in (BOTH, MLM)]
            for place in range(3)
        ]
        for steps, (one, other) in zip(("840", "2520", "5040"), sides, strict=True):
            welch = stats.ttest_ind(one, other, equal_var=False)
            ends = welch.confidence_interval()
            seen = part.loc[steps, ["effect", "p", "low", "high"]].to_list()
            assert seen == pytest.approx(
                [one.mean() - other.mean(), welch.pvalue, *ends]
            )
        change = stats.ttest_rel(sides[2][0] - sides[2][1], sides[0][0] - sides[0][1])
        assert part.loc["840 to 5040", "p"] == pytest.approx(change.pvalue)
    of_one = found[found["question"] == 2].sort_values("p")
    assert of_one["p_holm"].iloc[0] == pytest.approx(min(1, 8 * of_one["p"].iloc[0]))


def test_a_test_that_is_not_run_is_shown_and_counted(logs: Path) -> None:
    values = values_of(Source(label="x", runs=runs(1, 1.0)), logs)
    lost = [
        name
        for name in MODELS
        if arm_of(name)[0] == ARMS[MLM][0] and arm_of(name)[1] > 0
    ]
    values.loc[lost, "nq"] = np.nan
    values.loc[
        [name for name in MODELS if arm_of(name)[0] == ARMS[MLM][2]], "sst2"
    ] += 20
    found = answers(values).query("question == 2").set_index(["score", "steps"])
    absent = found.loc[[("nq", "840"), ("nq", "840 to 5040")]]
    assert np.isnan(absent["effect"]).all() and (absent["p_holm"] == 1).all()
    assert list(absent["pretrainings"]) == ["1/5", "1"]
    assert (
        found["p_holm"].min() == pytest.approx(8 * found["p"].min())
        and found["p_holm"].min() < 1e-3
    )


def test_the_spread_of_pretrainings_is_found_for_each_length() -> None:
    found = spreads(Source(label="x", runs=runs(2, 3.0)))
    assert len(found) == 2 * 4 * 2
    inside = found[found["component"] == "pretraining"].eval("low < 3 < high")
    assert inside.mean() >= 0.75
    assert found[found["component"] == "fine-tuning seed"]["sd"].between(0.7, 1.3).all()


def test_without_logs_it_says_what_to_give() -> None:
    with pytest.raises(UserError, match=r"x has no training logs; give .* with --logs"):
        values_of(Source(label="x", runs=runs(1, 1.0)))
