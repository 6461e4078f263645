"""A tiny model, its batches, and the same training by Composer's trainer and by a plain loop in torch."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from composer.core import Callback, DataSpec, State, Timestamp
from composer.loggers import Logger
from composer.models import ComposerModel
from composer.trainer import Trainer
from torch import Tensor, nn


@dataclass
class Micro:
    """A micro-batch: numbers, targets, and how much its mean loss weighs."""

    x: Tensor
    y: Tensor
    weight: int


@dataclass
class Batch:
    """An update's micro-batches."""

    number: int
    parts: list[Micro]


def batches(first: int = 0) -> Iterator[Batch]:
    """Batches without end, each a function of its number alone."""
    number = first
    while True:
        generator = torch.Generator().manual_seed(number)
        yield Batch(
            number,
            [
                Micro(torch.randn(4, 3, generator=generator), torch.randn(4, 1, generator=generator), weight)
                for weight in (1, 5, 2)
            ],
        )
        number += 1


class Net(ComposerModel):  # type: ignore[misc]  # composer is untyped
    """A linear layer whose forward is the loss."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(3, 1)
        self.seen: list[torch.dtype] = []

    def forward(self, batch: Micro) -> Tensor:
        out = self.linear(batch.x)
        self.seen.append(out.dtype)
        return (out.float() - batch.y).square().mean()

    def loss(self, outputs: Tensor, batch: Micro) -> Tensor:
        return outputs


@dataclass(eq=False)
class Record(Callback):  # type: ignore[misc]  # composer is untyped
    """What is seen at each event that the adapter uses."""

    rates: bool = False
    clip: float = 0.0
    stop_at: int = -1
    events: list[tuple[str, int, int]] = field(default_factory=list)
    gradients: list[Tensor] = field(default_factory=list)
    weights: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    metrics: bool = False

    def batch_start(self, state: State, logger: Logger) -> None:
        self.batch = state.batch
        self.before = state.model.linear.weight.detach().clone()
        self.events.append(("start", int(state.timestamp.batch), self.batch.number))
        if self.rates:
            for group in state.optimizers[0].param_groups:
                group["lr"] = rate(int(state.timestamp.batch))

    def after_train_batch(self, state: State, logger: Logger) -> None:
        weight = state.model.linear.weight
        self.events.append(("gradient", int(state.timestamp.batch), self.batch.number))
        self.gradients.append(weight.grad.detach().clone())
        assert torch.equal(weight, self.before), "the step has been taken already"
        if self.clip:
            nn.utils.clip_grad_norm_(state.model.parameters(), self.clip)

    def batch_end(self, state: State, logger: Logger) -> None:
        self.events.append(("end", int(state.timestamp.batch), self.batch.number))
        self.losses.append(float(state.total_loss_dict["loss/train/total"]))
        self.weights.append((self.before, state.model.linear.weight.detach().clone()))
        if self.metrics:
            logger.log_metrics({"mine/loss": self.losses[-1]})
        if int(state.timestamp.batch) == self.stop_at:
            state.stop_training()


def rate(step: int) -> float:
    return 0.1 / (step + 1)


def parts_of(batch: Batch | Micro) -> list[Micro]:
    return batch.parts if isinstance(batch, Batch) else [batch]


def fit(
    model: Net,
    optimizer: torch.optim.Optimizer,
    callback: Callback,
    *,
    start: int = 0,
    end: int = 4,
    data: Iterator[Batch] | None = None,
    moved: list[int] | None = None,
    **options: Any,
) -> Trainer:
    """Train as the adapter does."""

    def to_device(micro: Micro) -> Micro:
        if moved is not None:
            moved.append(micro.weight)
        return Micro(micro.x.to(device), micro.y.to(device), micro.weight)

    device = next(model.parameters()).device
    trainer = Trainer(
        model=model,
        train_dataloader=DataSpec(
            data if data is not None else batches(start),
            get_num_samples_in_batch=lambda batch: sum(len(part.x) for part in parts_of(batch)),
            get_num_tokens_in_batch=lambda batch: {
                "total": 99,
                "loss_generating": sum(part.weight for part in parts_of(batch)),
            },
            split_batch=lambda batch, size: batch.parts,
            microbatch_transforms=to_device,
        ),
        spin_dataloaders=False,
        max_duration=f"{end}ba",
        optimizers=optimizer,
        callbacks=[callback],
        progress_bar=False,
        device="gpu" if device.type == "cuda" else "cpu",
        device_train_microbatch_size=1,
        accumulate_train_batch_on_tokens=True,
        seed=7,
        **{"precision": "fp32", "loggers": [], **options},
    )
    try:
        trainer.state.timestamp = Timestamp(batch=start)
        trainer.fit()
    finally:
        trainer.close()
    return trainer


def plain(
    model: Net, optimizer: torch.optim.Optimizer, *, start: int = 0, end: int = 4, clip: float = 0.0,
    rates: bool = False, bf16: bool = False,
) -> list[float]:  # fmt: skip
    """Return the loop's losses: micro-batches weighed by their tokens, as one weighted mean."""
    losses = []
    for number, batch in zip(range(start, end), batches(start), strict=False):
        for group in optimizer.param_groups:
            group["lr"] = rate(number) if rates else group["lr"]
        optimizer.zero_grad()
        total, loss = sum(part.weight for part in batch.parts), 0.0
        for part in batch.parts:
            with torch.autocast(part.x.device.type, torch.bfloat16, enabled=bf16):
                mean = model(part) * part.weight / total
            mean.backward()
            loss += float(mean.detach())
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        losses.append(loss)
    return losses


def pair() -> tuple[Net, Net]:
    model = Net()
    return model, copy.deepcopy(model)


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.05)


def same(one: nn.Module, other: nn.Module) -> None:
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)
