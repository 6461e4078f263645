"""Folders of embedders, written and scored by sentence-transformers alone."""

import re
from pathlib import Path

import pytest
from transformers import CONFIG_MAPPING, AutoModel

from benchmarks.datasets.local_dataset import load_dataset
from benchmarks.own_datasets.definition_file import read_definitions

ST = pytest.importorskip("sentence_transformers")
EVALUATION = pytest.importorskip(
    "sentence_transformers.sentence_transformer.evaluation"
)


def ndcg(folder: Path, words: list[str]) -> float:
    """NDCG@10 of the test queries, in percent, by sentence-transformers alone."""
    local = load_dataset(Path(words[3]), read_definitions(Path(words[1]))[0])
    queries = local.queries("test").to_pylist()
    relevant: dict[str, set[str]] = {}
    for row in local.qrels("test").to_pylist():
        relevant.setdefault(row["query_id"], set()).add(row["doc_id"])
    evaluator = EVALUATION.InformationRetrievalEvaluator(
        {row["id"]: row["text"] for row in queries},
        {row["id"]: row["text"] for row in local.corpus.to_pylist()},
        relevant,
        ndcg_at_k=[10],
    )
    with pytest.MonkeyPatch.context() as patch:
        # As in a process that never imported this package, which has a class of its own for a type.
        for mapping in (CONFIG_MAPPING, AutoModel._model_mapping):
            patch.setattr(mapping, "_extra_content", {})
        model = ST.SentenceTransformer(str(folder), device="cpu")
    return 100 * float(evaluator(model)["cosine_ndcg@10"])


def scored(folder: Path) -> float:
    """The test score on a kept folder's card, in percent."""
    found = re.search(
        r"test, this run \(.*\) \| ([0-9.]+)", (folder / "README.md").read_text()
    )
    assert found is not None
    return float(found[1])


def as_embedder(
    folder: Path,
    out: Path | None = None,
    *,
    mode: str,
    prompts: dict[str, str],
    longest: int,
) -> Path:
    """Put the files of sentence-transformers into a model's folder, or write all into another."""
    modules = ST.sentence_transformer.modules
    transformer = modules.Transformer(str(folder), max_seq_length=longest)
    width = transformer.get_embedding_dimension()
    pooling = modules.Pooling(width, pooling_mode=mode)
    made = ST.SentenceTransformer(modules=[transformer, pooling], prompts=prompts)
    made.save_pretrained(str(out or folder), create_model_card=False)
    return out or folder
