"""A hub on a local port that holds CoNLL-2003, and the real client of hubs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.datasets.fetch import HuggingFaceHub
from tests.benchmarks.fake_hub import COMMIT, FakeHub, conll_rows


@pytest.fixture
def fake() -> FakeHub:
    conll = {
        f"data/{split}-00000-of-00001.parquet": conll_rows(40) for split in ("train", "validation", "test")
    }
    return FakeHub({"hgissbkh/conll2003-en": {"main": (COMMIT, conll)}})


@pytest.fixture
def hub(fake: FakeHub) -> Iterator[HuggingFaceHub]:
    with fake.serve() as endpoint:
        yield HuggingFaceHub(endpoint)
