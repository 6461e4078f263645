"""What would fail in the last step is found before the first."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks.datasets.local_dataset import load as load_data
from benchmarks.finetuning.device import PRECISIONS
from benchmarks.finetuning.encoders import load
from benchmarks.finetuning.heads import HEADS, MEAN, POOLINGS
from benchmarks.sweep.validate import check_special_tokens, dry_run
from common.errors import UserError

FP32, BF16 = PRECISIONS["fp32"], PRECISIONS["bf16"]
PAPER = HEADS["paper"]


@pytest.mark.parametrize("name", ["sst2", "uner_en", "squad", "msmarco"])
@pytest.mark.parametrize("kind", ["ours", "roberta"])
def test_every_family_reads_an_input_of_the_largest_length(
    kind: str, name: str, data: Path, model_folder: Callable[..., Path]
) -> None:
    loaded, dataset = load(str(model_folder(kind))), load_data(data, name)
    before = {key: value.clone() for key, value in loaded.encoder.state_dict().items()}
    limit = loaded.limits.paper_retrieval if name == "msmarco" else loaded.limits.labelled
    for precision in (FP32, BF16):
        assert dry_run(dataset, loaded, precision, MEAN, PAPER) == limit >= 500
    for key, value in loaded.encoder.state_dict().items():
        assert value.dtype == torch.float32 and torch.equal(value, before[key])


def test_too_few_positions_are_found(data: Path, model_folder: Callable[..., Path]) -> None:
    loaded = load(str(model_folder("bert")))
    loaded = replace(loaded, limits=replace(loaded.limits, labelled=600))
    with pytest.raises(UserError, match="cannot read 600 tokens, the most of an input of sst2"):
        dry_run(load_data(data, "sst2"), loaded, FP32, MEAN, PAPER)


def test_outputs_that_are_not_finite_are_found(data: Path, model_folder: Callable[..., Path]) -> None:
    loaded = load(str(model_folder("ours")))
    loaded.encoder.base.norm.weight.data.fill_(float("inf"))  # type: ignore[union-attr, operator]
    with pytest.raises(UserError, match="are not finite in bf16; try --precision mixed or fp32"):
        dry_run(load_data(data, "sst2"), loaded, BF16, MEAN, PAPER)


def test_a_pooling_without_effect_is_found(data: Path, model_folder: Callable[..., Path]) -> None:
    with pytest.raises(UserError, match="--head ours"):
        dry_run(load_data(data, "sst2"), load(str(model_folder("bert"))), FP32, POOLINGS["last"], PAPER)


def test_an_end_of_text_in_pieces_is_found(model_folder: Callable[..., Path], tmp_path: Path) -> None:
    check_special_tokens(load(str(model_folder("ours"))))
    folder = Path(shutil.copytree(model_folder("ours"), tmp_path / "model"))
    loaded = load(str(folder))
    loaded.tokenizer.init_kwargs["eos_token"] = loaded.tokenizer._special_tokens_map["eos_token"] = (
        "</nonesuch>"
    )
    with pytest.raises(UserError, match="'</nonesuch>' is not one token"):
        check_special_tokens(loaded)
    assert json.loads((folder / "config.json").read_text())["eos_token_id"] == 1
