"""What `pretraining.training.composer_adapter` relies on in Composer, each against a plain loop in torch.

Composer 0.32.1 declares bounds that requirements/overrides.txt lifts; these tests are the proof that what is used of
it works with the locked versions (docs/dependencies.md).
"""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from composer.core import Callback, DataSpec, State, Timestamp
from composer.loggers import Logger, LoggerDestination, TensorboardLogger
from composer.models import ComposerModel
from composer.trainer import Trainer
from composer.utils import dist
from torch import Tensor, nn

from common.provenance import ROOT


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


def test_batches_come_once_in_the_iterators_order_and_the_clock_starts_where_it_is_set() -> None:
    taken: list[int] = []

    def counted() -> Iterator[Batch]:
        for batch in batches(5):
            taken.append(batch.number)
            yield batch

    model, record, moved = Net(), Record(), []
    trainer = fit(model, sgd(model), record, start=5, end=8, data=counted(), moved=moved)
    assert int(trainer.state.timestamp.batch) == 8
    assert record.events == [
        item
        for step in (5, 6, 7)
        for item in (("start", step, step), ("gradient", step, step), ("end", step + 1, step))
    ]
    assert taken[:3] == [5, 6, 7] and len(taken) <= 4
    assert moved == [1, 5, 2] * 3


def test_micro_batches_weigh_by_their_tokens_as_in_a_plain_loop() -> None:
    model, reference = pair()
    record = Record()
    fit(model, sgd(model), record)
    losses = plain(reference, sgd(reference))
    assert record.losses == pytest.approx(losses, rel=1e-6)
    same(model, reference)


def test_at_after_train_batch_the_whole_gradient_is_there_and_can_be_clipped() -> None:
    model, reference = pair()
    record = Record(clip=0.01)
    fit(model, sgd(model), record)
    plain(reference, sgd(reference), clip=0.01)
    same(model, reference)
    assert all(float(gradient.norm()) > 0.01 for gradient in record.gradients)
    assert all(not torch.equal(before, after) for before, after in record.weights)


def test_a_rate_set_at_batch_start_is_the_rate_of_that_update() -> None:
    model, reference = pair()
    fit(model, sgd(model), Record(rates=True))
    plain(reference, sgd(reference), rates=True)
    same(model, reference)


def test_an_optimizers_state_continues_in_a_second_trainer() -> None:
    model, reference = pair()
    optimizer, other = (torch.optim.AdamW(item.parameters(), lr=0.01) for item in (model, reference))
    fit(model, optimizer, Record(), end=3)
    fit(model, optimizer, Record(), start=3, end=6)
    plain(reference, other, end=6)
    same(model, reference)
    assert {int(state["step"]) for state in optimizer.state.values()} == {6}


@pytest.mark.gpu
def test_amp_bf16_is_torchs_autocast_over_float32_weights() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU: Composer takes bfloat16 on no CPU")
    model, reference = (item.cuda() for item in pair())
    record = Record()
    fit(model, sgd(model), record, precision="amp_bf16")
    losses = plain(reference, sgd(reference), bf16=True)
    assert set(model.seen) == {torch.bfloat16}
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert record.losses == pytest.approx(losses, rel=1e-6)
    same(model, reference)
    exact = pair()[0].cuda()
    assert plain(exact, sgd(exact)) != pytest.approx(losses, rel=1e-6)


def test_amp_bf16_is_refused_on_a_cpu_and_never_ignored() -> None:
    model = Net()
    with pytest.raises(ValueError, match="not supported for CPU"):
        fit(model, sgd(model), Record(), precision="amp_bf16")


def test_stop_training_ends_after_the_update() -> None:
    model = Net()
    trainer = fit(model, sgd(model), Record(stop_at=2), end=9)
    assert int(trainer.state.timestamp.batch) == 2


def test_an_error_in_a_callback_comes_out_as_it_is() -> None:
    class Broken(Record):
        def batch_end(self, state: State, logger: Logger) -> None:
            raise ZeroDivisionError("mine")

    model = Net()
    with pytest.raises(ZeroDivisionError, match="mine"):
        fit(model, sgd(model), Broken())


class Destination(LoggerDestination):  # type: ignore[misc]  # composer is untyped
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def init(self, state: State, logger: Logger) -> None:
        self.calls.append("init")

    def log_metrics(self, metrics: dict[str, Any], step: int | None = None) -> None:
        if "mine/loss" in metrics:
            self.calls.append((step, metrics["mine/loss"]))

    def post_close(self) -> None:
        self.calls.append("closed")


def test_a_logger_destination_gets_every_value_and_is_closed() -> None:
    model, destination, record = Net(), Destination(), Record(metrics=True)
    fit(model, sgd(model), record, start=2, end=5, loggers=[destination])
    # Composer counts the update as logged once its clock has moved.
    assert destination.calls == ["init", *zip((3, 4, 5), record.losses, strict=True), "closed"]


def test_tensorboards_files_hold_the_values(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    model, record = Net(), Record(metrics=True)
    logger = TensorboardLogger(log_dir=str(tmp_path), rank_zero_only=True)
    fit(model, sgd(model), record, loggers=[logger], run_name="mine")
    (file,) = tmp_path.rglob("events.*")
    events = EventAccumulator(str(file))
    events.Reload()
    values = [(item.step, item.value) for item in events.Scalars("mine/loss")]
    assert [step for step, _ in values] == [1, 2, 3, 4]
    assert [value for _, value in values] == pytest.approx(record.losses, rel=1e-6)


def test_alone_this_process_is_the_first_of_one() -> None:
    assert (dist.get_global_rank(), dist.get_world_size(), dist.get_local_rank()) == (0, 1, 0)


TWO = """
import torch
from composer.utils import dist
dist.initialize_dist("cpu", timeout=60.0)
assert dist.is_initialized()
value = torch.tensor([0.1 + dist.get_global_rank()], dtype=torch.float64)
dist.all_reduce(value)
dist.barrier()
print(dist.get_global_rank(), dist.get_world_size(), dist.get_local_rank(), repr(float(value)))
"""


def test_two_processes_add_up_in_double_precision() -> None:
    port = str(20_000 + os.getpid() % 20_000)
    processes = []
    for rank in ("0", "1"):
        environment = os.environ | {
            "RANK": rank, "LOCAL_RANK": rank, "NODE_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", TWO], cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE
            )
        )
    said = [process.communicate(timeout=120)[0].split() for process in processes]
    assert said == [[rank, "2", rank, repr(0.1 + 1.1)] for rank in ("0", "1")]
