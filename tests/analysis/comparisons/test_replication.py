"""Honest reruns pass and faults are found: made-up studies whose fault is known, scipy's prediction interval."""

from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.comparisons.replication import replication_of
from analysis.sources import Source
from analysis.store.runs_table import COLUMNS
from clm_or_mlm.__main__ import main
from common.errors import UserError
from pretraining.training.log import LOG, write_log
from tests.analysis.comparisons.given import certificate_p, share_refused

MODELS = ("610m-clm-42k", "610m-mlm40-42k", "610m-clm-10k-mlm40-42k")
DATASETS = {"sst2": "SC", "conll2003_en": "TC", "squad": "QA", "nq": "IR"}


def study(
    rng: np.random.Generator, *, seeds: int = 5, pretrainings: int = 1, between: float = 0.0
) -> pd.DataFrame:
    """Return runs at two rates: models 2 points apart, seeds spread by 0.5, pretrainings by `between`."""
    shape = (len(MODELS), pretrainings, len(DATASETS), 2, seeds)
    model, _, _, lr, _ = np.indices(shape, sparse=True)
    luck = rng.normal(0, between, shape[:2])[:, :, None, None, None]
    scores = (70 + 2 * model + luck + lr + rng.normal(0, 0.5, shape)).ravel() / 100
    return grid(pretrainings, seeds).assign(validation_score=scores, test_score=scores)


@cache
def grid(pretrainings: int, seeds: int) -> pd.DataFrame:
    """The runs of a study without their scores."""
    places = product(MODELS, range(pretrainings), DATASETS.items(), (1e-5, 1e-4), range(seeds))
    rows = [
        (f"{arm}-s{number}" if number else arm, task, dataset, lr, seed, 0.0, 0.0, 2000, 2000)
        for arm, number, (dataset, task), lr, seed in places
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def source(runs: pd.DataFrame, label: str = "mine") -> Source:
    return Source(label=label, runs=runs)


REFERENCE = source(study(np.random.default_rng(0)), "theirs")


def test_nineteen_of_twenty_honest_reruns_pass() -> None:
    rng, passed, trials = np.random.default_rng(1), 0, 200
    for _ in range(trials):
        reference = source(study(rng), "theirs")
        passed += not replication_of(source(study(rng)), reference).faults
    assert passed / trials == pytest.approx(1 - share_refused(len(MODELS), 8, 2_000), abs=0.03)
    assert passed / trials > 0.92


def test_its_p_is_that_of_the_cells_squares_and_the_others() -> None:
    rng = np.random.default_rng(9)
    runs, again = study(rng), study(rng)
    theirs, own = (
        np.arcsin(np.sqrt(one["test_score"].to_numpy().reshape(1, len(MODELS), 8, 5)))
        for one in (runs, again)
    )
    cells = replication_of(source(again), source(runs, "theirs")).cells
    ordered = cells.set_index(["model", "dataset", "lr"])["p"]
    expected = certificate_p(theirs, own)[0]
    places = [(model, name, lr) for model in MODELS for name in DATASETS for lr in (1e-5, 1e-4)]
    assert ordered.loc[places].to_numpy() == pytest.approx(expected.ravel(), rel=1e-9)


@pytest.mark.parametrize(("models", "datasets"), [*product((1, 2, 6), (1, 4, 12))])
def test_honest_reruns_of_any_number_of_cells_pass(models: int, datasets: int) -> None:
    assert share_refused(models, datasets, 1_000) <= 0.06 + 0.01


def test_one_cell_off_by_four_standard_deviations_is_found() -> None:
    assert share_refused(6, 4, 500, off=4) > 0.88 and share_refused(20, 4, 500, off=4) > 0.70


def test_other_pretrainings_pass_where_they_are_expected_and_only_there() -> None:
    rng, passed, blind, trials = np.random.default_rng(2), 0, 0, 100
    for _ in range(trials):
        reference = source(study(rng, pretrainings=5, between=0.8), "theirs")
        again = source(study(rng, between=0.8))
        passed += not replication_of(again, reference, pretrained=True).faults
        blind += not replication_of(again, reference).faults
    assert passed >= 90 and blind < 30


def test_a_cell_is_predicted_as_by_hand_where_it_has_the_only_spread() -> None:
    runs = study(np.random.default_rng(3))
    runs = runs[(runs["model"] == MODELS[0]) & (runs["dataset"] == "sst2") & (runs["lr"] == 1e-4)]
    own = study(np.random.default_rng(4), seeds=3)
    cells = replication_of(source(own), source(runs, "theirs")).cells
    angles = np.arcsin(np.sqrt(runs["test_score"]))
    half = stats.t.isf(0.025, 4) * angles.std(ddof=1) * np.sqrt(1 / 3 + 1 / 5)
    [row] = cells.to_dict("records")
    ends = 100 * np.sin(angles.mean() + np.array([-half, 0, half])) ** 2
    assert (row["low"], row["expected"], row["high"]) == pytest.approx(tuple(ends))


def _leak(runs: pd.DataFrame) -> pd.DataFrame:
    up = runs["dataset"] == "squad"
    return runs.assign(test_score=runs["test_score"] + 0.03 * up)


def _exchange(column: str, *values: object) -> Callable[[pd.DataFrame], pd.DataFrame]:
    first, second = values
    return lambda runs: runs.assign(**{column: runs[column].replace({first: second, second: first})})


FAULTS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "a leaked split": _leak,
    "models exchanged": _exchange("model", MODELS[0], MODELS[2]),
    "learning rates exchanged": _exchange("lr", 1e-5, 1e-4),
    "one model worse": lambda runs: runs.assign(
        test_score=runs["test_score"] - 0.02 * (runs["model"] == MODELS[1])
    ),
    "another scale": lambda runs: runs.assign(test_score=runs["test_score"] ** 2),
    "seeds exchanged": lambda _: _exchange("seed", 0, 1)(REFERENCE.need_runs("x")),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str) -> None:
    found = replication_of(source(FAULTS[fault](study(np.random.default_rng(5)))), REFERENCE)
    assert found.faults
    if fault == "seeds exchanged":
        assert found.faults == [
            f"{name}: its scores are the reference's scores at other seeds" for name in sorted(MODELS)
        ]


def _logs(folder: Path, rng: np.random.Generator, *, pretrainings: int, off: float = 0.0) -> Path:
    for number in range(pretrainings):
        stage = f"610m-clm-42k{f'-s{number}' if number else ''}"
        rows = [
            {
                "step": step,
                "split": "validation",
                "objective": "clm",
                "ratio": None,
                "stage": stage,
                "loss": loss,
            }
            for step in (100, 200)
            for loss in [4 - step / 1000 + off + rng.normal(0, 0.05)]
        ]
        (folder / stage).mkdir(parents=True)
        write_log(folder / stage / LOG, rows)
    return folder


def test_losses_are_held_against_those_of_the_references_pretrainings(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    theirs = _logs(tmp_path / "theirs", rng, pretrainings=8)
    own = source(study(rng))
    honest = replication_of(own, REFERENCE, logs=[_logs(tmp_path / "a", rng, pretrainings=1), theirs])
    assert len(honest.curves) == 2 and not honest.faults
    shifted = replication_of(
        own, REFERENCE, logs=[_logs(tmp_path / "b", rng, pretrainings=1, off=1.0), theirs]
    )
    assert len(shifted.faults) == 2 and all("validation loss" in fault for fault in shifted.faults)


def test_rates_and_masking_of_the_logs_have_to_be_the_references(tmp_path: Path) -> None:
    def logs(name: str, lr: float, predicted: int) -> Path:
        row = {"step": 100, "objective": "mlm", "ratio": 40, "stage": "610m-mlm40-42k", "loss": 4.0}
        split = {"train": {"lr": lr}, "validation": {"predicted": predicted}}
        rows = [{**row, "split": split, **more} for split, more in split.items()]
        write_log(tmp_path / name / "610m-mlm40-42k" / LOG, rows)
        return tmp_path / name

    theirs, own = logs("theirs", 0.003, 3_500), source(study(np.random.default_rng(8)))
    assert not replication_of(own, REFERENCE, logs=[logs("a", 0.003, 3_650), theirs]).settings
    found = replication_of(own, REFERENCE, logs=[logs("b", 0.001, 1_300), theirs])
    assert found.settings == (
        "610m-mlm40-42k at step 100: learning rate 0.001, but the reference has 0.003",
        "610m-mlm40-42k at step 100: tokens predicted 1,300, but the reference has 3,500",
    )
    assert found.faults[:2] == list(found.settings)


def test_the_command_prints_the_certificate(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certify", "--source", "miniature", "--reference", "miniature"]) == 0
    assert "is a replication of miniature" in capsys.readouterr().out


def test_nothing_in_common_is_one_sentence() -> None:
    runs = study(np.random.default_rng(7)).assign(model="mine")
    with pytest.raises(UserError, match="share no combination of model, dataset and learning rate"):
        replication_of(source(runs), REFERENCE)


def test_scores_below_zero_are_compared_as_they_are() -> None:
    """A correlation of -3 % against one of 55 %, and a collapsed seed among good ones, are no replication."""

    def correlations(level: float, rng: np.random.Generator) -> pd.DataFrame:
        runs = study(rng)
        return runs.assign(test_score=(level + rng.normal(0, 0.5, len(runs))) / 100)

    known = correlations(-3.0, np.random.default_rng(0))
    again = replication_of(source(correlations(-3.0, np.random.default_rng(1))), source(known))
    assert not again.faults and np.isfinite(again.cells["p"]).all()
    off = replication_of(source(correlations(55.0, np.random.default_rng(2))), source(known))
    assert len(off.faults) == len(off.cells) == 24 and (off.cells["p_holm"] < 0.05).all()
    [row] = off.cells[
        (off.cells["model"] == MODELS[0]) & (off.cells["dataset"] == "nq") & (off.cells["lr"] == 1e-4)
    ].to_dict("records")
    assert row["expected"] == pytest.approx(-3, abs=1) and row["mean"] == pytest.approx(55, abs=1)


def test_a_p_that_is_not_a_number_is_a_fault() -> None:
    runs = study(np.random.default_rng(0))
    broken = runs.assign(test_score=runs["test_score"].where(runs["dataset"] != "nq", np.nan))
    found = replication_of(source(broken), source(runs))
    assert len(found.faults) == 6 and all("nq" in fault for fault in found.faults)
