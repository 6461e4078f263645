"""Speed and memory of one pretraining step, next to the same model built from transformers' Llama.

    python -m tests.performance.pretraining                # CPU: ours and the reference, MLM 40 % and CLM
    python -m tests.performance.pretraining --device cuda  # GPU: tokens/s, MFU and memory of the three sizes
    python -m tests.performance.pretraining --sizes tiny   # the GPU's steps, walked through on a CPU

On the CPU both sides run the same sequences (all of one length, so that the reference computes no padding) through
the same shape in float32, with clipping and AdamW; a head-heavy shape, as the paper's are once trained at its
vocabulary. Steps of the two alternate, and the medians are compared. Memory is the growth of the resident set over
one forward and backward pass in a process of its own, gradients allocated before.

On a GPU every size, objective and attention backend that is there takes the paper's micro-batch, 12 sequences of
uniformly random lengths, through forward, backward, clipping and AdamW under bf16 autocast. Blocks are compiled;
where that fails the row says so and is measured without.
"""

from __future__ import annotations

import itertools
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
import torch.nn.functional as F
from cyclopts import Parameter
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from common.cli import MANY, call, program, run
from common.errors import UserError
from pretraining.model.attention_backends import AUTO
from pretraining.model.attention_choice import candidates
from pretraining.model.configuration import EncoderConfig, config_for, shape_of
from pretraining.model.heads import EuroBertForMaskedLM
from pretraining.model.masking import MaskRule
from pretraining.model.modeling import initialise
from pretraining.model.packed_batch import PackedBatch
from pretraining.paper_settings import SHAPES, TRAINING
from pretraining.plan.flops import mfu, model_flops_per_token
from pretraining.training.objectives import ObjectiveBatch, clm, loss_sum, mlm

RATIO = 0.4
OBJECTIVES = ("mlm40", "clm")
SIDES = ("ours", "reference")


def head_heavy() -> EncoderConfig:
    """A body of 3.9 million parameters under the paper's vocabulary: 8.3 times as many in the head."""
    return config_for(
        "tiny",
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=1024,
    )


def ours(config: EncoderConfig) -> EuroBertForMaskedLM:
    """Return our model with weights from a seed."""
    model = EuroBertForMaskedLM(config)
    initialise(model, 0)
    return model.train()


def reference(config: EncoderConfig, objective: str) -> LlamaForCausalLM:
    """Return transformers' Llama of the same shape and weights, made bidirectional for MLM."""
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            num_hidden_layers=config.num_hidden_layers,
            num_attention_heads=config.num_attention_heads,
            num_key_value_heads=config.num_key_value_heads,
            max_position_embeddings=config.max_position_embeddings,
            rms_norm_eps=config.rms_norm_eps,
            rope_theta=config.rope_theta,
            use_cache=False,
        )
    )
    model.load_state_dict(ours(config).state_dict())
    if objective != "clm":
        for layer in model.model.layers:
            layer.self_attn.is_causal = False
    return model.train()


def packed(config: EncoderConfig, lengths: Sequence[int]) -> PackedBatch:
    """Return sequences of random tokens."""
    rng = np.random.default_rng(0)
    return PackedBatch.of([rng.integers(0, config.vocab_size, n) for n in lengths], max_length=2048)


def prepared(config: EncoderConfig, batch: PackedBatch, objective: str) -> ObjectiveBatch:
    """Return the batch made ready for the objective."""
    return clm(batch) if objective == "clm" else mlm(batch, MaskRule.of(config, ratio=RATIO, seed=0))


def loss_function(
    side: str, objective: str, sequences: int, length: int
) -> tuple[nn.Module, Callable[[], torch.Tensor]]:
    """Return a model and a function that gives its mean loss on the batch."""
    config = head_heavy()
    made = prepared(config, packed(config, [length] * sequences), objective)
    if side == "ours":
        model = ours(config)
        return model, lambda: loss_sum(model, made).mean
    llama = reference(config, objective)
    input_ids = made.inputs.tokens.view(sequences, length)
    # A mask of ones keeps Llama on the fused kernels: without one it looks for packed sequences and makes a mask.
    ones = torch.ones_like(input_ids)
    if objective == "clm":
        return llama, lambda: llama(input_ids, ones, labels=input_ids).loss
    assert made.positions is not None
    labels = torch.full_like(made.inputs.tokens, -100).index_copy(0, made.positions, made.labels)
    return llama, lambda: F.cross_entropy(llama(input_ids, ones).logits.flatten(0, 1).float(), labels)


CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def timed_step(
    clock: Callable[[], float],
    model: nn.Module,
    loss: Callable[[], torch.Tensor],
    optimizer: torch.optim.Optimizer,
) -> float:
    """Return the seconds of one optimiser step."""
    start = clock()
    loss().backward()
    nn.utils.clip_grad_norm_(model.parameters(), TRAINING.clip_norm)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return clock() - start


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    """Return the paper's optimiser."""
    return torch.optim.AdamW(
        model.parameters(),
        lr=TRAINING.peak_lr,
        betas=TRAINING.betas,
        eps=TRAINING.eps,
        weight_decay=TRAINING.weight_decay,
        fused=True,
    )


def compare_speed(objective: str, sequences: int, length: int, steps: int, clock: str) -> dict[str, float]:
    """Return tokens a second of both sides, their steps alternating."""
    sides = {}
    for side in SIDES:
        model, loss = loss_function(side, objective, sequences, length)
        sides[side] = (model, loss, adamw(model))
    values = [float(loss()) for _, loss, _ in sides.values()]
    assert abs(values[0] - values[1]) < 1e-4, f"the two sides compute different losses: {values}"
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    for _ in range(steps + 1):
        for side, parts in sides.items():
            seconds[side].append(timed_step(CLOCKS[clock], *parts))
    return {side: sequences * length / statistics.median(times[1:]) for side, times in seconds.items()}


def peak_bytes(side: str, objective: str, sequences: int, length: int) -> int:
    """Return the growth of this process's resident set over one forward and backward pass (Linux)."""
    model, loss = loss_function(side, objective, sequences, length)
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


def memory_of(side: str, objective: str, sequences: int, length: int) -> int:
    """Return `peak_bytes` of a fresh process."""
    arguments = ["--memory-of", side, objective, "--sequences", str(sequences), "--length", str(length)]
    command = [sys.executable, "-m", "tests.performance.pretraining", *arguments]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def on_cpu(sequences: int, length: int, steps: int, clock: str) -> None:
    """Print ours and the reference."""
    print(
        f"{sequences} x {length} tokens, {torch.get_num_threads()} threads, float32, median of {steps} steps"
    )
    print(f"{'':8}{'ours':>12}{'reference':>12}{'ratio':>8}")
    for objective in OBJECTIVES:
        speed = compare_speed(objective, sequences, length, steps, clock)
        memory = {side: memory_of(side, objective, sequences, length) / 1e6 for side in SIDES}
        for name, found in (("tokens/s", speed), ("peak MB", memory)):
            ratio = found["ours"] / found["reference"]
            print(
                f"{objective:8}{found['ours']:12,.0f}{found['reference']:12,.0f}{ratio:8.2f}  {name}",
                flush=True,
            )


def on_device(
    device: str, sizes: Sequence[str], backends: Sequence[str], sequences: int, longest: int, steps: int
) -> None:
    """Print tokens/s, MFU and peak memory of training steps, for each size, backend and objective."""
    cuda = device == "cuda"
    name = torch.cuda.get_device_name() if cuda else "cpu"
    shape = f"{sequences} sequences of {TRAINING.min_length} to {longest:,} tokens"
    print(f"{name}, torch {torch.__version__}, bf16 autocast, {shape}, {steps} steps")
    print(f"{'size':6}{'objective':>10}{'attention':>10}{'tokens/s':>12}{'MFU':>8}{'peak GB':>9}  blocks")
    for size, backend, objective in itertools.product(sizes, backends, OBJECTIVES):
        for compiled in (True, False) if cuda else (False,):
            torch._dynamo.reset()
            if cuda:
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            try:
                batches = [drawn(config_for(size), objective, sequences, longest, n) for n in range(8)]
                speed, flops = step_speed(device, size, backend, batches, steps, compiled=compiled)
            except (UserError, RuntimeError, torch._dynamo.exc.TorchDynamoException) as error:
                reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
                print(
                    f"{size:6}{objective:>10}{backend:>10}  failed, {word(compiled)}: {reason[:80]}",
                    flush=True,
                )
                continue
            share = mfu(speed, flops, name)
            shown = "-" if share is None else f"{share:.1%}"
            peak = f"{torch.cuda.max_memory_allocated() / 1e9:.1f}" if cuda else "-"
            row = f"{size:6}{objective:>10}{backend:>10}{speed:12,.0f}{shown:>8}{peak:>9}"
            print(f"{row}  {word(compiled)}", flush=True)
            break


def word(compiled: bool) -> str:
    """Return how the blocks run."""
    return "compiled" if compiled else "not compiled"


def drawn(config: EncoderConfig, objective: str, sequences: int, longest: int, seed: int) -> ObjectiveBatch:
    """Return a batch of sequences of uniformly random lengths."""
    lengths = np.random.default_rng(seed).integers(TRAINING.min_length, longest + 1, sequences)
    return prepared(config, packed(config, lengths.tolist()), objective)


def step_speed(
    device: str, size: str, backend: str, batches: Sequence[ObjectiveBatch], steps: int, *, compiled: bool
) -> tuple[float, float]:
    """Return tokens a second of training steps, and the FLOPs of one of these tokens."""
    config = config_for(size)
    model = ours(config).to(device)
    model.set_attention_backend(backend)
    if compiled:
        model.compile_blocks()
    optimizer = adamw(model)
    batches = [batch.to(device) for batch in batches]

    def step(batch: ObjectiveBatch) -> None:
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = loss_sum(model, batch).mean
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), TRAINING.clip_norm)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    # All lengths once, since each may be compiled for.
    for batch in batches if compiled else batches[:1]:
        step(batch)
    wait(device)
    start = time.perf_counter()
    used = [batches[i % len(batches)] for i in range(steps)]
    for batch in used:
        step(batch)
    wait(device)
    seconds = time.perf_counter() - start
    lengths = torch.cat([batch.inputs.cu_seqlens.diff() for batch in used]).double()
    tokens = float(lengths.sum())
    context = float(lengths.square().sum()) / tokens
    predicted = sum(batch.count for batch in used) / tokens
    return tokens / seconds, model_flops_per_token(shape_of(config), length=context, predicted=predicted)


def wait(device: str) -> None:
    """Wait until the device has done what it was given."""
    if device == "cuda":
        torch.cuda.synchronize()


def compare(
    *,
    device: Literal["cpu", "cuda"] = "cpu",
    sequences: int | None = None,
    length: int | None = None,
    steps: int | None = None,
    sizes: Annotated[tuple[str, ...], MANY, Parameter(choices=(*SHAPES, "tiny"))] = (),
    backends: Annotated[tuple[Literal["varlen", "flash4", "flash", "flex", "sdpa"], ...], MANY] = (),
    threads: int = 1,
    clock: Annotated[str, Parameter(choices=tuple(CLOCKS))] = "wall",
    memory_of: Annotated[tuple[str, str] | None, Parameter(show=False)] = None,
) -> int:
    """Run the comparison.

    Args:
        device: where to measure
        sequences: sequences of a batch (4, on a GPU 12)
        length: tokens of each, or of the longest where lengths vary (256, on a GPU 2048)
        steps: timed steps (5, on a GPU 20)
        sizes: sizes of the GPU's table (the paper's three)
        backends: attention backends of the GPU's table (all that can run there)
        threads: threads on the CPU
        clock: cpu: the process's own time, for a busy machine
        memory_of: a side and an objective, measured in a process of its own
    """
    cuda = device == "cuda"
    if cuda and not torch.cuda.is_available():
        raise UserError("no GPU is at hand; leave out --device cuda to measure on the CPU")
    if not cuda:
        torch.set_num_threads(threads)
    usual = (12, 2048, 20) if cuda else (4, 256, 5)
    sequences, length, steps = sequences or usual[0], length or usual[1], steps or usual[2]
    if memory_of:
        print(peak_bytes(*memory_of, sequences, length))
    elif cuda or sizes:
        there = [item.name for item in candidates(AUTO, torch.device(device), torch.bfloat16, 64)]
        on_device(device, list(sizes or SHAPES), list(backends or there), sequences, length, steps)
    else:
        on_cpu(sequences, length, steps, clock)
    return 0


def main(argv: Sequence[str]) -> int | None:
    """Run the command line; without words, on the CPU."""
    app = program("python -m tests.performance.pretraining", "", {}, default=compare)
    return call(app, argv or ["--device", "cpu"])


if __name__ == "__main__":
    run(main)
