"""The encoder with a head: masked and causal language model, sequence and token classifier.

Importing this module makes `AutoModel...from_pretrained` load a `eurobert` folder with these classes.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn
from transformers import (
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

from pretraining.configuration import EncoderConfig
from pretraining.modeling import EuroBertModel, EuroBertPreTrainedModel

__all__ = [
    "EuroBertForCausalLM",
    "EuroBertForMaskedLM",
    "EuroBertForSequenceClassification",
    "EuroBertForTokenClassification",
]


class _LanguageModel(EuroBertPreTrainedModel):
    """The body and one untied linear head without bias; masked and causal models hold the same weights."""

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

    def _logits(
        self,
        input_ids: Tensor | None,
        attention_mask: Tensor | None,
        inputs_embeds: Tensor | None,
        cu_seqlens: Tensor | None,
        max_length: int | None,
        output_hidden_states: bool | None,
        is_causal: bool | None = None,
    ) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        output = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            inputs_embeds=inputs_embeds,
            cu_seqlens=cu_seqlens,
            max_length=max_length,
            is_causal=is_causal,
            output_hidden_states=output_hidden_states,
        )
        return self.lm_head(output.last_hidden_state), output.hidden_states


class EuroBertForMaskedLM(_LanguageModel):
    """The encoder with its language-model head; what pretraining trains, whatever the objective."""

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
    ) -> MaskedLMOutput | tuple[Tensor, ...]:
        """Return logits (..., V) at every position, and the mean loss where `labels` is not -100.

        Attention is as the configuration says. Pretraining does not come through here, since it never forms all
        logits (`pretraining.objectives`).
        """
        logits, states = self._logits(
            input_ids, attention_mask, inputs_embeds, cu_seqlens, max_length, output_hidden_states
        )
        loss = None if labels is None else F.cross_entropy(logits.flatten(0, -2).float(), labels.flatten())
        output = MaskedLMOutput(loss=loss, logits=logits, hidden_states=states)
        return output.to_tuple() if return_dict is False else output


class EuroBertForCausalLM(_LanguageModel):
    """The same weights read as a causal language model: attention looks back whatever the configuration says."""

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
    ) -> CausalLMOutput | tuple[Tensor, ...]:
        """Return logits (..., V), and the mean loss of each next label that is not -100 (padded input only)."""
        logits, states = self._logits(
            input_ids, attention_mask, inputs_embeds, cu_seqlens, max_length, output_hidden_states, True
        )
        loss = None
        if labels is not None:
            if cu_seqlens is not None:
                raise ValueError("the loss of packed sequences is in pretraining.objectives")
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten())
        output = CausalLMOutput(loss=loss, logits=logits, hidden_states=states)
        return output.to_tuple() if return_dict is False else output


class EuroBertForSequenceClassification(EuroBertPreTrainedModel):
    """One label a sequence: a dense layer, GELU and a classifier, pooled as `classifier_pooling` says.

    Layers and names are the native class's. Which pooling the paper used is unknown; the default here is `mean`.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        self.num_labels = config.num_labels
        self.model = EuroBertModel(config)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = nn.GELU()
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> SequenceClassifierOutput | tuple[Tensor, ...]:
        """Return logits (B, labels); the loss is squared error with one label, else cross-entropy.

        Args:
            input_ids: (B, L).
            attention_mask: (B, L), 1 for real tokens; all are real when left out.
            inputs_embeds: (B, L, H) in place of `input_ids`.
            labels: (B,).
            output_hidden_states: return the blocks' inputs as well.
            return_dict: False for a tuple.
        """
        output = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            inputs_embeds=inputs_embeds,
            output_hidden_states=output_hidden_states,
        )
        hidden = output.last_hidden_state
        if self.config.classifier_pooling == "bos":
            logits = self._classify(hidden[:, 0])
        elif self.config.classifier_pooling == "mean":
            logits = self._classify(_mean(hidden, attention_mask))
        else:
            logits = _mean(self._classify(hidden), attention_mask)
        loss = None
        if labels is not None and self.num_labels == 1:
            loss = F.mse_loss(logits.squeeze(-1).float(), labels.float())
        elif labels is not None:
            loss = F.cross_entropy(logits.float(), labels)
        result = SequenceClassifierOutput(loss=loss, logits=logits, hidden_states=output.hidden_states)
        return result.to_tuple() if return_dict is False else result

    def _classify(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.activation(self.dense(hidden)))
        return logits


class EuroBertForTokenClassification(EuroBertPreTrainedModel):
    """One label a token: a single linear layer, as in the paper's NER and QA."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        self.num_labels = config.num_labels
        self.model = EuroBertModel(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> TokenClassifierOutput | tuple[Tensor, ...]:
        """Return logits (B, L, labels) at every position, and the mean loss where `labels` is not -100."""
        output = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            inputs_embeds=inputs_embeds,
            output_hidden_states=output_hidden_states,
        )
        logits = self.classifier(output.last_hidden_state)
        loss = None if labels is None else F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())
        result = TokenClassifierOutput(loss=loss, logits=logits, hidden_states=output.hidden_states)
        return result.to_tuple() if return_dict is False else result


def _mean(values: Tensor, attention_mask: Tensor | None) -> Tensor:
    if attention_mask is None:
        return values.mean(dim=1)
    weights = attention_mask.to(values.dtype).unsqueeze(-1)
    return (values * weights).sum(dim=1) / weights.sum(dim=1)


AutoModelForMaskedLM.register(EncoderConfig, EuroBertForMaskedLM, exist_ok=True)
AutoModelForCausalLM.register(EncoderConfig, EuroBertForCausalLM, exist_ok=True)
AutoModelForSequenceClassification.register(EncoderConfig, EuroBertForSequenceClassification, exist_ok=True)
AutoModelForTokenClassification.register(EncoderConfig, EuroBertForTokenClassification, exist_ok=True)
