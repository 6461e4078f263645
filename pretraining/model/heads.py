"""The encoder with a head: masked and causal language model, sequence and token classifier.

Importing this module makes `AutoModel...from_pretrained` load a `eurobert` folder with our classes in place of
transformers' native ones, base model and heads together; without it the native ones are loaded. The numbers are the
same, but only ours follow `is_causal` in padded batches, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)
from transformers.modeling_outputs import (
    CausalLMOutput,
    MaskedLMOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.utils import ModelOutput

from common.errors import UserError, nearest
from common.registry import Registry
from pretraining.model.configuration import EncoderConfig
from pretraining.model.modeling import EuroBertModel, EuroBertPreTrainedModel

__all__ = [
    "HEAD", "POOLINGS", "EuroBertForCausalLM", "EuroBertForMaskedLM", "EuroBertForSequenceClassification",
    "EuroBertForTokenClassification", "Pooling", "check_state", "parameter_shapes",
]  # fmt: skip

HEAD = "lm_head.weight"
"""Name of the head's weight, the only parameter that a state dict may lack."""

Classify = Callable[[Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class Pooling:
    """One way to pool."""

    name: str
    """Value of `classifier_pooling`."""
    logits: Callable[[Tensor, Tensor | None, Classify], Tensor]
    """Logits (B, labels) of hidden states (B, L, H), an attention mask (B, L) or None, and the classifier."""


def _mean(values: Tensor, attention_mask: Tensor | None) -> Tensor:
    if attention_mask is None:
        return values.mean(dim=1)
    weights = attention_mask.to(values.dtype).unsqueeze(-1)
    return (values * weights).sum(dim=1) / weights.sum(dim=1)


POOLINGS = Registry(
    "classifier_pooling",
    [
        Pooling(name="mean", logits=lambda hidden, mask, classify: classify(_mean(hidden, mask))),
        Pooling(name="bos", logits=lambda hidden, mask, classify: classify(hidden[:, 0])),
        Pooling(name="late", logits=lambda hidden, mask, classify: _mean(classify(hidden), mask)),
    ],
)
"""`mean` of the hidden states, the first one (`bos`), or the mean of the tokens' logits (`late`)."""


class _Headed(EuroBertPreTrainedModel):
    """The body with a head that makes logits of its hidden states."""

    _output: type[ModelOutput]
    _is_causal: bool | None = None

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        self.num_labels = config.num_labels
        self.model = EuroBertModel(config)
        self._add_head(config)
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

        `labels` have the shape of `input_ids`, for sequence classifiers (B,); the loss leaves out labels of -100.
        The other arguments are those of `EuroBertModel.forward`. Pretraining does not come through here, since it
        never forms all logits (`pretraining.training.objectives`).
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
        logits = self._logits(body.last_hidden_state, attention_mask)
        loss = None if labels is None else self._loss(logits, labels)
        output = self._output(loss=loss, logits=logits, hidden_states=body.hidden_states)
        return output.to_tuple() if return_dict is False else output

    def _add_head(self, config: EncoderConfig) -> None:
        raise NotImplementedError

    def _logits(self, hidden: Tensor, attention_mask: Tensor | None) -> Tensor:
        raise NotImplementedError

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        raise NotImplementedError


class _LanguageModel(_Headed):
    """The body and one untied linear head without bias; masked and causal models hold the same weights."""

    def _add_head(self, config: EncoderConfig) -> None:
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def _logits(self, hidden: Tensor, attention_mask: Tensor | None) -> Tensor:
        del attention_mask
        logits: Tensor = self.lm_head(hidden)
        return logits


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


class EuroBertForSequenceClassification(_Headed):
    """One label a sequence: a dense layer, GELU and a classifier, pooled as `classifier_pooling` says.

    Logits are (B, labels); the loss is squared error with one label, else cross-entropy. Layers and names are the
    native class's. Which pooling the paper used is unknown; the default here is `mean`.
    """

    _output = SequenceClassifierOutput

    def _add_head(self, config: EncoderConfig) -> None:
        self.pooling = POOLINGS[config.classifier_pooling]
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = nn.GELU()
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)

    def _logits(self, hidden: Tensor, attention_mask: Tensor | None) -> Tensor:
        if hidden.dim() != 3:
            raise ValueError("a sequence classifier takes padded batches, not packed ones")
        return self.pooling.logits(hidden, attention_mask, self._classify)

    def _classify(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.activation(self.dense(hidden)))
        return logits

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self.num_labels == 1:
            return F.mse_loss(logits.squeeze(-1).float(), labels.float())
        return F.cross_entropy(logits.float(), labels)


class EuroBertForTokenClassification(_Headed):
    """One label a token: a single linear layer, as in the paper's NER and QA.

    Logits are (B, L, labels) at every position, padding included; the loss counts labels that are not -100.
    """

    _output = TokenClassifierOutput

    def _add_head(self, config: EncoderConfig) -> None:
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)

    def _logits(self, hidden: Tensor, attention_mask: Tensor | None) -> Tensor:
        del attention_mask
        logits: Tensor = self.classifier(hidden)
        return logits

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


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
AutoModelForSequenceClassification.register(EncoderConfig, EuroBertForSequenceClassification, exist_ok=True)
AutoModelForTokenClassification.register(EncoderConfig, EuroBertForTokenClassification, exist_ok=True)
