"""The encoder with its language-model head, read as a masked or as a causal language model.

Importing this module makes `AutoModel`, `AutoModelForMaskedLM` and `AutoModelForCausalLM` load a `eurobert` folder with
our classes in place of transformers' native ones; without it the native ones are loaded. The numbers are the same, but
only ours follow `is_causal` in padded batches, too. Classifiers are transformers' own, or those of
`benchmarks.finetuning.heads`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
)
from transformers.modeling_outputs import (
    CausalLMOutput,
    MaskedLMOutput,
)
from transformers.utils import ModelOutput

from common.errors import UserError, nearest
from pretraining.model.configuration import EncoderConfig
from pretraining.model.modeling import EuroBertModel, EuroBertPreTrainedModel

__all__ = ["HEAD", "EuroBertForCausalLM", "EuroBertForMaskedLM", "check_state", "parameter_shapes"]

HEAD = "lm_head.weight"
"""Name of the head's weight, the only parameter that a state dict may lack."""


class _LanguageModel(EuroBertPreTrainedModel):
    """The body and one untied linear head without bias; masked and causal models hold the same weights."""

    _output: type[ModelOutput]
    _is_causal: bool | None = None

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        self.model = EuroBertModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        max_length: int | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> Any:
        """Return logits and, given `labels`, the mean loss, as the class's output or, without `return_dict`, a tuple.

        `labels` have the shape of `input_ids`; the loss leaves out labels of -100. The other arguments are those of
        `EuroBertModel.forward`. Pretraining does not come through here, since it never forms all logits
        (`pretraining.training.objectives`).
        """
        body = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            inputs_embeds=inputs_embeds,
            cu_seqlens=cu_seqlens,
            max_length=max_length,
            is_causal=self._is_causal,
            output_hidden_states=output_hidden_states,
        )
        logits = self.lm_head(body.last_hidden_state)
        loss = None if labels is None else self._loss(logits, labels)
        output = self._output(loss=loss, logits=logits, hidden_states=body.hidden_states)
        return output.to_tuple() if return_dict is False else output

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        raise NotImplementedError


class EuroBertForMaskedLM(_LanguageModel):
    """The encoder with its language-model head; what pretraining trains, whatever the objective.

    Attention is as the configuration says; each label is that of its own position.
    """

    _output = MaskedLMOutput

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits.flatten(0, -2).float(), labels.flatten())


class EuroBertForCausalLM(_LanguageModel):
    """The same weights read as a causal language model: attention looks back whatever the configuration says.

    Each position is held against the next label; for padded input only.
    """

    _is_causal = True
    _output = CausalLMOutput

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        if logits.dim() == 2:
            raise ValueError("the loss of packed sequences is in pretraining.training.objectives")
        return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten())


def parameter_shapes(config: EncoderConfig, *, head: bool = True) -> dict[str, tuple[int, ...]]:
    """Return the name and shape of every parameter of a model with this configuration, in order."""
    with torch.device("meta"):
        state = EuroBertForMaskedLM(config).state_dict()
    return {name: tuple(tensor.shape) for name, tensor in state.items() if head or name != HEAD}


def check_state(state: Mapping[str, Tensor], config: EncoderConfig, where: str) -> None:
    """Check that `state` holds all parameters of the configuration and no others; the head may be absent.

    Raises:
        UserError: tensors are missing, of another shape, or unknown; the first three are named.
    """
    expected = parameter_shapes(config, head=HEAD in state)
    wrong = [
        f"{name} has shape {tuple(state[name].shape)}, not {shape}"
        for name, shape in expected.items()
        if name in state and tuple(state[name].shape) != shape
    ]
    missing = [name for name in expected if name not in state]
    extra = [name + nearest(name, missing) for name in state if name not in expected]
    for what, names in (
        ("lacks", missing),
        ("holds unknown tensors", extra),
        ("does not fit its config", wrong),
    ):
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            raise UserError(f"checkpoint {where} {what}: {', '.join(names[:3])}{more}")


# All of them or none: with the configuration alone, `AutoModel` would know neither our classes nor the native ones.
AutoConfig.register(EncoderConfig.model_type, EncoderConfig, exist_ok=True)
AutoModel.register(EncoderConfig, EuroBertModel, exist_ok=True)
AutoModelForMaskedLM.register(EncoderConfig, EuroBertForMaskedLM, exist_ok=True)
AutoModelForCausalLM.register(EncoderConfig, EuroBertForCausalLM, exist_ok=True)
