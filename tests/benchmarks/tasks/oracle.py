"""A model whose outputs are known, in place of an encoder with a head."""

import torch
from torch import Tensor, nn

from benchmarks.finetuning.encoders import Encoder, Limits, LoadedModel
from benchmarks.tasks.base import Setting
from tests.benchmarks.tiny import CPU, make_tokenizer

CONTEXT = "The quick brown fox jumps over the lazy dog while Anna sleeps in Malmo near the old red bridge"


TOKENIZER = make_tokenizer([CONTEXT] * 9, size=400)


def loaded(limit: int = 500) -> LoadedModel:
    return LoadedModel(
        encoder=Encoder(nn.Identity()),
        tokenizer=TOKENIZER,
        retrieval_tokenizer=TOKENIZER,
        limits=Limits(labelled=limit, retrieval=limit, paper_retrieval=limit),
        source="fake",
        weights="",
        tokens="",
    )


def setting(limit: int = 500) -> Setting:
    return Setting(loaded=loaded(limit), device=CPU)


class Oracle(nn.Module):
    """Gives class 1 a logit of 3 on the tokens named, and -3 on all others; padding as given."""

    def __init__(self, *words: str, padding: float = -3.0) -> None:
        super().__init__()
        self.chosen = torch.tensor(
            [
                TOKENIZER(" " + w, add_special_tokens=False)["input_ids"][0]
                for w in words
            ]
        )
        self.padding = padding

    def forward(
        self, ids: Tensor, lengths: Tensor, kinds: Tensor | None = None
    ) -> Tensor:
        margin = torch.where(torch.isin(ids, self.chosen), 3.0, -3.0)
        margin[torch.arange(ids.shape[1]) >= lengths[:, None]] = self.padding
        return torch.stack([torch.zeros_like(margin), margin], dim=-1)
