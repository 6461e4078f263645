"""Single runs in a store."""

from __future__ import annotations

from pathlib import Path

from benchmarks.runs import RUN, RunKey, record_of, write_results
from benchmarks.sweep.run_state import failure, folder_of, is_done, read_score, timings
from common.manifest import write_manifest

KEY = RunKey(model="m", dataset="sst2", lr=1e-4, seed=0)


def test_a_run_is_missing_failed_or_done(tmp_path: Path) -> None:
    assert not is_done(tmp_path, KEY) and failure(tmp_path, KEY) is None and read_score(tmp_path, KEY) is None
    folder = folder_of(tmp_path, KEY)
    folder.mkdir(parents=True)
    for damaged in ("", "[1]", "not json", '{"status": "failed"}'):
        (folder / RUN).write_text(damaged)
        assert record_of(folder) == {} == timings(tmp_path, KEY) and failure(tmp_path, KEY) is None
    write_manifest(folder / RUN, {"status": "failed", "reason": "the loss is nan"}, {})
    assert failure(tmp_path, KEY) == "the loss is nan"
    (folder / RUN).unlink()
    write_results(tmp_path, KEY, {"validation": [1, 0], "test": [1, 1]})
    assert is_done(tmp_path, KEY) and failure(tmp_path, KEY) is None
    assert read_score(tmp_path, KEY) == (0.5, 1.0)
