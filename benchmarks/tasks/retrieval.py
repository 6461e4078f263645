"""Retrieval (IR): InfoNCE on MS MARCO pairs, then NDCG over the documents that a dataset judges.

Shape suffixes: B pairs, L padded length, H hidden size, N documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.datasets.local_dataset import LocalDataset
from benchmarks.finetuning.device import Machine
from benchmarks.finetuning.encoders import Loaded
from benchmarks.finetuning.heads import pool
from benchmarks.finetuning.tokenization import document_text, encode_retrieval_paper, encode_texts, query_text
from benchmarks.finetuning.trainer import Groups, TuningError
from benchmarks.metrics import paper as paper_metrics
from benchmarks.metrics import standard as standard_metrics
from benchmarks.protocol import Tuning
from benchmarks.ragged import Ragged, padded_batches
from benchmarks.runs import SPLITS
from benchmarks.tasks.supervised import Evaluation, Measured, PaddedBatch

__all__ = [
    "ContrastiveObjective",
    "RetrievalEvaluator",
    "contrastive_objective",
    "info_nce",
    "retrieval_evaluator",
]

_DEPTH = 100


def info_nce(queries: Tensor, documents: Tensor, temperature: float) -> Tensor:
    """Return the mean loss of telling each query's document from the others' in the batch.

    Args:
        queries: (B, H), any length: similarity is the cosine.
        documents: (B, H), row i belonging to query i.
        temperature: divides the similarities.
    """
    similarities = F.normalize(queries, dim=-1) @ F.normalize(documents, dim=-1).T
    return F.cross_entropy(similarities / temperature, torch.arange(len(queries), device=queries.device))


@dataclass(frozen=True, kw_only=True)
class ContrastiveObjective:
    """InfoNCE over whole batches, with the gradient cached where their activations do not fit into memory."""

    queries: Ragged
    """Token ids of the queries at hand."""
    documents: Ragged
    """Token ids of their positive documents."""
    size: int
    """Number of training pairs in the dataset."""
    tuning: Tuning
    """Batch, micro-batch and temperature."""
    pad: int
    """Id put after a row's end."""
    pooling: str
    """How a text becomes a vector."""
    rows: NDArray[np.int64]
    """Which of the dataset's pairs are at hand, ascending."""

    @property
    def micro_batch(self) -> int:
        """The whole batch: every query sees all its documents."""
        return self.tuning.batch

    @property
    def groups(self) -> int:
        """One: nothing is accumulated."""
        return 1

    def backward(self, model: nn.Module, groups: Groups, machine: Machine) -> Tensor:
        """Add the batch's gradient.

        Texts go through the model in passes; when the activations of all passes are too many, they are computed
        twice: once without a graph for the loss and its gradient in the embeddings, once more, pass by pass,
        to carry that gradient on (Gao et al., 2021). Both ways give the same gradient.
        """
        rows = np.searchsorted(self.rows, groups[0])
        texts = Ragged.join([self._take(self.queries, rows), self._take(self.documents, rows)])
        passes = self._passes(texts, machine)
        positions = sum(len(part) * int(texts.lengths[part].max()) for part in passes)
        order = torch.from_numpy(np.argsort(np.concatenate(passes))).to(machine.device)
        if positions <= machine.graph_positions:
            vectors = torch.cat([self._embed(model, texts, part, machine) for part in passes])[order]
            loss = info_nce(vectors[: len(rows)], vectors[len(rows) :], self.tuning.temperature)
            loss.backward()  # type: ignore[no-untyped-call]
            return loss.detach()
        on_gpu = machine.device.type == "cuda"
        state = torch.get_rng_state(), torch.cuda.get_rng_state(machine.device) if on_gpu else None
        with torch.no_grad():
            leaf = torch.cat([self._embed(model, texts, part, machine) for part in passes])
        leaf.requires_grad_()
        vectors = leaf[order]
        loss = info_nce(vectors[: len(rows)], vectors[len(rows) :], self.tuning.temperature)
        loss.backward()  # type: ignore[no-untyped-call]
        assert leaf.grad is not None
        torch.set_rng_state(state[0])
        if state[1] is not None:
            torch.cuda.set_rng_state(state[1], machine.device)
        start = 0
        for part in passes:
            again = self._embed(model, texts, part, machine)
            again.backward(leaf.grad[start : start + len(part)])  # type: ignore[no-untyped-call]
            start += len(part)
        return loss.detach()

    def _take(self, texts: Ragged, rows: NDArray[np.int64]) -> Ragged:
        return Ragged.of([texts[int(row)] for row in rows])

    def _passes(self, texts: Ragged, machine: Machine) -> list[NDArray[np.int64]]:
        if not machine.exact_micro_batches:
            return padded_batches(texts.lengths, machine.train_positions, machine.overhead)
        size = self.tuning.micro_batch
        half = len(texts) // 2
        starts = [*range(0, half, size), *range(half, 2 * half, size)]
        ends = [min(start + size, half if start < half else 2 * half) for start in starts]
        return [np.arange(start, end) for start, end in zip(starts, ends, strict=True)]

    def _embed(self, model: nn.Module, texts: Ragged, part: NDArray[np.int64], machine: Machine) -> Tensor:
        ids = machine.tensor(texts.padded(part, self.pad)).long()
        return embed(model, ids, machine.tensor(texts.lengths[part]), self.pooling, machine)


def embed(model: nn.Module, ids: Tensor, lengths: Tensor, pooling: str, machine: Machine) -> Tensor:
    """Return the vectors (B, H) of texts in float32."""
    with machine.autocast():
        hidden = model(ids, lengths)
        return pool(hidden, lengths, "mean" if pooling == "late" else pooling).float()


def contrastive_objective(
    table: pa.Table, rows: NDArray[np.int64], loaded: Loaded, tuning: Tuning, pooling: str
) -> ContrastiveObjective:
    """Tokenise the training pairs that the runs draw.

    Args:
        table: all pairs.
        rows: pairs that are needed, ascending.
        loaded: tokenizer and limits.
        tuning: batch, micro-batch and temperature.
        pooling: how a text becomes a vector.
    """
    taken = table.take(rows)
    queries = [query_text(text) for text in taken["query"].to_pylist()]
    documents = [document_text(text) for text in taken["positive"].to_pylist()]
    return ContrastiveObjective(
        queries=encode_texts(loaded.tokenizer, queries, loaded.limits[0]),
        documents=encode_texts(loaded.tokenizer, documents, loaded.limits[0]),
        size=table.num_rows,
        tuning=tuning,
        pad=loaded.tokenizer.pad_token_id,
        pooling=pooling,
        rows=rows,
    )


@dataclass(frozen=True, kw_only=True)
class _Texts:
    """Queries of both splits and documents in one tokenisation."""

    queries: dict[str, list[PaddedBatch]]
    documents: list[PaddedBatch]


@dataclass(frozen=True, kw_only=True)
class RetrievalEvaluator:
    """A retrieval dataset, tokenised and batched once for all runs."""

    query_ids: dict[str, list[str]]
    """Query ids by split, in the order of the scores."""
    document_ids: list[str]
    """Ids of the judged documents of both splits."""
    qrels: dict[str, dict[str, dict[str, int]]]
    """By split: for each query, the relevance of each judged document."""
    paper: _Texts
    """What the paper's evaluation reads."""
    standard: _Texts
    """The same texts tokenised as in fine-tuning."""
    pooling: str
    """How a text becomes a vector."""
    cutoff: int
    """Depth of the paper's ranking."""

    def evaluate(self, model: Measured, machine: Machine) -> dict[str, Evaluation]:
        """Score a fine-tuned model on both splits; the documents are embedded once for both."""
        model.eval()
        documents = self._vectors(model, self.paper.documents, len(self.document_ids), machine)
        others = self._vectors(model, self.standard.documents, len(self.document_ids), machine)
        return {
            split: Evaluation(
                scores=self._paper(split, self._query_vectors(model, self.paper, split, machine), documents),
                standard=self._standard(
                    split, self._query_vectors(model, self.standard, split, machine), others
                ),
            )
            for split in SPLITS
        }

    def _query_vectors(self, model: nn.Module, texts: _Texts, split: str, machine: Machine) -> Tensor:
        return self._vectors(model, texts.queries[split], len(self.query_ids[split]), machine)

    @torch.inference_mode()
    def _vectors(
        self, model: nn.Module, batches: Sequence[PaddedBatch], size: int, machine: Machine
    ) -> Tensor:
        """Return unit vectors (size, H) on the device."""
        out: Tensor | None = None
        for batch in batches:
            vectors = _embed_or_split(model, batch.ids, batch.lengths, self.pooling, machine)
            if out is None:
                out = vectors.new_empty((size, vectors.shape[1]))
            out[machine.tensor(batch.rows)] = F.normalize(vectors, dim=-1)
        assert out is not None
        if not bool(torch.isfinite(out).all()):
            raise TuningError("the fine-tuned model's outputs are not finite")
        return out

    def _paper(self, split: str, queries: Tensor, documents: Tensor) -> list[float]:
        similarities, found = _rank(queries, documents, self.cutoff)
        relevant = {
            (row, document)
            for row, query in enumerate(self.query_ids[split])
            for document, relevance in self.qrels[split][query].items()
            if relevance >= 1
        }
        labels = np.array(
            [[(row, self.document_ids[d]) in relevant for d in ranked] for row, ranked in enumerate(found)]
        )
        return [float(score) for score in paper_metrics.ndcgs(similarities, labels.astype(np.int64))]

    def _standard(self, split: str, queries: Tensor, documents: Tensor) -> dict[str, object]:
        similarities, found = _rank(queries, documents, _DEPTH)
        run = {
            query: {
                self.document_ids[d]: float(s) for d, s in zip(found[row], similarities[row], strict=True)
            }
            for row, query in enumerate(self.query_ids[split])
        }
        per_query = standard_metrics.ranking_scores(run, self.qrels[split], depths=(10, _DEPTH))
        names = {
            "ndcg_cut_10": "ndcg_at_10",
            "recall_10": "recall_at_10",
            f"recall_{_DEPTH}": "recall_at_100",
        }
        instances = {
            names[measure]: [scores[query] for query in self.query_ids[split]]
            for measure, scores in per_query.items()
        }
        return {
            **{name: float(np.mean(values)) for name, values in instances.items()},
            "instances": instances,
        }


def retrieval_evaluator(
    dataset: LocalDataset, loaded: Loaded, machine: Machine, *, pooling: str, cutoff: int
) -> RetrievalEvaluator:
    """Tokenise and batch a retrieval dataset.

    Args:
        dataset: with queries, documents and judgements of both splits.
        loaded: tokenizer and limits.
        machine: gives the device and the size of a batch.
        pooling: how a text becomes a vector.
        cutoff: depth of the paper's ranking.
    """
    corpus = dataset.corpus
    documents = [
        document_text(text, title)
        for text, title in zip(corpus["text"].to_pylist(), corpus["title"].to_pylist(), strict=True)
    ]
    queries = {
        split: [query_text(text) for text in dataset.queries(split)["text"].to_pylist()] for split in SPLITS
    }
    pad = loaded.tokenizer.pad_token_id

    def batches(texts: list[str], *, paper: bool) -> list[PaddedBatch]:
        encode, limit = (
            (encode_retrieval_paper, loaded.limits[1]) if paper else (encode_texts, loaded.limits[0])
        )
        return PaddedBatch.cut(encode(loaded.tokenizer, texts, limit), machine, pad)

    paper, standard = (
        _Texts(
            queries={split: batches(texts, paper=kind) for split, texts in queries.items()},
            documents=batches(documents, paper=kind),
        )
        for kind in (True, False)
    )
    qrels: dict[str, dict[str, dict[str, int]]] = {}
    for split in SPLITS:
        qrels[split] = {query: {} for query in dataset.queries(split)["id"].to_pylist()}
        for row in dataset.qrels(split).to_pylist():
            qrels[split][row["query_id"]][row["doc_id"]] = row["relevance"]
    return RetrievalEvaluator(
        query_ids={split: dataset.queries(split)["id"].to_pylist() for split in SPLITS},
        document_ids=corpus["id"].to_pylist(),
        qrels=qrels,
        paper=paper,
        standard=standard,
        pooling=pooling,
        cutoff=cutoff,
    )


def _rank(queries: Tensor, documents: Tensor, depth: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return cosine similarities and numbers of each query's nearest documents, best first."""
    depth = min(depth, len(documents))
    best = [torch.topk(part @ documents.T, depth, dim=1) for part in torch.split(queries, 1_024)]
    similarities = torch.cat([found.values for found in best]).double().cpu().numpy()
    return similarities, torch.cat([found.indices for found in best]).cpu().numpy()


def _embed_or_split(model: nn.Module, ids: Tensor, lengths: Tensor, pooling: str, machine: Machine) -> Tensor:
    try:
        return embed(model, ids.long(), lengths, pooling, machine)
    except torch.OutOfMemoryError:
        if len(ids) == 1:
            raise TuningError("out of memory in evaluation with one row; use a larger device") from None
    half = len(ids) // 2
    return torch.cat(
        [
            _embed_or_split(model, ids[part], lengths[part], pooling, machine)
            for part in (slice(half), slice(half, None))
        ]
    )
