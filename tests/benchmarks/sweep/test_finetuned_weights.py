"""Weights on disk fit their own fine-tuning alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from transformers import T5Config, T5EncoderModel

from benchmarks.finetuning.encoders import Encoder, load
from benchmarks.finetuning.trainer import FineTuningLog
from benchmarks.runs import RunKey
from benchmarks.sweep.finetuned_weights import FinetunedWeights
from benchmarks.tasks.base import TaskModel

KEY = RunKey(model="m", dataset="nq", lr=1e-4, seed=0)


def test_what_was_saved_is_restored_and_nothing_else(
    model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    settings = {"weights": "a", "evaluation_data": "b"}
    model = TaskModel(load(str(model_folder("ours"))).encoder, None)
    weights = FinetunedWeights.of(tmp_path, KEY, settings)
    assert weights.path.parts[-3:-1] == ("tuned", "m")
    assert weights.restore(model) is None
    record = FineTuningLog(steps=2, losses=(1.0, 0.5), train_positions=64)
    weights.save(model, record)
    saved = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    other_data = FinetunedWeights.of(
        tmp_path, replace(KEY, dataset="msmarco"), {**settings, "evaluation_data": "c"}
    )
    assert FinetunedWeights.of(tmp_path, KEY, {**settings, "weights": "z"}).restore(model) is None
    assert other_data.restore(model) == record
    assert all(torch.equal(value, saved[name]) for name, value in model.state_dict().items())
    for path in (weights.path, weights.path.with_suffix(".json")):
        content = path.read_bytes()
        for at in (len(content) - 3, len(content) // 2, 300, 9):
            path.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
            assert weights.restore(model) is None, "a flipped bit is a fine-tuning to do again"
        path.write_bytes(content[:-100])
        assert weights.restore(model) is None
        path.write_bytes(content)
    assert weights.restore(model) == record
    weights.remove()
    assert not list(weights.path.parent.iterdir())


def test_tied_weights_are_saved_and_restored(tmp_path: Path) -> None:
    """A T5's embedding is in its state twice, in the same memory, which safetensors refuses to write."""
    torch.manual_seed(0)
    config = T5Config(vocab_size=50, d_model=8, d_kv=4, d_ff=16, num_layers=1, num_heads=2)
    model = TaskModel(Encoder(T5EncoderModel(config)), None)
    state = model.state_dict()
    assert len({tensor.data_ptr() for tensor in state.values()}) < len(state)
    saved = {name: value.clone() for name, value in state.items()}
    weights = FinetunedWeights.of(tmp_path, KEY, {"evaluation_data": "b"})
    weights.save(model, FineTuningLog(steps=1, losses=(1.0,), train_positions=64))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert weights.restore(model) is not None
    assert all(torch.equal(value, saved[name]) for name, value in model.state_dict().items())
