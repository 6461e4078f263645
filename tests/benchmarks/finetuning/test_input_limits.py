"""How long inputs may be, by task (D18)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from transformers import AutoModel, BertConfig, ModernBertConfig, RobertaConfig

from benchmarks.finetuning.encoders import Limits, input_limits, load, usable_positions

SHAPE = {"vocab_size": 50, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
IDS = {f"{name}_token_id": number for number, name in enumerate(("bos", "pad", "eos", "cls", "sep"))}
NO_LIMIT = 10**30


def base(kind: type, **options: int) -> nn.Module:
    with torch.device("meta"):
        model: nn.Module = AutoModel.from_config(kind(**SHAPE, **IDS, intermediate_size=8, **options))
    return model


@pytest.mark.parametrize(
    ("model", "tokens", "limits"),
    [
        # The tokenizer's own limit enters for retrieval only.
        (base(ModernBertConfig, max_position_embeddings=1_024), 512, (1_014, 507, 512)),
        (base(RobertaConfig, max_position_embeddings=514), 512, (509, 507, 512)),
        (base(BertConfig, max_position_embeddings=512), NO_LIMIT, (507, 507, 512)),
        (base(ModernBertConfig, max_position_embeddings=8_192), NO_LIMIT, (2_028, 2_028, 2_048)),
    ],
)
def test_limits_follow_the_positions(model: nn.Module, tokens: int, limits: tuple[int, int, int]) -> None:
    found = input_limits(model, SimpleNamespace(model_max_length=tokens))
    assert found == Limits(labelled=limits[0], retrieval=limits[1], paper_retrieval=limits[2])


def test_roberta_without_a_tokenizers_limit_stays_inside_its_positions() -> None:
    """Its positions are counted from behind the padding's: two of the 514 are never a token's."""
    model = base(RobertaConfig, max_position_embeddings=514)
    assert usable_positions(model, 514) == 512
    assert input_limits(model, SimpleNamespace(model_max_length=NO_LIMIT)).paper_retrieval == 512


def test_a_length_that_is_asked_for_leaves_the_papers_evaluation_alone(
    model_folder: Callable[..., Path],
) -> None:
    limits = load(str(model_folder("ours")), max_length=100).limits
    assert limits == Limits(labelled=100, retrieval=100, paper_retrieval=512)
