"""BM25, the ranking by words, as a model of a run store: a baseline without training for one's own retrieval sets."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

import numpy as np

from benchmarks.datasets.local_dataset import LocalDataset, load_dataset
from benchmarks.metrics.floor import with_floor
from benchmarks.metrics.metric import Evaluation, RankingPredictions, evaluate
from benchmarks.own_datasets.definitions import store_definitions
from benchmarks.protocol import FINE_TUNING, PROTOCOL_VERSION
from benchmarks.runs import RESULTS_VERSION, SCORED_SPLITS, RunKey
from benchmarks.sweep.request import BM25, RunRequest
from benchmarks.sweep.run_jobs import check_finished
from benchmarks.sweep.status import CellStatus, cell_status
from benchmarks.sweep.work import RUN_PACKAGES, scored_run, write_run
from benchmarks.tasks.bm25 import K1, METHOD, STOPWORDS, WORD, B, bm25_scores
from benchmarks.tasks.retrieval import DEPTH, Judged, judged_of
from common.description import description_hash
from common.embedding import Embedding
from common.provenance import provenance

log = logging.getLogger(__name__)

_SETTINGS = {"k1": K1, "b": B, "method": METHOD, "word": WORD, "stopwords": STOPWORDS}


def run_bm25(request: RunRequest) -> list[CellStatus]:
    """Rank each dataset's documents by BM25, where that is not done yet, and return the state of each cell.

    Raises:
        UserError: there are runs of something else under the name.
    """
    # What is asked for, compared with the runs that are there under the name.
    sets = {
        name: load_dataset(request.data, request.known[name])
        for name in request.datasets
    }
    descriptions = {name: _description(request, local) for name, local in sets.items()}
    check_finished(request, descriptions)
    # Stored with their floor, the score of one ranking for all queries, where the dataset's metric has a rule
    # for it.
    store_definitions(request.store, [with_floor(local) for local in sets.values()])

    # A request without training has one rate and one seed (`RunOptions.request`), as nothing depends on them.
    (lr,), (seed,) = request.lrs, request.seeds
    for name, dataset in sets.items():
        key = RunKey(model=request.name, dataset=name, lr=lr, seed=seed, task="IR")
        # Add the run to those that were asked for, which `status` counts.
        request.runs.note(request.name, name, {(lr, seed)})
        if request.runs.state(key).done:
            continue

        # Rank, and write a run as after a fine-tuning: `content` has fields of run.json, `texts` the run's
        # other files. "full" is the environment whose lock file is recorded.
        evaluations = ranked(dataset)
        content, texts = scored_run(evaluations, losses=())
        write_run(
            request.runs,
            key,
            {"status": "complete", **content},
            texts,
            description=descriptions[name],
            origin=provenance("full", RUN_PACKAGES),
            source=BM25,
        )
        test = evaluations["test"]
        headline = request.known[name].headline
        log.info(
            "%s: %s %.2f on %d test queries (k1 %g, b %g, words of two letters and more without English stop words)",
            name,
            headline,
            100 * test.standard[headline],
            len(test.scores),
            K1,
            B,
        )

    return [
        cell_status(request.runs, request.name, name, request.lrs, request.seeds)
        for name in request.datasets
    ]


def _description(request: RunRequest, dataset: LocalDataset) -> dict[str, Any]:
    """Return what a BM25 run is made from, in the fields of a fine-tuning's description (`run_jobs.descriptions`)."""
    settings = description_hash(_SETTINGS)
    content = dataset.manifest.content
    return {
        "tuning": dataclasses.asdict(request.fine_tuning),
        # BM25 has neither weights nor a tokenizer: the settings that decide its scores take their places.
        "weights": settings,
        "tokenizer": settings,
        "pooling": f"{BM25}, k1 {K1}, b {B}",
        "head": request.head,
        # The same whatever --precision says, which changes nothing of BM25.
        "precision": "fp32",
        "protocol_version": PROTOCOL_VERSION,
        "results_version": RESULTS_VERSION,
        "epochs": None,
        "prompt": dataset.dataset.prompt,
        "metric": dataset.dataset.headline,
        # Nothing is trained, but the field has to be there: the dataset itself stands in it.
        "training_data": content,
        "evaluation_data": content,
    }


def ranked(dataset: LocalDataset) -> dict[str, Evaluation]:
    """Return the scores of BM25's ranking on both splits."""
    judged = judged_of(dataset)
    # Title and text are joined as for encoders, without a prompt.
    join = Embedding().document_text
    titles = dataset.corpus["title"].to_pylist()
    texts = [*map(join, dataset.corpus["text"].to_pylist(), titles)]
    return {split: _ranked(dataset, judged, texts, split) for split in SCORED_SPLITS}


def _ranked(
    dataset: LocalDataset, judged: Judged, texts: list[str], split: str
) -> Evaluation:
    """Return the scores on one split; of two equally similar documents the earlier one in the corpus is ahead.

    Args:
        dataset: the dataset.
        judged: its documents and judgements.
        texts: the documents, in the order of the corpus.
        split: `validation` or `test`.
    """
    # By number of a query, the number of its own document: of the document that has the query's id, and so is
    # the query itself.
    own = judged.own_documents(split)
    queries = dataset.queries(split)["text"].to_pylist()
    best_documents, best_scores = [], []

    # The scores of all documents, query by query.
    for row, query_scores in enumerate(bm25_scores(texts, queries)):
        scores = query_scores.astype(np.float64)
        if row in own:
            # -1 is less than any score of BM25: a query's own document must not be its answer.
            scores[own[row]] = -1.0
        best = np.argsort(-scores, kind="stable")[:DEPTH]
        best_documents.append(best)
        best_scores.append(scores[best])

    documents, similarities = np.stack(best_documents), np.stack(best_scores)
    qrels = judged.qrels[split]
    cutoff = FINE_TUNING.cutoff

    # The paper's metric and the standard ones read the same ranking, the paper's metric only its first ten
    # documents. `ids` turns numbers of documents into ids; a query's own document gets an empty id, which
    # counts as irrelevant.
    predictions = RankingPredictions(
        query_ids=list(qrels),
        qrels=qrels,
        paper_similarities=similarities[:, :cutoff],
        paper_documents=judged.ids(documents[:, :cutoff], own),
        similarities=similarities,
        documents=judged.ids(documents, own),
    )
    return evaluate(dataset.dataset, predictions)
