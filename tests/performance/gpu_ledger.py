"""MFU on paper: kernels, bytes and FLOPs of a training step as torch and Inductor emit them, against a GPU's rates.

    DRIVER python -m tests.performance.gpu_ledger --size 610m

It needs a GPU or, with a command DRIVER before it, a stand-in of its driver (`tests.performance.gpu_rehearsal`). One
pass over the mean number of tokens and one update are run, and every kernel is entered: those that Inductor wrote with
the bytes that it counts for them, matrix products and attention with their FLOPs, torch's own with what goes in and
out. A kernel takes as long as the slower of its bytes and its FLOPs at the rates that such kernels reach (`REACHED`),
and never less than the smallest one.

The MFU that follows is an upper bound: the host never keeps the GPU waiting, and no rank waits for another.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._inductor.runtime import triton_heuristics
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pretraining.model.configuration import config_for
from pretraining.model.cross_entropy import linear_cross_entropy
from pretraining.model.modeling import EuroBertForMaskedLM
from pretraining.paper_settings import SHAPES, TRAINING
from pretraining.plan.flops import PEAK_FLOPS, model_flops_per_token
from pretraining.training.objectives import ObjectiveBatch
from tests.performance.parts import OBJECTIVES, adamw, drawn
from tests.performance.timing import parser_of

BANDWIDTH = {"H100": 3.35e12, "H200": 4.8e12}
"""Bytes a second of the GPU's memory, by its maker."""
REACHED = {"product": 0.88, "attention": 0.235, "attention backward": 0.19, "memory": 0.62}
"""Shares of the makers' rates that a step of 610M reached on an H100 (docs/performance.md): cuBLAS in bf16 with this
module's rounding of tiles, torch 2.11's FlashAttention 2 at a head dimension of 64, all other kernels together."""
SHORTEST = 3e-6
"""Assumed seconds of the smallest kernel, with the gap to the next."""
PROCESSORS, TILES = 132, ((128, 256), (256, 128), (128, 128))
"""Multiprocessors of an H100 and an H200, and the tiles of a product's result that one of them computes at a time."""
PASS_TOKENS = 22_800
"""Mean tokens of a pass: a rank's 288 sequences in 13 of them."""
STEP_TOKENS = 288 * 1_030
UPDATE, FORWARD, BACKWARD = "clipping and AdamW", "activations, forward", "activations, backward"
PRODUCTS, HEAD, ATTENTION = "products of the blocks", "products of the head", "attention"
LOSS, WEIGHTS = "loss, gradients of the vocabulary", "weights of the blocks: cast, joined, gradients added"
SEES_NO_KERNEL = (
    "aten::empty", "aten::empty_like", "aten::empty_strided", "aten::alias", "aten::detach", "aten::_unsafe_view",
    "aten::_local_scalar_dense",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One kernel as it was given to the GPU."""

    group: str
    """What it is for, a line of the table."""
    name: str
    """torch's or Inductor's name."""
    bytes: float
    """Read and written."""
    flops: float = 0.0
    """Of matrix products, 2 a multiplication."""
    reached: str = "product"
    """Key of `REACHED` for the FLOPs."""
    rounding: float = 1.0
    """Share of the computed tiles that holds results, whole waves over the multiprocessors counted."""

    def seconds(self, gpu: str) -> float:
        """Return its predicted time."""
        moving = self.bytes / (BANDWIDTH[gpu] * REACHED["memory"])
        computing = self.flops / (PEAK_FLOPS[gpu] * REACHED[self.reached] * self.rounding)
        return max(moving, computing, SHORTEST)


def rounding(rows: int, columns: int) -> float:
    """Return the share of a product's tiles that holds results, under the tile that wastes least."""

    def share(high: int, wide: int) -> float:
        waves = math.ceil(math.ceil(rows / high) * math.ceil(columns / wide) / PROCESSORS)
        return rows * columns / (waves * PROCESSORS * high * wide)

    return max(share(*tile) for tile in TILES)


def size(value: object) -> float:
    """Return the bytes of all tensors on the GPU in a value."""
    return sum(
        leaf.numel() * leaf.element_size()
        for leaf in tree_leaves(value)
        if isinstance(leaf, Tensor) and leaf.is_cuda
    )


class Ledger(TorchDispatchMode):
    """Enters every kernel that is given to the GPU while it is active."""

    def __init__(self, tokens: int, attended: float, vocab: int) -> None:
        super().__init__()
        self.kernels: list[Kernel] = []
        self.phase = ""
        self.tokens, self.attended, self.vocab = tokens, attended, vocab

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let compiled code run as it is."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator of torch and enter it."""
        out = func(*args, **(kwargs or {}))
        name = func._schema.name
        moved = size((args, kwargs, out))
        if func.is_view or name in SEES_NO_KERNEL or not moved:
            return out
        group, flops, reached, share = self._group((args, out)), 0.0, "product", 1.0
        if "varlen_attn" in name:
            # The backward pass computes the scores again: five products where the forward pass has two.
            backward = "backward" in name
            group, reached = ATTENTION, "attention backward" if backward else "attention"
            flops = (10 if backward else 4) * args[int(backward)].numel() * self.attended
        elif name in ("aten::mm", "aten::addmm"):
            left, right = args[:2] if name == "aten::mm" else args[1:3]
            rows, inner, columns = left.shape[0], *right.shape
            group = HEAD if self.vocab in (rows, inner, columns) else PRODUCTS
            moved = size((args, out))
            flops, share = 2.0 * rows * inner * columns, rounding(rows, columns)
        elif name in ("aten::embedding", "aten::index_select"):
            moved = 2 * size(out)
        elif name in ("aten::zero_", "aten::fill_"):
            moved = size(out)
        elif name == "aten::_fused_adamw_":
            moved = 7 * size(args[0])  # weights and moments read and written, gradients read
        elif name == "aten::_foreach_norm":
            moved = size(args)
        self.kernels.append(
            Kernel(group=group, name=name, bytes=moved, flops=flops, reached=reached, rounding=share)
        )
        return out

    def triton(self, name: str, moved: float, args: Sequence[object]) -> None:
        """Enter a kernel that Inductor wrote."""
        self.kernels.append(Kernel(group=self._group(args), name=name, bytes=moved))

    def _group(self, tensors: object) -> str:
        shapes = [tuple(leaf.shape) for leaf in tree_leaves(tensors) if isinstance(leaf, Tensor)]
        if self.phase in (UPDATE, LOSS):
            return self.phase
        if any(self.vocab in shape for shape in shapes):
            return LOSS
        return self.phase if any(shape and self.tokens in shape for shape in shapes) else WEIGHTS


@contextmanager
def entered(ledger: Ledger) -> Iterator[None]:
    """Enter Inductor's kernels, too."""
    run = triton_heuristics.CachingAutotuner.run

    def recorded(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = self.inductor_meta.get("kernel_num_gb")
        moved = size(args) if given is None else 1e9 * given
        ledger.triton(self.inductor_meta.get("kernel_name") or self.fn.__name__, moved, args)
        return run(self, *args, **kwargs)

    triton_heuristics.CachingAutotuner.run = recorded  # type: ignore[method-assign]
    try:
        with ledger:
            yield
    finally:
        triton_heuristics.CachingAutotuner.run = run  # type: ignore[method-assign]


@dataclass(frozen=True, kw_only=True)
class Step:
    """What a rank's step consists of."""

    of_pass: list[Kernel]
    """Kernels of one pass."""
    of_update: list[Kernel]
    """Kernels of the update."""
    tokens: int
    """Tokens of the pass."""
    flops: float
    """Model FLOPs of a token."""

    @property
    def passes(self) -> float:
        """Passes of a step."""
        return STEP_TOKENS / self.tokens

    def groups(self) -> dict[str, list[tuple[Kernel, float]]]:
        """Return the step's kernels by what they are for, with how often they come."""
        found: defaultdict[str, list[tuple[Kernel, float]]] = defaultdict(list)
        for kernel in self.of_pass:
            found[kernel.group].append((kernel, self.passes))
        for kernel in self.of_update:
            found[kernel.group].append((kernel, 1.0))
        return found

    def seconds(self, gpu: str) -> float:
        """Return the step's predicted time."""
        parts = self.passes * sum(kernel.seconds(gpu) for kernel in self.of_pass)
        return parts + sum(kernel.seconds(gpu) for kernel in self.of_update)

    def mfu(self, gpu: str) -> float:
        """Return the predicted MFU, 0 to 1."""
        return self.flops * STEP_TOKENS / self.seconds(gpu) / PEAK_FLOPS[gpu]


def record(name: str, objective: str) -> Step:
    """Run a pass and an update of a size on the GPU and return their kernels."""
    config = config_for(name)
    with torch.device("cuda"):
        model = EuroBertForMaskedLM(config).train()
    model.set_attention_backend("varlen")
    model.fuse_projections()
    model.compile_blocks()
    optimizer = adamw(model)
    # Of batches of the mean number of sequences, those nearest to the mean number of tokens.
    drawings = (drawn(config, objective, 22, TRAINING.max_length, seed) for seed in range(40))
    first, batch = sorted(drawings, key=lambda one: abs(one.inputs.num_tokens - PASS_TOKENS))[1::-1]
    lengths = batch.inputs.cu_seqlens.diff().double()
    attended = float(lengths.square().sum() / lengths.sum())
    ledger = Ledger(batch.inputs.num_tokens, attended, config.vocab_size)

    def one_pass(given: ObjectiveBatch) -> None:
        given = given.to("cuda")
        ledger.phase = FORWARD
        with torch.autocast("cuda", torch.bfloat16):
            hidden = model.model.encode(given.inputs, is_causal=given.is_causal)
            if given.positions is not None:
                hidden = hidden.index_select(0, given.positions)
            ledger.phase = LOSS
            loss = linear_cross_entropy(hidden, model.lm_head.weight, given.labels, fused=True)
        ledger.phase = BACKWARD
        loss.backward()  # type: ignore[no-untyped-call]

    def update() -> None:
        ledger.phase = UPDATE
        torch.nn.utils.clip_grad_norm_(model.parameters(), TRAINING.clip_norm)
        optimizer.step()

    # The second batch makes the number of tokens a variable, and its own the one that Inductor counts bytes for.
    for warm in (first, batch):
        one_pass(warm)
    update()
    with entered(ledger):
        one_pass(batch)
        of_pass, ledger.kernels = ledger.kernels, []
        update()
    share = batch.count / batch.inputs.num_tokens
    flops = model_flops_per_token(SHAPES[name], length=attended, predicted=share)
    return Step(of_pass=of_pass, of_update=ledger.kernels, tokens=batch.inputs.num_tokens, flops=flops)


def show(step: Step) -> None:
    """Print the groups of a step."""
    groups = sorted(step.groups().items(), key=lambda item: -sum(k.seconds("H100") * n for k, n in item[1]))
    print(
        f"{'':55}{'kernels':>8}{'GB':>8}{'TFLOP':>8}"
        + "".join(f"{gpu + ', ms':>10}{'':7}" for gpu in BANDWIDTH)
    )
    for group, found in groups:
        bytes_, flops = (sum(getattr(k, what) * n for k, n in found) for what in ("bytes", "flops"))
        line = f"{group:55}{sum(n for _, n in found):8,.0f}{bytes_ / 1e9:8,.0f}{flops / 1e12:8,.0f}"
        for gpu in BANDWIDTH:
            taken = sum(kernel.seconds(gpu) * number for kernel, number in found)
            line += f"{1e3 * taken:10,.0f}{taken / step.seconds(gpu):7.1%}"
        print(line)
    for gpu in BANDWIDTH:
        speed = STEP_TOKENS / step.seconds(gpu)
        print(f"{gpu}: {step.seconds(gpu):.2f} s a step, {speed:,.0f} tokens/s, MFU {step.mfu(gpu):.1%}")


def main() -> None:
    """Print the ledger of a size."""
    parser = parser_of(__doc__)
    parser.add_argument("--size", choices=[*SHAPES], default="610m")
    parser.add_argument("--objective", choices=OBJECTIVES, default=OBJECTIVES[0])
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("no GPU is at hand, nor a stand-in of its driver")
    # Not every stand-in has cuDNN's graphs; FLOPs and bytes of FlashAttention's kernels are the same.
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch._inductor.config.benchmark_kernel = True  # the setting under which Inductor counts a kernel's bytes
    torch._inductor.config.force_disable_caches = True
    step = record(options.size, options.objective)
    print(f"{options.size} {options.objective}: {step.passes:.1f} passes of {step.tokens:,} tokens")
    show(step)


if __name__ == "__main__":
    main()
