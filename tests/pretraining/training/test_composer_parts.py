from __future__ import annotations

import signal
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from composer.core import State
from composer.loggers import Logger
from safetensors.torch import load_file
from torch.nn.parallel import DistributedDataParallel

from common.errors import UserError
from common.processes import AGAIN
from pretraining.__main__ import main
from pretraining.plan.study_plan import Study
from pretraining.training import checkpoints
from pretraining.training.composer_parts import BucketViews
from pretraining.training.log import read_log
from pretraining.training.stage import StageTraining
from pretraining.training.train import train
from tests.pretraining.small_study import MODEL, STUDY, changed, science, seal_again

pytestmark = pytest.mark.filterwarnings(
    "ignore"
)  # Composer's and TensorBoard's own; ours are errors elsewhere


def test_a_loss_that_is_no_number_stops_with_the_last_checkpoint_kept(
    study: Study, data: Path, tmp_path: Path
) -> None:
    assert train("mini-s-clm-24-5", data=data, out=tmp_path, study=study)
    broken = tmp_path / "stages/mini-s-clm/step-00000005"
    from safetensors.torch import save_file

    good = load_file(broken / "model.safetensors")
    save_file({name: value * torch.nan for name, value in good.items()}, broken / "model.safetensors")
    seal_again(broken)
    with pytest.raises(UserError, match=r"the loss at step 6 is nan"):
        train(MODEL, data=data, out=tmp_path, study=study)
    steps = [item.step for item in checkpoints.checkpoint_steps(tmp_path / "stages/mini-s-clm")]
    assert steps == [5]
    save_file(good, broken / "model.safetensors")
    seal_again(broken)
    assert train(MODEL, data=data, out=tmp_path, study=study)


def test_weights_and_biases_without_an_account_is_reported(
    study: Study, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wandb.errors import UsageError

    def refuse(**_: object) -> None:
        raise UsageError("No API key configured.\nUse `wandb login`.")

    monkeypatch.setattr("wandb.init", refuse)
    with pytest.raises(UserError, match=r"wandb=p\): No API key configured\.; log in .* WANDB_MODE=offline"):
        train(MODEL, data=data, out=tmp_path, study=study, config=changed(study, "wandb=p"))


@pytest.mark.slow
def test_weights_and_biases_get_every_step(
    study: Study, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """wandb itself, which keeps its runs on disk when offline."""
    import wandb

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    runs: list[dict[str, float]] = []
    log = wandb.sdk.wandb_run.Run.log

    def logged(self: object, values: dict[str, float], step: int | None = None) -> None:
        runs.append(values | {"step": -1 if step is None else step})
        log(self, values, step=step)

    monkeypatch.setattr(wandb.sdk.wandb_run.Run, "log", logged)
    assert train(
        "mini-s-clm-24-5", data=data, out=tmp_path / "out", study=study, config=changed(study, "wandb=p")
    )
    (kept,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    assert kept.stat().st_size > 1000
    losses = {int(row["step"]): row["clm/loss"] for row in runs if "clm/loss" in row}
    rows = read_log(tmp_path / "out/models/mini-s-clm-24-5/log.jsonl")
    assert list(losses.values()) == [row["loss"] for row in rows if row["split"] == "train"]
    assert wandb.run is None


def _words(data: Path, out: Path) -> list[str]:
    (out / "s.toml").write_text(STUDY)
    return ["train", MODEL, "--data", str(data), "--out", str(out), "--study", str(out / "s.toml")]


def _at_step(monkeypatch: pytest.MonkeyPatch, step: int, act: Callable[[StageTraining], object]) -> None:
    """Have something happen as a step begins."""
    batch_start = StageTraining.batch_start

    def acting(self: StageTraining, state: State, logger: Logger) -> None:
        if self.step == step:
            act(self)
        batch_start(self, state, logger)

    monkeypatch.setattr(StageTraining, "batch_start", acting)


def _resumed(words: list[str], out: Path, done: Path) -> None:
    assert main(words) == 0
    name = Path("models", MODEL, "log.jsonl")
    assert science(out / name) == science(done / name)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_saves_and_the_next_call_resumes(
    done: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    _at_step(monkeypatch, 12, lambda _: signal.raise_signal(number))
    words = _words(data, tmp_path)
    assert main(words) == AGAIN
    assert checkpoints.latest(tmp_path / "stages/mini-s-clm-9-mlm40", 99).step == 13  # type: ignore[union-attr]
    monkeypatch.undo()
    _resumed(words, tmp_path, done)


@pytest.mark.parametrize(
    ("step", "times", "ended", "saved"),
    [
        (1, 1, 2, "step 2 is saved in "),
        (7, 1, 8, "step 8 is saved in "),
        (1, 2, 1, "no checkpoint has been saved yet"),
        (7, 2, 7, "step 6 is saved in "),
    ],
)
def test_ctrl_c_saves_and_a_second_one_stops_at_once(
    done: Path,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    step: int,
    times: int,
    ended: int,
    saved: str,
) -> None:
    def interrupted(_: StageTraining) -> None:
        for _time in range(times):
            signal.raise_signal(signal.SIGINT)

    _at_step(monkeypatch, step, interrupted)
    words = _words(data, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        main(words)
    assert f"mini-s-clm: interrupted after step {ended}; {saved}" in caplog.text
    assert (
        "mini-s-clm: saving a checkpoint after this step; press Ctrl-C again to stop at once" in caplog.text
    )
    assert "; run the same command to resume" in caplog.text
    monkeypatch.undo()
    _resumed(words, tmp_path, done)


def test_a_stop_file_does_the_same(
    done: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = tmp_path / "stop"

    def touched(training: StageTraining) -> None:
        stop.touch()
        training.stop_file_checked = 0.0

    _at_step(monkeypatch, 12, touched)
    words = [*_words(data, tmp_path), "--stop-file", str(stop)]
    assert main(words) == AGAIN
    assert checkpoints.latest(tmp_path / "stages/mini-s-clm-9-mlm40", 99).step == 13  # type: ignore[union-attr]
    monkeypatch.undo()
    with pytest.raises(UserError, match="already exists and would stop training at once; remove it first"):
        main(words)
    stop.unlink()
    _resumed(words, tmp_path, done)


def test_gradients_are_views_of_buckets_and_the_first_buckets_are_freed(tmp_path: Path) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        state = SimpleNamespace(model=DistributedDataParallel(torch.nn.Linear(3, 2)))
        first = weakref.ref(state.model)
        BucketViews().fit_start(state, None)
        assert first() is None and state.model.gradient_as_bucket_view
        state.model(torch.ones(1, 3)).sum().backward()
        assert torch.equal(state.model.module.weight.grad, torch.ones(2, 3))
        alone = SimpleNamespace(model=torch.nn.Linear(3, 2))
        kept = alone.model
        BucketViews().fit_start(alone, None)
        assert alone.model is kept
    finally:
        torch.distributed.destroy_process_group()
