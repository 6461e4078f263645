"""The encoder with a head: masked and causal language model, sequence and token classifier.

Importing this module makes `AutoModel...from_pretrained` load a `eurobert` folder with these classes.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)
from transformers.modeling_outputs import (
    BaseModelOutput,
    CausalLMOutput,
    MaskedLMOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.utils import ModelOutput

from pretraining.model.configuration import EncoderConfig
from pretraining.model.modeling import EuroBertModel, EuroBertPreTrainedModel
from pretraining.model.pooling import POOLINGS

__all__ = [
    "EuroBertForCausalLM",
    "EuroBertForMaskedLM",
    "EuroBertForSequenceClassification",
    "EuroBertForTokenClassification",
]


class _Headed(EuroBertPreTrainedModel):
    """The body with a head that makes logits of its hidden states."""

    _output: type[ModelOutput]

    def _result(
        self, body: BaseModelOutput, logits: Tensor, labels: Tensor | None, return_dict: bool | None
    ) -> Any:
        loss = None if labels is None else self._loss(logits, labels)
        output = self._output(loss=loss, logits=logits, hidden_states=body.hidden_states)
        return output.to_tuple() if return_dict is False else output

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        raise NotImplementedError


class _LanguageModel(_Headed):
    """The body and one untied linear head without bias; masked and causal models hold the same weights."""

    _is_causal: bool | None = None

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        self.model = EuroBertModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_output_embeddings(self) -> nn.Linear:
        """Return the head."""
        return self.lm_head

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        """Replace the head."""
        self.lm_head = new_embeddings

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
    ) -> MaskedLMOutput | CausalLMOutput | tuple[Tensor, ...]:
        """Return logits (..., V) at every position, and the mean loss where `labels` is not -100.

        Pretraining does not come through here, since it never forms all logits (`pretraining.training.objectives`).

        Args:
            input_ids: (B, L), or (T,) when packed.
            attention_mask: padded: (B, L), 1 for real tokens; all are real when left out.
            inputs_embeds: (B, L, H) or (T, H) in place of `input_ids`.
            labels: in the shape of `input_ids`.
            cu_seqlens: packed: cumulative lengths, (S + 1,), int32.
            max_length: packed: upper bound of the lengths.
            output_hidden_states: return the blocks' inputs as well.
            return_dict: False for a tuple.
        """
        output = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            inputs_embeds=inputs_embeds,
            cu_seqlens=cu_seqlens,
            max_length=max_length,
            is_causal=self._is_causal,
            output_hidden_states=output_hidden_states,
        )
        return self._result(output, self.lm_head(output.last_hidden_state), labels, return_dict)


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


class _Classifier(_Headed):
    """The body and a classifier of padded batches."""

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
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> SequenceClassifierOutput | TokenClassifierOutput | tuple[Tensor, ...]:
        """Return logits and, given `labels`, the mean loss.

        Args:
            input_ids: (B, L).
            attention_mask: (B, L), 1 for real tokens; all are real when left out.
            inputs_embeds: (B, L, H) in place of `input_ids`.
            labels: (B,) for sequences, (B, L) for tokens.
            output_hidden_states: return the blocks' inputs as well.
            return_dict: False for a tuple.
        """
        output = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            inputs_embeds=inputs_embeds,
            output_hidden_states=output_hidden_states,
        )
        logits = self._logits(output.last_hidden_state, attention_mask)
        return self._result(output, logits, labels, return_dict)

    def _add_head(self, config: EncoderConfig) -> None:
        raise NotImplementedError

    def _logits(self, hidden: Tensor, attention_mask: Tensor | None) -> Tensor:
        raise NotImplementedError


class EuroBertForSequenceClassification(_Classifier):
    """One label a sequence: a dense layer, GELU and a classifier, pooled as `classifier_pooling` says.

    Logits are (B, labels); the loss is squared error with one label, else cross-entropy. Layers and names are the
    native class's. Which pooling the paper used is unknown; the default here is `mean`.
    """

    _output = SequenceClassifierOutput

    def _add_head(self, config: EncoderConfig) -> None:
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = nn.GELU()
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)

    def _logits(self, hidden: Tensor, attention_mask: Tensor | None) -> Tensor:
        return POOLINGS[self.config.classifier_pooling].logits(hidden, attention_mask, self._classify)

    def _classify(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.activation(self.dense(hidden)))
        return logits

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self.num_labels == 1:
            return F.mse_loss(logits.squeeze(-1).float(), labels.float())
        return F.cross_entropy(logits.float(), labels)


class EuroBertForTokenClassification(_Classifier):
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


AutoModelForMaskedLM.register(EncoderConfig, EuroBertForMaskedLM, exist_ok=True)
AutoModelForCausalLM.register(EncoderConfig, EuroBertForCausalLM, exist_ok=True)
AutoModelForSequenceClassification.register(EncoderConfig, EuroBertForSequenceClassification, exist_ok=True)
AutoModelForTokenClassification.register(EncoderConfig, EuroBertForTokenClassification, exist_ok=True)
