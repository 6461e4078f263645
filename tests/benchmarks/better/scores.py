"""Rankings of a set's documents, their scores by query, and the small files that keep them."""

import importlib.metadata
import json
import resource
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.metrics.standard import ranking_scores
from benchmarks.tasks.retrieval import rank
from common.files import write_text
from common.model_files import weights_hash
from tests.benchmarks.better.sets import RetrievalSet

RESULTS = Path(__file__).parent / "results"
SETS_FILE = RESULTS / "sets.json"
"""Of each set the clusters of its test queries, as numbers."""
MEASURES = ("ndcg_cut_10", "recall_10", "recall_100")
K1, B, METHOD, STOPWORDS = 1.5, 0.75, "lucene", "en"
_DEPTH = 100
_LIBRARIES = ("torch", "transformers", "sentence-transformers", "numpy")


@dataclass
class Clock:
    """Seconds of the process since it began to count, and what it had counted before a kill."""

    cpu: float = 0.0
    wall: float = 0.0
    started: tuple[float, float] = field(
        default_factory=lambda: (time.process_time(), time.monotonic())
    )

    def read(self) -> tuple[float, float]:
        """Return seconds of the CPU and of the wall."""
        cpu, wall = self.started
        return self.cpu + time.process_time() - cpu, self.wall + time.monotonic() - wall


def judged(
    found: RetrievalSet, similarities: NDArray[Any], ranked: NDArray[np.int64]
) -> dict[str, Any]:
    """Return NDCG@10 of each query, and the means of all measures, in percent.

    Args:
        found: the set.
        similarities: (queries, depth), best first.
        ranked: (queries, depth) numbers of documents.
    """
    names = [str(number) for number in range(len(found.test))]
    run = {
        name: dict(zip(map(str, numbers), map(float, values), strict=True))
        for name, numbers, values in zip(names, ranked, similarities, strict=True)
    }
    relevant = {
        name: {str(number): 1}
        for name, number in zip(names, found.relevant, strict=True)
    }
    by_query = {
        measure: list(ranking_scores(run, relevant, measure).values())
        for measure in MEASURES
    }
    means = {
        measure: round(100 * float(np.mean(values)), 3)
        for measure, values in by_query.items()
    }
    return {
        **means,
        "ndcg_by_query": [round(100 * value, 2) for value in by_query["ndcg_cut_10"]],
    }


def bm25(found: RetrievalSet) -> dict[str, Any]:
    """Rank by BM25 as bm25s has it, over whole texts.

    Documents of equal scores are in the order of the machine's sort: SQuAD's recall at 100 was 99.07 on one and 99.11
    on another, all scores at 10 the same.
    """
    import bm25s  # of this row alone

    def tokens(texts: list[str]) -> Any:
        return bm25s.tokenize(texts, stopwords=STOPWORDS, show_progress=False)

    index = bm25s.BM25(k1=K1, b=B, method=METHOD)
    index.index(tokens(found.documents), show_progress=False)
    ranked, similarities = index.retrieve(
        tokens(found.queries), k=_DEPTH, show_progress=False
    )
    return judged(found, similarities, ranked)


def embedded(
    model: SentenceTransformer, texts: Sequence[str], batch: int = 32
) -> torch.Tensor:
    """Return the unit vectors of texts, (texts, H)."""
    vectors = model.encode(
        list(texts),
        batch_size=batch,
        convert_to_tensor=True,
        normalize_embeddings=True,
        show_progress_bar=False,
    )
    return vectors.float()


def by_cosine(found: RetrievalSet, model: SentenceTransformer) -> dict[str, Any]:
    """Rank by the cosine of a model's vectors, read as sentence-transformers reads its folder."""
    queries, documents = (
        embedded(model, found.queries),
        embedded(model, found.documents),
    )
    similarities, ranked = rank(queries, documents, _DEPTH)
    return judged(found, similarities, ranked)


def sentiment(
    parts: dict[str, tuple[list[str], list[int]]], model: SentenceTransformer
) -> dict[str, Any]:
    """Return the accuracy, in percent, of a logistic regression on a model's frozen vectors.

    Args:
        parts: texts and labels of `train` and `test`.
        model: what makes the vectors.
    """
    (train, labels), (test, gold) = parts["train"], parts["test"]
    pipeline = make_pipeline(
        StandardScaler(), LogisticRegression(C=1.0, max_iter=2_000)
    )
    pipeline.fit(embedded(model, train).numpy(), labels)
    right = pipeline.predict(embedded(model, test).numpy()) == np.array(gold)
    sizes = {"train_texts": len(train), "test_texts": len(test)}
    return {
        **sizes,
        "accuracy": round(100 * float(right.mean()), 3),
        "right_by_text": right.astype(int).tolist(),
    }


def provenance(model: Path | None, clock: Clock) -> dict[str, Any]:
    """Return what a result was made with."""
    cpu, wall = clock.read()
    versions = {name: importlib.metadata.version(name) for name in _LIBRARIES}
    if model is None:
        versions = {
            name: importlib.metadata.version(name) for name in ("bm25s", "numpy")
        }
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    return {
        "weights": None if model is None else weights_hash(model),
        "versions": versions,
        "threads": torch.get_num_threads(),
        "cpu_seconds": round(cpu, 1),
        "wall_seconds": round(wall, 1),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
        "commit": commit.stdout.strip(),
    }


def result_path(
    row: str, model: str, name: str, length: int | None, seed: int | None
) -> Path:
    """Return where a result is kept."""
    parts = [row, model, name]
    if length is not None:
        parts.append(str(length))
    if seed is not None:
        parts.append(f"seed{seed}")
    return RESULTS / f"{'-'.join(parts)}.json"


def keep_clusters(sets: Iterable[RetrievalSet]) -> None:
    """Write which test queries of each set belong together."""
    numbers = {
        found.name: np.unique(found.clusters, return_inverse=True)[1].tolist()
        for found in sets
    }
    lines = [
        f" {json.dumps(name)}: {json.dumps(labels)}" for name, labels in numbers.items()
    ]
    write_text(SETS_FILE, "{\n" + ",\n".join(lines) + "\n}\n")


def keep(path: Path, made: dict[str, Any]) -> None:
    """Write a result, its long lists on one line each."""
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in made.items()]
    write_text(path, "{\n" + ",\n".join(lines) + "\n}\n")
    headline = made.get("ndcg_cut_10", made.get("accuracy"))
    print(f"{time.strftime('%H:%M:%S')} {path.stem}: {headline}", flush=True)
