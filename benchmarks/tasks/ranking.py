"""Retrieval's evaluation: vectors of queries and documents, and the nearest documents of each query.

Shape suffixes: H hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.finetuning.device import Device
from benchmarks.finetuning.heads import Pooling
from benchmarks.finetuning.trainer import FineTuningError
from benchmarks.metrics.metric import Evaluation, RankingPredictions, evaluate
from benchmarks.protocol import Dataset
from benchmarks.runs import SPLITS
from benchmarks.tasks.base import TaskModel
from benchmarks.tasks.supervised import PaddedBatch, in_halves

__all__ = ["RetrievalEvaluator", "Texts", "rank"]

_DEPTH = 100


@dataclass(frozen=True, kw_only=True)
class Texts:
    """Queries of both splits and documents in one tokenisation."""

    queries: dict[str, list[PaddedBatch]]
    documents: list[PaddedBatch]


@dataclass(frozen=True, kw_only=True)
class RetrievalEvaluator:
    """A retrieval dataset, tokenised and batched once for all runs."""

    dataset: Dataset
    """The dataset, whose metrics are computed."""
    query_ids: dict[str, list[str]]
    """Query ids by split, in the order of the scores."""
    document_ids: list[str]
    """Ids of the judged documents of both splits."""
    qrels: dict[str, dict[str, dict[str, int]]]
    """By split: for each query, the relevance of each judged document."""
    paper: Texts
    """What the paper's evaluation reads."""
    standard: Texts
    """The same texts tokenised as in fine-tuning; the same object where that makes no difference."""
    pooling: Pooling
    """How a text becomes a vector."""
    cutoff: int
    """Depth of the paper's ranking."""

    def evaluate(self, model: TaskModel, device: Device) -> dict[str, Evaluation]:
        """Score a fine-tuned model on both splits; the documents are embedded once for both."""
        model.eval()
        documents = self._vectors(model, self.paper.documents, len(self.document_ids), device)
        alike = self.standard is self.paper
        others = documents
        if not alike:
            others = self._vectors(model, self.standard.documents, len(self.document_ids), device)
        evaluations = {}
        for split in SPLITS:
            queries = self._query_vectors(model, self.paper, split, device)
            paper = rank(queries, documents, self.cutoff, as_numpy=True)
            queries = queries if alike else self._query_vectors(model, self.standard, split, device)
            standard = rank(queries, others, _DEPTH)
            predictions = RankingPredictions(
                query_ids=self.query_ids[split],
                qrels=self.qrels[split],
                paper_similarities=paper[0],
                paper_documents=self._ids(paper[1]),
                similarities=standard[0],
                documents=self._ids(standard[1]),
            )
            evaluations[split] = evaluate(self.dataset, predictions)
        return evaluations

    def _ids(self, ranked: NDArray[np.int64]) -> list[list[str]]:
        return [[self.document_ids[document] for document in row] for row in ranked]

    def _query_vectors(self, model: nn.Module, texts: Texts, split: str, device: Device) -> Tensor:
        return self._vectors(model, texts.queries[split], len(self.query_ids[split]), device)

    @torch.inference_mode()
    def _vectors(self, model: nn.Module, batches: Sequence[PaddedBatch], size: int, device: Device) -> Tensor:
        """Return unit vectors (size, H) on the device."""
        out: Tensor | None = None
        for batch in batches:
            with device.embedding():
                vectors = in_halves(
                    lambda ids, lengths, kinds: self.pooling.pool(model(ids, lengths), lengths), batch
                )
            if out is None:
                out = vectors.new_empty((size, vectors.shape[1]))
            out[device.tensor(batch.rows)] = F.normalize(vectors, dim=-1)
        assert out is not None
        if not bool(torch.isfinite(out).all()):
            raise FineTuningError("the fine-tuned model's outputs are not finite")
        return out


def rank(
    queries: Tensor, documents: Tensor, depth: int, *, as_numpy: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return cosine similarities and numbers of each query's nearest documents, best first.

    Which of equally similar documents are in the ranking is left to torch, or `as_numpy` to NumPy's `argsort`, which
    the paper's code calls.
    """
    number, depth = len(documents), min(depth, len(documents))
    similarities, ranked = [], []
    for part in torch.split(queries, 1_024):
        all_similarities = part @ documents.T
        best = torch.topk(all_similarities, min(depth + 1, number), dim=1)
        found = best.indices[:, :depth].cpu().numpy()
        if as_numpy and depth < number:
            tied = (best.values[:, depth - 1] == best.values[:, depth]).nonzero().flatten().cpu().numpy()
            for row in tied:
                found[row] = np.argsort(all_similarities[row].cpu().numpy())[-depth:][::-1]
        ranked.append(found)
        similarities.append(best.values[:, :depth].double().cpu().numpy())
    return np.concatenate(similarities), np.concatenate(ranked)
