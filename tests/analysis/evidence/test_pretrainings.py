"""Tasks of one pretraining share its luck: means over tasks are taken within it, so that equal arms seldom differ."""

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from scipy import stats

from analysis.comparisons.comparison import compare
from analysis.comparisons.contestants import OVERALL
from analysis.evidence.contrasts import Contrast, Term
from analysis.evidence.evidence import Evidence
from analysis.evidence.settings import Settings
from analysis.sources import Source
from benchmarks.protocol import AVERAGE, DATASETS, TASKS, datasets_of
from common.errors import UserError
from tests.analysis.comparisons.given import best_runs

Scores = npt.NDArray[np.float64]
TERMS = tuple(
    Term(weight=sign / len(TASKS), model=arm, task=task)
    for arm, sign in (("first", 1), ("second", -1))
    for task in TASKS
)
DIFFERENCE = Contrast(label="first minus second over all tasks", terms=TERMS)


def evidence_of(
    first: Scores, second: Scores, arms: tuple[str, ...] = ("first", "second")
) -> Evidence:
    """Return two arms' scores, (n_pretrainings, n_tasks) each, whose pretrainings are columns of their own."""
    count = len(first) + len(second)
    wide = np.full((2, len(TASKS), count), np.nan)
    wide[0, :, : len(first)] = first.T
    wide[1, :, len(first) :] = second.T
    keys = [(arm, task, AVERAGE) for arm in ("first", "second") for task in TASKS]
    index = pd.MultiIndex.from_tuples(keys, names=["model", "task", "dataset"])
    values = pd.DataFrame(wide.reshape(-1, count), index=index)
    return Evidence(Settings(), values=values, arms=arms)


def drawn(rng: np.random.Generator, pretrainings: int, shared: float) -> Scores:
    """Return scores around 50 of which a share of the variance is common to the tasks of a pretraining."""
    common = rng.normal(0, np.sqrt(shared), (pretrainings, 1))
    own = rng.normal(0, np.sqrt(1 - shared), (pretrainings, len(TASKS)))
    return 50 + common + own


def test_the_mean_over_tasks_is_welchs_over_pretrainings() -> None:
    rng = np.random.default_rng(0)
    first, second = drawn(rng, 5, 0.5), drawn(rng, 3, 0.5)
    found = evidence_of(first, second).result(DIFFERENCE)
    expected = stats.ttest_ind(first.mean(axis=1), second.mean(axis=1), equal_var=False)
    low, high = expected.confidence_interval(0.95)
    assert (found.p_zero, found.low, found.high) == pytest.approx(
        (expected.pvalue, low, high)
    )


def test_a_pretraining_without_a_task_is_left_out() -> None:
    rng = np.random.default_rng(1)
    first, second = drawn(rng, 5, 0.5), drawn(rng, 5, 0.5)
    first[2, 1] = np.nan
    found = evidence_of(first, second).result(DIFFERENCE)
    complete = np.delete(first, 2, axis=0)
    expected = stats.ttest_ind(
        complete.mean(axis=1), second.mean(axis=1), equal_var=False
    )
    assert found.p_zero == pytest.approx(expected.pvalue)


def test_pretrainings_without_a_common_task_have_no_test() -> None:
    scores = drawn(np.random.default_rng(2), 4, 0.5)
    apart = scores.copy()
    apart[:2, 0] = np.nan
    apart[2:, 1] = np.nan
    assert not evidence_of(apart, scores).result(DIFFERENCE).known


def arm(
    name: str, level: float, rng: np.random.Generator, count: int = 4
) -> dict[str, dict[str, list[float]]]:
    """Return pretrainings `name`, `name-s1`, ... of three fine-tuning seeds, with luck that all datasets share."""
    names = [name, *(f"{name}-s{seed}" for seed in range(1, count))]
    return {
        one: {
            dataset: list(level + luck + rng.normal(0, 0.3, 3)) for dataset in DATASETS
        }
        for one, luck in zip(names, rng.normal(0, 1, count), strict=True)
    }


def over_tasks(scores: dict[str, dict[str, list[float]]]) -> list[float]:
    return [
        float(
            np.mean(
                [np.mean([one[name] for name in datasets_of(task)]) for task in TASKS]
            )
        )
        for one in scores.values()
    ]


def test_compare_takes_the_mean_within_a_pretraining() -> None:
    rng = np.random.default_rng(3)
    first, second = arm("mine", 80, rng), arm("yours", 79, rng, 6)
    source = Source(label="x", runs=best_runs(first | second))
    result = compare(source, [], Settings(), replicates=["mine", "yours"])
    [whole] = [one for one in result.differences if one.place == OVERALL]
    expected = stats.ttest_ind(over_tasks(first), over_tasks(second), equal_var=False)
    assert whole.result.p_zero == pytest.approx(expected.pvalue)
    assert whole.result.seeds == (4, 6)
    pooled = np.sqrt(
        (np.var(over_tasks(first), ddof=1) + np.var(over_tasks(second), ddof=1)) / 2
    )
    assert whole.spread == pytest.approx(pooled)


def test_lengths_of_one_trunk_are_taken_within_it() -> None:
    rng = np.random.default_rng(4)
    short, long = arm("610m-mlm40-22k", 80, rng), arm("610m-mlm40-42k", 81, rng)
    source = Source(label="x", runs=best_runs(short | long))
    result = compare(
        source, [], Settings(), replicates=["610m-mlm40-42k", "610m-mlm40-22k"]
    )
    [whole] = [one for one in result.differences if one.place == OVERALL]
    expected = stats.ttest_rel(over_tasks(long), over_tasks(short))
    assert whole.result.p_zero == pytest.approx(expected.pvalue)
    assert whole.result.seeds == (4,)


def test_lengths_of_one_trunk_are_not_an_arm() -> None:
    rng = np.random.default_rng(5)
    lengths = arm("610m-mlm40-22k", 80, rng, 1) | arm("610m-mlm40-42k", 81, rng, 1)
    with pytest.raises(UserError, match="one pretraining"):
        compare(
            Source(label="x", runs=best_runs(lengths)),
            [],
            Settings(),
            replicates=["610m-mlm40-*"],
        )


@pytest.mark.slow
@pytest.mark.parametrize("shared", [0, 0.25, 0.5, 1])
@pytest.mark.parametrize("pretrainings", [3, 5, 10])
def test_equal_arms_seldom_differ_over_all_tasks(
    pretrainings: int, shared: float
) -> None:
    """A thousand studies: of tasks taken as independent, up to a third would find a leader."""
    rng = np.random.default_rng([pretrainings, int(100 * shared)])
    leads = sum(
        evidence_of(drawn(rng, pretrainings, shared), drawn(rng, pretrainings, shared))
        .result(DIFFERENCE)
        .p_zero
        <= 0.05
        for _ in range(1_000)
    )
    assert leads <= 65
