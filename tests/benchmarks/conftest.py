from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from benchmarks.datasets.local_dataset import load_dataset
from benchmarks.datasets.synthetic import make_synthetic
from benchmarks.protocol import DATASETS
from tests.benchmarks.tiny import make_tokenizer, save_model

torch.set_num_threads(1)  # as every run computes on a CPU


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All twelve datasets, small and made up."""
    folder = tmp_path_factory.mktemp("data")
    for name in DATASETS:
        make_synthetic(folder, name, train=96, evaluation=24)
    return folder


@pytest.fixture(scope="session")
def tokenizer(data: Path) -> PreTrainedTokenizerFast:
    texts = (
        load_dataset(data, "sst2").train["first"].to_pylist()
        + load_dataset(data, "squad").train["context"].to_pylist()
    )
    return make_tokenizer(texts)


@pytest.fixture(scope="session")
def model_folder(
    tokenizer: PreTrainedTokenizerFast, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """A function that saves a randomly initialised tiny model of a kind, once, and returns its folder."""
    root = tmp_path_factory.mktemp("models")

    def make(kind: str = "ours", **options: int) -> Path:
        folder = root / "-".join(
            [kind, *(f"{name}{value}" for name, value in options.items())]
        )
        if not folder.exists():
            save_model(folder, tokenizer, kind, **options)
        return folder

    return make
