from collections.abc import Callable
from pathlib import Path

import pytest

from tests.benchmarks.sweep.stores import words_of


@pytest.fixture
def arguments(
    data: Path, model_folder: Callable[..., Path], tmp_path: Path
) -> list[str]:
    return words_of(model_folder("ours"), data, tmp_path)
