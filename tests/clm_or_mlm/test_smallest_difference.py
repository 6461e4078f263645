"""What a study takes and can show: ready studies are a day, and their smallest differences are found."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from scipy.stats import ttest_ind

from analysis.comparisons.comparison import compare
from analysis.comparisons.differences import AHEAD
from analysis.evidence.evidence import Settings
from analysis.precision.design import seed_spreads
from analysis.sources import PUBLISHED, Source
from analysis.store.runs_table import COLUMNS
from benchmarks.costs import runs_at_a_time, tuning_hours
from benchmarks.protocol import DATASETS
from clm_or_mlm import smallest_difference
from clm_or_mlm.__main__ import main
from clm_or_mlm.smallest_difference import nearest_spread
from common.level import ALPHA
from common.settings import values_of
from pretraining.adapt import Adaptation
from pretraining.plan.devices import DEVICES
from pretraining.plan.study_plan import load_study, plan_of
from pretraining.starts import start_to_plan
from tests.ready_studies import GPUS, READY, file_of, planned

SPREADS = dict(seed_spreads(PUBLISHED))
TUNED = ("sst2", "uner_en", "squad", "nq")
Floats = npt.NDArray[np.float64]


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("name", READY)
def test_a_ready_study_is_a_day_and_fits(
    name: str, gpu: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = planned(name, gpu, tmp_path, capsys)
    assert 23 < content["comparison"]["total_hours"] <= 24
    assert content["costs"]["memory_gb"] < 0.9 * (DEVICES[gpu].memory_gb or 0)
    study = load_study(tmp_path / "study.toml")
    for model in study.models.values():
        if not model.start:
            shape = study.shapes[model.size]
            assert model.size == f"gpu-{shape.encoder_parameters / 1e6:.0f}m"
            assert (
                model.steps * study.config.tokens_per_step
                >= 19.9 * shape.encoder_parameters
            )


@pytest.mark.parametrize(
    ("name", "tuned"), [("objectives", 15), ("adaptation", 10 + 1)]
)
def test_hours_are_pretraining_and_fine_tuning(
    name: str, tuned: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is adapted is fine-tuned, too."""
    gpu = DEVICES["H100"]
    study = load_study(file_of(name))
    (shape,) = {study.shapes[model.size] for model in study.models.values()}
    pretraining = (
        plan_of(tuple(study.models.values()), study).costs(device=gpu).gpu_hours
    )
    one_run = tuning_hours(shape, TUNED, gpu, runs_at_a_time(shape, gpu, 8))
    tuning = tuned * 3 * 3 * one_run
    content = planned(name, "H100", tmp_path, capsys, "--price", "2")
    comparison = content["comparison"]
    assert content["costs"]["gpu_hours"] == pytest.approx(pretraining)
    assert comparison["tuning_hours"] == pytest.approx(tuning)
    assert comparison["total_hours"] == pytest.approx((pretraining + tuning) / 0.95)
    assert comparison["money"] == pytest.approx(2 * comparison["total_hours"])
    fewer = planned(name, "H100", tmp_path, capsys, "--datasets", "sst2", "sst2")[
        "comparison"
    ]
    assert fewer["tuning_hours"] < tuning and list(fewer["smallest"]["points"]) == [
        "sst2"
    ]


def test_text_has_hours_money_and_differences(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = [
        "plan",
        "--study",
        f"{file_of('adaptation')}",
        "--device",
        "L40S",
        "--price",
        "0.6",
    ]
    main([*words, "--pretraining-sd", "1"])
    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines()]
    titles = [DATASETS[name].title for name in TUNED]
    points = rows[rows.index(titles) + 1]
    assert len(points) == 4 and all(float(value) > 2.5 for value in points)
    assert (
        "money" in out
        and "1 points between pretrainings" in out
        and "from one start" in out
    )


def test_adaptations_are_those_that_adapt_makes() -> None:
    study = load_study(file_of("adaptation"))
    start = start_to_plan("HuggingFaceTB/SmolLM2-135M")
    # As its page says, embedding and head tied
    assert start.shape.encoder_parameters == 134_515_008
    chosen = Adaptation(start=start, steps=7900)
    assert values_of(study.config) == values_of(chosen.config) | {"microbatch": 48}
    ours, theirs = study.models["gpu-mlm30"], chosen.targets.model
    assert [(stage.objective, stage.ratio, stage.end) for stage in ours.stages] == [
        (stage.objective, stage.ratio, stage.end) for stage in theirs.stages
    ]


def test_the_spread_is_that_of_the_nearest_scale(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert nearest_spread(16e6).sd == 0.57 and nearest_spread(50e6).sd == 0.57
    assert nearest_spread(70e6).sd == nearest_spread(600e6).sd == 0.416
    points = [
        planned("objectives", "H100", tmp_path, capsys, *more)["comparison"][
            "smallest"
        ]["points"]["nq"]
        for more in ((), ("--pretraining-sd", "0.1"))
    ]
    assert points[1] < points[0]


ONCE = """
prefix = "x-"
decay_steps = 2
models = {models}
pretrainings = {pretrainings}
[sizes.s]
hidden = 64
layers = 2
heads = 4
kv_heads = 2
mlp = 192
"""
ARMS = '["x-s-mlm40-20", "x-s-clm-20"]'


@pytest.mark.parametrize(
    ("models", "pretrainings", "scipy", "words"),
    [
        ('["x-s-mlm40-20"]', 5, True, ""),
        (ARMS, 1, True, "pretrainings = 5"),
        (ARMS, 2, False, "scipy, which is not installed here"),
        (ARMS, 2, True, "arms of 2 pretrainings"),
    ],
    ids=["one arm", "once each", "no scipy", "repeated"],
)
def test_a_study_without_a_difference_says_why(
    models: str,
    pretrainings: int,
    scipy: bool,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "s.toml"
    file.write_text(ONCE.format(models=models, pretrainings=pretrainings))
    monkeypatch.setattr(smallest_difference, "find_spec", lambda name: scipy or None)
    main(["plan", "--study", f"{file}"])
    out = capsys.readouterr().out
    assert words in out and ("fine-tuning" in out) == bool(words)
    assert ("ahead in about 80" in out) == (words == "arms of 2 pretrainings")


def scores_of(
    sd: float,
    effects: dict[str, float],
    pretrainings: int,
    rng: np.random.Generator,
    count: int,
) -> Floats:
    """Return scores in points, (count, 2 arms, datasets, pretrainings, seeds), of studies whose arms differ by this."""
    sds = np.array([SPREADS[DATASETS[name].task, name].sd for name in TUNED])[
        :, None, None
    ]
    shape = (count, 2, len(TUNED), pretrainings)
    trained = rng.normal(80, sd, (*shape, 1))
    scores = trained + sds * rng.standard_normal((*shape, 3))
    scores[:, 0] += np.array([effects.get(name, 0.0) for name in TUNED])[:, None, None]
    return scores


def of_study(scores: Floats) -> Source:
    """Return runs of two arms with these scores, (2 arms, datasets, pretrainings, seeds)."""
    axes = [["a", "b"], TUNED, range(scores.shape[2]), range(scores.shape[3])]
    index = pd.MultiIndex.from_product(axes, names=["arm", "dataset", "again", "seed"])
    runs = pd.DataFrame({"test_score": scores.ravel() / 100}, index=index).reset_index()
    ends = runs["again"].map(lambda again: f"-s{again}" if again else "")
    runs = runs.assign(
        model=runs["arm"] + ends,
        task=runs["dataset"].map(lambda name: DATASETS[name].task),
    )
    runs = runs.assign(
        validation_score=runs["test_score"], lr=1e-5, n_validation=872, n_test=100_000
    )
    return Source(
        label="simulated", runs=runs[list(COLUMNS)], added_models=("a*", "b*")
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["objectives", "larger-network"])
def test_compare_calls_it_ahead_four_times_in_five(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    comparison, count, found = (
        planned(name, "H100", tmp_path, capsys)["comparison"],
        80,
        0,
    )
    sd, effects = 0.416, {"sst2": comparison["smallest"]["points"]["sst2"]}
    rng = np.random.default_rng(comparison["pretrainings"])
    for scores in scores_of(sd, effects, comparison["pretrainings"], rng, count):
        source = of_study(scores)
        result = compare(
            source,
            [],
            source.with_interval(Settings(resamples=1_000)),
            replicates=["a", "b"],
        )
        found += sum(
            row.outcome == AHEAD
            for row in result.differences
            if row.place.dataset in effects
        )
    assert found / count == pytest.approx(0.8, abs=0.03 + 2 * (0.16 / count) ** 0.5)


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("name", READY[:2])
def test_welch_and_holm_find_it_four_times_in_five(
    name: str, gpu: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On one dataset that alone differs, of 5,000 studies."""
    comparison = planned(name, gpu, tmp_path, capsys)["comparison"]
    points, sd = (
        comparison["smallest"]["points"],
        comparison["smallest"]["pretraining_sd"],
    )
    for dataset in TUNED:
        rng = np.random.default_rng(TUNED.index(dataset))
        scores = scores_of(
            sd, {dataset: points[dataset]}, comparison["pretrainings"], rng, 5_000
        )
        arms = np.moveaxis(scores.mean(axis=-1), 1, 0)
        p = ttest_ind(*arms, axis=-1, equal_var=False).pvalue
        steps = np.maximum.accumulate(np.sort(p) * [4, 3, 2, 1], axis=-1) <= ALPHA
        ahead = np.take_along_axis(
            steps, p.argsort(axis=-1).argsort(axis=-1), axis=-1
        ).mean(axis=0)
        assert 0.75 < ahead[TUNED.index(dataset)] < 0.83
