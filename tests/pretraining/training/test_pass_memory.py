"""The memory of a pass of a start's class; on a GPU that is not there, by its own words."""

from pathlib import Path

import pytest
import torch

from pretraining.adapt import Adaptation
from pretraining.model.configuration import config_of
from pretraining.model.start_weights import network_of
from pretraining.plan.devices import sequences_that_fit
from pretraining.starts import start_of
from pretraining.training.pass_memory import measured_gb
from tests.pretraining.families import save_start
from tests.pretraining.sizes import TINY

TOKENIZER = {
    "vocab_size": 300,
    "bos_id": 297,
    "eos_id": 298,
    "mask_id": 299,
    "sha256": "0",
}


@pytest.mark.parametrize("family", ["qwen2", "bert"])
@pytest.mark.parametrize("several", [False, True])
def test_a_sequences_memory_is_measured_from_one_to_three(
    family: str, several: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = start_of(str(save_start(tmp_path / family, family)))
    data = config_of(TINY, TOKENIZER)
    peaks = iter([7e9, 5e9, 6e9])
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: None)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: next(peaks))
    cpu, config = (
        torch.device("cpu"),
        Adaptation(start=start, steps=4, changes=("max_length=24",)).config,
    )
    fixed, each = measured_gb(start, data, config, cpu, several=several)
    parameters = sum(one.numel() for one in network_of(start, data).parameters())
    assert each == pytest.approx(0.5)
    assert fixed == pytest.approx(4.5 + (14 if several else 8) * parameters / 1e9)
    assert (
        sequences_that_fit(20, 512, fixed_gb=fixed, each_gb=each)
        == int((18 - fixed) / each)
        == 26
    )
    assert sequences_that_fit(4, 512, fixed_gb=fixed, each_gb=each) == 0
    assert sequences_that_fit(1e3, 512, fixed_gb=fixed, each_gb=each) == 128
