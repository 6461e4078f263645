from __future__ import annotations

import json
from pathlib import Path

import pytest

from common.errors import UserError
from pretraining.plan.config import TrainingConfig
from pretraining.plan.plan import Study
from pretraining.training.monitors import callbacks_of
from pretraining.training.train import train
from tests.pretraining.small_study import changed


def test_names_are_checked() -> None:
    made = callbacks_of(TrainingConfig())
    assert [type(item).__name__ for item in made] == [
        "SpeedMonitor", "MemoryMonitor", "OptimizerMonitor", "LRMonitor",
    ]  # fmt: skip
    assert not callbacks_of(TrainingConfig(tensorboard=False))
    assert not callbacks_of(TrainingConfig(callbacks=""))
    with pytest.raises(
        UserError, match=r"callbacks: Composer has no 'SpedMonitor'; did you mean 'SpeedMonitor'"
    ):
        callbacks_of(TrainingConfig(callbacks="SpedMonitor"))
    with pytest.raises(UserError, match="callbacks: ThresholdStopper cannot be made by its name alone"):
        callbacks_of(TrainingConfig(callbacks="ThresholdStopper"))


@pytest.mark.filterwarnings("ignore")  # TensorBoard's reader's own
def test_composers_own_callbacks_write_to_tensorboard(study: Study, data: Path, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    config = changed(study, "tensorboard=true")
    assert train("mini-s-clm", data=data, out=tmp_path, study=study, config=config)
    (file,) = tmp_path.rglob("events.*")
    events = EventAccumulator(str(file))
    events.Reload()
    tags = set(events.Tags()["scalars"])
    assert {"clm/loss", "lr-AdamW/group0"} <= tags
    rates = [item.value for item in events.Scalars("lr-AdamW/group0")]
    assert rates[:3] == pytest.approx([1e-3, 2e-3, 3e-3])


@pytest.mark.filterwarnings("ignore")  # torch's profiler's own
def test_composers_profiler_traces_the_steps_that_are_named(study: Study, data: Path, tmp_path: Path) -> None:
    config = changed(study, "profile=2:2", "eval_sequences=0")
    assert train("mini-s-clm", data=data, out=tmp_path, study=study, config=config)
    (trace,) = (tmp_path / "stages" / "mini-s-clm" / "profile").iterdir()
    names = {event.get("name", "") for event in json.loads(trace.read_text())["traceEvents"]}
    assert any("backward" in name.lower() for name in names)
    assert {f"ProfilerStep#{number}" for number in (1, 2)} & names


def test_what_profile_takes() -> None:
    assert TrainingConfig(profile="10:3").profiled == range(10, 13)
    assert not TrainingConfig().profiled
    with pytest.raises(UserError, match="profile='1:2,5:1': one STEP:COUNT"):
        TrainingConfig(profile="1:2,5:1")
