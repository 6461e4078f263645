"""transformers' Trainer, with which ours is compared: what pads its batches, and a Trainer that says nothing."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

FIELDS = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "max_position_embeddings",
    "rms_norm_eps",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
)


def padded(rows: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Return sequences padded on the right to the longest."""
    ones = [torch.ones_like(row["input_ids"]) for row in rows]
    return {
        "input_ids": pad_sequence([row["input_ids"] for row in rows], batch_first=True),
        "labels": pad_sequence(
            [row["labels"] for row in rows], batch_first=True, padding_value=-100
        ),
        "attention_mask": pad_sequence(ones, batch_first=True),
    }


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
        output_dir=folder,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        remove_unused_columns=False,
        **settings,
    )
    made = Trainer(
        model=model,
        args=quiet,
        train_dataset=rows,
        data_collator=collate,
        callbacks=[_Watch(call)],
    )
    made.remove_callback(PrinterCallback)
    return made
