"""Retrieval (IR): InfoNCE on MS MARCO pairs, then the nearest documents of each query among those that are judged.

InfoNCE is the loss of picking a query's own document out of all documents of the batch. A dataset of one's own may have
hard negatives, further documents that answer no query; the paper's datasets have none.

Shape suffixes: B pairs, D documents of a batch, L padded length, H hidden size, N documents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
"""The key of the documents next to those of the splits, which have the queries."""
DEPTH = 100
"""Documents of a ranking by the standard protocol."""


def info_nce(
    queries: Tensor, documents: Tensor, temperature: float, rows: int | None = None
) -> Iterator[Tensor]:
    """Yield the InfoNCE loss of a batch in parts, one for some of its queries; their sum is the mean over all queries.

    A caller can backpropagate each part before the next one is computed.

    Under autocast the similarities and their quotients by the temperature are bfloat16, and the loss is float32, as in
    sentence-transformers (D16).

    Args:
        queries: vectors (B, H) of any length: similarity is the cosine.
        documents: vectors (D, H), D >= B; row i belongs to query i, and rows from B on are hard negatives.
        temperature: divides the similarities.
        rows: number of queries in a part; None: all are in one part.
    """
    n_queries = len(queries)
    numbers = torch.arange(n_queries, device=queries.device)
    for part in torch.split(numbers, rows or n_queries):
        # Documents are normalised anew in each part: a backward pass frees the part's graph, so that parts
        # cannot share one.
        unit_queries = F.normalize(queries[part], dim=1)
        unit_documents = F.normalize(documents, dim=1)
        similarities = torch.mm(unit_queries, unit_documents.T)
        # The right class of query i is document i, so the numbers of the queries are the classes.
        # D16: sentence-transformers multiplies by a scale, which does not round like a division.
        mean = F.cross_entropy(similarities * (1 / temperature), part)
        yield mean * len(part) / n_queries


def pooled(
    pooling: Pooling,
    model: nn.Module,
    ids: Tensor,
    lengths: Tensor,
    kinds: Tensor | None = None,
) -> Tensor:
    """Return the vectors (B, H) of texts; the model gets no token type ids, as in the paper's code.

    `kinds` is there because `in_halves` calls every function with token ids, lengths and token type ids.
    """
    del kinds
    states = model(ids, lengths)
    return pooling.pool(states, lengths.to(ids.device, non_blocking=True))


class Retrieval(Family):
    """The documents that answer a query; the model has no head, and a text becomes a vector."""

    name = "IR"

    def code(self, pooling: Pooling, *, has_head_file: bool) -> str:
        """Return Python code with which a kept encoder ranks documents."""
        return snippet("search")

    def reads(self, dataset: Dataset, longest: int) -> str:
        """Return a sentence that says where the title of a document goes."""
        return "A title goes before the text of its document: `TITLE. TEXT`."

    def micro_batch(self, fine_tuning: FineTuning) -> int:
        """Return the size of the whole batch, since every query is compared with all documents of the batch."""
        return fine_tuning.batch

    def order(
        self, dataset: LocalDataset, fine_tuning: FineTuning, seed: int
    ) -> Iterator[Groups]:
        """Yield the example numbers of each step's batch, without end.

        The loss takes the answer of one query to be wrong for all other queries of the batch. So a batch of a dataset
        of one's own has no query twice and no positive twice; the paper's order does not look at the texts.
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

        # All negatives end to end; those of pair i are from `offsets[i]` to before `offsets[i + 1]`.
        negatives: list[str] = []
        offsets = [0]
        negatives_of_pairs: list[list[str]] = [[]] * pairs.num_rows
        if NEGATIVES in pairs.column_names:
            negatives_of_pairs = pairs[NEGATIVES].to_pylist()
        for texts in negatives_of_pairs:
            negatives.extend(texts)
            offsets.append(len(negatives))

        # `reading` puts the prompts before texts, and `read` turns texts into token ids.
        reading = setting.reading
        read = partial(_read, dataset.dataset, setting)
        return ContrastiveObjective(
            queries=read(map(reading.query_text, queries)),
            documents=read(map(reading.document_text, positives)),
            negatives=read(map(reading.document_text, negatives)),
            offsets=np.array(offsets),
            order=partial(self.order, dataset, setting.fine_tuning),
            fine_tuning=setting.fine_tuning,
            pad=setting.loaded.retrieval_tokenizer.pad_token_id,
            pooling=setting.pooling,
            rows=rows,
        )

    def evaluator(self, dataset: LocalDataset, setting: Setting) -> RetrievalEvaluator:
        """Tokenise and batch a dataset's queries and documents, by the paper's protocol and by the standard one.

        The paper's code reads texts in another way in evaluation than in training (D6); the standard protocol reads
        them as in training.
        """
        # The texts, and their ids by the standard protocol.
        tokenizer = setting.loaded.retrieval_tokenizer
        reading = setting.reading
        queries: dict[str, list[str]] = {}
        for split in SCORED_SPLITS:
            texts = dataset.queries(split)["text"].to_pylist()
            queries[split] = [reading.query_text(text) for text in texts]

        # Text and title of each document, as the functions that put them together take them.
        bodies = [(row["text"], row["title"]) for row in dataset.corpus.to_pylist()]
        documents = [reading.document_text(*body) for body in bodies]
        standard_texts = {**queries, _DOCUMENTS: documents}
        standard_ids = {
            name: _read(dataset.dataset, setting, texts)
            for name, texts in standard_texts.items()
        }

        # The ids by the paper's protocol. A dataset of one's own has no other reading.
        paper_ids = standard_ids
        if not dataset.dataset.is_own:
            # As many tokens as model and tokenizer can read; in fine-tuning (`_read`) at most 99 % of them.
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
        # If both protocols give the same ids, vectors are computed once: the same object tells the evaluator so.
        standard = paper
        if not all(ids.equals(standard_ids[name]) for name, ids in paper_ids.items()):
            standard = batches(standard_ids)
        return RetrievalEvaluator(
            judged=judged_of(dataset),
            paper=paper,
            standard=standard,
            pooling=setting.pooling,
            cutoff=setting.fine_tuning.cutoff,
        )


def _read(dataset: Dataset, setting: Setting, texts: Iterable[str]) -> Ragged:
    """Return token ids of texts, which have their prompts already, as fine-tuning reads them."""
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
    """Token ids of the queries, a row for each of `rows`."""
    documents: Ragged
    """Token ids of the queries' positive documents, in the same order."""
    negatives: Ragged
    """Token ids of all hard negatives, query after query."""
    offsets: NDArray[np.int64]
    """The row of `negatives` where each query's negatives start, and, at the end, the number of all negatives."""
    pooling: Pooling
    """How a text becomes a vector."""

    def backward(self, model: nn.Module, groups: Groups, device: RunDevice) -> Tensor:
        """Add the batch's gradient and return its loss.

        The texts of a batch go through the model in several forward passes. If their activations fit into memory
        together, there is one backward pass. Else the gradient is cached (Gao et al., 2021): all vectors are computed
        without activations, for the loss and its gradient in the vectors, and then each forward pass is computed once
        more, to continue the backward pass into the model. Both ways give the same gradient up to rounding; exact
        micro-batches take the second, as the paper's code does.
        """
        # The batch is a step's only group. From numbers of the dataset's examples to those of the tokenised ones, which
        # `self.rows` lists in order.
        rows = np.searchsorted(self.rows, groups[0])
        n_queries = len(rows)
        # How the texts are put into passes. `texts` has the token ids of the queries, then of their
        # positives, then of all their negatives; `sizes` are the numbers of texts in the micro-batches that
        # they make, in this order.
        texts, sizes = self._texts_of(rows)
        passes = device.passes(texts.lengths, sizes, packed=packs(model))

        # The positions, padding included, whose activations a single backward pass needs at once.
        positions = 0
        for part in passes:
            positions += len(part) * int(texts.lengths[part].max())

        # From the order of the passes to that of `texts`: where among the passes' rows each text is.
        text_order = device.tensor(np.argsort(np.concatenate(passes)))
        embed = partial(self._embed, model, texts, n_queries, device)
        # `train_positions` are those of one pass, and `graph_factor` says of how many passes activations fit:
        # of one on a GPU, and of more on a CPU, where passes are small for speed and not for memory.
        most = device.train_positions * device.kind.graph_factor

        # One backward pass through all passes.
        if positions <= most and not device.exact_micro_batches:
            vectors = torch.cat([embed(part) for part in passes])
            return self._loss_backward(vectors[text_order], n_queries, device)

        return self._cached_backward(embed, passes, text_order, n_queries, device)

    def _cached_backward(
        self,
        embed: Callable[[NDArray[np.int64]], Tensor],
        passes: Sequence[NDArray[np.int64]],
        text_order: Tensor,
        n_queries: int,
        device: RunDevice,
    ) -> Tensor:
        """Add the batch's gradient by gradient caching (see `backward`) and return its loss.

        Args:
            embed: computes the vectors of the texts of a pass.
            passes: the numbers of the texts that share a forward pass.
            text_order: where among the passes' rows each of the batch's texts is.
            n_queries: so many of the texts are queries, which come first.
            device: where the model is.
        """
        # All vectors without activations. `fork_rng` restores the CPU's generator in any case, a GPU's if it
        # is named.
        gpus = [device.torch_device] if device.kind.gpu else []
        # The generators are restored, so that the second pass draws the same dropout masks as this one.
        with torch.no_grad(), torch.random.fork_rng(gpus):
            vectors = torch.cat([embed(part) for part in passes])

        # As a leaf of the graph, the vectors collect the gradient of the loss, in the order of the passes.
        vectors.requires_grad_()
        loss = self._loss_backward(vectors[text_order], n_queries, device)
        assert vectors.grad is not None

        # Each pass once more, now with activations: the gradient of its vectors continues into the model.
        first = 0
        for part in passes:
            end = first + len(part)
            gradient = vectors.grad[first:end]
            embed(part).backward(gradient)  # type: ignore[no-untyped-call]
            first = end

        return loss

    def _texts_of(self, rows: NDArray[np.int64]) -> tuple[Ragged, list[int]]:
        """Return the token ids of a batch's texts, and the sizes of the micro-batches that they make, in order.

        The queries come first, then their positives, then all their negatives. A micro-batch has texts of one of these
        three kinds.
        """
        negatives: list[int] = []
        for row in rows:
            negatives.extend(range(self.offsets[row], self.offsets[row + 1]))
        size = self.fine_tuning.micro_batch
        texts: list[NDArray[np.int32]] = []
        sizes: list[int] = []

        def add(ids: Ragged, numbers: Iterable[int]) -> None:
            added = [ids[number] for number in numbers]
            texts.extend(added)
            # The last micro-batch of a kind may be smaller.
            for first in range(0, len(added), size):
                sizes.append(min(size, len(added) - first))

        add(self.queries, rows.tolist())
        add(self.documents, rows.tolist())
        add(self.negatives, negatives)
        return Ragged.of(texts), sizes

    def _loss_backward(
        self, vectors: Tensor, n_queries: int, device: RunDevice
    ) -> Tensor:
        """Backpropagate a batch's loss through `vectors`, and return the loss, detached.

        The first `n_queries` rows of `vectors` are queries, the others documents.
        """
        total = torch.zeros((), device=vectors.device)
        tuning = self.fine_tuning
        # The paper's code computes the loss in parts of a micro-batch's size. In float32 that only changes rounding.
        # So there, unless micro-batches are to be exact, all queries are in one part (None).
        in_parts = device.precision.autocast or device.exact_micro_batches
        queries_of_part = tuning.micro_batch if in_parts else None

        # Gradients of all parts are gathered in this leaf, so that there is one backward pass through the encoder.
        leaf = vectors.detach().requires_grad_()
        with device.autocast():
            queries, documents = leaf[:n_queries], leaf[n_queries:]
            parts = info_nce(queries, documents, tuning.temperature, queries_of_part)
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
        n_queries: int,
        device: RunDevice,
        part: NDArray[np.int64],
    ) -> Tensor:
        """Return the vectors of the texts numbered `part`, which share a forward pass.

        The first `n_queries` of a batch's texts are queries, the others documents.
        """
        width = 0  # as wide as the longest of the pass
        if device.exact_micro_batches:
            # Such a pass has queries only or documents only, padded to the batch's longest as in the paper's code.
            are_queries = part[0] < n_queries
            of_same_kind = slice(n_queries) if are_queries else slice(n_queries, None)
            width = int(texts.lengths[of_same_kind].max())

        padded = texts.padded(part, self.pad, width)
        ids = device.tensor(padded).long()
        lengths = torch.from_numpy(texts.lengths[part])
        with device.autocast():
            vectors = pooled(self.pooling, model, ids, lengths)
            return vectors.float()


@dataclass(frozen=True, kw_only=True)
class Judged:
    """The documents that are searched, and which of them are relevant to which query."""

    dataset: Dataset
    """The dataset, whose metrics are computed."""
    document_ids: list[str]
    """Ids of the documents that are searched, in the order of their vectors."""
    qrels: dict[str, dict[str, dict[str, int]]]
    """By split and query: the relevance of each judged document. Queries are in the order of their vectors."""

    def own_documents(self, split: str) -> dict[int, int]:
        """Return, for each query whose id a document has as well, the query's number and the document's.

        Such a document is the query itself, so BEIR does not count it as retrieved. The result is empty for the paper's
        datasets, in which equal ids of a query and a document mean nothing.
        """
        if not self.dataset.is_own:
            return {}
        numbers = {
            identity: number for number, identity in enumerate(self.document_ids)
        }
        own = {}
        for row, query in enumerate(self.qrels[split]):
            if query in numbers:
                own[row] = numbers[query]
        return own

    def ids(self, ranked: NDArray[np.int64], own: Mapping[int, int]) -> list[list[str]]:
        """Return the ids of each query's ranked documents.

        A query's own document comes last, so it is in a ranking only where there are few documents. It gets an empty
        id there, which no judgement names, and so counts as irrelevant.

        Args:
            ranked: numbers of documents, shape (queries, depth).
            own: what `own_documents` returns.
        """
        rankings = []
        for row, documents in enumerate(ranked):
            ids = []
            for document in documents:
                is_own = own.get(row) == document
                ids.append("" if is_own else self.document_ids[document])
            rankings.append(ids)
        return rankings


def judged_of(dataset: LocalDataset) -> Judged:
    """Return a dataset's documents and judgements."""
    qrels: dict[str, dict[str, dict[str, int]]] = {}
    for split in SCORED_SPLITS:
        # The table of queries gives the order, not that of the judgements.
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
    """The texts as the paper's evaluation reads them: the queries by split, and the documents."""
    standard: dict[str, list[PaddedBatch]]
    """The same texts, tokenised as in fine-tuning; the same object as `paper` where that makes no difference."""
    pooling: Pooling
    """How a text becomes a vector."""
    cutoff: int
    """Depth of the paper's ranking."""

    def __call__(self, model: TaskModel, device: RunDevice) -> dict[str, Evaluation]:
        """Score a fine-tuned model on both splits; the documents are embedded once for both."""
        model.eval()
        # The vectors of the texts, of which `self.paper` and `self.standard` have the tokens.
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
        # `own`: by a query's number, the number of the document that is the query itself.
        qrels, own = judged.qrels[split], judged.own_documents(split)
        queries, documents = paper[split], paper[_DOCUMENTS]

        # The paper's ranking, of `cutoff` documents as its evaluation reads them.
        # Which of equally similar documents are kept is decided by NumPy's argsort in the paper's code.
        paper_similarities, paper_ranked = rank(
            queries, documents, self.cutoff, as_numpy=True, excluded=own
        )
        # The standard ranking, of `DEPTH` documents as fine-tuning reads them.
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
        # Not training's `autocast`: the paper's code evaluates retrieval outside of it, with a model in bfloat16.
        # So bfloat16 weights are multiplied as they are here.
        with device.embedding():
            embed = partial(pooled, self.pooling, model)
            outputs = torch.cat([in_halves(embed, batch) for batch in batches])
        if not bool(torch.isfinite(outputs).all()):
            raise FineTuningError("the fine-tuned model's outputs are not finite")
        # Batches come longest texts first: sort back into the order of the rows.
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
    """Return cosine similarities and numbers of each query's nearest documents, best first; both (queries, depth).

    Args:
        queries: unit vectors of the queries.
        documents: unit vectors of the documents.
        depth: how many documents a ranking has, if there are so many.
        as_numpy: which of equally similar documents are in the ranking is decided by NumPy's `argsort`, which the
            paper's code calls, not by torch.
        excluded: by a query's number the number of a document that comes last for it.
    """
    n_documents = len(documents)
    depth = min(depth, n_documents)
    similarities, ranked = [], []

    # Some queries at a time: all similarities at once may not fit into memory.
    for first in range(0, len(queries), 1_024):
        part = queries[first : first + 1_024]
        all_similarities = part @ documents.T
        # An excluded document comes last, and so is in a ranking only if that has all documents.
        for query in excluded.keys() & range(first, first + len(part)):
            row = query - first
            all_similarities[row, excluded[query]] = -2.0  # less than any cosine

        # One document more than the ranking has, to see whether the last place is shared.
        best = torch.topk(all_similarities, min(depth + 1, n_documents), dim=1)
        nearest = best.indices[:, :depth].cpu().numpy()

        # If the last kept document and the first one left out are equally similar, argsort decides which is kept.
        if as_numpy and depth < n_documents:
            is_tied = best.values[:, depth - 1] == best.values[:, depth]
            for row in is_tied.nonzero().flatten().tolist():
                ascending = np.argsort(all_similarities[row].cpu().numpy())
                # The last ones are the nearest, and the very last the best. Their similarities are those that
                # topk found: only documents of one similarity change.
                nearest[row] = ascending[-depth:][::-1]

        ranked.append(nearest)
        of_nearest = best.values[:, :depth].double()
        similarities.append(of_nearest.cpu().numpy())

    return np.concatenate(similarities), np.concatenate(ranked)
