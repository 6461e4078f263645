"""The reference: transformers' Trainer, for pretraining with its native EuroBERT for MLM and its Llama for CLM.

In pretraining both sides take the same sequences, masks, weights and AdamW; the Trainer pads each batch to its longest
sequence, as its collators do. For CLM it is given Llama, the same block, because native EuroBERT attends in both
directions as soon as a batch has padding.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import IterableDataset
from transformers import (
    EuroBertConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
from transformers.models.eurobert.modeling_eurobert import EuroBertForMaskedLM as NativeMaskedLM

from pretraining.model.configuration import EncoderConfig
from pretraining.paper_settings import TRAINING
from pretraining.training.objectives import ObjectiveBatch
from tests.speed.parts import ours

FIELDS = (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "max_position_embeddings", "rms_norm_eps", "bos_token_id", "eos_token_id", "pad_token_id",
)  # fmt: skip


def reference(config: EncoderConfig, objective: str) -> nn.Module:
    """Return transformers' model of the same shape and weights."""
    fields = {name: getattr(config, name) for name in FIELDS}
    rope = {"rope_type": "default", "rope_theta": config.rope_theta}
    model: nn.Module
    if objective == "clm":
        model = LlamaForCausalLM(LlamaConfig(**fields, rope_parameters=rope, use_cache=False))
    else:
        model = NativeMaskedLM(EuroBertConfig(**fields, rope_parameters=rope))
    model.load_state_dict(ours(config).state_dict())
    return model.train()


def examples(batch: ObjectiveBatch, objective: str) -> list[dict[str, Tensor]]:
    """Return the batch's sequences as the Trainer takes them, with the same masks."""
    tokens = batch.inputs.tokens
    labels = tokens.clone()
    if objective != "clm":
        assert batch.positions is not None
        labels = torch.full_like(tokens, -100).index_copy(0, batch.positions, batch.labels)
    bounds = batch.inputs.cu_seqlens.tolist()
    return [{"input_ids": tokens[start:end], "labels": labels[start:end]} for start, end in pairwise(bounds)]


def padded(rows: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Return sequences padded on the right to the longest."""
    ones = [torch.ones_like(row["input_ids"]) for row in rows]
    return {
        "input_ids": pad_sequence([row["input_ids"] for row in rows], batch_first=True),
        "labels": pad_sequence([row["labels"] for row in rows], batch_first=True, padding_value=-100),
        "attention_mask": pad_sequence(ones, batch_first=True),
    }


class _Stream(IterableDataset[dict[str, Tensor]]):
    """Sequences in their order: the Trainer would shuffle anything else."""

    def __init__(self, rows: Sequence[dict[str, Tensor]]) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        return iter(self.rows)


class _Watch(TrainerCallback):  # type: ignore[misc]  # transformers is untyped
    def __init__(self, call: Callable[[int], None]) -> None:
        self.call = call

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        del args, kwargs
        self.call(0)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        del args, control, kwargs
        self.call(state.global_step)


def trainer_of(
    model: nn.Module,
    rows: Any,
    collate: Callable[..., Any],
    call: Callable[[int], None],
    folder: str,
    **settings: Any,
) -> Trainer:
    """Return a Trainer that says and saves nothing, and calls `call` with 0 and after each step with its number."""
    quiet = TrainingArguments(
        output_dir=folder, logging_strategy="no", save_strategy="no", report_to="none", disable_tqdm=True,
        remove_unused_columns=False, **settings,
    )  # fmt: skip
    made = Trainer(
        model=model, args=quiet, train_dataset=rows, data_collator=collate, callbacks=[_Watch(call)]
    )
    made.remove_callback(PrinterCallback)
    return made


def step_times(
    model: nn.Module,
    batches: Sequence[ObjectiveBatch],
    objective: str,
    clock: Callable[[], float],
    *,
    cuda: bool,
) -> list[float]:
    """Return the seconds of the Trainer's steps over the batches, with the paper's optimiser; bf16 on a GPU."""
    times, rows = list[float](), [row for batch in batches for row in examples(batch, objective)]
    with tempfile.TemporaryDirectory() as folder:
        trainer_of(
            model, _Stream(rows), padded, lambda _: times.append(clock()), folder,
            per_device_train_batch_size=len(batches[0].inputs), max_steps=len(batches),
            learning_rate=TRAINING.peak_lr, lr_scheduler_type="constant", optim="adamw_torch_fused",
            adam_beta1=TRAINING.betas[0], adam_beta2=TRAINING.betas[1], adam_epsilon=TRAINING.eps,
            weight_decay=TRAINING.weight_decay, max_grad_norm=TRAINING.clip_norm, bf16=cuda, use_cpu=not cuda,
            dataloader_pin_memory=cuda,
        ).train()  # fmt: skip
    return [after - before for before, after in pairwise(times)]
