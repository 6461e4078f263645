"""The closing step of questions.md: mined triplets, and updates on them that go on where a kill stopped them."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import mine_hard_negatives
from torch import Tensor, nn

from benchmarks.finetuning.trainer import learning_rate, make_optimiser
from benchmarks.protocol import FINE_TUNING
from benchmarks.tasks.retrieval import info_nce
from common.files import atomic_path, write_text
from tests.benchmarks.better.scores import Clock
from tests.benchmarks.better.sets import RetrievalSet

RATE = 5e-5
_MARGIN = 0.05
_SAVE_SECONDS = 180

Triplet = tuple[str, str, str]
"""A query, the document that answers it, and one that does not."""


def mined(found: RetrievalSet, model: SentenceTransformer, path: Path) -> list[Triplet]:
    """Return a set's training pairs with a hard negative each, kept in a file.

    The negative is the training document most like the query whose similarity is at most 95 % of the positive's.
    """
    if not path.exists():
        columns = list(zip(*found.train, strict=True))
        pairs = Dataset.from_dict(
            {"query": list(columns[0]), "positive": list(columns[1])}
        )
        rows = mine_hard_negatives(
            pairs,
            model,
            range_max=len(set(columns[1])) - 1,
            relative_margin=_MARGIN,
            num_negatives=1,
            sampling_strategy="top",
            verbose=False,
        )
        write_text(
            path,
            json.dumps(
                [(row["query"], row["positive"], row["negative"]) for row in rows]
            ),
        )
    return [tuple(row) for row in json.loads(path.read_text())]


def batches(triplets: list[Triplet], seed: int, size: int) -> Iterator[list[Triplet]]:
    """Yield batches without end, no two rows of one positive in a batch.

    Each pass is a permutation; a row that has to wait is of the next batch that it fits, and what fills no batch at a
    pass's end is left out.
    """
    generator = torch.Generator().manual_seed(seed)
    while True:
        waiting = [
            triplets[number]
            for number in torch.randperm(len(triplets), generator=generator)
        ]
        while True:
            batch: dict[str, Triplet] = {}
            left = []
            for row in waiting:
                if len(batch) < size and row[1] not in batch:
                    batch[row[1]] = row
                else:
                    left.append(row)
            if len(batch) < size:
                break
            yield list(batch.values())
            waiting = left


def vectors(model: SentenceTransformer, texts: list[str]) -> Tensor:
    """Return the vectors (texts, H), with their graph."""
    return model(model.preprocess(texts))["sentence_embedding"]


def close(
    model: SentenceTransformer,
    triplets: list[Triplet],
    seed: int,
    steps: int,
    state: Path,
    clock: Clock,
) -> list[float]:
    """Train a model in place and return the losses; the checkpoint `state` is written every three minutes."""
    torch.manual_seed(seed)  # for dropout
    optimiser = make_optimiser(model, RATE, FINE_TUNING)
    losses: list[float] = []
    if state.exists():
        saved = torch.load(state, weights_only=True)
        model.load_state_dict(saved["model"])
        optimiser.load_state_dict(saved["optimiser"])
        torch.set_rng_state(saved["generator"])
        losses, (clock.cpu, clock.wall) = saved["losses"], saved["seconds"]
    order = batches(triplets, seed, FINE_TUNING.batch)
    for _ in losses:
        next(order)
    model.train()
    saved_at = time.monotonic()
    for step in range(len(losses), steps):
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(step, steps, RATE, FINE_TUNING.warmup_share)
        queries, positives, negatives = map(list, zip(*next(order), strict=True))
        documents = vectors(model, positives + negatives)
        (loss,) = info_nce(vectors(model, queries), documents, FINE_TUNING.temperature)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), FINE_TUNING.clip_norm)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        losses.append(float(loss.detach()))
        if time.monotonic() - saved_at > _SAVE_SECONDS or step + 1 == steps:
            made = {
                "model": model.state_dict(),
                "optimiser": optimiser.state_dict(),
                "generator": torch.get_rng_state(),
                "losses": losses,
                "seconds": clock.read(),
            }
            with atomic_path(state) as temporary:
                torch.save(made, temporary)
            saved_at = time.monotonic()
            print(
                f"{time.strftime('%H:%M:%S')} update {step + 1} of {steps}, loss {losses[-1]:.3f}",
                flush=True,
            )
    model.eval()
    return losses
