"""Where and how a fine-tuning is computed: device, precision, sizes of forward passes. Changes no definition."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from common.errors import UserError, nearest

__all__ = ["PRECISIONS", "Machine", "choose_machine"]

PRECISIONS = ("bf16", "mixed", "fp32")
"""`bf16`: weights, gradients and optimiser in bfloat16, as the paper; `mixed`: float32 weights; `fp32`."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Device and numerics of this process."""

    device: torch.device
    """Where models live."""
    precision: str
    """One of `PRECISIONS`."""
    train_positions: int
    """Most positions, padding included, of a forward pass in fine-tuning; halved when memory runs out."""
    eval_positions: int
    """The same in evaluation."""
    exact_micro_batches: bool = False
    """Compute the micro-batches one by one in order, as the paper's code does, in place of sorted by length."""

    @property
    def weights(self) -> torch.dtype:
        """Type of weights, gradients and optimiser state."""
        return torch.bfloat16 if self.precision == "bf16" else torch.float32

    @contextlib.contextmanager
    def autocast(self) -> Iterator[None]:
        """Compute matrix products in bfloat16 unless the precision is `fp32`."""
        if self.precision == "fp32":
            yield
        else:
            with torch.autocast(self.device.type, dtype=torch.bfloat16):
                yield

    def tensor(self, values: NDArray[Any]) -> Tensor:
        """Move an array to the device without waiting for it."""
        tensor = torch.from_numpy(np.ascontiguousarray(values))
        if self.device.type == "cuda":
            return tensor.pin_memory().to(self.device, non_blocking=True)
        return tensor

    def place(self, model: nn.Module) -> None:
        """Move a model here and cast its parameters.

        Buffers keep their type: rotary frequencies rounded to bfloat16 would turn positions wrongly.
        """
        model.to(self.device)
        for parameter in model.parameters():
            parameter.data = parameter.data.to(self.weights)

    @property
    def overhead(self) -> int:
        """What a forward pass costs beside its positions, counted in positions: where padding is worth a pass more.

        A matter of speed alone. On a GPU, small passes leave it idle; on a CPU, where small networks are tuned, a pass
        of one of two layers costs as much as 400 of its positions.
        """
        return 1_024 if self.device.type == "cuda" else 384

    @property
    def graph_positions(self) -> int:
        """Most positions whose activations are kept at once, where a loss needs several forward passes.

        On a CPU the size of a pass is a matter of speed, not of memory.
        """
        return self.train_positions * (1 if self.device.type == "cuda" else 16)

    @property
    def description(self) -> dict[str, object]:
        """What a run records about it."""
        on_gpu = self.device.type == "cuda"
        return {
            "device": torch.cuda.get_device_name(self.device) if on_gpu else "cpu",
            "precision": self.precision,
            "train_positions": self.train_positions,
            "eval_positions": self.eval_positions,
            "exact_micro_batches": self.exact_micro_batches,
            "threads": torch.get_num_threads(),
        }


def choose_machine(
    device: str = "auto", precision: str = "auto", *, positions: int | None = None, exact: bool = False
) -> Machine:
    """Return the machine that options ask for.

    Args:
        device: `auto` (a GPU where there is one), `cpu`, `cuda` or `cuda:1`.
        precision: `auto` (`bf16` on a GPU, `fp32` on a CPU) or one of `PRECISIONS`.
        positions: most positions of a forward pass in fine-tuning; None for a default by device.
        exact: see `Machine.exact_micro_batches`.

    Raises:
        UserError: an unknown name, or a device that is not there.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, number = device.partition(":")
    if kind not in ("cpu", "cuda") or (number and not number.isdigit()):
        raise UserError(f"unknown device {device!r}{nearest(kind, ('cpu', 'cuda'))}; say cpu, cuda or cuda:1")
    if kind == "cuda" and int(number or 0) >= torch.cuda.device_count():
        raise UserError(f"there is no device {device} here; torch sees {torch.cuda.device_count()} GPUs")
    if precision == "auto":
        precision = "bf16" if kind == "cuda" else "fp32"
    if precision not in PRECISIONS:
        raise UserError(
            f"unknown precision {precision!r}{nearest(precision, PRECISIONS)}; known are {', '.join(PRECISIONS)}"
        )
    if kind == "cuda":
        torch.cuda.set_device(torch.device("cuda", int(number or 0)))
    default = 16_384 if kind == "cuda" else 2_048
    return Machine(
        device=torch.device(device),
        precision=precision,
        train_positions=positions or default,
        eval_positions=4 * (positions or default) if kind == "cuda" else default,
        exact_micro_batches=exact,
    )
