"""A hub on a local port that holds CoNLL-2003."""

from collections.abc import Iterator

import pytest

from tests.benchmarks.fake_hub import COMMIT, FakeHub, conll_rows


@pytest.fixture
def fake() -> FakeHub:
    conll = {
        f"data/{split}-00000-of-00001.parquet": conll_rows(40)
        for split in ("train", "validation", "test")
    }
    return FakeHub({"hgissbkh/conll2003-en": {"main": (COMMIT, conll)}})


@pytest.fixture
def hub(fake: FakeHub) -> Iterator[None]:
    with fake.serve():
        yield
