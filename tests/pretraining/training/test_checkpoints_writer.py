"""Checkpoints written while training continues hold the step they are named for, and their problems come up."""

import signal
import threading
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from common.errors import UserError
from pretraining.training import checkpoints
from pretraining.training.checkpoints import CheckpointWriter

STATE: dict[str, object] = {"stage": "s"}


@pytest.fixture
def trained() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    step(model, optimizer)
    return model, optimizer


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def test_it_holds_the_named_step_however_slow_the_disk(
    tmp_path: Path,
    trained: tuple[torch.nn.Module, torch.optim.Optimizer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, optimizer = trained
    go_on, original = threading.Event(), checkpoints.write_checkpoint

    def slow(*args: object) -> object:
        assert go_on.wait(30)
        return original(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(checkpoints, "write_checkpoint", slow)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    moment = optimizer.state[model.weight]["exp_avg"].clone()
    writer = CheckpointWriter(tmp_path)
    writer.begin(1, model, optimizer, STATE, ())
    for _ in range(3):
        step(model, optimizer)
    assert not checkpoints.checkpoint_steps(tmp_path), (
        "training continued before it was written"
    )
    go_on.set()
    assert writer.finish() is None
    (saved,) = checkpoints.checkpoint_steps(tmp_path)
    found = load_file(saved.path / "model.safetensors")
    assert all(torch.equal(found[name], value) for name, value in weights.items())
    assert not torch.equal(found["weight"], model.weight)
    assert torch.equal(
        load_file(saved.path / "optimizer.safetensors")["exp_avg.weight"], moment
    )


def test_without_a_copy_it_is_written_before_training_continues(tmp_path: Path) -> None:
    model = torch.nn.ModuleDict(
        {"one": torch.nn.Linear(4, 4), "tied": torch.nn.Linear(4, 4)}
    )
    model["tied"].weight = model["one"].weight
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    tensors = checkpoints.tensors_of(model, optimizer, copied=False)[
        "model.safetensors"
    ]
    assert tensors["one.weight"].data_ptr() == model["one"].weight.data_ptr()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    writer = CheckpointWriter(tmp_path, background=False)
    assert writer.begin(1, model, optimizer, STATE, ()) is None
    (saved,) = checkpoints.checkpoint_steps(tmp_path)
    found = load_file(saved.path / "model.safetensors")
    assert found.keys() == before.keys() and all(
        torch.equal(found[name], before[name]) for name in found
    )
    (tmp_path / "file").touch()
    assert (
        CheckpointWriter(tmp_path / "file", background=False).begin(
            1, model, optimizer, STATE, ()
        )
        is not None
    )


def test_a_wait_that_ctrl_c_ends_is_made_good_by_the_next(
    tmp_path: Path,
    trained: tuple[torch.nn.Module, torch.optim.Optimizer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go_on, original = threading.Event(), checkpoints.write_checkpoint

    def slow(*args: object) -> object:
        threading.Timer(
            0.2, signal.pthread_kill, [threading.main_thread().ident, signal.SIGINT]
        ).start()
        assert go_on.wait(30)
        return original(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(checkpoints, "write_checkpoint", slow)
    writer = CheckpointWriter(tmp_path)
    writer.begin(1, *trained, STATE, ())
    # Composer, once imported, makes the second of the first.
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        writer.finish()
    go_on.set()
    assert writer.finish() is None
    assert [item.step for item in checkpoints.checkpoint_steps(tmp_path)] == [1]


def test_one_at_a_time_and_the_one_before_is_removed_after(
    tmp_path: Path, trained: tuple[torch.nn.Module, torch.optim.Optimizer]
) -> None:
    writer = CheckpointWriter(tmp_path)
    for number in (1, 2, 3, 4):
        writer.begin(number, *trained, STATE, {2})
    writer.finish()
    assert [item.step for item in checkpoints.checkpoint_steps(tmp_path)] == [2, 4]
    assert not list(tmp_path.glob(".step-*"))


@pytest.mark.parametrize(
    "error", [OSError(5, "input/output error"), UserError("no room")]
)
def test_a_problem_comes_up_at_the_next_one_and_at_the_end(
    tmp_path: Path,
    trained: tuple[torch.nn.Module, torch.optim.Optimizer],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    def broken(*args: object) -> None:
        raise error

    writer = CheckpointWriter(tmp_path)
    writer.begin(1, *trained, STATE, ())
    monkeypatch.setattr(checkpoints, "write_checkpoint", broken)
    writer.begin(2, *trained, STATE, ())
    assert writer.begin(3, *trained, STATE, ()) is error
    assert writer.begin(3, *trained, STATE, ()) is None
    assert writer.finish() is error and writer.finish() is None
    assert [item.step for item in checkpoints.checkpoint_steps(tmp_path)] == [1]
