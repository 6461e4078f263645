import math
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import Trainer, TrainingArguments, get_linear_schedule_with_warmup

from benchmarks.datasets.local_dataset import load_dataset
from benchmarks.finetuning.device import choose_device
from benchmarks.finetuning.encoders import load_model
from benchmarks.finetuning.trainer import (
    FineTuningError,
    decayed,
    distinct_order,
    fine_tune,
    learning_rate,
    pair_order,
    steps_of,
)
from benchmarks.protocol import FINE_TUNING
from benchmarks.tasks.base import TaskModel
from benchmarks.tasks.families import objective_of
from benchmarks.tasks.supervised import SupervisedObjective
from tests.benchmarks.tiny import CPU, resettable_of

DATASETS = ("mnli_m", "uner_en", "squad_v2", "msmarco")


def gradients(model: nn.Module) -> dict[str, Tensor]:
    found = {
        name: p.grad.clone()
        for name, p in model.named_parameters()
        if p.grad is not None
    }
    model.zero_grad(set_to_none=True)
    return found


@pytest.mark.parametrize(
    ("size", "steps"), [(14_041, 438), (12_543, 392), (59_924, 1_872)]
)
def test_an_epoch_has_the_papers_number_of_steps(size: int, steps: int) -> None:
    assert steps_of(size, FINE_TUNING, 1, FINE_TUNING.micro_batch) == steps
    assert steps_of(size, FINE_TUNING, None, FINE_TUNING.micro_batch) == 1_000


def test_the_learning_rate_is_transformers_linear_schedule() -> None:
    parameter = nn.Parameter(torch.zeros(1))
    for steps in (1, 7, 392, 1_000):
        optimiser = torch.optim.SGD([parameter], lr=2e-4)
        schedule = get_linear_schedule_with_warmup(
            optimiser, math.ceil(0.1 * steps), steps
        )
        for step in range(steps):
            assert optimiser.param_groups[0]["lr"] == pytest.approx(
                learning_rate(step, steps, 2e-4, 0.1)
            )
            optimiser.step()
            schedule.step()


@pytest.mark.parametrize("kind", ["ours", "llama", "bert", "roberta", "modernbert"])
def test_decay_spares_biases_and_norms_as_transformers_does(
    kind: str, model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    base = load_model(str(model_folder(kind))).encoder.base
    arguments = TrainingArguments(output_dir=str(tmp_path), report_to=[], use_cpu=True)
    theirs = Trainer(model=base, args=arguments).get_decay_parameter_names(base)
    assert sorted(decayed(base)) == sorted(theirs)


class _Rows(torch.utils.data.Dataset[dict[str, Any]]):
    def __init__(self, objective: SupervisedObjective) -> None:
        self.objective = objective

    def __len__(self) -> int:
        return len(self.objective.ids)

    def __getitem__(self, row: int) -> dict[str, Any]:
        labels = self.objective.labels
        assert isinstance(labels, np.ndarray)
        return {
            "input_ids": self.objective.ids[row].tolist(),
            "labels": int(labels[row, 0]),
        }


class _ForTrainer(nn.Module):
    """What transformers' Trainer expects: a forward pass without **kwargs that returns a loss."""

    def __init__(self, model: TaskModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor
    ) -> dict[str, Tensor]:
        logits = self.model(input_ids, attention_mask.sum(1))
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def test_final_weights_equal_transformers_trainers(
    data: Path, model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    """Order over an epoch's end, accumulation, schedule, decay and clipping are those of the paper's trainer."""
    resettable, dataset = (
        resettable_of(model_folder("ours")),
        load_dataset(data, "sst2"),
    )
    objective = objective_of(dataset, resettable.setting, [3])
    assert isinstance(objective, SupervisedObjective)
    model = resettable.reset(dataset.dataset, seed=3)
    fine_tune(model, objective, CPU, lr=5e-4, seed=3, steps=7, fine_tuning=FINE_TUNING)
    ours = {name: p.detach().clone() for name, p in model.named_parameters()}

    theirs = _ForTrainer(resettable.reset(dataset.dataset, seed=3))
    arguments = TrainingArguments(
        output_dir=str(tmp_path),
        max_steps=7,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=8,
        learning_rate=5e-4,
        warmup_steps=0.1,
        lr_scheduler_type="linear",
        adam_beta1=0.9,
        adam_beta2=0.95,
        adam_epsilon=1e-5,
        weight_decay=0.1,
        max_grad_norm=1.0,
        seed=3,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        optim="adamw_torch",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    pad = resettable.setting.loaded.tokenizer.pad_token_id

    def collate(rows: list[dict[str, Any]]) -> dict[str, Tensor]:
        width = max(len(row["input_ids"]) for row in rows)
        return {
            "input_ids": torch.tensor(
                [r["input_ids"] + [pad] * (width - len(r["input_ids"])) for r in rows]
            ),
            "attention_mask": torch.tensor(
                [[int(i < len(r["input_ids"])) for i in range(width)] for r in rows]
            ),
            "labels": torch.tensor([row["labels"] for row in rows]),
        }

    Trainer(
        model=theirs,
        args=arguments,
        train_dataset=_Rows(objective),
        data_collator=collate,
    ).train()
    for name, parameter in theirs.model.named_parameters():
        torch.testing.assert_close(
            ours[name], parameter.detach(), rtol=1e-4, atol=2e-6, msg=name
        )


@pytest.mark.parametrize("name", DATASETS)
def test_gradient_does_not_depend_on_what_shares_a_pass(
    name: str, data: Path, model_folder: Callable[..., Path]
) -> None:
    resettable, dataset = resettable_of(model_folder("ours")), load_dataset(data, name)
    objective = objective_of(dataset, resettable.setting, [0])
    step = next(objective.order(0))
    model = resettable.reset(dataset.dataset, 0).train()
    devices = [
        replace(CPU, exact_micro_batches=True),
        *(replace(CPU, train_positions=positions) for positions in (1, 100, 10_000)),
    ]
    results = [
        (objective.backward(model, step, device), gradients(model))
        for device in devices
    ]
    for loss, found in results[1:]:
        torch.testing.assert_close(loss, results[0][0], rtol=1e-5, atol=1e-6)
        for parameter, gradient in results[0][1].items():
            torch.testing.assert_close(
                found[parameter], gradient, rtol=1e-3, atol=1e-6, msg=parameter
            )


def test_the_loss_is_the_mean_of_the_micro_batches_means(
    data: Path, model_folder: Callable[..., Path]
) -> None:
    """Micro-batches with few labels weigh as much as those with many: not the mean over all tokens."""
    resettable, dataset = (
        resettable_of(model_folder("ours")),
        load_dataset(data, "uner_en"),
    )
    objective = objective_of(dataset, resettable.setting, [0])
    assert isinstance(objective, SupervisedObjective) and not isinstance(
        objective.labels, np.ndarray
    )
    groups = [np.array([0]), np.array([1, 2, 3])]
    model = resettable.reset(dataset.dataset, 0).eval()
    means = []
    for group in groups:
        losses = []
        for row in group:
            ids = torch.from_numpy(objective.ids[row]).long()[None]
            labels = torch.from_numpy(objective.labels[row]).long()
            logits = model(ids, torch.tensor([ids.shape[1]]))[0]
            losses += nn.functional.cross_entropy(
                logits[labels >= 0], labels[labels >= 0], reduction="none"
            )
        means.append(torch.stack(losses).mean())
    found = objective.backward(model, groups, CPU)
    torch.testing.assert_close(found, torch.stack(means).mean().detach())


class _SmallMemory(nn.Module):
    """Runs out of memory for more than `limit` positions at once, as a GPU would."""

    def __init__(self, model: nn.Module, limit: int) -> None:
        super().__init__()
        self.model, self.limit = model, limit

    def forward(
        self, ids: Tensor, lengths: Tensor, kinds: Tensor | None = None
    ) -> Tensor:
        if ids.numel() > self.limit:
            raise torch.OutOfMemoryError("CUDA out of memory")
        out: Tensor = self.model(ids, lengths)
        return out


@pytest.mark.parametrize("name", DATASETS)
def test_out_of_memory_continues_in_smaller_equal_passes(
    name: str,
    data: Path,
    model_folder: Callable[..., Path],
    caplog: pytest.LogCaptureFixture,
) -> None:
    resettable, dataset = resettable_of(model_folder("ours")), load_dataset(data, name)
    objective = objective_of(dataset, resettable.setting, [0])
    ends = []
    for limit in (10**9, 250):
        model = resettable.reset(dataset.dataset, 0)
        record = fine_tune(
            _SmallMemory(model, limit),
            objective,
            CPU,
            lr=1e-3,
            seed=0,
            steps=2,
            fine_tuning=FINE_TUNING,
        )
        ends.append({key: p.detach().clone() for key, p in model.named_parameters()})
    assert record.train_positions <= 256 < CPU.train_positions
    assert "changes rounding and dropout" in caplog.text
    for key, value in ends[0].items():
        torch.testing.assert_close(ends[1][key], value, rtol=1e-3, atol=1e-5, msg=key)


def test_what_fails_a_run_is_named(
    data: Path, model_folder: Callable[..., Path]
) -> None:
    resettable, dataset = (
        resettable_of(model_folder("ours")),
        load_dataset(data, "sst2"),
    )
    objective = objective_of(dataset, resettable.setting, [0])
    model = resettable.reset(dataset.dataset, 0)
    settings = {"lr": 1e-3, "seed": 0, "steps": 3, "fine_tuning": FINE_TUNING}
    with pytest.raises(FineTuningError, match="out of memory even in the smallest"):
        fine_tune(_SmallMemory(model, 0), objective, CPU, **settings)  # type: ignore[arg-type]
    with torch.no_grad():
        model.head.out.bias[0] = math.nan  # type: ignore[union-attr, index]
    with pytest.raises(FineTuningError, match="the loss is nan at step 1"):
        fine_tune(model, objective, CPU, **settings)  # type: ignore[arg-type]


def test_bfloat16_weights_take_bfloat16_steps(
    data: Path, model_folder: Callable[..., Path]
) -> None:
    """Small learning rates are rounded away, as in the paper (D7)."""
    device = choose_device("cpu", "bf16")
    resettable, dataset = (
        resettable_of(model_folder("ours"), device),
        load_dataset(data, "sst2"),
    )
    objective = objective_of(dataset, resettable.setting, [0])
    changed = {}
    for lr in (1e-7, 1e-3):
        model = resettable.reset(dataset.dataset, 0)
        before = [p.detach().clone() for p in model.encoder.parameters()]
        fine_tune(
            model, objective, device, lr=lr, seed=0, steps=3, fine_tuning=FINE_TUNING
        )
        assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
        pairs = zip(before, model.encoder.parameters(), strict=True)
        changed[lr] = sum(int((a != b).sum()) for a, b in pairs)
    assert changed[1e-7] < 0.05 * changed[1e-3]


def test_pairs_come_from_one_generator_left_as_is_by_seed_0() -> None:
    """D15: sentence-transformers seeds it `if seed`; the test against that library is in test_retrieval_oracle."""
    for seed, start in ((0, 67_280_421_310_721), (3, 3)):
        generator = torch.Generator().manual_seed(start)
        expected = torch.cat(
            [torch.randperm(70, generator=generator) for _ in range(2)]
        )
        steps = list(islice(pair_order(70, seed, 32), 6))
        assert [len(step) for (step,) in steps] == [32, 32, 6, 32, 32, 6]
        assert np.concatenate([step for (step,) in steps]).tolist() == expected.tolist()


def test_no_batch_has_a_query_or_a_positive_twice() -> None:
    """Twelve documents of five queries each, one of them of twenty; every row but the last ones once in a pass."""
    keys = [(f"q{row}", f"d{row % 12}") for row in range(60)]
    keys += [(f"more {row}", "d0") for row in range(20)]
    order = distinct_order(keys, 1, 8)
    taken: list[int] = []
    for (batch,) in islice(order, 7):
        positives = [keys[row][1] for row in batch]
        assert len(positives) == 8 == len(set(positives))
        taken += batch.tolist()
    assert len(set(taken)) == len(taken)


def test_rows_that_share_nothing_keep_their_order() -> None:
    keys = [(f"q{row}", f"d{row}") for row in range(70)]
    for seed in (0, 3):
        ours = [step[0].tolist() for step in islice(distinct_order(keys, seed, 32), 6)]
        theirs = [step[0].tolist() for step in islice(pair_order(70, seed, 32), 6)]
        assert ours == theirs
