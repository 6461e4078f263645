import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pretraining.model.configuration import EncoderConfig
from pretraining.model.modeling import EuroBertForMaskedLM, initialise
from pretraining.model.packed_batch import PackedBatch
from pretraining.plan.study_plan import Study
from tests.pretraining import small_study
from tests.pretraining.sizes import config_for

VOCAB = 311


@pytest.fixture(autouse=True, scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A place for decompressed shards, so that the user's own cache is left alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLM_OR_MLM_SCRATCH", str(tmp_path_factory.mktemp("scratch")))
        yield Path(os.environ["CLM_OR_MLM_SCRATCH"])


@pytest.fixture(autouse=True, scope="session")
def autograd_may_fork() -> None:
    """The first backward pass settles whether autograd starts threads; after some of the tests it would, for no device,
    and processes that tests fork could not compute gradients."""
    torch.ones(1, requires_grad=True).sum().backward()


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def tiny_config() -> EncoderConfig:
    """Tiny in the vocabulary too; special tokens are its first four ids."""
    return config_for(
        "tiny",
        vocab_size=VOCAB,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
        mask_token_id=2,
    )


@pytest.fixture
def tiny_model(tiny_config: EncoderConfig) -> EuroBertForMaskedLM:
    model = EuroBertForMaskedLM(tiny_config)
    initialise(model, seed=5)
    return model


@pytest.fixture
def batch() -> PackedBatch:
    rng = np.random.default_rng(0)
    lengths = (13, 1, 40, 130, 27)
    return PackedBatch.of(
        [rng.integers(0, VOCAB, length) for length in lengths],
        [3, 9, 4, 100, 7],
        epoch=2,
    )


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A study of a few steps."""
    return small_study.make_study(tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its shards."""
    return small_study.make_shards(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session")
def run(study: Study, data: Path) -> small_study.Run:
    """Trains a model of the study on its shards."""

    def trained(name: str, out: Path, *words: str, **others: Any) -> bool:
        config = small_study.changed(others.get("study", study), *words)
        given = {"study": study, "data": data, "config": config, **others}
        return small_study.train(name, out=out, **given)

    return trained


@pytest.fixture(scope="session")
def done(run: small_study.Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its two-stage model, trained without interruption."""
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("out")
    assert run(small_study.MODEL, out)
    return out
