"""What moves a score: known components found again, statsmodels' mixed model, an independent multi-bootstrap."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from analysis.precision.components import components_document, components_table, difference_error
from analysis.sources import PUBLISHED, Source
from analysis.store.instances import RunScores
from analysis.store.runs_table import COLUMNS
from common.errors import UserError
from tests.analysis.made_up import write_instances

ARMS = ("610m-clm-42k", "610m-mlm40-42k", "610m-clm-10k-mlm40-42k")
TRUE = {"pretraining": 0.8, "fine-tuning seed": 0.4}


def names_of(arm: str, pretrainings: int) -> list[str]:
    return [arm, *(f"{arm}-s{place}" for place in range(1, pretrainings))]


def runs_of(
    rng: np.random.Generator, *, datasets: dict[str, str], pretrainings: int = 5, seeds: int = 5
) -> pd.DataFrame:
    """Return runs whose pretrainings move all datasets together by 0.8 points, and seeds each by 0.4."""
    rows = []
    for arm in ARMS:
        differs = {name: rng.normal(0, 1.5) for name in datasets}
        for name in names_of(arm, pretrainings):
            level = 80 + rng.normal(0, TRUE["pretraining"])
            for dataset, task in datasets.items():
                for seed in range(seeds):
                    score = (level + differs[dataset] + rng.normal(0, TRUE["fine-tuning seed"])) / 100
                    rows.append((name, task, dataset, 1e-4, seed, score, score, 100, 100))
    return pd.DataFrame(rows, columns=list(COLUMNS))


SC = {"sst2": "SC", "mnli_m": "SC", "qqp": "SC"}


def test_a_mixed_model_finds_the_same_components() -> None:
    runs = runs_of(np.random.default_rng(1), datasets={"sst2": "SC"})
    found = components_table(Source(label="x", runs=runs)).set_index("component")["sd"]
    runs = runs.assign(
        arm=runs["model"].str.replace(r"-s\d+$", "", regex=True), points=100 * runs["test_score"]
    )
    fitted = smf.mixedlm("points ~ arm", runs, groups=runs["model"]).fit()
    assert found["pretraining"] == pytest.approx(math.sqrt(float(fitted.cov_re.iloc[0, 0])), rel=1e-3)
    assert found["fine-tuning seed"] == pytest.approx(math.sqrt(fitted.scale), rel=1e-3)


def test_the_error_of_a_difference_is_the_multi_bootstraps() -> None:
    """Pretrainings resampled, and within each its seeds (Sellam et al. 2022), where both are many."""
    rng = np.random.default_rng(2)
    runs = runs_of(rng, datasets={"sst2": "SC"}, pretrainings=30, seeds=5)
    found = components_table(Source(label="x", runs=runs)).set_index("component")["sd"]
    scores = {
        arm: 100
        * runs[runs["model"].isin(names_of(arm, 30))]
        .pivot(index="model", columns="seed", values="test_score")
        .to_numpy()
        for arm in ARMS[:2]
    }
    picks = rng.integers(0, 30, (2, 4_000, 30))
    drawn = [arm.mean(axis=1)[pick].mean(axis=1) for arm, pick in zip(scores.values(), picks, strict=True)]
    expected = np.std(drawn[0] - drawn[1], ddof=1)
    ours = difference_error(found["pretraining"], found["fine-tuning seed"], 30, 5)
    assert ours == pytest.approx(expected, rel=0.12)


def test_intervals_hold_the_truth_and_averages_know_their_datasets() -> None:
    rng = np.random.default_rng(3)
    held, trials = {"pretraining": 0, "fine-tuning seed": 0}, 100
    for _ in range(trials):
        table = components_table(Source(label="x", runs=runs_of(rng, datasets=SC, seeds=3)))
        average = table[table["dataset"] == "average"].set_index("component")
        assert list(average.index) == ["pretraining", "fine-tuning seed", "dataset, by model"]
        true = {"pretraining": 0.8, "fine-tuning seed": 0.4 / math.sqrt(3)}
        for name, sd in true.items():
            held[name] += bool(average.loc[name, "low"] <= sd <= average.loc[name, "high"])
    assert min(held.values()) >= 0.88 * trials


def test_what_the_test_set_adds_is_apart(tmp_path: Path) -> None:
    """Instances move all models by 30 points each, and each pretraining by 20."""
    rng = np.random.default_rng(4)
    count, cells, rows = 400, {}, []
    common = rng.normal(0, 0.30, count)
    for arm in ARMS[:2]:
        for name in names_of(arm, 4):
            own = rng.normal(0, 0.20, count)
            scores = [0.5 + common + own + rng.normal(0, 0.05, count) for _ in range(3)]
            cells[name, "sst2"] = [
                RunScores(lr=1e-4, seed=seed, validation=score, test=score)
                for seed, score in enumerate(scores)
            ]
            for seed, score in enumerate(scores):
                rows.append((name, "SC", "sst2", 1e-4, seed, score.mean(), score.mean(), count, count))
    write_instances(tmp_path / "instances", cells)
    source = Source(
        label="x", runs=pd.DataFrame(rows, columns=list(COLUMNS)), instances=tmp_path / "instances"
    )
    found = components_table(source).set_index("component")["sd"]
    assert found["test set, shared by all models"] == pytest.approx(30 / 20, rel=0.15)
    assert found["test set, by pretraining"] == pytest.approx(20 / 20, rel=0.15)
    assert found["test set, by model"] < 0.4
    text = "\n".join(str(part) for part in components_document(source).body)
    assert "1 x 3" in text and "2 x 3" in text and "1 x 6" in text


def test_a_source_without_pretrainings_says_how_to_make_one() -> None:
    runs = runs_of(np.random.default_rng(5), datasets={"sst2": "SC"}, pretrainings=1)
    with pytest.raises(UserError, match="train NAME-s1"):
        components_document(Source(label="x", runs=runs))
    with pytest.raises(UserError, match="needs individual runs"):
        components_document(PUBLISHED)
