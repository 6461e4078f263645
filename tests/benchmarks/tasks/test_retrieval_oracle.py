"""Retrieval against sentence-transformers 3.4.1 itself: vectors, rankings, scores, and steps of its trainer."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sklearn.metrics import ndcg_score

from benchmarks.datasets.local_dataset import LocalDataset, load_dataset
from benchmarks.finetuning.device import choose_device
from benchmarks.finetuning.trainer import fine_tune
from benchmarks.protocol import FINE_TUNING
from benchmarks.runs import SCORED_SPLITS
from benchmarks.sweep.work import ResettableModel
from benchmarks.tasks.families import family_of, objective_of
from benchmarks.tasks.retrieval import RetrievalEvaluator
from common.embedding import PAPER_READING
from tests.benchmarks.tiny import CPU, resettable_of
from tests.oracle import EUROBERT, Oracle, older_tokenizer

SEED, STEPS, LR, LIMIT = 1, 3, 2e-3, 507


MODEL = """
import datasets
from sentence_transformers import SentenceTransformer, models
transformer = models.Transformer(given["model"], max_seq_length=512)
pooling = models.Pooling(transformer.get_word_embedding_dimension(), pooling_mode="mean")
model = SentenceTransformer(modules=[transformer, pooling], device="cpu")
assert type(transformer.auto_model).__name__ == "EuroBertModel"
"""


ENCODE = """
from sentence_transformers.evaluation import InformationRetrievalEvaluator
documents = model.encode(list(given["corpus"].values()), batch_size=4)
answer = {"documents": documents.tolist()}
for split, part in given["splits"].items():
    queries = model.encode(list(part["queries"].values()), batch_size=4)
    relevant = {query: set(found) for query, found in part["relevant"].items()}
    evaluator = InformationRetrievalEvaluator(
        part["queries"], given["corpus"], relevant, main_score_function="cosine", write_csv=False)
    found = evaluator(model)
    answer[split] = {
        "similarities": model.similarity(queries, documents).tolist(),
        "recall": found["cosine_recall@10"],
        "ndcg": found["cosine_ndcg@10"],
    }
"""


TRAIN = """
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.data_collator import SentenceTransformerDataCollator
from sentence_transformers.losses import CachedMultipleNegativesRankingLoss

def tokenize(texts):
    texts = [text + model.tokenizer.eos_token for text in texts]
    options = dict(add_special_tokens=False, truncation=True, max_length=given["limit"])
    return model.tokenizer(texts, padding=True, return_tensors="pt", **options)

arguments = SentenceTransformerTrainingArguments(
    "out", per_device_train_batch_size=32, max_steps=given["steps"], learning_rate=given["lr"], warmup_ratio=0.1,
    adam_beta1=0.9, adam_beta2=0.95, adam_epsilon=1e-5, weight_decay=0.1, lr_scheduler_type="linear",
    seed=given["seed"], logging_steps=1, report_to=[], save_strategy="no", use_cpu=True, disable_tqdm=True)
trainer = SentenceTransformerTrainer(
    model=model, args=arguments, train_dataset=datasets.Dataset.from_dict(given["pairs"]),
    loss=CachedMultipleNegativesRankingLoss(model, mini_batch_size=4),
    data_collator=SentenceTransformerDataCollator(tokenize_fn=tokenize))
trainer.train()
save_file({k: v.contiguous() for k, v in transformer.auto_model.state_dict().items()}, "trained.safetensors")
answer = [row["loss"] for row in trainer.state.log_history if "loss" in row]
"""


@pytest.fixture
def folder(model_folder: Callable[..., Path], tmp_path: Path) -> Path:
    """A tiny model of ours, with a tokenizer that transformers 4.48.3 loads."""
    copy = Path(shutil.copytree(model_folder("ours"), tmp_path / "model"))
    older_tokenizer(copy)
    return copy


def evaluator_of(
    dataset: LocalDataset, folder: Path
) -> tuple[ResettableModel, RetrievalEvaluator]:
    resettable = resettable_of(folder)
    family = family_of(dataset.dataset)
    evaluator = family.evaluator(dataset, resettable.setting)
    assert isinstance(evaluator, RetrievalEvaluator)
    return resettable, evaluator


@pytest.mark.slow
def test_vectors_and_scores_are_those_of_its_encode(
    oracle: Oracle, data: Path, folder: Path, tmp_path: Path
) -> None:
    """Its `encode` gives our unit vectors; its similarities, ranked as the paper's code does, our scores (D3)."""
    dataset = load_dataset(data, "msmarco")
    resettable, evaluator = evaluator_of(dataset, folder)
    corpus = {
        row["id"]: PAPER_READING.document_text(row["text"], row["title"])
        for row in dataset.corpus.to_pylist()
    }
    splits: dict[str, dict[str, Any]] = {}
    for split in SCORED_SPLITS:
        relevant: dict[str, list[str]] = {}
        for row in dataset.qrels(split).to_pylist():
            if row["relevance"] >= 1:
                relevant.setdefault(row["query_id"], []).append(row["doc_id"])
        queries = {
            row["id"]: PAPER_READING.query_text(row["text"])
            for row in dataset.queries(split).to_pylist()
        }
        splits[split] = {"queries": queries, "relevant": relevant}
    found = oracle.run(
        EUROBERT + MODEL + ENCODE,
        folder=tmp_path / "run",
        model=folder,
        corpus=corpus,
        splits=splits,
    )

    model = resettable.reset(dataset.dataset, SEED).eval()
    theirs = torch.tensor(found["documents"])
    ours = evaluator.vectors(model, evaluator.paper["documents"], CPU)
    torch.testing.assert_close(
        ours, torch.nn.functional.normalize(theirs, dim=-1), rtol=0, atol=1e-6
    )
    assert theirs.std(dim=0).max() > 1e-3
    scored = evaluator(model, CPU)
    for split in SCORED_SPLITS:
        relevant, expected = splits[split]["relevant"], []
        for query, row in zip(
            evaluator.judged.qrels[split], found[split]["similarities"], strict=True
        ):
            similarity = np.asarray(row)
            best = np.argsort(-similarity, kind="stable")[:10]
            labels = [
                [
                    int(evaluator.judged.document_ids[number] in relevant[query])
                    for number in best
                ]
            ]
            expected.append(ndcg_score(labels, similarity[best][None]))
        np.testing.assert_allclose(scored[split].scores, expected, rtol=0, atol=1e-6)
        assert 0 < np.mean(expected) < 1
        # Its own evaluator divides by the ideal ranking of all relevant documents, the paper's code by that of
        # the ten that were found: never less.
        assert np.mean(expected) >= found[split]["ndcg"] - 1e-9


SEEDS = """
class Loss(CachedMultipleNegativesRankingLoss):
    def forward(self, *arguments, **more):
        found = super().forward(*arguments, **more)
        losses.append(found.item())
        return found

answer = {}
for precision in ("fp32", "bf16"):
    for seed in range(5):
        losses = []
        transformer = models.Transformer(given["model"], max_seq_length=512)
        pooling = models.Pooling(transformer.get_word_embedding_dimension(), pooling_mode="mean")
        model = SentenceTransformer(modules=[transformer, pooling], device="cpu")
        model = model.to(torch.bfloat16 if precision == "bf16" else torch.float32)
        vectors = model.encode(given["texts"], batch_size=1).tolist()
        arguments = SentenceTransformerTrainingArguments(
            "out", per_device_train_batch_size=32, max_steps=given["steps"], learning_rate=given["lr"],
            warmup_ratio=0.1, adam_beta1=0.9, adam_beta2=0.95, adam_epsilon=1e-5, weight_decay=0.1,
            lr_scheduler_type="linear", seed=seed, bf16=precision == "bf16", report_to=[], save_strategy="no",
            use_cpu=True, disable_tqdm=True)
        trainer = SentenceTransformerTrainer(
            model=model, args=arguments, train_dataset=datasets.Dataset.from_dict(given["pairs"]),
            loss=Loss(model, mini_batch_size=4), data_collator=SentenceTransformerDataCollator(tokenize_fn=tokenize))
        trainer.train()
        answer[f"{precision} {seed}"] = [losses, vectors]
"""


def pairs_of(dataset: LocalDataset) -> dict[str, list[str]]:
    """What its trainer trains on."""
    rows = dataset.train.to_pylist()
    return {
        "anchor": [PAPER_READING.query_text(row["query"]) for row in rows],
        "positive": [PAPER_READING.document_text(row["positive"]) for row in rows],
    }


@pytest.fixture
def bert(model_folder: Callable[..., Path], tmp_path: Path) -> Path:
    """A tiny BERT without dropout: a class that computes the same in both versions of transformers."""
    copy = Path(shutil.copytree(model_folder("bert"), tmp_path / "bert"))
    older_tokenizer(copy)
    config = json.loads((copy / "config.json").read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (copy / "config.json").write_text(json.dumps(config))
    return copy


@pytest.mark.slow
def test_losses_of_all_seeds_and_epochs_equal_its_trainers(
    oracle: Oracle, data: Path, bert: Path, tmp_path: Path
) -> None:
    """Seeds 0 to 4 over more than one epoch: float32, and with exact micro-batches bfloat16 to the bit (D15, D16).

    In bfloat16 the vectors of evaluation are those of its `encode`, outside autocast, to the bit.
    """
    dataset = load_dataset(data, "msmarco")
    pairs = pairs_of(dataset)
    steps = len(pairs["anchor"]) // 32 + 2
    texts = [
        PAPER_READING.document_text(text)
        for text in dataset.corpus["text"].to_pylist()[:6]
    ]
    found = oracle.run(
        MODEL.replace("EuroBertModel", "BertModel")
        + TRAIN.partition("arguments =")[0]
        + "import torch"
        + SEEDS,
        folder=tmp_path / "run",
        model=bert,
        pairs=pairs,
        steps=steps,
        lr=LR,
        limit=LIMIT,
        texts=texts,
    )
    for precision, tolerance in (("fp32", 1e-5), ("bf16", 0.0)):
        device = choose_device("cpu", precision, positions=1, exact=precision == "bf16")
        device = replace(device, train_positions=2_048, eval_positions=1)
        resettable = resettable_of(bert, device)
        objective = objective_of(dataset, resettable.setting, list(range(5)))
        evaluator = family_of(dataset.dataset).evaluator(dataset, resettable.setting)
        assert isinstance(evaluator, RetrievalEvaluator)
        for seed in range(5):
            losses, vectors = found[f"{precision} {seed}"]
            model = resettable.reset(dataset.dataset, seed).eval()
            ours = evaluator.vectors(model, evaluator.paper["documents"], device)
            expected = torch.nn.functional.normalize(torch.tensor(vectors), dim=-1)
            torch.testing.assert_close(
                ours[: len(texts)], expected, rtol=0, atol=max(1e-6, tolerance)
            )
            log = fine_tune(
                model,
                objective,
                device,
                lr=LR,
                seed=seed,
                steps=steps,
                fine_tuning=FINE_TUNING,
            )
            assert len(losses) == steps and np.ptp(losses) > 0.01
            np.testing.assert_allclose(log.losses, losses, rtol=0, atol=tolerance)


@pytest.mark.slow
def test_three_steps_of_its_trainer_end_in_our_weights(
    oracle: Oracle, data: Path, folder: Path, tmp_path: Path
) -> None:
    """`SentenceTransformerTrainer` with the cached loss, in float32, over one epoch of a seed that is not 0."""
    dataset = load_dataset(data, "msmarco")
    pairs = pairs_of(dataset)
    losses = oracle.run(
        EUROBERT + MODEL + TRAIN,
        folder=tmp_path / "run",
        model=folder,
        pairs=pairs,
        steps=STEPS,
        lr=LR,
        limit=LIMIT,
        seed=SEED,
    )
    assert len(losses) == STEPS and len(pairs["anchor"]) == 32 * STEPS

    resettable, _ = evaluator_of(dataset, folder)
    objective = objective_of(dataset, resettable.setting, [SEED])
    model = resettable.reset(dataset.dataset, SEED)
    start = {
        name: value.detach().clone()
        for name, value in model.encoder.base.named_parameters()
    }
    fine_tune(
        model, objective, CPU, lr=LR, seed=SEED, steps=STEPS, fine_tuning=FINE_TUNING
    )
    theirs = load_file(tmp_path / "run" / "trained.safetensors")
    ours = dict(model.encoder.base.named_parameters())
    assert set(ours) == set(theirs)
    for name, value in theirs.items():
        torch.testing.assert_close(
            ours[name].detach(), value, rtol=2e-3, atol=2e-5, msg=name
        )
        assert "layers" not in name or not torch.equal(value, start[name]), name
