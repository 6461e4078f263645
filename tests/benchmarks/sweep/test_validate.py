"""Checks and estimates without a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.finetuning.device import PRECISIONS
from benchmarks.finetuning.encoders import Encoder
from benchmarks.protocol import DATASETS
from benchmarks.sweep.validate import activation_bytes
from tests.benchmarks.sweep.stores import validate
from tests.benchmarks.tiny import make_config


def test_validate_checks_and_estimates_without_writing(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert validate([*arguments, "--tflops", "1"]) == 0
    shown = capsys.readouterr().out
    assert "everything a run needs is there" in shown and "memory:" in shown
    assert all(name in shown for name in DATASETS)
    assert not (tmp_path / "results").exists()


def test_activations_are_counted_per_position() -> None:
    from transformers import AutoModel

    import pretraining.model.heads  # noqa: F401

    encoders = [
        Encoder(AutoModel.from_config(make_config("ours", vocab=300, layers=layers))) for layers in (1, 3)
    ]
    one, three = (activation_bytes(encoder, PRECISIONS["fp32"]) for encoder in encoders)
    assert 32 * 4 * 6 < one < three < 3 * one
    assert activation_bytes(encoders[0], PRECISIONS["fp32"], length=128) == pytest.approx(one, rel=0.1)
