"""What an earlier ingest read is read again only where files changed."""

from __future__ import annotations

import logging
import os
import random
import shutil
from pathlib import Path

import pytest

from analysis.store.ingest import ingest
from analysis.store.instances import cell_path, read_instances
from analysis.store.scan import scan_store
from analysis.store.state import State, state_path
from benchmarks.runs import RESULTS, cell_keys, write_results
from common.errors import UserError
from tests.analysis.stores import MODELS, contents, read, run_folder, scores_of


@pytest.mark.usefixtures("clock")
def test_only_changed_cells_are_read_again(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert read(store, out).cells_read == 6
    before = (out / "runs.parquet").stat().st_mtime_ns
    again = read(store, out)
    assert (again.cells_read, len(again.runs)) == (0, 180)
    assert (out / "runs.parquet").stat().st_mtime_ns == before

    key = cell_keys(MODELS[0], "nq")[7]
    write_results(store, key, {"validation": [1.0] * 3, "test": [0.5] * 3})
    changed = read(store, out)
    assert changed.cells_read == 1
    runs = changed.runs
    row = runs[
        (runs.model == key.model) & (runs.dataset == "nq") & (runs.lr == key.lr) & (runs.seed == key.seed)
    ]
    assert row["validation_score"].tolist() == [1.0]
    assert read_instances(out / "instances", "nq", row).tolist() == [[0.5] * 3]


@pytest.mark.usefixtures("clock")
def test_same_size_and_time_but_other_content_is_noticed(store: Path, tmp_path: Path) -> None:
    read(store, tmp_path)
    file = run_folder(store) / RESULTS
    stat = file.stat()
    text = file.read_text()
    shutil.copyfile(run_folder(store, model=MODELS[1]) / RESULTS, file)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    if file.stat().st_size != stat.st_size:  # the two files happen to differ in length
        file.write_text(text.replace("\n", " \n", 1))
        os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert read(store, tmp_path).cells_read == 1


def test_a_file_younger_than_two_seconds_is_read_again(store: Path, tmp_path: Path) -> None:
    key = cell_keys(MODELS[0], "nq")[0]
    write_results(store, key, scores_of(key))
    read(store, tmp_path)
    assert read(store, tmp_path).cells_read >= 1


@pytest.mark.usefixtures("clock")
def test_lost_instances_are_made_again(store: Path, tmp_path: Path) -> None:
    read(store, tmp_path)
    expected = contents(tmp_path)
    cell_path(tmp_path / "instances", MODELS[0], "nq").unlink()
    cell_path(tmp_path / "instances", MODELS[1], "nq").write_bytes(b"")
    assert read(store, tmp_path).cells_read == 2
    assert contents(tmp_path) == expected
    state_path(tmp_path / "runs.parquet").write_text("{half a sta")
    assert read(store, tmp_path).cells_read == 6
    assert contents(tmp_path) == expected


@pytest.mark.usefixtures("clock")
def test_instances_can_come_later_or_lag_behind(store: Path, tmp_path: Path) -> None:
    ingest(store, tmp_path / "runs.parquet")
    assert not (tmp_path / "instances").exists()
    assert read(store, tmp_path).cells_read == 6
    key = cell_keys(MODELS[0], "nq")[0]
    write_results(store, key, {"validation": [1.0] * 3, "test": [1.0] * 3})
    runs = ingest(store, tmp_path / "runs.parquet").runs
    with pytest.raises(UserError, match="not from the same ingest"):
        read_instances(tmp_path / "instances", "nq", runs[runs["dataset"] == "nq"])
    assert read(store, tmp_path).cells_read == 1
    assert len(read_instances(tmp_path / "instances", "nq", runs[runs["dataset"] == "nq"])) == 60


@pytest.mark.usefixtures("clock")
def test_a_model_that_was_taken_away_leaves_nothing_behind(store: Path, tmp_path: Path) -> None:
    read(store, tmp_path / "out")
    shutil.rmtree(store / "results" / MODELS[1])
    assert read(store, tmp_path / "out").cells_read == 0
    read(store, tmp_path / "fresh")
    assert contents(tmp_path / "out", state=False) == contents(tmp_path / "fresh", state=False)


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("most", [60, pytest.param(1_000, marks=pytest.mark.slow)])
def test_no_flipped_bit_of_a_state_passes(
    store: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, most: int
) -> None:
    """Nothing of such a state is believed, and the log says that the store is read afresh."""
    caplog.set_level(logging.INFO)
    read(store, tmp_path)
    expected = contents(tmp_path)
    cells, path, results = scan_store(store).cells, state_path(tmp_path / "runs.parquet"), store / "results"
    content, draw = path.read_bytes(), random.Random(0)
    assert all(State(path, results, None).known(cell) for cell in cells) and not caplog.messages
    for count in range(1, most + 1):
        bit = draw.randrange(8 * len(content))
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        state = State(path, results, None)
        assert not any(state.known(cell) for cell in cells), bit
        assert len(caplog.messages) == count and "the store is read afresh" in caplog.messages[-1], bit
    assert read(store, tmp_path).cells_read == len(cells)
    assert contents(tmp_path) == expected
