"""Arms of several pretrainings against the multi-bootstrap and Welch's test of their means."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.comparisons.comparison import compare
from analysis.comparisons.comparison_report import (
    comparison_document,
    footer,
    records_of,
)
from analysis.comparisons.contestants import Place
from analysis.evidence.settings import Settings
from analysis.sources import PUBLISHED, Source
from analysis.store.instances import RunScores, read_instances
from benchmarks.protocol import AVERAGE, DATASETS, TASKS, datasets_of
from common.errors import UserError
from common.tables import show
from tests.analysis.comparisons.given import REAL, best_runs
from tests.analysis.made_up import write_instances

SST2 = Place("SC", "sst2")


Arm = dict[str, dict[str, list[float]]]


def pretrained(
    count: int, level: float, between: float, seed: int, seeds: int = 5
) -> dict[str, dict[str, list[float]]]:
    """Return fine-tunings of `count` pretrainings around 80, whose own levels spread by `between`."""
    rng = np.random.default_rng(seed)
    return {
        f"mine{level:g}-s{place}": {
            "sst2": list(
                80 + level + rng.normal(0, between) + rng.normal(0, 0.5, seeds)
            )
        }
        for place in range(count)
    }


def source_of(*arms: Arm) -> Source:
    runs = best_runs({name: scores for arm in arms for name, scores in arm.items()})
    return Source(label="x", runs=runs)


def means(arm: Arm) -> list[float]:
    return [float(np.mean(scores["sst2"])) for scores in arm.values()]


def test_two_arms_are_compared_by_welch_over_pretrainings() -> None:
    first, second = pretrained(5, 1, 0.4, 0), pretrained(3, 0, 0.4, 1, seeds=3)
    result = compare(
        source_of(first, second),
        [],
        Settings(interval="t"),
        replicates=["mine1-s*", "mine0-s*"],
    )
    [one] = [row for row in result.differences if row.place == SST2]
    welch = stats.ttest_ind(means(first), means(second), equal_var=False)
    interval = welch.confidence_interval(0.95)
    assert (one.result.effect, one.result.p_zero) == pytest.approx(
        (np.mean(means(first)) - np.mean(means(second)), welch.pvalue)
    )
    assert (one.result.low, one.result.high) == pytest.approx(
        (interval.low, interval.high)
    )
    assert one.result.seeds == (5, 3)
    said = " ".join(footer(result))
    assert (
        "mine1-s*, mine0-s*: several pretrainings as one arm" in said
        and "pretrained once" not in said
    )


def test_an_arm_is_next_to_a_model_that_was_pretrained_once() -> None:
    runs = source_of(
        pretrained(4, 0, 0.4, 4), {REAL: {"sst2": [81.0, 81.1, 80.9, 81.0, 81.2]}}
    )
    result = compare(runs, [REAL], Settings(), replicates=["mine0-s*"])
    assert result.contestants.models == (REAL, "mine0-s*")
    assert f"{REAL} was pretrained once" in " ".join(footer(result))


def test_a_model_of_several_pretrainings_is_not_said_to_have_one() -> None:
    runs = source_of(
        pretrained(4, 0, 0.4, 4), {REAL: {"sst2": [81.0, 81.1, 80.9, 81.0, 81.2]}}
    )
    result = compare(runs, [REAL, "mine0-s1"], Settings())
    said = " ".join(footer(result))
    assert "mine0-s1: one of several pretrainings; `--replicates`" in said
    assert f"{REAL} was pretrained once" in said and "Each model" not in said


def test_a_models_name_takes_its_other_pretrainings_with_it() -> None:
    arm = pretrained(3, 0, 0.4, 4)
    named = dict(
        zip(
            ("mine", "mine-s1", "mine-s7", "mine-too"),
            [*arm.values(), arm["mine0-s0"]],
            strict=True,
        )
    )
    result = compare(
        source_of(named, {REAL: {"sst2": [81.0, 81.2]}}),
        [REAL],
        Settings(),
        replicates=["mine"],
    )
    by_pattern = compare(
        source_of(arm, {REAL: {"sst2": [81.0, 81.2]}}),
        [REAL],
        Settings(),
        replicates=["mine0-s*"],
    )
    assert result.contestants.models == (REAL, "mine")
    assert [one.result.effect for one in result.differences] == [
        one.result.effect for one in by_pattern.differences
    ]


def test_spreads_are_those_of_both_arms_scores() -> None:
    """Scipy's F of each arm; the pretraining with the fewest seeds says how many count."""
    first, second = pretrained(5, 1, 0.4, 0), pretrained(3, 0, 0.4, 1, seeds=3)
    result = compare(
        source_of(first, second), [], Settings(), replicates=["mine1-s*", "mine0-s*"]
    )
    [one] = [row for row in result.differences if row.place == SST2]
    scores = [
        np.array([row["sst2"][:3] for row in arm.values()]) for arm in (first, second)
    ]
    within = np.mean([row.var(ddof=1) for arm in scores for row in arm])
    between = (
        3
        * (
            4 * scores[0].mean(axis=1).var(ddof=1)
            + 2 * scores[1].mean(axis=1).var(ddof=1)
        )
        / 6
    )
    assert one.spreads is not None
    assert one.spreads.seeds.sd == pytest.approx(np.sqrt(within))
    assert one.spreads.pretrainings.sd == pytest.approx(np.sqrt((between - within) / 3))


def test_spreads_of_averages_are_those_of_each_seeds_means() -> None:
    rng = np.random.default_rng(7)
    scores = {
        f"{arm}-s{place}": {
            name: list(80 + rng.normal(0, 1) + rng.normal(0, 0.5, 4))
            for name in DATASETS
        }
        for arm in ("a", "b")
        for place in range(3)
    }
    result = compare(
        source_of(scores), [], Settings(interval="t"), replicates=["a-s*", "b-s*"]
    )
    expected = {}
    for task, names in {
        **{task: datasets_of(task) for task in TASKS},
        "all": tuple(DATASETS),
    }.items():
        means = [
            np.array(
                [
                    np.mean([scores[f"{arm}-s{place}"][name] for name in names], axis=0)
                    for place in range(3)
                ]
            )
            for arm in ("a", "b")
        ]
        expected[task] = np.sqrt(
            np.mean([row.var(ddof=1) for arm in means for row in arm])
        )
    found = {
        row.place.task: row.spreads
        for row in result.differences
        if row.place.dataset == AVERAGE
    }
    assert {task: one.seeds.sd for task, one in found.items() if one} == pytest.approx(
        expected
    )


def test_spreads_are_columns_of_every_format() -> None:
    arms = source_of(
        pretrained(4, 0, 0.4, 4),
        pretrained(4, 1, 0.4, 5, seeds=1),
        {REAL: {"sst2": [81.0, 81.2]}},
    )
    result = compare(arms, [REAL], Settings(), replicates=["mine0-s*"])
    [row] = records_of(result)
    shown = f"{row['sd_pretraining']:.2f} [{row['sd_pretraining_low']:.2f}, {row['sd_pretraining_high']:.2f}]"
    text = show(comparison_document(result), "text")
    assert "sd pretraining" in text and "sd fine-tuning" in text and shown in text
    once = compare(arms, [REAL, "mine0-s1"], Settings())
    assert "sd_pretraining" not in records_of(once)[0]
    assert "sd pretraining" not in show(comparison_document(once), "text")
    of_one_seed = compare(arms, [], Settings(), replicates=["mine0-s*", "mine1-s*"])
    assert of_one_seed.differences[0].spreads is None
    assert np.isnan(records_of(of_one_seed)[0]["sd_pretraining"])


@pytest.mark.parametrize(
    ("patterns", "words"),
    [
        (["nothing*"], "matches no model, but an arm needs at least two pretrainings"),
        (["mine0-s0"], "matches mine0-s0, but an arm needs at least two"),
        (["mine0-s*", "mine0-s[01]"], "already in another arm: mine0-s"),
    ],
)
def test_what_makes_no_arm_is_refused(patterns: list[str], words: str) -> None:
    with pytest.raises(UserError, match=words):
        compare(
            source_of(pretrained(3, 0, 0.4, 5)), [], Settings(), replicates=patterns
        )


def test_printed_cells_have_no_pretrainings_to_take_together() -> None:
    with pytest.raises(UserError, match="needs individual runs"):
        compare(PUBLISHED, [REAL], Settings(), replicates=["610m-*"])
    assert isinstance(PUBLISHED.scores(Settings()), pd.DataFrame)


LEVELS = {
    "pretraining": 0.01,
    "fine-tuning seed": 0.005,
    "test set, shared by all models": 0.3,
    "test set, by model": 0.15,
    "test set, by pretraining": 0.1,
}
"""Standard deviations of a score in [0, 1]; those of the test set of a single instance."""


def with_instances(
    folder: Path,
    rng: np.random.Generator,
    *,
    pretrainings: int = 5,
    seeds: int = 5,
    count: int = 300,
    levels: Mapping[str, float] = LEVELS,
) -> Source:
    """Return two arms of one true score, whose runs share instances and vary by pretraining, seed and instance."""
    again, tuned, alike, own, by_pretraining = levels.values()
    common = rng.normal(0, alike, count)
    cells: dict[tuple[str, str], list[RunScores]] = {}
    rows: Arm = {}
    for arm in ("first", "second"):
        by_model = rng.normal(0, own, count)
        for place in range(pretrainings):
            level = (
                0.5
                + rng.normal(0, again)
                + by_model
                + common
                + rng.normal(0, by_pretraining, count)
            )
            scores = [
                level + rng.normal(0, tuned) + rng.normal(0, 0.1, count)
                for _ in range(seeds)
            ]
            cells[f"{arm}-s{place + 1}", "sst2"] = [
                RunScores(lr=1e-4, seed=seed, validation=score, test=score)
                for seed, score in enumerate(scores)
            ]
            rows[f"{arm}-s{place + 1}"] = {
                "sst2": [100 * score.mean() for score in scores]
            }
    write_instances(folder, cells)
    return replace(source_of(rows), instances=folder)


def test_arm_over_instances_is_a_bootstrap_of_three_levels(
    tmp_path: Path,
) -> None:
    """Pretrainings and instances resampled, crossed, each pretraining the mean of its seeds (Sellam et al. 2022)."""
    rng = np.random.default_rng(1)
    source = with_instances(tmp_path / "instances", rng, pretrainings=20)
    result = compare(
        source, [], Settings(interval="crossed"), replicates=["first", "second"]
    )
    [one] = [row for row in result.differences if row.place == SST2]
    assert source.instances is not None and source.runs is not None
    scores = (
        read_instances(source.instances, "sst2", source.runs)
        .reshape(2, 20, 5, -1)
        .mean(axis=2)
        * 100
    )
    drawn = []
    for _ in range(2_000):
        picks, columns = (
            rng.integers(0, 20, (2, 20)),
            rng.integers(0, scores.shape[-1], scores.shape[-1]),
        )
        first, second = (
            arm[pick].mean(axis=0)[columns].mean()
            for arm, pick in zip(scores, picks, strict=True)
        )
        drawn.append(first - second)
    assert (one.result.high - one.result.low) / 2 / 1.98 == pytest.approx(
        np.std(drawn, ddof=1), rel=0.06
    )
    plain = compare(
        source, [], Settings(interval="t"), replicates=["first", "second"]
    ).differences[0]
    assert plain.result.effect == pytest.approx(
        one.result.effect
    ) and one.result.high - one.result.low > 1.5 * (
        plain.result.high - plain.result.low
    )


MEASURED = {
    "sst2": (1.08, 1.91, 1.24, 0.46, 0.50),
    "uner_en": (0.12, 0.51, 1.30, 0.17, 0.13),
}
"""By dataset what the miniature's arms vary by, as `LEVELS`, in points; of the test set what 600 instances leave."""


def measured(dataset: str) -> dict[str, float]:
    """Return `MEASURED` as `LEVELS`."""
    sds = dict(zip(LEVELS, MEASURED[dataset], strict=True))
    return {
        name: sd / 100 * (600**0.5 if "test set" in name else 1)
        for name, sd in sds.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("dataset", [None, "sst2", "uner_en"])
def test_three_levels_cover(dataset: str | None, tmp_path: Path) -> None:
    """Five pretrainings of each arm, five seeds, 300 or the miniature's instances: the truth is no difference."""
    rng, held, trials = np.random.default_rng(2), 0, 400
    count = 600 if dataset else 300
    levels = measured(dataset) if dataset else LEVELS
    for trial in range(trials):
        source = with_instances(tmp_path / f"{trial}", rng, count=count, levels=levels)
        [one] = compare(
            source, [], Settings(interval="crossed"), replicates=["first", "second"]
        ).differences[:1]
        held += one.result.low <= 0 <= one.result.high
    assert held / trials >= 0.93
