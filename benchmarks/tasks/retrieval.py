"""Retrieval (IR): InfoNCE on MS MARCO pairs, then the nearest documents of each query among those that are judged.

A dataset of one's own may have hard negatives, which the paper's have not: every query is scored against all of the
batch. Shape suffixes: B pairs, D documents of a batch, L padded length, H hidden size, N documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.datasets.local_dataset import LocalDataset
from benchmarks.datasets.schema import NEGATIVES
from benchmarks.finetuning.device import RunDevice
from benchmarks.finetuning.heads import Pooling
from benchmarks.finetuning.tokenization import (
    encode_as_written,
    encode_retrieval_paper,
    encode_texts,
    paper_document_text,
)
from benchmarks.finetuning.trainer import (
    FineTuningError,
    Groups,
    distinct_order,
    pair_order,
)
from benchmarks.metrics.metric import Evaluation, RankingPredictions, evaluate
from benchmarks.protocol import Dataset, FineTuning
from benchmarks.ragged import Ragged
from benchmarks.runs import SCORED_SPLITS
from benchmarks.tasks.base import Family, Setting, TaskModel, TrainedRows, packs
from benchmarks.tasks.snippets import snippet
from benchmarks.tasks.supervised import PaddedBatch, in_halves

_DOCUMENTS = "documents"
DEPTH = 100
"""Documents of a ranking by the standard protocol."""


def info_nce(
    queries: Tensor, documents: Tensor, temperature: float, rows: int | None = None
) -> Iterator[Tensor]:
    """Yield the loss of picking each query's document out of all in the batch, whose sum is the mean over queries.

    Under autocast the similarities and their quotients by the temperature are bfloat16, and the loss is float32, as in
    sentence-transformers (D16).

    Args:
        queries: (B, H), any length: similarity is the cosine.
        documents: (D, H), D >= B, row i belonging to query i; those from row B on are hard negatives.
        temperature: divides the similarities.
        rows: queries of a part; all are in one where it is None.
    """
    number = len(queries)
    numbers = torch.arange(number, device=queries.device)
    for part in torch.split(numbers, rows or number):
        unit_queries = F.normalize(queries[part], dim=1)
        unit_documents = F.normalize(documents, dim=1)
        similarities = torch.mm(unit_queries, unit_documents.T)
        # D16: sentence-transformers multiplies by a scale, which does not round like a division.
        mean = F.cross_entropy(similarities * (1 / temperature), part)
        yield mean * len(part) / number


def pooled(
    pooling: Pooling,
    model: nn.Module,
    ids: Tensor,
    lengths: Tensor,
    kinds: Tensor | None = None,
) -> Tensor:
    """Return the vectors (B, H) of texts; token type ids are not given, as the paper's code gives none."""
    del kinds
    states = model(ids, lengths)
    return pooling.pool(states, lengths.to(ids.device, non_blocking=True))


class Retrieval(Family):
    """The documents that answer a query; the model has no head, and a text becomes a vector."""

    name = "IR"

    def code(self, pooling: Pooling, *, has_head_file: bool) -> str:
        """Return how a kept encoder ranks documents, in Python."""
        return snippet("search")

    def reads(self, dataset: Dataset, longest: int) -> str:
        """Return where a title goes."""
        return "A title goes before the text of its document: `TITLE. TEXT`."

    def micro_batch(self, fine_tuning: FineTuning) -> int:
        """Return the whole batch: every query sees all its documents."""
        return fine_tuning.batch

    def order(
        self, dataset: LocalDataset, fine_tuning: FineTuning, seed: int
    ) -> Iterator[Groups]:
        """Yield the batch of each step without end; a set of one's own has no query and no positive twice in it.

        In a batch, what answers one query is taken to be wrong for all others.
        """
        if not dataset.dataset.is_own:
            return pair_order(dataset.train.num_rows, seed, fine_tuning.batch)
        queries = dataset.train["query"].to_pylist()
        positives = dataset.train["positive"].to_pylist()
        keys = list(zip(queries, positives, strict=True))
        return distinct_order(keys, seed, fine_tuning.batch)

    def objective(
        self, dataset: LocalDataset, rows: NDArray[np.int64], setting: Setting
    ) -> ContrastiveObjective:
        """Tokenise the training pairs that the runs use."""
        pairs = dataset.train.take(rows)
        queries = pairs["query"].to_pylist()
        positives = pairs["positive"].to_pylist()
        negatives: list[str] = []
        ends = [0]
        negatives_of_pairs: list[list[str]] = [[]] * pairs.num_rows
        if NEGATIVES in pairs.column_names:
            negatives_of_pairs = pairs[NEGATIVES].to_pylist()
        for texts in negatives_of_pairs:
            negatives.extend(texts)
            ends.append(len(negatives))
        reading = setting.reading
        read = partial(_read, dataset.dataset, setting)
        return ContrastiveObjective(
            queries=read(map(reading.query_text, queries)),
            documents=read(map(reading.document_text, positives)),
            negatives=read(map(reading.document_text, negatives)),
            ends=np.array(ends),
            order=partial(self.order, dataset, setting.fine_tuning),
            fine_tuning=setting.fine_tuning,
            pad=setting.loaded.retrieval_tokenizer.pad_token_id,
            pooling=setting.pooling,
            rows=rows,
        )

    def evaluator(self, dataset: LocalDataset, setting: Setting) -> RetrievalEvaluator:
        """Tokenise and batch a dataset's queries and documents."""
        tokenizer = setting.loaded.retrieval_tokenizer
        reading = setting.reading
        queries: dict[str, list[str]] = {}
        for split in SCORED_SPLITS:
            texts = dataset.queries(split)["text"].to_pylist()
            queries[split] = [reading.query_text(text) for text in texts]
        bodies = [(row["text"], row["title"]) for row in dataset.corpus.to_pylist()]
        documents = [reading.document_text(*body) for body in bodies]
        trained_texts = {**queries, _DOCUMENTS: documents}
        trained_ids = {
            name: _read(dataset.dataset, setting, texts)
            for name, texts in trained_texts.items()
        }
        paper_ids = trained_ids
        if not dataset.dataset.is_own:
            longest = setting.loaded.limits.paper_retrieval
            paper_documents = [paper_document_text(*body) for body in bodies]
            paper_texts = {**queries, _DOCUMENTS: paper_documents}
            paper_ids = {
                name: encode_retrieval_paper(tokenizer, texts, longest)
                for name, texts in paper_texts.items()
            }

        def batches(ids_of: dict[str, Ragged]) -> dict[str, list[PaddedBatch]]:
            pad, device = tokenizer.pad_token_id, setting.device
            return {
                name: PaddedBatch.cut(ids, device, pad) for name, ids in ids_of.items()
            }

        paper = batches(paper_ids)
        # If both protocols give the same ids, vectors are computed once.
        standard = paper
        if not all(ids.equals(trained_ids[name]) for name, ids in paper_ids.items()):
            standard = batches(trained_ids)
        return RetrievalEvaluator(
            judged=judged_of(dataset),
            paper=paper,
            standard=standard,
            pooling=setting.pooling,
            cutoff=setting.fine_tuning.cutoff,
        )


def _read(dataset: Dataset, setting: Setting, texts: Iterable[str]) -> Ragged:
    """Return token ids as fine-tuning reads texts, prompts included."""
    if dataset.is_own:
        tokenizer = setting.own_tokenizer
        return encode_as_written(tokenizer, list(texts), setting.own_longest)
    loaded = setting.loaded
    longest = loaded.limits.retrieval
    return encode_texts(loaded.retrieval_tokenizer, list(texts), longest)


@dataclass(frozen=True, kw_only=True)
class ContrastiveObjective(TrainedRows):
    """InfoNCE over whole batches; where a batch's activations do not fit into memory, by gradient caching."""

    queries: Ragged
    """Token ids of the queries at hand."""
    documents: Ragged
    """Token ids of their positive documents."""
    negatives: Ragged
    """Token ids of their hard negatives, one query's after the other's."""
    ends: NDArray[np.int64]
    """Where each query's negatives start, and where the last one's end."""
    pooling: Pooling
    """How a text becomes a vector."""

    def backward(self, model: nn.Module, groups: Groups, device: RunDevice) -> Tensor:
        """Add the batch's gradient.

        Texts go through the model in passes; when the activations of all passes are too many, they are computed
        twice: once without a graph for the loss and its gradient in the embeddings, once more, pass by pass,
        to continue the backward pass from there (Gao et al., 2021). Both ways give the same gradient but for the order
        in which the passes' parts are rounded; exact micro-batches take the second, as the paper's code does.
        """
        rows = np.searchsorted(self.rows, groups[0])
        number = len(rows)
        texts, sizes = self._texts_of(rows)
        passes = device.passes(texts.lengths, sizes, packed=packs(model))
        positions = 0
        for part in passes:
            positions += len(part) * int(texts.lengths[part].max())
        # From the order of the passes to the order of `texts`.
        order = device.tensor(np.argsort(np.concatenate(passes)))
        embed = partial(self._embed, model, texts, number, device)
        most = device.train_positions * device.kind.graph_factor
        if positions <= most and not device.exact_micro_batches:
            vectors = torch.cat([embed(part) for part in passes])
            return self._loss_backward(vectors[order], number, device)
        gpus = [device.torch_device] if device.kind.gpu else []
        # The generators are restored, so that the second pass draws the same dropout masks as this one.
        with torch.no_grad(), torch.random.fork_rng(gpus):
            leaf = torch.cat([embed(part) for part in passes])
        leaf.requires_grad_()
        loss = self._loss_backward(leaf[order], number, device)
        assert leaf.grad is not None
        first = 0
        for part in passes:
            end = first + len(part)
            embed(part).backward(leaf.grad[first:end])  # type: ignore[no-untyped-call]
            first = end
        return loss

    def _texts_of(self, rows: NDArray[np.int64]) -> tuple[Ragged, list[int]]:
        """Return the texts of a batch, queries first, and the sizes of the micro-batches that they make."""
        hard: list[int] = []
        for row in rows:
            hard.extend(range(self.ends[row], self.ends[row + 1]))
        size = self.fine_tuning.micro_batch
        texts: list[NDArray[np.int32]] = []
        sizes: list[int] = []

        def add(ids: Ragged, numbers: Iterable[int]) -> None:
            added = [ids[number] for number in numbers]
            texts.extend(added)
            for first in range(0, len(added), size):
                sizes.append(min(size, len(added) - first))

        add(self.queries, rows.tolist())
        add(self.documents, rows.tolist())
        add(self.negatives, hard)
        return Ragged.of(texts), sizes

    def _loss_backward(
        self, vectors: Tensor, n_queries: int, device: RunDevice
    ) -> Tensor:
        """Backpropagate a batch's loss through `vectors`, and return the loss, detached.

        The first `n_queries` rows of `vectors` are queries, the others documents.
        """
        total = torch.zeros((), device=vectors.device)
        tuning = self.fine_tuning
        in_parts = device.precision.autocast or device.exact_micro_batches
        # Gradients of all parts are gathered in this leaf, so that there is one backward pass through the encoder.
        leaf = vectors.detach().requires_grad_()
        rows = tuning.micro_batch if in_parts else None
        with device.autocast():
            queries, documents = leaf[:n_queries], leaf[n_queries:]
            parts = info_nce(queries, documents, tuning.temperature, rows)
            # Parts are summed one after the other, as in the paper's code: in bfloat16 the order changes the sum.
            for loss in parts:
                loss.backward()  # type: ignore[no-untyped-call]
                total += loss.detach()
        vectors.backward(leaf.grad)  # type: ignore[no-untyped-call]
        return total

    def _embed(
        self,
        model: nn.Module,
        texts: Ragged,
        number: int,
        device: RunDevice,
        part: NDArray[np.int64],
    ) -> Tensor:
        """Return the vectors of the texts numbered `part`, which share a forward pass.

        The batch's first `number` texts are queries, the others documents.
        """
        width = 0  # as wide as the longest of the pass
        if device.exact_micro_batches:
            # Such a pass has queries only or documents only, padded to the batch's longest as in the paper's code.
            are_queries = part[0] < number
            alike = slice(number) if are_queries else slice(number, None)
            width = int(texts.lengths[alike].max())
        padded = texts.padded(part, self.pad, width)
        ids = device.tensor(padded).long()
        lengths = torch.from_numpy(texts.lengths[part])
        with device.autocast():
            vectors = pooled(self.pooling, model, ids, lengths)
            return vectors.float()


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What is searched, and what is relevant."""

    dataset: Dataset
    """The dataset, whose metrics are computed."""
    document_ids: list[str]
    """Ids of the judged documents of both splits."""
    qrels: dict[str, dict[str, dict[str, int]]]
    """By split: for each query, in the order of the scores, the relevance of each judged document."""

    def own_documents(self, split: str) -> dict[int, int]:
        """Return by a query's number that of the document with its id, which BEIR does not count as retrieved.

        Empty for the paper's datasets, whose queries and documents are numbered apart.
        """
        if not self.dataset.is_own:
            return {}
        numbers = {
            identity: number for number, identity in enumerate(self.document_ids)
        }
        return {
            row: numbers[query]
            for row, query in enumerate(self.qrels[split])
            if query in numbers
        }

    def ids(self, ranked: NDArray[np.int64], own: Mapping[int, int]) -> list[list[str]]:
        """Return the ids of ranked documents; a query's own document (if ranked, the last) gets an id nobody judged."""
        rankings = []
        for row, documents in enumerate(ranked):
            ids = [self.document_ids[document] for document in documents]
            if row in own:
                ids = [
                    "" if document == own[row] else identity
                    for document, identity in zip(documents, ids, strict=True)
                ]
            rankings.append(ids)
        return rankings


def judged_of(dataset: LocalDataset) -> Judged:
    """Return a dataset's documents and judgements."""
    qrels: dict[str, dict[str, dict[str, int]]] = {}
    for split in SCORED_SPLITS:
        queries = dataset.queries(split)["id"].to_pylist()
        of_split: dict[str, dict[str, int]] = {query: {} for query in queries}
        for row in dataset.qrels(split).to_pylist():
            of_query = of_split[row["query_id"]]
            of_query[row["doc_id"]] = row["relevance"]
        qrels[split] = of_split
    return Judged(
        dataset=dataset.dataset,
        document_ids=dataset.corpus["id"].to_pylist(),
        qrels=qrels,
    )


@dataclass(frozen=True, kw_only=True)
class RetrievalEvaluator:
    """A retrieval dataset, tokenised and batched once for all runs."""

    judged: Judged
    """Documents and judgements."""
    paper: dict[str, list[PaddedBatch]]
    """What the paper's evaluation reads: the queries of each split, and the documents."""
    standard: dict[str, list[PaddedBatch]]
    """The same texts tokenised as in fine-tuning; the same object where that makes no difference."""
    pooling: Pooling
    """How a text becomes a vector."""
    cutoff: int
    """Depth of the paper's ranking."""

    def __call__(self, model: TaskModel, device: RunDevice) -> dict[str, Evaluation]:
        """Score a fine-tuned model on both splits; the documents are embedded once for both."""
        model.eval()
        paper = {
            name: self.vectors(model, texts, device)
            for name, texts in self.paper.items()
        }
        standard = paper
        if self.standard is not self.paper:
            standard = {
                name: self.vectors(model, texts, device)
                for name, texts in self.standard.items()
            }
        evaluations = {}
        for split in SCORED_SPLITS:
            predictions = self._ranked(split, paper, standard)
            evaluations[split] = evaluate(self.judged.dataset, predictions)
        return evaluations

    def _ranked(
        self, split: str, paper: Mapping[str, Tensor], standard: Mapping[str, Tensor]
    ) -> RankingPredictions:
        """Return the rankings of a split's queries by both protocols, from vectors of queries and documents."""
        judged = self.judged
        qrels, own = judged.qrels[split], judged.own_documents(split)
        queries, documents = paper[split], paper[_DOCUMENTS]
        # Among equally similar documents the paper's code keeps those that NumPy's argsort puts first.
        paper_similarities, paper_ranked = rank(
            queries, documents, self.cutoff, as_numpy=True, excluded=own
        )
        queries, documents = standard[split], standard[_DOCUMENTS]
        similarities, ranked = rank(queries, documents, DEPTH, excluded=own)
        return RankingPredictions(
            query_ids=list(qrels),
            qrels=qrels,
            paper_similarities=paper_similarities,
            paper_documents=judged.ids(paper_ranked, own),
            similarities=similarities,
            documents=judged.ids(ranked, own),
        )

    @torch.inference_mode()
    def vectors(
        self, model: nn.Module, batches: Sequence[PaddedBatch], device: RunDevice
    ) -> Tensor:
        """Return unit vectors (N, H) of the batches' texts, in the order of the rows, on the device."""
        with device.embedding():
            embed = partial(pooled, self.pooling, model)
            outputs = torch.cat([in_halves(embed, batch) for batch in batches])
        if not bool(torch.isfinite(outputs).all()):
            raise FineTuningError("the fine-tuned model's outputs are not finite")
        rows = np.concatenate([batch.rows for batch in batches])
        order = device.tensor(np.argsort(rows))
        return F.normalize(outputs[order], dim=-1)


def rank(
    queries: Tensor,
    documents: Tensor,
    depth: int,
    *,
    as_numpy: bool = False,
    excluded: Mapping[int, int] = MappingProxyType({}),
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return cosine similarities and numbers of each query's nearest documents, best first.

    Which of equally similar documents are in the ranking is left to torch, or `as_numpy` to NumPy's `argsort`, which
    the paper's code calls. The document that is `excluded` for a query comes last.
    """
    number = len(documents)
    depth = min(depth, number)
    similarities, ranked = [], []
    for first in range(0, len(queries), 1_024):
        part = queries[first : first + 1_024]
        all_similarities = part @ documents.T
        for row in excluded.keys() & range(first, first + len(part)):
            all_similarities[row - first, excluded[row]] = -2.0  # less than any cosine
        best = torch.topk(all_similarities, min(depth + 1, number), dim=1)
        nearest = best.indices[:, :depth].cpu().numpy()
        # If the last kept document and the first one left out are equally similar, argsort decides which is kept.
        if as_numpy and depth < number:
            is_tied = best.values[:, depth - 1] == best.values[:, depth]
            for row in is_tied.nonzero().flatten().tolist():
                ascending = np.argsort(all_similarities[row].cpu().numpy())
                nearest[row] = ascending[-depth:][::-1]
        ranked.append(nearest)
        of_nearest = best.values[:, :depth].double()
        similarities.append(of_nearest.cpu().numpy())
    return np.concatenate(similarities), np.concatenate(ranked)
