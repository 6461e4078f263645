"""The rows of questions.md: each result is a small file in results/, and what is there is not made again.

    python -m tests.benchmarks.better.rows a b --data DATA --models MODELS --work WORK

MODELS has the folders minilm-l6 and smollm2-135m, DATA the files that sets.py names, WORK takes checkpoints. Killed,
the same command goes on. Row a needs the package bm25s. One thread.
"""

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer

from tests.benchmarks.better.closing import RATE, close, mined
from tests.benchmarks.better.pretrained import (
    CLM_MLM,
    MLM,
    Places,
    adapted_minilm,
    as_loaded,
    both_ways,
    plain_smollm2,
    pretrained_smollm2,
    random_smollm2,
)
from tests.benchmarks.better.scores import (
    K1,
    METHOD,
    STOPWORDS,
    B,
    Clock,
    bm25,
    by_cosine,
    keep,
    keep_clusters,
    provenance,
    result_path,
    sentiment,
)
from tests.benchmarks.better.sets import NQ, QMSUM, SETS, SQUAD, RetrievalSet, sst2

SEEDS = (0, 1, 2)
TRAINED_LENGTH, OWN_LENGTH = 128, 256
"""Tokens of MiniLM's texts: where it is trained, and what its folder says."""
DECODER_LENGTH, SHORT_LENGTH = 64, 32
"""Tokens of SmolLM2's texts: without pairs, and in its closing step."""
UPDATES, FEW_UPDATES = 250, 40
SST2 = "sst2"
DECODER_TASKS = (QMSUM, NQ, SST2)


def row_a(places: Places) -> None:
    """What costs nothing: BM25, and MiniLM as it is at the length that it is trained at."""
    found = {name: read(places.data) for name, read in SETS.items()}
    keep_clusters(found.values())
    for name, retrieval in found.items():
        path = result_path("a", "bm25", name, None, None)
        if not path.exists():
            clock = Clock()
            settings = {
                "k1": K1,
                "b": B,
                "method": METHOD,
                "stopwords": STOPWORDS,
                "stemmer": None,
            }
            made = bm25(retrieval)
            keep(
                path,
                {
                    **about(retrieval),
                    "settings": settings,
                    **made,
                    **provenance(None, clock),
                },
            )
    untrained_minilm(places, TRAINED_LENGTH)


def row_a_own(places: Places) -> None:
    """MiniLM as it is at its own length."""
    untrained_minilm(places, OWN_LENGTH)


def untrained_minilm(places: Places, length: int) -> None:
    """Score MiniLM as it is on the three sets."""
    model = opened(places.minilm, length)
    for name in (NQ, QMSUM, SQUAD):
        path = result_path("a", "minilm", name, length, None)
        score(path, SETS[name](places.data), places.minilm, model)


def row_b(places: Places) -> None:
    """MiniLM after pairs: one seed of both sets before the next."""
    for seed in SEEDS:
        for name in (QMSUM, NQ):
            of_minilm("b", "minilm-pairs", name, seed).make(places, places.minilm)


def row_c(places: Places) -> None:
    """MiniLM after MLM and then pairs; each seed is a pretraining and a closing step."""
    for seed in SEEDS:
        closing = of_minilm("c", "minilm-mlm-pairs", QMSUM, seed)
        if not closing.is_made:
            closing.make(places, adapted_minilm(places, seed))


def row_d_untrained(places: Places) -> None:
    """SmolLM2 as it is, without its chat template, and both ways."""
    folders = {"as-loaded": as_loaded, "plain": plain_smollm2, "both-ways": both_ways}
    for task in DECODER_TASKS:
        for model, folder_of in folders.items():
            without_pairs(places, f"smollm2-{model}", None, folder_of, (task,))


def row_d(places: Places) -> None:
    """SmolLM2 without pairs, and row f of the same models."""
    row_d_untrained(places)
    for seed in SEEDS:
        for arm in (MLM, CLM_MLM):
            without_pairs(
                places,
                f"smollm2-{arm}",
                seed,
                partial(pretrained_smollm2, arm=arm, seed=seed),
            )


def without_pairs(
    places: Places,
    model: str,
    seed: int | None,
    folder_of: Callable[[Places], Path],
    tasks: tuple[str, ...] = DECODER_TASKS,
) -> None:
    """Score a model of SmolLM2 on some of QMSum, NQ and SST-2."""
    rows = {task: "f" if task == SST2 else "d" for task in tasks}
    paths = {
        task: result_path(row, model, task, DECODER_LENGTH, seed)
        for task, row in rows.items()
    }
    if all(path.exists() for path in paths.values()):
        return
    folder = folder_of(places)
    encoder = opened(folder, DECODER_LENGTH)
    told = {} if seed is None else {"seed": seed}
    for task, path in paths.items():
        if task == SST2:
            score_sentiment(path, places, folder, encoder, told)
        else:
            score(path, SETS[task](places.data), folder, encoder, told)


def row_e(places: Places) -> None:
    """SmolLM2 after few updates on pairs, by what it began as."""
    starts: dict[str, Callable[[Places], Path]] = {
        "smollm2-both-ways": both_ways,
        f"smollm2-{MLM}": partial(pretrained_smollm2, arm=MLM, seed=0),
        f"smollm2-{CLM_MLM}": partial(pretrained_smollm2, arm=CLM_MLM, seed=0),
        "smollm2-random": random_smollm2,
    }
    for model, folder_of in starts.items():
        closing = Closing(
            row="e",
            model=f"{model}-pairs",
            name=NQ,
            seed=0,
            updates=FEW_UPDATES,
            length=SHORT_LENGTH,
            lengths=(SHORT_LENGTH,),
        )
        if not closing.is_made:
            closing.make(places, folder_of(places))


def row_f(places: Places) -> None:
    """MiniLM's vectors on SST-2; those of SmolLM2 come with row d."""
    path = result_path("f", "minilm", SST2, TRAINED_LENGTH, None)
    score_sentiment(path, places, places.minilm, opened(places.minilm, TRAINED_LENGTH))


@dataclass(frozen=True, kw_only=True)
class Closing:
    """One closing step, and where its results go."""

    row: str
    model: str
    name: str
    """The set's."""
    seed: int
    updates: int
    length: int
    """Longest text in training."""
    lengths: tuple[int, ...]
    """Longest texts of the scores."""

    @property
    def paths(self) -> dict[int, Path]:
        """Of the results, by length."""
        return {
            length: result_path(self.row, self.model, self.name, length, self.seed)
            for length in self.lengths
        }

    @property
    def is_made(self) -> bool:
        return all(path.exists() for path in self.paths.values())

    def make(self, places: Places, folder: Path) -> None:
        """Train a folder on the set's triplets and score it on the test queries."""
        if self.is_made:
            return
        retrieval = SETS[self.name](places.data)
        miner = opened(places.minilm, TRAINED_LENGTH)
        triplets = mined(retrieval, miner, places.work / f"triplets-{self.name}.json")
        clock, trained = Clock(), opened(folder, self.length)
        state = places.work / f"{self.row}-{self.model}-{self.name}-{self.seed}.pt"
        losses = close(trained, triplets, self.seed, self.updates, state, clock)
        training = {
            "seed": self.seed,
            "updates": self.updates,
            "rate": RATE,
            "triplets": len(triplets),
            "trained_length": self.length,
            "training_cpu_seconds": round(clock.read()[0], 1),
            "first_losses": [round(loss, 4) for loss in losses[:5]],
            "last_losses": [round(loss, 4) for loss in losses[-5:]],
        }
        for length, path in self.paths.items():
            trained.max_seq_length = length
            score(path, retrieval, folder, trained, training)
        state.unlink()  # the weights three times over


def of_minilm(row: str, model: str, name: str, seed: int) -> Closing:
    """Return a closing step of rows b and c."""
    lengths = (TRAINED_LENGTH, OWN_LENGTH) if name == QMSUM else (TRAINED_LENGTH,)
    return Closing(
        row=row,
        model=model,
        name=name,
        seed=seed,
        updates=UPDATES,
        length=TRAINED_LENGTH,
        lengths=lengths,
    )


def opened(folder: Path, length: int) -> SentenceTransformer:
    """Open a folder as sentence-transformers reads it, with a longest text."""
    model = SentenceTransformer(str(folder), device="cpu")
    model.max_seq_length = length
    return model


def about(found: RetrievalSet) -> dict[str, Any]:
    """Return the sizes of a set."""
    sizes = {
        "documents": len(found.documents),
        "test_queries": len(found.test),
        "train_pairs": len(found.train),
    }
    return {"set": found.name, **sizes}


def score(
    path: Path,
    found: RetrievalSet,
    start: Path,
    model: SentenceTransformer,
    training: dict[str, Any] | None = None,
) -> None:
    """Score a model on a set, unless that is done.

    Args:
        path: of the result.
        found: the set.
        start: the folder whose weights the result names: what the model was before any closing step.
        model: what is scored.
        training: what the closing step was.
    """
    if path.exists():
        return
    clock = Clock()
    made = by_cosine(found, model)
    told = {**about(found), "max_length": model.max_seq_length, **(training or {})}
    keep(path, {**told, **made, **provenance(start, clock)})


def score_sentiment(
    path: Path,
    places: Places,
    start: Path,
    model: SentenceTransformer,
    told: dict[str, Any] | None = None,
) -> None:
    """Score a model's frozen vectors on SST-2, unless that is done."""
    if path.exists():
        return
    clock = Clock()
    made = sentiment(sst2(places.data), model)
    keep(
        path,
        {
            "set": "sst2",
            "max_length": model.max_seq_length,
            **(told or {}),
            **made,
            **provenance(start, clock),
        },
    )


ROWS = {
    "a": row_a,
    "a-own": row_a_own,
    "b": row_b,
    "c": row_c,
    "d-untrained": row_d_untrained,
    "d": row_d,
    "e": row_e,
    "f": row_f,
}


def main() -> None:
    """Make the rows that are asked for, in their order."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="+", choices=sorted(ROWS))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    given = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    torch.set_num_threads(1)
    places = Places(data=given.data, models=given.models, work=given.work)
    places.work.mkdir(parents=True, exist_ok=True)
    for row in given.rows:
        ROWS[row](places)


if __name__ == "__main__":
    main()
