"""A model folder of ours in a process without our code: today's sentence-transformers gives retrieval's vectors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks.datasets.local_dataset import load as load_data
from benchmarks.finetuning.tokenization import document_text
from tests.benchmarks.tasks.test_retrieval_oracle import CPU, SEED, evaluator_of
from tests.commands import python

ENCODE = """
import json, sys
from sentence_transformers import SentenceTransformer
model = SentenceTransformer(sys.argv[1], device="cpu")
vectors = model.encode(json.loads(sys.argv[2]), normalize_embeddings=True)
print(json.dumps([[name for name in sys.modules if name == "pretraining"], vectors.tolist()]))
"""


@pytest.mark.slow
def test_its_vectors_are_ours(model_folder: Callable[..., Path], data: Path) -> None:
    folder, dataset = model_folder("ours"), load_data(data, "msmarco")
    texts = [document_text(row["text"], row["title"]) for row in dataset.corpus.to_pylist()]
    said = python("-c", ENCODE, folder, json.dumps(texts), code=0, HF_HUB_OFFLINE="1").stdout
    ours_loaded, theirs = json.loads(said.splitlines()[-1])
    resettable, evaluator = evaluator_of(dataset, folder)
    model = resettable.reset(dataset.dataset, SEED).eval()
    ours = evaluator.vectors(model, evaluator.paper["documents"], CPU)
    assert ours_loaded == []
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)
