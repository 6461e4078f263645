"""One pretraining step next to transformers' Trainer: its native EuroBERT for MLM, its Llama for CLM.

Both sides take the same sequences, masks, weights and AdamW; the Trainer pads each batch to its longest sequence, as
its collators do. For CLM the Trainer is given Llama, the same block, because native EuroBERT attends in both directions
as soon as a batch has padding. Steps of the two alternate, and medians are compared. Memory is the growth of the
resident set over one forward and backward pass in a process of its own, gradients allocated before.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
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
from pretraining.training.objectives import ObjectiveBatch, loss_sum
from tests.performance.pretraining_parts import (
    OBJECTIVES,
    adamw,
    drawn,
    head_heavy,
    ours,
    packed,
    prepared,
    step,
)

SIDES = ("ours", "Trainer")
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def reference(config: EncoderConfig, objective: str) -> nn.Module:
    """Return transformers' model of the same shape and weights."""
    fields = {
        name: getattr(config, name)
        for name in (
            "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
            "num_key_value_heads", "max_position_embeddings", "rms_norm_eps", "bos_token_id", "eos_token_id",
            "pad_token_id",
        )
    }  # fmt: skip
    rope = {"rope_type": "default", "rope_theta": config.rope_theta}
    model: nn.Module
    if objective == "clm":
        model = LlamaForCausalLM(LlamaConfig(**fields, rope_parameters=rope, use_cache=False))
    else:
        model = NativeMaskedLM(EuroBertConfig(**fields, rope_parameters=rope))
    model.load_state_dict(ours(config).state_dict())
    return model.train()


def batches(
    config: EncoderConfig, objective: str, sequences: int, longest: int, count: int, *, equal: bool
) -> list[ObjectiveBatch]:
    """Return batches of uniformly random lengths, or all of the longest."""
    if equal:
        return [
            prepared(config, packed(config, [longest] * sequences, seed), objective) for seed in range(count)
        ]
    return [drawn(config, objective, sequences, longest, seed) for seed in range(count)]


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


class StepTimes(TrainerCallback):  # type: ignore[misc]  # transformers is untyped
    """Times the Trainer's steps, and calls something after each, off the clock."""

    def __init__(self, clock: Callable[[], float], after: Callable[[], None] = lambda: None) -> None:
        self.clock, self.after, self.seconds, self.began = clock, after, list[float](), 0.0

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        """Start the clock."""
        del args, kwargs
        self.began = self.clock()

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        """Note the step's seconds."""
        del args, kwargs
        self.seconds.append(self.clock() - self.began)
        self.after()
        self.began = self.clock()


def trainer_of(
    model: nn.Module,
    rows: Sequence[dict[str, Tensor]],
    sequences: int,
    folder: str,
    callbacks: Sequence[Any] = (),
    *,
    bf16: bool = False,
    cpu: bool = True,
) -> Trainer:
    """Return a Trainer with the paper's optimiser over the sequences, in their order."""
    settings = TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=sequences,
        max_steps=len(rows) // sequences,
        learning_rate=TRAINING.peak_lr,
        lr_scheduler_type="constant",
        optim="adamw_torch_fused",
        adam_beta1=TRAINING.betas[0],
        adam_beta2=TRAINING.betas[1],
        adam_epsilon=TRAINING.eps,
        weight_decay=TRAINING.weight_decay,
        max_grad_norm=TRAINING.clip_norm,
        bf16=bf16,
        use_cpu=cpu,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_pin_memory=not cpu,
    )
    made = Trainer(
        model=model,
        args=settings,
        train_dataset=_Stream(rows),
        data_collator=padded,
        callbacks=list(callbacks),
    )
    made.remove_callback(PrinterCallback)
    return made


def compare_speed(
    objective: str, sequences: int, longest: int, steps: int, clock: str, *, equal: bool
) -> dict[str, float]:
    """Return tokens a second of both sides, without padding, their steps alternating."""
    config = head_heavy()
    given = batches(config, objective, sequences, longest, steps + 1, equal=equal)
    rows = [row for batch in given for row in examples(batch, objective)]
    model, tick, left, mine = ours(config), CLOCKS[clock], iter(given), list[float]()
    optimizer = adamw(model)

    def step_of_ours() -> None:
        began = tick()
        step(model, optimizer, next(left), bf16=False)
        mine.append(tick() - began)

    theirs = reference(config, objective)
    with torch.no_grad():
        values = [float(loss_sum(model, given[0]).mean), float(theirs(**padded(rows[:sequences])).loss)]
    assert abs(values[0] - values[1]) < 1e-4, f"the two sides compute different losses: {values}"
    with tempfile.TemporaryDirectory() as folder:
        times = StepTimes(tick, step_of_ours)
        trainer_of(theirs, rows, sequences, folder, [times]).train()
    tokens = [batch.inputs.num_tokens for batch in given]
    # The first step allocates. Medians, for one disturbed step decides no mean.
    return {
        side: statistics.median(count / second for count, second in zip(tokens[1:], seconds[1:], strict=True))
        for side, seconds in zip(SIDES, (mine, times.seconds), strict=True)
    }


def peak_bytes(side: str, objective: str, sequences: int, longest: int, *, equal: bool) -> int:
    """Return the growth of this process's resident set over one forward and backward pass (Linux)."""
    config = head_heavy()
    batch = batches(config, objective, sequences, longest, 1, equal=equal)[0]
    model: nn.Module
    if side == "ours":
        mine = model = ours(config)
        loss = lambda: loss_sum(mine, batch).mean  # noqa: E731
    else:
        model = reference(config, objective)
        inputs = padded(examples(batch, objective))
        loss = lambda: model(**inputs).loss  # noqa: E731
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    status = Path("/proc/self/status")

    def kilobytes(field: str) -> int:
        line = next(line for line in status.read_text().splitlines() if line.startswith(field))
        return int(line.split()[1])

    Path("/proc/self/clear_refs").write_text("5")
    before = kilobytes("VmRSS")
    loss().backward()
    return 1024 * (kilobytes("VmHWM") - before)


def memory_of(side: str, objective: str, sequences: int, longest: int, *, equal: bool) -> int:
    """Return `peak_bytes` of a fresh process."""
    words = ["--memory-of", side, objective, "--sequences", str(sequences), "--length", str(longest)]
    command = [sys.executable, "-m", "tests.performance.pretraining", *words, *(["--equal"] if equal else [])]
    # The last word: transformers prints what it misses in its own docstrings before.
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


def on_cpu(sequences: int, longest: int, steps: int, clock: str, *, equal: bool) -> None:
    """Print ours and the Trainer."""
    lengths = f"{longest}" if equal else f"{TRAINING.min_length} to {longest}"
    threads = torch.get_num_threads()
    print(f"{sequences} sequences of {lengths} tokens, {threads} threads, float32, median of {steps} steps")
    print(f"{'':8}{'ours':>12}{'Trainer':>12}{'ratio':>8}")
    for objective in OBJECTIVES:
        speed = compare_speed(objective, sequences, longest, steps, clock, equal=equal)
        _row(objective, f"tokens/s ({clock})", speed)
        memory = {side: memory_of(side, objective, sequences, longest, equal=equal) / 1e6 for side in SIDES}
        _row(objective, "peak MB", memory)


def _row(objective: str, what: str, seen: dict[str, float]) -> None:
    ratio = seen["ours"] / seen["Trainer"]
    print(f"{objective:8}{seen['ours']:12,.0f}{seen['Trainer']:12,.0f}{ratio:8.2f}  {what}", flush=True)
