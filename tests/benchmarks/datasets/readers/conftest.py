from pathlib import Path

import pytest

from tests.benchmarks.datasets.readers.originals import Put, putter


@pytest.fixture
def put(tmp_path: Path) -> Put:
    return putter(tmp_path)
