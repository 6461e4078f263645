import signal
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from composer.core import State
from composer.loggers import Logger
from safetensors.torch import load_file, save_file
from torch.nn.parallel import DistributedDataParallel

from clm_or_mlm.__main__ import main
from common.errors import UserError
from common.files import sha256_file
from common.processes import AGAIN
from common.settings import read_settings
from pretraining.plan.config import Record, TrainingConfig
from pretraining.plan.study_plan import Study
from pretraining.training import checkpoints
from pretraining.training.composer_parts import BucketViews, additions
from pretraining.training.log import read_log
from pretraining.training.stage import StageTraining
from tests.pretraining.small_study import (
    MODEL,
    QUIET,
    STUDY,
    Run,
    changed,
    science,
    seal_again,
    train,
)

pytestmark = QUIET


def test_nan_loss_stops_and_keeps_the_last_checkpoint(run: Run, tmp_path: Path) -> None:
    assert run("mini-s-clm-24-5", tmp_path)
    broken = tmp_path / "stages/mini-s-clm/step-00000005"
    good = load_file(broken / "model.safetensors")
    save_file(
        {name: value * torch.nan for name, value in good.items()},
        broken / "model.safetensors",
    )
    seal_again(broken)
    with pytest.raises(UserError, match=r"the loss at step 6 is nan"):
        run(MODEL, tmp_path)
    steps = [
        item.step
        for item in checkpoints.checkpoint_steps(tmp_path / "stages/mini-s-clm")
    ]
    assert steps == [5]
    save_file(good, broken / "model.safetensors")
    seal_again(broken)
    assert run(MODEL, tmp_path)


def test_weights_and_biases_without_an_account_is_reported(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wandb.errors import UsageError

    def refuse(**_: object) -> None:
        raise UsageError("No API key configured.\nUse `wandb login`.")

    monkeypatch.setattr("wandb.init", refuse)
    with pytest.raises(
        UserError, match=r"No API key configured; log in .* WANDB_MODE=offline"
    ):
        run(MODEL, tmp_path, "wandb=p")


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
        "mini-s-clm-24-5",
        data=data,
        out=tmp_path / "out",
        study=study,
        config=changed(study, "wandb=p"),
    )
    (kept,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    assert kept.stat().st_size > 1000
    losses = {int(row["step"]): row["clm/loss"] for row in runs if "clm/loss" in row}
    rows = read_log(tmp_path / "out/models/mini-s-clm-24-5/log.jsonl")
    assert list(losses.values()) == [
        row["loss"] for row in rows if row["split"] == "train"
    ]
    assert wandb.run is None


def _words(data: Path, out: Path, model: str = MODEL) -> list[str]:
    (out / "s.toml").write_text(STUDY)
    return [
        "train",
        model,
        "--data",
        str(data),
        "--study",
        str(out / "s.toml"),
        "--out",
        str(out),
    ]


def _at_step(
    monkeypatch: pytest.MonkeyPatch, step: int, act: Callable[[StageTraining], object]
) -> None:
    """Have something happen as a step begins."""
    batch_start = StageTraining.batch_start

    def acting(self: StageTraining, state: State, logger: Logger) -> None:
        if self.progress.step == step:
            act(self)
        batch_start(self, state, logger)

    monkeypatch.setattr(StageTraining, "batch_start", acting)


def _resumed(words: list[str], out: Path, done: Path, model: str = MODEL) -> None:
    assert main(words) == 0
    ours, theirs = (folder / "models" / model for folder in (out, done))
    assert science(ours / "log.jsonl") == science(theirs / "log.jsonl")
    assert sha256_file(ours / "model.safetensors") == sha256_file(
        theirs / "model.safetensors"
    )


@pytest.mark.parametrize(
    ("step", "times", "ended", "saved"),
    [
        (1, 1, 1, "step 1 is saved in "),
        (7, 1, 7, "step 7 is saved in "),
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
        "mini-s-clm: saving a checkpoint as soon as the pass or step is over; press Ctrl-C again to stop at once"
        in caplog.text
    )
    assert "; run the same command to resume" in caplog.text
    monkeypatch.undo()
    _resumed(words, tmp_path, done)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, None])
def test_signal_or_stop_file_saves_and_next_call_resumes(
    done: Path,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int | None,
) -> None:
    stop = tmp_path / "stop"

    def stopped(training: StageTraining) -> None:
        if number is not None:
            signal.raise_signal(number)
        else:
            stop.touch()
            training.requests.looked_at = 0.0

    _at_step(monkeypatch, 12, stopped)
    words = [*_words(data, tmp_path), "--stop-file", str(stop)]
    assert main(words) == AGAIN
    assert checkpoints.latest(tmp_path / "stages/mini-s-clm-9-mlm40", 99).step == 12  # type: ignore[union-attr]
    monkeypatch.undo()
    if number is None:
        with pytest.raises(
            UserError,
            match="already exists and would stop training at once; remove it first",
        ):
            main(words)
        stop.unlink()
    _resumed(words, tmp_path, done)


SHORT = "mini-s-clm-6-mlm40-12"


@pytest.fixture(scope="module")
def short(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("short")
    assert not main(_words(data, out, SHORT))
    return out


@pytest.mark.parametrize("step", range(12))
def test_a_signal_in_any_step_of_two_stages_ends_the_command(
    step: int,
    short: Path,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In the last step of a stage, too: no other stage begins, and nothing is exported."""
    caplog.set_level("INFO")
    _at_step(monkeypatch, step, lambda _: signal.raise_signal(signal.SIGTERM))
    words = _words(data, tmp_path, SHORT)
    assert main(words) == AGAIN
    where = f"and saved at step {step}" if step else "before the first step was over"
    assert f"stopped {where}; run the same command to resume" in caplog.text
    assert not (tmp_path / "models").exists()
    saved = checkpoints.checkpoint_steps(tmp_path / "stages/mini-s-clm")
    assert [checkpoint.step for checkpoint in saved[-1:]] == [min(step, 6)][: step > 0]
    assert (tmp_path / f"stages/{SHORT}").exists() == (step >= 6)
    monkeypatch.undo()
    _resumed(words, tmp_path, short, SHORT)


def test_gradients_are_views_and_first_buckets_are_freed(
    tmp_path: Path,
) -> None:
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1
    )
    try:
        state = SimpleNamespace(model=DistributedDataParallel(torch.nn.Linear(3, 2)))
        first = weakref.ref(state.model)
        BucketViews().fit_start(state, None)
        assert first() is None and state.model.gradient_as_bucket_view
        state.model(torch.ones(1, 3)).sum().backward()
        assert torch.equal(state.model.module.weight.grad, torch.ones(2, 3))
        rounded = SimpleNamespace(model=DistributedDataParallel(torch.nn.Linear(3, 2)))
        BucketViews("bf16").fit_start(rounded, None)
        rounded.model(torch.full((1, 3), 1.001)).sum().backward()
        assert torch.equal(rounded.model.module.weight.grad, torch.ones(2, 3))
        alone = SimpleNamespace(model=torch.nn.Linear(3, 2))
        kept = alone.model
        BucketViews().fit_start(alone, None)
        assert alone.model is kept
    finally:
        torch.distributed.destroy_process_group()


def made(config: TrainingConfig) -> dict[str, list[str]]:
    made = additions(config, "stage", Path("tensorboard"))
    return {
        key: [type(item).__name__ for item in items]
        for key, items in vars(made).items()
    }


def test_names_are_checked() -> None:
    assert made(TrainingConfig()) == {
        "callbacks": [
            "SpeedMonitor",
            "MemoryMonitor",
            "OptimizerMonitor",
            "RuntimeEstimator",
        ],
        "algorithms": [],
        "loggers": ["TensorboardLogger"],
    }
    other = additions(TrainingConfig(), "stage", Path("tensorboard"), rank=1)
    assert not other.loggers
    assert not any(made(TrainingConfig(record=Record(tensorboard=False))).values())
    assert not made(TrainingConfig(record=Record(callbacks="")))["callbacks"]
    for setting, word, problem in (
        (
            "callbacks",
            "SpedMonitor",
            "module 'composer.callbacks' has no attribute 'SpedMonitor'",
        ),
        ("callbacks", "ThresholdStopper", "missing 3 required positional arguments"),
        ("callbacks", "nowhere:Watch", "No module named 'nowhere'"),
        ("callbacks", "json:Watch", "module 'json' has no attribute 'Watch'"),
        (
            "callbacks",
            "json:JSONDecoder",
            "it is not a subclass of Composer's Callback",
        ),
        (
            "algorithms",
            "SpeedMonitor",
            "module 'composer.algorithms' has no attribute 'SpeedMonitor'",
        ),
    ):
        with pytest.raises(
            UserError, match=f"{setting}: {word} cannot be created: .*{problem}"
        ):
            additions(
                read_settings(TrainingConfig, {setting: word}),
                "stage",
                Path("tensorboard"),
            )


def test_a_class_of_ones_own_is_found_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "watch_here.py").write_text(
        "from composer.core import Callback\nclass Watch(Callback): ...\n"
    )
    monkeypatch.chdir(tmp_path)
    # As for an installed command.
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    assert (
        "Watch"
        in made(TrainingConfig(record=Record(callbacks="watch_here:Watch")))[
            "callbacks"
        ]
    )


OWN = """
from composer.core import Algorithm, Callback, Event
from composer.loggers import LoggerDestination

class Steps(Callback):
    def batch_end(self, state, logger):
        print("callback", int(state.timestamp.batch), state.total_loss_dict["loss/train/total"])

class Losses(LoggerDestination):
    def log_metrics(self, metrics, step=None):
        for key in metrics.keys() & {"clm/loss"}:
            print("logger", step, metrics[key])

class Halved(Algorithm):
    def match(self, event, state):
        return event == Event.AFTER_TRAIN_BATCH

    def apply(self, event, state, logger):
        for parameter in state.model.parameters():
            parameter.grad /= 2
"""


def test_a_users_own_callback_logger_and_algorithm(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "own_parts.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    words, out = _words(data, tmp_path, "mini-s-clm"), tmp_path
    assert (
        main(
            [*words, "--callback", "own_parts:Steps", "--callback", "own_parts:Losses"]
        )
        == 0
    )
    rows = [
        row
        for row in read_log(out / "stages/mini-s-clm/log.jsonl")
        if row["split"] == "train"
    ]
    said = [line.split() for line in capsys.readouterr().out.splitlines()]
    for who in ("callback", "logger"):
        assert [float(value) for name, _, value in said if name == who] == [
            row["loss"] for row in rows
        ]
    halved = tmp_path / "halved"
    assert main([*words[:-1], str(halved), "--set", "algorithms=own_parts:Halved"]) == 0
    of_halved = [
        row
        for row in read_log(halved / "stages/mini-s-clm/log.jsonl")
        if row["split"] == "train"
    ]
    assert of_halved[0]["loss"] == rows[0]["loss"]
    assert of_halved[0]["grad_norm"] == pytest.approx(rows[0]["grad_norm"] / 2)
    with pytest.raises(
        UserError, match="was trained with algorithms='own_parts:Halved', not None"
    ):
        main([*words[:-1], str(halved)])


def test_composers_own_callbacks_write_to_tensorboard(run: Run, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert run("mini-s-clm", tmp_path, "tensorboard=true")
    (file,) = tmp_path.rglob("events.*")
    events = EventAccumulator(str(file))
    events.Reload()
    tags = set(events.Tags()["scalars"])
    assert {"clm/loss", "clm/tokens_per_second", "time/remaining_estimate"} <= tags
    rates = [item.value for item in events.Scalars("clm/lr")]
    assert rates[:3] == pytest.approx([1e-3, 2e-3, 3e-3])
