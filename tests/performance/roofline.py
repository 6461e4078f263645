"""Where a training step's time goes: a roofline of its parts.

For each part of a step what it must compute and move, the least time the device could need for that, and the time it
took by itself; what the whole step takes beyond its parts is the last line but one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pretraining.model.configuration import EncoderConfig, config_for
from pretraining.model.cross_entropy import linear_cross_entropy
from pretraining.paper_settings import TRAINING
from pretraining.plan.flops import peak_flops
from tests.performance.on_device import (
    BATCHES,
    Load,
    attention_calls,
    name_of,
    product_calls,
    products,
    seconds_of,
    step_seconds,
)
from tests.performance.pretraining_parts import adamw, drawn, ours

BANDWIDTH: dict[str, float] = {
    "A100": 2.04e12,
    "H100": 3.35e12,
    "H100 PCIe": 2.0e12,
    "H100 NVL": 3.9e12,
    "H200": 4.8e12,
    "GH200": 4.0e12,
    "MI250X": 1.64e12,
    "MI300X": 5.3e12,
}
"""Bytes a second between a device and its memory by its makers' data sheets; an MI250X is two devices."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One part of a step in the roofline."""

    name: str
    flops: float
    bytes: float
    seconds: float


def roofline(
    device: str, size: str, objective: str, backend: str, sequences: int, longest: int, *, compiled: bool
) -> list[Part]:
    """Return the parts of a step: what each computes and moves, and its time by itself; the last is the whole step."""
    config = config_for(size)
    batches = [drawn(config, objective, sequences, longest, seed) for seed in range(BATCHES)]
    load, layers, hidden = Load.of(batches), config.num_hidden_layers, config.hidden_size
    tokens, width = load.tokens, config.num_attention_heads * config.head_dim
    parts = []
    for name, rows, inner, outer, times in products(config, load):
        seconds = times * seconds_of(device, [product_calls(device, rows, inner, outer)], 3)
        moved = (
            2 * 3 * (rows * inner + rows * outer + inner * outer)
        )  # bf16; each product reads two and writes one
        parts.append(
            Part(name=name, flops=times * 6.0 * rows * inner * outer, bytes=times * moved, seconds=seconds)
        )
    seconds = layers * seconds_of(device, attention_calls(device, config, backend, batches))
    kv = config.num_key_value_heads * config.head_dim
    moved = layers * 2 * tokens * (4 * width + 4 * kv + 4 * width)  # q, k, v, out; again with their gradients
    causal = 0.5 if batches[0].is_causal else 1.0
    parts.append(
        Part(
            name="attention",
            flops=causal * 12 * layers * width * load.context * tokens,
            bytes=moved,
            seconds=seconds,
        )
    )
    parts.append(_cross_entropy(device, config, load))
    model = ours(config).to(device)
    optimizer, count = adamw(model), sum(p.numel() for p in model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)

    def update() -> None:
        nn.utils.clip_grad_norm_(model.parameters(), TRAINING.clip_norm)
        optimizer.step()

    seconds = seconds_of(device, [update], 3)
    # Norm and scaling read the gradient twice and write it; AdamW reads four values of each weight and writes three.
    parts.append(Part(name="clipping and AdamW", flops=0.0, bytes=4.0 * 10 * count, seconds=seconds))
    whole = step_seconds(device, size, backend, batches, BATCHES, compiled=compiled)
    rest = whole - sum(part.seconds for part in parts)
    # Two norms, two sums, the rotation and SwiGLU, forward and backward, each value read and written once in bf16.
    moved = (
        layers
        * 2
        * tokens
        * 2
        * (2 * 2 * hidden + 3 * hidden + 2 * (width + kv) + 3 * config.intermediate_size)
    )
    parts.append(Part(name="norms, sums, rotation, casts, launches", flops=0.0, bytes=moved, seconds=rest))
    total = Part(
        name="a step",
        flops=sum(part.flops for part in parts),
        bytes=sum(part.bytes for part in parts),
        seconds=whole,
    )
    return [*parts, total]


def _cross_entropy(device: str, config: EncoderConfig, load: Load) -> Part:
    """Return what the loss costs beyond the head's products."""
    rows, hidden, vocab = int(load.predicted), config.hidden_size, config.vocab_size
    generator = torch.Generator().manual_seed(0)
    states: Tensor = torch.randn(rows, hidden, generator=generator).to(device).requires_grad_()
    weight: Tensor = torch.randn(vocab, hidden, generator=generator).to(device).requires_grad_()
    labels = torch.randint(0, vocab, (rows,), generator=generator).to(device)

    def call() -> None:
        with torch.autocast(device, torch.bfloat16):
            loss = linear_cross_entropy(states, weight, labels, fused=device == "cuda")
        torch.autograd.grad(loss, (states, weight))

    products_alone = seconds_of(device, [product_calls(device, rows, hidden, vocab)], 3)
    seconds = seconds_of(device, [call], 3) - products_alone
    return Part(
        name="cross-entropy beyond the head", flops=0.0, bytes=2.0 * 2 * rows * vocab, seconds=seconds
    )


def print_roofline(device: str, parts: Sequence[Part]) -> None:
    """Print the parts with the least time the device could need; of an unknown device the times alone."""
    name = name_of(device)
    peak = peak_flops(name)
    words = name.replace("-", " ").split()
    known = [key for key in BANDWIDTH if all(part in words for part in key.split())]
    moved = BANDWIDTH[max(known, key=len)] if known else None
    print(f"{'part':40}{'TFLOP':>9}{'GB':>8}{'least ms':>10}{'ms':>9}{'share':>7}")
    for part in parts:
        least = "-"
        if peak and moved:
            least = f"{1000 * max(part.flops / peak, part.bytes / moved):.2f}"
        print(
            f"{part.name:40}{part.flops / 1e12:9.3f}{part.bytes / 1e9:8.2f}{least:>10}{1000 * part.seconds:9.2f}"
            f"{part.seconds / parts[-1].seconds:7.0%}"
        )


def other_heads(device: str, size: str, sequences: int, longest: int) -> None:
    """Print the seconds of the head with its cross-entropy, forward and backward: ours and others' that are here.

    Liger's and Apple's cut-cross-entropy are compared where they can be imported; neither is needed.
    """
    config = config_for(size)
    rows = int(Load.of([drawn(config, "clm", sequences, longest, seed) for seed in range(BATCHES)]).predicted)
    states = torch.randn(rows, config.hidden_size, device=device, dtype=torch.bfloat16).requires_grad_()
    weight = torch.randn(config.vocab_size, config.hidden_size, device=device, dtype=torch.bfloat16)
    weight.requires_grad_()
    labels = torch.randint(0, config.vocab_size, (rows,), device=device)

    def mine() -> Tensor:
        return linear_cross_entropy(states, weight, labels, fused=device == "cuda")

    def ligers() -> Tensor:
        from liger_kernel.transformers.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyLoss

        found: Tensor = LigerFusedLinearCrossEntropyLoss(reduction="sum")(weight, states, labels)
        return found

    def apples() -> Tensor:
        from cut_cross_entropy import linear_cross_entropy as cut

        found: Tensor = cut(states, weight, labels, reduction="sum")
        return found

    print(f"\nhead and cross-entropy of {size}, {rows:,} positions, bf16")
    for name, loss in (("ours", mine), ("Liger", ligers), ("cut-cross-entropy", apples)):
        try:
            seconds = seconds_of(device, [lambda loss=loss: torch.autograd.grad(loss(), (states, weight))], 3)
        except (ImportError, RuntimeError) as error:
            print(f"{name:20}not measured: {str(error).splitlines()[0][:80]}")
        else:
            print(f"{name:20}{1000 * seconds:9.2f} ms", flush=True)
