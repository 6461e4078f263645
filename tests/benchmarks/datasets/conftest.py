"""A hub on a local port that holds CoNLL-2003."""

from collections.abc import Iterator

import pytest

from tests.benchmarks.fake_hub import FakeHub, conll_hub


@pytest.fixture
def fake() -> FakeHub:
    return conll_hub()


@pytest.fixture
def hub(fake: FakeHub) -> Iterator[None]:
    with fake.serve():
        yield
