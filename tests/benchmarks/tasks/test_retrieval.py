"""Retrieval: the contrastive loss, its cached gradient, and rankings."""

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytrec_eval
import torch
from torch import Tensor, nn

from benchmarks.datasets.local_dataset import load_dataset, table
from benchmarks.finetuning import device
from benchmarks.finetuning.encoders import load_model
from benchmarks.finetuning.tokenization import encode_texts
from benchmarks.protocol import FINE_TUNING, get_dataset
from benchmarks.tasks.base import Setting
from benchmarks.tasks.classification import CLASSES
from benchmarks.tasks.families import objective_of
from benchmarks.tasks.retrieval import (
    ContrastiveObjective,
    Judged,
    Retrieval,
    RetrievalEvaluator,
    info_nce,
    rank,
)
from tests.benchmarks.datasets.readers.originals import defined
from tests.benchmarks.finetuning.test_trainer import gradients
from tests.benchmarks.tiny import CPU, resettable_of


@pytest.mark.parametrize("kind", ["ours", "bert"])
def test_cached_contrastive_gradient_equals_the_plain_one(
    kind: str,
    data: Path,
    model_folder: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With dropout (BERT) too: the second pass draws the masks of the first."""
    resettable = resettable_of(model_folder(kind))
    dataset = load_dataset(data, "msmarco")
    objective = objective_of(dataset, resettable.setting, [0])
    assert isinstance(objective, ContrastiveObjective)
    step = next(objective.order(0))
    model = resettable.reset(dataset.dataset, 0).train()

    embed, calls = ContrastiveObjective._embed, []

    def counted(self: ContrastiveObjective, *args: Any) -> Tensor:
        calls.append(args)
        return embed(self, *args)

    monkeypatch.setattr(ContrastiveObjective, "_embed", counted)
    results = []
    for factor in (10**9, 0):
        monkeypatch.setattr(device, "CPU", replace(device.CPU, graph_factor=factor))
        calls.clear()
        torch.manual_seed(5)
        loss = objective.backward(model, step, replace(CPU, train_positions=400))
        results.append((loss, gradients(model), len(calls)))
    (loss, direct, once), (cached_loss, cached, twice) = results
    assert twice == 2 * once > 2
    torch.testing.assert_close(loss, cached_loss)
    for name, gradient in direct.items():
        torch.testing.assert_close(
            cached[name], gradient, rtol=1e-4, atol=1e-7, msg=name
        )


def test_loss_is_small_where_queries_are_nearest_their_documents() -> None:
    vectors = torch.eye(4)
    near, far = (
        sum(info_nce(vectors, other, 0.05)) for other in (3 * vectors, vectors.flip(0))
    )
    assert near < 1e-6 < far
    for rows in (None, 1, 3):
        found = sum(info_nce(vectors, torch.ones(4, 4), 1.0, rows))
        assert float(found) == pytest.approx(math.log(4))


def test_the_loss_with_hard_negatives_is_its_closed_form() -> None:
    """Unit vectors at known angles: the mean over queries of -log(e^(s+/t) / sum of e^(s/t) over all documents)."""
    # Two positives, three negatives
    angles = {"queries": [0.0, 1.0], "documents": [0.3, 1.2, 0.5, -0.4, 2.0]}
    queries, documents = (
        torch.tensor([[3 * math.cos(angle), 3 * math.sin(angle)] for angle in found])
        for found in angles.values()
    )
    expected = 0.0
    for place, query in enumerate(angles["queries"]):
        grades = [
            math.exp(math.cos(query - document) / 0.05)
            for document in angles["documents"]
        ]
        expected -= math.log(grades[place] / sum(grades)) / 2
    for rows in (None, 1):
        assert float(sum(info_nce(queries, documents, 0.05, rows))) == pytest.approx(
            expected, rel=1e-5
        )


@pytest.mark.parametrize("factor", [10**9, 0], ids=["whole", "cached"])
@pytest.mark.parametrize("exact", [False, True])
def test_queries_are_scored_against_all_negatives_of_the_batch(
    factor: int,
    exact: bool,
    data: Path,
    model_folder: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The gradient is that of one softmax over texts that pass the model one by one."""
    resettable = resettable_of(model_folder("ours"))
    plain = load_dataset(data, "msmarco")
    rows = plain.train.slice(0, 8).to_pylist()
    pairs = [
        {**row, "negatives": [rows[k]["positive"] for k in range(i % 3)]}
        for i, row in enumerate(rows)
    ]
    dataset = replace(
        plain, tables={**plain.tables, "pairs": table("IR", "pairs", pairs)}
    )
    setting = replace(resettable.setting, fine_tuning=replace(FINE_TUNING, batch=4))
    objective = Retrieval().objective(dataset, np.arange(8), setting)
    step = next(objective.order(0))
    model = resettable.reset(dataset.dataset, 0).eval()
    monkeypatch.setattr(device, "CPU", replace(device.CPU, graph_factor=factor))
    loss = objective.backward(
        model, step, replace(CPU, train_positions=400, exact_micro_batches=exact)
    )
    found = gradients(model)

    model.zero_grad()
    tokenizer = setting.loaded.retrieval_tokenizer
    chosen = [pairs[int(row)] for row in step[0]]
    texts = [
        *(f"Query: {row['query']}" for row in chosen),
        *(f"Document: {row['positive']}" for row in chosen),
        *(f"Document: {text}" for row in chosen for text in row["negatives"]),
    ]
    assert len(texts) > 2 * len(chosen)
    vectors = []
    encoded = encode_texts(tokenizer, texts, setting.loaded.limits.retrieval)
    for ids in (encoded[row] for row in range(len(encoded))):
        hidden = model(torch.from_numpy(ids)[None].long(), torch.tensor([len(ids)]))[0]
        vectors.append(torch.nn.functional.normalize(hidden.mean(0), dim=0))
    similarities = (
        torch.stack(vectors[:4]) @ torch.stack(vectors[4:]).T / FINE_TUNING.temperature
    )
    expected = (torch.logsumexp(similarities, 1) - similarities.diagonal()).mean()
    expected.backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(loss, expected.detach(), rtol=1e-4, atol=1e-5)
    for name, gradient in gradients(model).items():
        torch.testing.assert_close(
            found[name], gradient, rtol=1e-3, atol=1e-5, msg=name
        )


def test_retrieval_reads_with_the_tokenizers_own_special_tokens(
    data: Path, model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    """The config's end of text is not put on the tokenizer for retrieval, as it is for all other families (D20)."""
    folder = Path(shutil.copytree(model_folder("ours"), tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "eos_token_id": 2}))
    loaded, dataset = load_model(str(folder)), load_dataset(data, "msmarco")
    objective = Retrieval().objective(
        dataset, np.arange(3), Setting(loaded=loaded, device=CPU)
    )
    assert {int(objective.queries[row][-1]) for row in range(3)} == {1}
    sst2 = CLASSES.examples(
        get_dataset("sst2"), load_dataset(data, "sst2").tables["test"], loaded
    )
    assert {int(sst2.ids[row][-1]) for row in range(3)} == {2}


def test_ties_at_the_last_rank_are_chosen_as_numpy_does() -> None:
    documents = torch.nn.functional.normalize(
        torch.randn(40, 8, generator=torch.Generator().manual_seed(0)), dim=1
    )
    documents[5:30] = documents[4]
    queries = torch.cat([documents[:1], documents[4:5]])
    similarities, ranked = rank(queries, documents, 10, as_numpy=True)
    for row in range(2):
        whole = (queries @ documents.T)[row].numpy()
        expected = np.argsort(whole)[-10:]
        assert set(ranked[row]) == set(expected.tolist())
        np.testing.assert_allclose(similarities[row], np.sort(whole)[::-1][:10])


@pytest.mark.parametrize("name", ["mine", "msmarco"])
@pytest.mark.parametrize("size", [6, 140])
def test_a_query_does_not_find_itself_in_an_own_set(
    name: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BEIR's rule: what has the query's id is taken out of the ranking, not out of the judgements."""
    dataset = get_dataset("msmarco") if name == "msmarco" else defined("retrieval")
    generator = torch.Generator().manual_seed(size)
    documents = torch.nn.functional.normalize(
        torch.randn(size, 8, generator=generator), dim=1
    )
    queries = documents[:5] + 0.1 * torch.randn(5, 8, generator=generator)
    vectors = {"validation": queries, "test": queries, "documents": documents}
    monkeypatch.setattr(
        RetrievalEvaluator, "vectors", lambda self, model, texts, device: texts
    )
    ids = [f"d{number}" for number in range(size)]
    asked = ["d0", "d1", "d2", "q3", "d4"]
    judged = {query: {"d0": 1, "d1": 2, "d5": 1, "gone": 1} for query in asked}
    evaluator = RetrievalEvaluator(
        judged=Judged(
            dataset=dataset,
            document_ids=ids,
            qrels={"validation": judged, "test": judged},
        ),
        paper=vectors,  # type: ignore[arg-type]
        standard=vectors,  # type: ignore[arg-type]
        pooling=Setting.pooling,
        cutoff=10,
    )
    found = evaluator(nn.Identity(), CPU)["test"].standard  # type: ignore[arg-type]
    scores = (queries @ documents.T).tolist()
    run = {
        query: dict(zip(ids, row, strict=True))
        for query, row in zip(asked, scores, strict=True)
    }
    if dataset.is_own:
        run = {
            query: {doc: score for doc, score in ranked.items() if doc != query}
            for query, ranked in run.items()
        }
    oracle = pytrec_eval.RelevanceEvaluator(
        judged, {"ndcg_cut_10", "recall_100"}
    ).evaluate(run)
    for key, measure in (
        ("ndcg_at_10", "ndcg_cut_10"),
        ("recall_at_100", "recall_100"),
    ):
        if key in found:
            expected = sum(values[measure] for values in oracle.values()) / len(oracle)
            assert found[key] == pytest.approx(expected)
    assert "ndcg_at_10" in found


@pytest.mark.parametrize("temperature", [0.02, 0.05, 1.0])
def test_temperature_divides_cosines(temperature: float) -> None:
    """Two queries at right angles, each 60 degrees from its document and 30 from the other one."""
    queries = torch.eye(2)
    documents = torch.tensor([[1.0, 3**0.5], [3**0.5, 1.0]])
    loss = sum(info_nce(queries, documents, temperature))
    wanted = float(np.log1p(np.exp((3**0.5 / 2 - 0.5) / temperature)))
    assert float(loss) == pytest.approx(wanted, rel=1e-5)
