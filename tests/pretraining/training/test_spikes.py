import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from composer.core import State
from composer.loggers import Logger

from common.errors import UserError
from pretraining.plan.study_plan import Study
from pretraining.training import checkpoints
from pretraining.training.log import read_log
from pretraining.training.spikes import Losses, LossSpike, with_spike
from pretraining.training.stage import StageTraining
from tests.pretraining.small_study import MODEL, QUIET, changed, science, train, weights_hash

pytestmark = QUIET


def test_a_spike_is_six_robust_deviations_above_the_median_of_sixty_four() -> None:
    values = np.random.default_rng(0).normal(3.0, 0.1, 64)
    spread = 1.4826 * np.median(np.abs(values - np.median(values)))
    for above, is_spike in ((5.99, False), (6.01, True), (-50.0, False)):
        losses = Losses(values.tolist())
        loss = float(np.median(values) + above * spread)
        if is_spike:
            with pytest.raises(LossSpike, match="the loss of step 100 is"):
                losses.add(99, loss, 1.0)
            assert loss not in losses.last
        else:
            losses.add(99, loss, 1.0)
            assert losses.last[-1] == loss and len(losses.last) == 64
    few = Losses(values[1:].tolist())
    few.add(99, 1e9, 1.0)
    for loss, norm in ((math.nan, 1.0), (math.inf, 1.0), (3.0, math.nan)):
        with pytest.raises(LossSpike):
            Losses().add(0, loss, norm)


@pytest.mark.parametrize(
    ("skips", "update", "first", "expected"),
    [
        ([], 100, 0, [(91, 10)]),
        ([], 4, 0, [(0, 10)]),
        ([], 100, 95, [(95, 10)]),
        ([(20, 3)], 100, 0, [(20, 3), (91, 10)]),
        ([(91, 10)], 95, 0, [(91, 20)]),
        ([(85, 10)], 100, 0, [(85, 20)]),
        ([(91, 10)], 100, 95, [(91, 10), (95, 10)]),
        ([(91, 40)], 91, 0, [(91, 50)]),
    ],
)
def test_the_ten_batches_that_end_with_the_spikes_are_left_out_and_ten_more_where_it_comes_back(
    skips: list[tuple[int, int]], update: int, first: int, expected: list[tuple[int, int]]
) -> None:
    assert with_spike(skips, LossSpike(update, 9.0), first) == expected
    with pytest.raises(UserError, match=r"leaving out 50 batches from step 91 on .* peak_lr"):
        with_spike([(91, 50)], LossSpike(95, 9.0), 0)


@pytest.fixture
def bad_batch(done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss of the batch that the 17th update of an undisturbed run has is no number."""
    rows = read_log(done / "models" / MODEL / "log.jsonl")
    bad = next(row["batch"] for row in rows if row["split"] == "train" and row["step"] == 17)
    original = StageTraining.batch_end

    def batch_end(self: StageTraining, state: State, logger: Logger) -> None:
        assert self.data is not None
        if f"{self.data.sums()[1]:016x}" == bad:
            state.total_loss_dict["loss/train/total"] = math.nan
        original(self, state, logger)

    monkeypatch.setattr(StageTraining, "batch_end", batch_end)


def _rows(out: Path) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in row.items() if key != "skipped"}
        for row in science(out / "models" / MODEL / "log.jsonl")
    ]


@pytest.mark.usefixtures("bad_batch")
@pytest.mark.parametrize("every", [1, 3, 1000])
def test_the_model_is_the_one_of_skip_whenever_it_was_saved(
    study: Study, data: Path, tmp_path: Path, every: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The stage begins at step 9, before which nothing is left out."""
    out, words = tmp_path / "spiked", ("on_spike=skip", f"save_every={every}")
    config = changed(study, *words)
    assert train(MODEL, data=data, out=out, study=study, config=config)
    assert "going back to leave out 10 batches from step 9 on" in caplog.text
    plain = tmp_path / "plain"
    assert train(MODEL, data=data, out=plain, study=study, config=changed(study, "skip=9:10"))
    assert weights_hash(out) == weights_hash(plain)
    assert _rows(out) == _rows(plain)
    told = [row for row in read_log(out / "models" / MODEL / "log.jsonl") if "skipped" in row]
    assert [(row["step"], row["skipped"]) for row in told] == [(10, 10)]
    # The same command finds the model complete, and another one is refused.
    assert train(MODEL, data=data, out=out, study=study, config=config)
    for other in ((), ("skip=9:10",), ("on_spike=skip", "skip=3:1")):
        with pytest.raises(UserError, match=r"was trained with (on_spike='skip', not None|skip=)"):
            train(MODEL, data=data, out=out, study=study, config=changed(study, *other))


@pytest.mark.usefixtures("bad_batch")
def test_it_resumes_after_a_rollback(
    study: Study, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed at every moment between: the decisions are the same, and a checkpoint remembers them."""
    config, out = changed(study, "on_spike=skip"), tmp_path / "whole"
    assert train(MODEL, data=data, out=out, study=study, config=config)
    broken, calls = tmp_path / "broken", {"count": 0}
    original = StageTraining.batch_start

    def batch_start(self: StageTraining, state: State, logger: Logger) -> None:
        calls["count"] += 1
        if calls["count"] % 7 == 0:
            raise OSError("killed")
        original(self, state, logger)

    monkeypatch.setattr(StageTraining, "batch_start", batch_start)
    for _ in range(20):
        try:
            assert train(MODEL, data=data, out=broken, study=study, config=config)
            break
        except OSError:
            continue
    assert weights_hash(broken) == weights_hash(out) and calls["count"] > 30
    name = Path("models", MODEL, "log.jsonl")
    assert science(broken / name) == science(out / name)
    (saved,) = checkpoints.checkpoint_steps(broken / "stages" / MODEL)[-1:]
    assert checkpoints.load_state(saved)["interventions"] == {"skip": [[9, 10]]}
