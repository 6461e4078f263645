from __future__ import annotations

from pathlib import Path


def test_only_these_modules_know_mosaicmls_libraries() -> None:
    room = Path(__file__).parents[2] / "pretraining"
    found = {
        path.name
        for path in room.rglob("*.py")
        for line in path.read_text().splitlines()
        if line.strip().startswith(("from composer", "import composer", "from streaming", "import streaming"))
    }
    assert found == {"composer_adapter.py", "monitors.py", "ranks.py", "remote_shards.py", "shard_files.py"}
