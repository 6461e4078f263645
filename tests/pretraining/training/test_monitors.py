from __future__ import annotations

import sys
from pathlib import Path

import pytest

from common.errors import UserError
from pretraining.__main__ import main
from pretraining.plan.config import TrainingConfig
from pretraining.plan.study_plan import Study
from pretraining.training.composer_parts import additions
from pretraining.training.log import read_log
from pretraining.training.train import train
from tests.pretraining.small_study import STUDY, changed


def names(config: TrainingConfig) -> dict[str, list[str]]:
    made = additions(config, "stage", Path("tensorboard"))
    return {key: [type(item).__name__ for item in items] for key, items in made.items()}


def test_names_are_checked() -> None:
    assert names(TrainingConfig()) == {
        "callbacks": ["SpeedMonitor", "MemoryMonitor", "OptimizerMonitor", "RuntimeEstimator"],
        "algorithms": [],
        "loggers": ["TensorboardLogger"],
    }
    assert not additions(TrainingConfig(), "stage", Path("tensorboard"), rank=1)["loggers"]
    assert not any(names(TrainingConfig(tensorboard=False)).values())
    assert not names(TrainingConfig(callbacks=""))["callbacks"]
    for setting, word, problem in (
        ("callbacks", "SpedMonitor", "module 'composer.callbacks' has no attribute 'SpedMonitor'"),
        ("callbacks", "ThresholdStopper", "missing 3 required positional arguments"),
        ("callbacks", "nowhere:Watch", "No module named 'nowhere'"),
        ("callbacks", "json:Watch", "module 'json' has no attribute 'Watch'"),
        ("callbacks", "json:JSONDecoder", "it is not a subclass of Composer's Callback"),
        ("algorithms", "SpeedMonitor", "module 'composer.algorithms' has no attribute 'SpeedMonitor'"),
    ):
        with pytest.raises(UserError, match=f"{setting}: {word} cannot be created: .*{problem}"):
            additions(TrainingConfig(**{setting: word}), "stage", Path("tensorboard"))  # type: ignore[arg-type]


def test_a_class_of_ones_own_is_found_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "watch_here.py").write_text(
        "from composer.core import Callback\nclass Watch(Callback): ...\n"
    )
    monkeypatch.chdir(tmp_path)
    # As for an installed command.
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    assert "Watch" in names(TrainingConfig(callbacks="watch_here:Watch"))["callbacks"]


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


@pytest.mark.filterwarnings("ignore")
def test_a_users_own_callback_logger_and_algorithm(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own_parts.py").write_text(OWN)
    (tmp_path / "s.toml").write_text(STUDY)
    monkeypatch.syspath_prepend(tmp_path)
    out = tmp_path / "out"
    words = [
        "train",
        "mini-s-clm",
        "--data",
        str(data),
        "--study",
        str(tmp_path / "s.toml"),
        "--out",
        str(out),
    ]
    assert main([*words, "--callback", "own_parts:Steps", "--callback", "own_parts:Losses"]) == 0
    rows = [row for row in read_log(out / "stages/mini-s-clm/log.jsonl") if row["split"] == "train"]
    said = [line.split() for line in capsys.readouterr().out.splitlines()]
    for who in ("callback", "logger"):
        assert [float(value) for name, _, value in said if name == who] == [row["loss"] for row in rows]
    halved = tmp_path / "halved"
    assert main([*words[:-1], str(halved), "--set", "algorithms=own_parts:Halved"]) == 0
    of_halved = [row for row in read_log(halved / "stages/mini-s-clm/log.jsonl") if row["split"] == "train"]
    assert of_halved[0]["loss"] == rows[0]["loss"]
    assert of_halved[0]["grad_norm"] == pytest.approx(rows[0]["grad_norm"] / 2)
    with pytest.raises(UserError, match="was trained with algorithms='own_parts:Halved', not None"):
        main([*words[:-1], str(halved)])


@pytest.mark.filterwarnings("ignore")  # TensorBoard's reader's own
def test_composers_own_callbacks_write_to_tensorboard(study: Study, data: Path, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    config = changed(study, "tensorboard=true")
    assert train("mini-s-clm", data=data, out=tmp_path, study=study, config=config)
    (file,) = tmp_path.rglob("events.*")
    events = EventAccumulator(str(file))
    events.Reload()
    tags = set(events.Tags()["scalars"])
    assert {"clm/loss", "clm/tokens_per_second", "time/remaining_estimate"} <= tags
    rates = [item.value for item in events.Scalars("clm/lr")]
    assert rates[:3] == pytest.approx([1e-3, 2e-3, 3e-3])
