"""Where and how a fine-tuning is computed: device, precision, sizes of forward passes.

A pass is one forward pass, and in training the backward pass that follows. Its size is counted in positions: rows times
the length of the longest row. `benchmarks.finetuning.trainer` halves the size when memory runs out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.ragged import packed_batches, packed_cost, padded_batches
from common.errors import UserError
from common.registry import Registry


@dataclass(frozen=True, kw_only=True)
class Precision:
    """Number formats of a fine-tuning."""

    name: str
    """As `--precision` and `run.json` name it."""
    weights: torch.dtype
    """Type of weights, gradients and optimiser state."""
    autocast: bool
    """Whether matrix products are computed in bfloat16."""


PRECISIONS: Registry[Precision] = Registry(
    "precision",
    [
        Precision(name="bf16", weights=torch.bfloat16, autocast=True),
        Precision(name="mixed", weights=torch.float32, autocast=True),
        Precision(name="fp32", weights=torch.float32, autocast=False),
    ],
)
"""`bf16`: everything in bfloat16, as the paper; `mixed`: float32 weights; `fp32`."""


@dataclass(frozen=True, kw_only=True)
class DeviceKind:
    """A kind of device."""

    name: str
    """What torch calls it."""
    precision: str
    """Name of the default precision."""
    positions: int
    """Default for the most positions of a forward pass in fine-tuning."""
    overhead: int
    """Cost of a forward pass in addition to its positions, counted in positions: with more padding than this, another
    pass is cheaper. It matters for speed only. On a GPU, small passes leave it idle; on a CPU, where small networks are
    fine-tuned, a pass through a network of two layers costs as much as 400 of its positions."""
    graph_factor: int
    """Where a loss needs several passes: how many times the positions of a pass may have their activations in memory at
    once. On a CPU the size of a pass is a matter of speed, not of memory, so there it is more than 1."""
    gpu: bool = False
    """Whether the device computes while this process continues, in memory of its own. Then copies are not waited for,
    losses are rarely looked at, padding is computed, and a process has one run at a time, not several side by side."""


GPU = DeviceKind(
    name="cuda",
    precision="bf16",
    positions=16_384,
    overhead=1_024,
    graph_factor=1,
    gpu=True,
)
CPU = DeviceKind(
    name="cpu", precision="fp32", positions=2_048, overhead=384, graph_factor=16
)


@dataclass(frozen=True, kw_only=True)
class RunDevice:
    """Device and numerics of this process."""

    torch_device: torch.device
    """Where models are."""
    precision: Precision
    """Number formats."""
    train_positions: int
    """Most positions, padding included, of a forward pass in fine-tuning; halved when memory runs out."""
    eval_positions: int
    """The same in evaluation."""
    exact_micro_batches: bool = False
    """Whether micro-batches are computed one by one in their order, as in the paper's code, instead of sorted by
    length."""
    title: str = "cpu"
    """Name of the device in a run's record."""

    @property
    def kind(self) -> DeviceKind:
        """The kind of device."""
        return GPU if self.torch_device.type == GPU.name else CPU

    @property
    def packs(self) -> bool:
        """Whether passes of fine-tuning leave padding out where the model's class can."""
        return not self.kind.gpu and not self.exact_micro_batches

    def passes(
        self, lengths: NDArray[np.int64], groups: Sequence[int], *, packed: bool
    ) -> list[NDArray[np.int64]]:
        """Return which rows of a step share a forward pass: longest first, or exact micro-batches in their order.

        Args:
            lengths: the length of each row of the step, in tokens.
            groups: number of rows of each micro-batch, in the order of the rows.
            packed: whether a pass may leave padding out, where that pays.

        Returns:
            Row numbers of each pass.
        """
        if self.exact_micro_batches:
            exact = []
            first = 0
            for size in groups:
                of_group = lengths[first : first + size]
                # One pass, unless the micro-batch is too large for one. No overhead is given here: passes are
                # then as few as the positions allow, and a micro-batch is not cut only to be faster.
                for part in padded_batches(of_group, self.train_positions):
                    # Rows of a pass in their order, by their numbers within the step.
                    exact.append(first + np.sort(part))
                first += size

            return exact

        padded = padded_batches(lengths, self.train_positions, self.kind.overhead)
        if not packed:
            return padded
        # Without padding, each position of a pass is a real token.
        without_padding = packed_batches(lengths, self.train_positions)

        def positions(passes: list[NDArray[np.int64]]) -> int:
            """Return the positions of all passes if they are padded, rows times longest row."""
            return sum(len(rows) * int(lengths[rows].max()) for rows in passes)

        # Compare the costs in positions. The passes with padding may be more: each one more costs its overhead.
        # The overhead of the other passes is the same on both sides and is left out.
        more_passes = len(padded) - len(without_padding)
        cost_with_padding = positions(padded) + more_passes * self.kind.overhead
        real_tokens = int(lengths.sum())
        cost_without = packed_cost(real_tokens, positions(without_padding))
        return without_padding if cost_without < cost_with_padding else padded

    def autocast(self) -> torch.autocast:
        """Return a context in which matrix products are computed in bfloat16 where the precision says so."""
        return torch.autocast(
            self.torch_device.type,
            dtype=torch.bfloat16,
            enabled=self.precision.autocast,
        )

    def embedding(self) -> torch.autocast:
        """Return a context for vectors in evaluation: `autocast`, but without effect on bfloat16 weights.

        The paper's code evaluates retrieval with a model that it loads in bfloat16, outside the Trainer's
        autocast. So bfloat16 weights are multiplied as they are, and all steps between the products are in
        bfloat16 as well.
        """
        # The precision `mixed`: without autocast its float32 weights would be multiplied in float32.
        mixed = self.precision.autocast and self.precision.weights == torch.float32
        return torch.autocast(
            self.torch_device.type, dtype=torch.bfloat16, enabled=mixed
        )

    def tensor(self, values: NDArray[Any]) -> Tensor:
        """Move an array to the device without waiting for it."""
        tensor = torch.from_numpy(np.ascontiguousarray(values))
        if not self.kind.gpu:
            return tensor
        # Only a copy from pinned memory does not wait.
        return tensor.pin_memory().to(self.torch_device, non_blocking=True)

    def fetch(self, tensor: Tensor) -> Callable[[], NDArray[Any]]:
        """Begin to copy a tensor to the CPU; return a function that waits for this copy only and gives its values."""
        copied = tensor.to("cpu", non_blocking=True)
        if not self.kind.gpu:
            return copied.numpy

        # The event comes when the GPU has done all work that was queued up to here, the copy included.
        end_of_copy = torch.cuda.Event()  # type: ignore[no-untyped-call]
        end_of_copy.record()

        def wait() -> NDArray[Any]:
            end_of_copy.synchronize()
            values: NDArray[Any] = copied.numpy()
            return values

        return wait

    def place(self, model: nn.Module) -> None:
        """Move a model here and cast its parameters.

        Buffers keep their type: rotary frequencies rounded to bfloat16 would turn positions wrongly.
        """
        model.to(self.torch_device)
        for parameter in model.parameters():
            parameter.data = parameter.data.to(self.precision.weights)

    @property
    def description(self) -> dict[str, object]:
        """What a run records about it."""
        return {
            "device": self.title,
            "precision": self.precision.name,
            "train_positions": self.train_positions,
            "eval_positions": self.eval_positions,
            "exact_micro_batches": self.exact_micro_batches,
            "threads": torch.get_num_threads(),
        }


def choose_kind(device: str) -> DeviceKind:
    """Return the kind of `auto`, `cpu`, `cuda` or `cuda:1`; `UserError` for any other name."""
    if device == "auto":
        return GPU if torch.cuda.device_count() else CPU
    if not re.fullmatch(r"(cpu|cuda)(:\d+)?", device):
        raise UserError(
            f"unknown device {device!r}; use auto, cpu, cuda or a numbered device such as cuda:1"
        )
    return GPU if device.startswith(GPU.name) else CPU


def choose_precision(device: str, precision: str) -> Precision:
    """Return the precision that options name; `auto` is `bf16` on a GPU, `fp32` on a CPU."""
    if precision == "auto":
        precision = choose_kind(device).precision
    return PRECISIONS[precision]


def choose_device(
    device: str = "auto",
    precision: str = "auto",
    *,
    positions: int | None = None,
    exact: bool = False,
) -> RunDevice:
    """Return the device that options name.

    Args:
        device: `auto` (a GPU where there is one), `cpu`, `cuda` or `cuda:1`.
        precision: `auto` or one of `PRECISIONS`.
        positions: most positions of a forward pass in fine-tuning; None for a default by device.
        exact: see `RunDevice.exact_micro_batches`.

    Raises:
        UserError: an unknown name, or a device that is not there.
    """
    kind = choose_kind(device)
    chosen = torch.device(kind.name if device == "auto" else device)
    # `cuda` has no number: it is the first GPU.
    number = chosen.index or 0
    count = torch.cuda.device_count() if kind.gpu else 1
    if number >= count:
        raise UserError(f"there is no device {device}; torch sees {count} of this kind")
    title = kind.name
    train_positions = positions or kind.positions

    # On a CPU the size of a pass matters for speed only, so evaluation keeps the default in any case.
    eval_positions = kind.positions
    if kind.gpu:
        # Calls that name no device, as that of the event in `fetch`, then mean this GPU.
        torch.cuda.set_device(torch.device("cuda", number))
        title = torch.cuda.get_device_name(chosen)
        # Evaluation keeps no activations for a backward pass, so more positions fit.
        eval_positions = 4 * train_positions

    return RunDevice(
        title=title,
        torch_device=chosen,
        precision=choose_precision(device, precision),
        train_positions=train_positions,
        eval_positions=eval_positions,
        exact_micro_batches=exact,
    )
