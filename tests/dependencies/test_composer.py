"""What `pretraining.training.composer_adapter` relies on in Composer, each against a plain loop in torch.

Composer 0.32.1 declares bounds that requirements/overrides.txt lifts; these tests are the proof that what is used of
it works with the locked versions (docs/dependencies.md).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from composer.core import State
from composer.loggers import Logger

from tests.dependencies.composer_loops import Batch, Net, Record, batches, fit, pair, plain, same, sgd


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
