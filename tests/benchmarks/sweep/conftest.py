from collections.abc import Callable
from pathlib import Path

import pytest

FAST = ["--steps", "3", "--device", "cpu", "--workers", "1"]


@pytest.fixture
def arguments(data: Path, model_folder: Callable[..., Path], tmp_path: Path) -> list[str]:
    folder = str(model_folder("ours"))
    words = ["--model", folder, "--name", "tiny", "--data", str(data), "--out", str(tmp_path / "results")]
    return [*words, *FAST]
