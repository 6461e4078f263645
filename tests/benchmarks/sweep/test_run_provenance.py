"""What is read of a run besides its scores, from where each version wrote it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.runs import RUN, RunKey, record_of
from benchmarks.sweep.run_provenance import folder_of, measured, model_source, timings
from common.provenance import provenance_path, write_provenance

KEY = RunKey(model="610m-clm-42k", dataset="sst2", lr=1e-5, seed=0)
SAID = {
    "seconds": {"tuning": 7, "evaluation": 0.5, "note": "x"},
    "machine": {"memory": 12, "fast": True, "less": -1},
    "model_source": "models/a\x1bb",
}


def written(store: Path, *, first_version: bool) -> Path:
    folder = folder_of(store, KEY)
    folder.mkdir(parents=True)
    if first_version:
        (folder / RUN).write_text(json.dumps(SAID))
    else:
        write_provenance(provenance_path(folder, folder=True), SAID, {})
    return folder


@pytest.mark.parametrize("first_version", [True, False])
def test_times_machine_and_model_are_read_from_either_place(tmp_path: Path, first_version: bool) -> None:
    written(tmp_path, first_version=first_version)
    assert timings(tmp_path, KEY) == {"tuning": 7.0, "evaluation": 0.5}
    assert [measured(tmp_path, KEY, name) for name in ("memory", "fast", "less", "none")] == [12, 0, 0, 0]
    assert model_source(tmp_path, KEY) == "models/a\\x1bb"


def test_what_is_not_there_or_damaged_says_nothing(tmp_path: Path) -> None:
    assert (timings(tmp_path, KEY), measured(tmp_path, KEY, "memory"), model_source(tmp_path, KEY)) == (
        {},
        0,
        "",
    )
    folder = written(tmp_path, first_version=True)
    for damaged in ("", "[1]", '{"seconds": 3'):
        (folder / RUN).write_text(damaged)
        assert record_of(folder) == {}
        assert timings(tmp_path, KEY) == {}
