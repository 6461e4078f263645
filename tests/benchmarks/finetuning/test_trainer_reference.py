"""The whole protocol against a plain loop that shares nothing with it but the model's weights.

The loop tokenises one example at a time, accumulates 8 micro-batches of 4, evaluates batches of 4 in the
split's order and scores with scikit-learn: what the paper's code does, in float32 on a CPU.
"""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer

from benchmarks.datasets.local_dataset import load_dataset
from benchmarks.finetuning.trainer import fine_tune
from benchmarks.protocol import FINE_TUNING
from benchmarks.runs import SCORED_SPLITS
from benchmarks.tasks.families import family_of, objective_of
from tests.benchmarks.tiny import CPU, resettable_of

STEPS, LR, SEED, LIMIT = 12, 2e-3, 1, 507
EOS = "<|end_of_text|>"

Example = tuple[list[int], list[int]]


class Reference(nn.Module):
    """Base model and head, spelled out."""

    def __init__(self, folder: Path, task: str, labels: int) -> None:
        super().__init__()
        self.base = AutoModel.from_pretrained(folder, attn_implementation="sdpa")
        self.base.embed_tokens.padding_idx = 1
        self.task = task
        torch.manual_seed(SEED)
        sizes = {
            "SC": [(32, 32), (32, labels)],
            "TC": [(32, labels)],
            "QA": [(32, labels)],
        }[task]
        drawn = [torch.empty(out, into).normal_(0, 0.02) for into, out in sizes]
        self.layers = nn.ModuleList(nn.Linear(into, out) for into, out in sizes)
        for layer, weight in zip(self.layers, drawn, strict=True):
            layer.weight.data = weight
            layer.bias.data.zero_()

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        hidden: Tensor = self.base(input_ids=ids, attention_mask=mask).last_hidden_state
        if self.task == "SC":
            hidden = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
            hidden = nn.functional.gelu(self.layers[0](hidden))
        return self.layers[-1](hidden)  # type: ignore[no-any-return]


def pad(rows: list[list[int]], fill: int) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [fill] * (width - len(row)) for row in rows])


def batch(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    return pad(rows, 1), pad([[1] * len(row) for row in rows], 0)


def train(model: Reference, steps: Iterator[Callable[[], Tensor]], total: int) -> None:
    decay = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() == 1]
    optimiser = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
        lr=LR,
        betas=(0.9, 0.95),
        eps=1e-5,
    )
    warmup = math.ceil(0.1 * total)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser,
        lambda s: s / warmup if s < warmup else (total - s) / (total - warmup),
    )
    model.train()
    for _ in range(total):
        next(steps)()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        optimiser.zero_grad()
    model.eval()


def labelled_steps(
    model: Reference, examples: list[Example]
) -> Iterator[Callable[[], Tensor]]:
    epoch = 0
    while True:
        order = torch.randperm(
            len(examples), generator=torch.Generator().manual_seed(SEED + epoch)
        ).tolist()
        for start in range(0, len(order), 32):
            rows = order[start : start + 32]
            micro = [rows[i : i + 4] for i in range(0, len(rows), 4)]

            def step(micro: list[list[int]] = micro) -> Tensor:
                for part in micro:
                    logits = model(*batch([examples[row][0] for row in part]))
                    labels = pad([examples[row][1] for row in part], -100)
                    loss = nn.functional.cross_entropy(
                        logits.flatten(0, -2), labels.flatten()
                    )
                    (loss / len(micro)).backward()
                return loss

            yield step
        epoch += 1


def tokenise(tokenizer: Any, task: str, row: dict[str, Any]) -> Example:
    """Ids and labels of one example; character by character for the token-level tasks."""
    options = {"add_special_tokens": False, "truncation": True, "max_length": LIMIT}
    if task == "SC":
        text = f"Premise: {row['first']}\nHypothesis: {row['second']}{EOS}"
        return tokenizer(text, **options)["input_ids"], [row["label"]]
    if task == "TC":
        text, owner = "", []
        for number, word in enumerate(row["words"]):
            piece = word if number == 0 else " " + word
            text, owner = text + piece, owner + [number] * len(piece)
        found = tokenizer(text + EOS, return_offsets_mapping=True, **options)
        words = [
            owner[end - 1] if end <= len(owner) else -1
            for _, end in found["offset_mapping"]
        ]
        return found["input_ids"], words
    answers = row["answers"]
    found = tokenizer(
        f"Question: {row['question']}\nContext: ",
        row["context"] + EOS,
        add_special_tokens=False,
        truncation="only_second",
        max_length=LIMIT,
        return_offsets_mapping=True,
    )
    inside = set()
    if answers:
        inside = set(
            range(answers[0]["start"], answers[0]["start"] + len(answers[0]["text"]))
        )
    labels = [
        int(second == 1 and bool(inside & set(range(*offsets))))
        for second, offsets in zip(
            found.sequence_ids(), found["offset_mapping"], strict=True
        )
    ]
    return found["input_ids"], labels


def labelled_scores(
    model: Reference, task: str, rows: list[dict[str, Any]], examples: list[Example]
) -> list[float]:
    scores: list[float] = []
    for start in range(0, len(rows), 4):
        part = slice(start, start + 4)
        with torch.no_grad():
            predicted = model(*batch([ids for ids, _ in examples[part]])).argmax(-1)
        for row, (ids, labels), guess in zip(
            rows[part], examples[part], predicted, strict=True
        ):
            if task == "SC":
                scores.append(float(guess == labels[0]))
            elif task == "TC":
                votes: dict[int, list[int]] = {}
                for word, tag in zip(labels, guess[: len(ids)].tolist(), strict=True):
                    votes.setdefault(word, []).append(tag)
                voted = [
                    max(set(votes[w]), key=votes[w].count)
                    for w in sorted(votes)
                    if w >= 0
                ]
                gold = [row["tags"][w] for w in sorted(votes) if w >= 0]
                scores.append(f1_score(gold, voted, average="macro", zero_division=0.0))
            else:
                ours = set(guess.nonzero().flatten().tolist()) or {0}
                gold_set = {i for i, label in enumerate(labels) if label} or {0}
                both = len(ours & gold_set)
                p, r = both / len(ours), both / len(gold_set)
                scores.append(2 * p * r / (p + r) if both else 0.0)
    return scores


def ours(
    name: str, data: Path, folder: Path, steps: int
) -> tuple[dict[str, list[float]], dict[str, Tensor]]:
    dataset = load_dataset(data, name)
    resettable = resettable_of(folder)
    objective = objective_of(dataset, resettable.setting, [0, SEED])
    evaluator = family_of(dataset.dataset).evaluator(dataset, resettable.setting)
    model = resettable.reset(dataset.dataset, SEED)
    fine_tune(
        model, objective, CPU, lr=LR, seed=SEED, steps=steps, fine_tuning=FINE_TUNING
    )
    found = evaluator(model, CPU)
    weights = {
        key: value.detach() for key, value in model.encoder.base.named_parameters()
    }
    return {split: found[split].scores for split in SCORED_SPLITS}, weights


def check(
    ours_scores: dict[str, list[float]],
    theirs: dict[str, list[float]],
    weights: dict[str, Tensor],
    reference: Reference,
) -> None:
    for key, value in reference.base.named_parameters():
        torch.testing.assert_close(
            weights[key], value.detach(), rtol=2e-3, atol=2e-5, msg=key
        )
    for split in SCORED_SPLITS:
        np.testing.assert_allclose(ours_scores[split], theirs[split], rtol=0, atol=1e-9)
    # The test would say nothing if every instance had the same score.
    assert (
        len({round(score, 6) for split in SCORED_SPLITS for score in theirs[split]}) > 1
    )


@pytest.mark.parametrize(
    ("name", "task", "steps"),
    [("mnli_m", "SC", 5), ("uner_en", "TC", 3), ("squad_v2", "QA", STEPS)],
)
def test_labelled_families_score_as_the_plain_loop(
    name: str, task: str, steps: int, data: Path, model_folder: Callable[..., Path]
) -> None:
    folder, dataset = model_folder("ours"), load_dataset(data, name)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tables = dataset.tables
    rows = {split: table.to_pylist() for split, table in tables.items()}
    examples = {
        split: [tokenise(tokenizer, task, row) for row in rows[split]] for split in rows
    }
    training = examples["train"]
    if task == "TC":
        training = [
            (ids, [row["tags"][word] if word >= 0 else -100 for word in words])
            for row, (ids, words) in zip(rows["train"], training, strict=True)
        ]
    labels = dataset.dataset.labels
    assert labels is not None
    reference = Reference(folder, task, labels)
    train(reference, labelled_steps(reference, training), steps)
    theirs = {
        split: labelled_scores(reference, task, rows[split], examples[split])
        for split in SCORED_SPLITS
    }
    scores, weights = ours(name, data, folder, steps)
    check(scores, theirs, weights, reference)
