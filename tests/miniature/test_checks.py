"""Three checks that a broken pipeline fails."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

from benchmarks.protocol import DATASETS
from miniature.checks import ENOUGH_SEEDS, beyond_seeds, checks, final_losses, mean_scores
from miniature.forms import FAMILIES, FORMS, RANDOM
from pretraining.training.log import LOG, write_log

FORM = FORMS["quick"]
TWO_STAGE, MLM, CLM, SAME = (
    "mini-m-clm-100-mlm40-420",
    "mini-m-mlm40-420",
    "mini-m-clm-420",
    "mini-m-mlm40-320",
)


def table(rows: list[tuple[object, ...]], *columns: str) -> pd.DataFrame:
    """Return a runs table of these columns, with the task of each dataset."""
    runs = pd.DataFrame(rows, columns=list(columns))
    return runs.assign(task=[DATASETS[name].task for name in runs["dataset"]])


def seeds_of(scores: dict[str, tuple[float, ...]]) -> pd.DataFrame:
    """Return a runs table with one score for each model and seed, the same on all datasets."""
    rows = [
        (model, dataset, 1e-3, seed, 0.5, score)
        for model, values in scores.items()
        for dataset in FAMILIES.values()
        for seed, score in enumerate(values)
    ]
    return table(rows, "model", "dataset", "lr", "seed", "validation_score", "test_score")


def runs_of(test: dict[str, float]) -> pd.DataFrame:
    """Return a runs table with a score for every model, the same on all datasets and for both seeds."""
    return seeds_of({model: (score, score) for model, score in test.items()})


def row(split: str, step: int, loss: float) -> dict[str, object]:
    """Return a row of a training log."""
    return {"step": step, "split": split, "objective": "mlm", "ratio": 0.4, "stage": "s", "loss": loss}


@pytest.fixture
def pretrained(tmp_path: Path) -> Path:
    """Logs and weights of the four models."""
    pretrained = tmp_path / "pretrained"
    for model, loss in ((TWO_STAGE, 1.0), (MLM, 2.0), (CLM, 3.0), (SAME, 1.5)):
        steps = FORM.models[model].steps
        rows = [("validation", steps // 2, 9.0), ("train", steps, 8.0), ("validation", steps, loss)]
        folder = pretrained / "models" / model
        write_log(folder / LOG, [row(*values) for values in rows])
        weights = {"w": np.full(4, 1.0 if model == MLM else 2.0, dtype=np.float32)}
        save_file(weights, folder / "model.safetensors")
    return pretrained


def test_scores_are_means_at_the_rate_that_validation_chooses() -> None:
    rows = [
        (MLM, 1e-3, 0, 0.9, 0.2),
        (MLM, 3e-3, 0, 0.8, 1.0),
        (MLM, 3e-3, 1, 0.5, 0.4),
        (MLM, 1e-3, 1, 0.5, 0.6),
    ]
    rows = [("sst2", *row) for row in rows]
    scores = mean_scores(
        FORM, table(rows, "dataset", "model", "lr", "seed", "validation_score", "test_score")
    )
    assert scores["sst2"][MLM] == pytest.approx(40.0), "0.2 and, of equals, the smaller rate's 0.6"


def test_losses_are_those_of_validation_at_the_last_step(pretrained: Path) -> None:
    assert final_losses(FORM, pretrained) == {MLM: 2.0, CLM: 3.0, TWO_STAGE: 1.0, SAME: 1.5}


def test_a_sound_miniature_holds(pretrained: Path) -> None:
    found = checks(FORM, pretrained, runs_of({RANDOM: 0.5, MLM: 0.6, CLM: 0.4, TWO_STAGE: 0.4}))
    assert [check.holds for check in found] == [True, True, True]
    assert found[0].seen.startswith(f"{MLM} on 4 (")
    assert found[1].seen.endswith("differ by 100% of their norm")
    assert "1.000" in found[2].seen and "1.500 nats" in found[2].seen


def test_each_broken_part_is_seen(pretrained: Path) -> None:
    found = checks(FORM, pretrained, runs_of({RANDOM: 0.5, MLM: 0.5, CLM: 0.5, TWO_STAGE: 0.5}))
    assert not found[0].holds
    models = pretrained / "models"
    (models / CLM / "model.safetensors").write_bytes((models / MLM / "model.safetensors").read_bytes())
    write_log(models / SAME / LOG, [row("validation", FORM.models[SAME].steps, 0.9)])
    found = checks(FORM, pretrained, runs_of({RANDOM: 0.5, MLM: 0.6, CLM: 0.6, TWO_STAGE: 0.6}))
    assert [check.holds for check in found] == [True, False, False]


def test_beyond_the_seeds_is_an_interval_of_the_difference_above_zero() -> None:
    scores = {RANDOM: (0.3, 0.5, 0.4), MLM: (0.6, 0.7, 0.8), CLM: (0.8, 0.8, 0.8)}
    found = beyond_seeds(FORM, seeds_of(scores), MLM, CLM)
    # By hand: a difference of 30 points, an error of 10 sqrt(2 / 3), 4 degrees of freedom.
    low = 30 - 2.776445 * 10 * (2 / 3) ** 0.5
    assert found.holds and f"{MLM} on 4: SC {low:+.2f}, TC {low:+.2f}" in found.seen
    overlaps = beyond_seeds(FORM, seeds_of(scores | {MLM: (0.9, 0.9, 0.4)}), MLM, CLM)
    assert not overlaps.holds and f"{MLM} on 0" in overlaps.seen and f"{CLM} on 4" in overlaps.seen


def test_three_families_of_four_are_enough_and_what_is_missing_counts_for_none() -> None:
    runs = seeds_of({RANDOM: (0.5, 0.5, 0.5), MLM: (0.6, 0.6, 0.6), CLM: (0.6, 0.6, 0.6)})
    for families, holds in ((1, True), (2, False)):
        worse = runs["dataset"].isin(list(FAMILIES.values())[:families]) & (runs["model"] == MLM)
        scores = runs["test_score"].where(~worse, 0.5)
        assert beyond_seeds(FORM, runs.assign(test_score=scores), MLM, CLM).holds is holds
    for missing in (runs["model"] == CLM, runs["model"] == RANDOM, runs["seed"] > 0):
        some = beyond_seeds(FORM, runs[~missing], MLM, CLM)
        assert "nan" in some.seen and not some.holds
    assert {name for name, form in FORMS.items() if len(form.seeds) >= ENOUGH_SEEDS} == {
        "cpu", "curves", "gpu", "long",
    }  # fmt: skip
