"""A small folder as DATA."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.datasets.synthetic import make_synthetic
from tests.pretraining.documents import write_jsonl


@pytest.fixture(scope="module")
def whole_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of 200 documents, and of made-up datasets of 40 rows to train on and 20 in each other split."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "text").mkdir()
    # Many words, since the tokenizer wants a vocabulary of 2,048.
    rng = np.random.default_rng(0)
    words = [
        "".join(rng.choice(list("abcdeghilmnorstu"), size=6)) for _ in range(1_000)
    ]
    documents = [" ".join(rng.choice(words, size=60)) for _ in range(200)]
    write_jsonl(folder / "text" / "text.jsonl", documents)
    for name in ("sst2", "nq", "msmarco"):
        make_synthetic(folder, name, train=40, evaluation=20)
    return folder
