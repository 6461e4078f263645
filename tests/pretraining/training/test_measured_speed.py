from __future__ import annotations

import pytest

from clm_or_mlm.__main__ import main
from common.errors import UserError
from pretraining.paper_settings import Shape
from pretraining.training import measured_speed as module
from pretraining.training.measured_speed import measured_speed


def test_speed_is_the_tokens_of_the_steps_on_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = Shape(hidden=16, layers=1, heads=2, kv_heads=2, mlp=32, vocab=64, max_length=12)
    times = iter([10.0, 12.0])
    monkeypatch.setattr(module, "_now", lambda _: next(times))
    assert measured_speed(shape, microbatch=3, steps=5) == 5 * 3 * 12 / 2.0


def test_without_a_gpu_there_is_nothing_to_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(UserError, match="--measure needs a GPU"):
        main(["plan", "--hours", "24", "--measure"])
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: "NVIDIA GeForce RTX 4090")
    with pytest.raises(UserError, match=r"RTX 4090, not H100; give it as --device"):
        main(["plan", "--hours", "24", "--measure"])


def test_hours_follow_what_was_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: "NVIDIA GeForce RTX 4090")
    words, hours = ["plan", "610m-mlm40-42k", "--device", "RTX 4090", "--measure", "--format", "json"], []
    for speed in (100_000.0, 200_000.0):
        monkeypatch.setattr(module, "measured_speed", lambda *_, speed=speed, **__: speed)
        main(words)
        hours.append(float(capsys.readouterr().out.split('"gpu_hours": ')[-1].split(",")[0]))
    assert hours[0] == pytest.approx(2 * hours[1])
