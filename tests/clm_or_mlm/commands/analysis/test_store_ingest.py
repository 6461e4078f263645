from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.store.ingest import ingest
from benchmarks.runs import cell_keys, write_results
from common.provenance import ROOT
from tests.analysis.stores import MODELS, SIZES, contents, cut, fill_own, kinds, read, twice


def command(*args: object, **options: object) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "analysis", *map(str, args)]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False, **options)  # type: ignore[call-overload,no-any-return]


def test_the_command_says_what_it_did_and_its_status_says_whether_all_was_well(
    store: Path, tmp_path: Path
) -> None:
    done = command("ingest", store, "--out", tmp_path / "runs.parquet")
    assert (done.returncode, done.stdout) == (0, "")
    assert "180 runs of 2 models; 6 cells complete, 0 without all 30 runs; no problems" in done.stderr
    twice(store)
    cut(store)
    done = command(
        "ingest", store, "--out", tmp_path / "runs.csv", "--problems-out", tmp_path / "problems.json"
    )
    assert done.returncode == 1
    assert "180 runs of 2 models" in done.stderr  # the copy stands in for the broken file
    assert "1 problem (1 broken)" in done.stderr
    reported = json.loads((tmp_path / "problems.json").read_text())
    assert [set(problem) for problem in reported] == [{"path", "kind", "sentence"}]
    assert f"WARNING: {reported[0]['path']}: {reported[0]['sentence']}" in done.stderr
    done = command(
        "ingest", store, "--out", tmp_path / "no.parquet", "--strict", "--problems-out", tmp_path / "p.json"
    )
    assert done.returncode == 2
    assert json.loads((tmp_path / "p.json").read_text()) == reported
    assert not (tmp_path / "no.parquet").exists()
    for wrong in (
        ["ingset"],
        ["ingest", store],
    ):
        done = command(*wrong)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


def test_a_table_is_checked_and_converted(store: Path, tmp_path: Path) -> None:
    read(store, tmp_path)
    assert command("ingest", tmp_path / "runs.parquet", "--out", tmp_path / "runs.csv").returncode == 0
    assert command("ingest", tmp_path / "runs.csv", "--out", tmp_path / "again.parquet").returncode == 0
    assert (tmp_path / "again.parquet").read_bytes() == (tmp_path / "runs.parquet").read_bytes()
    (tmp_path / "wrong.csv").write_text("a,b\n1,2\n")
    done = command("ingest", tmp_path / "wrong.csv", "--out", tmp_path / "no.parquet")
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {tmp_path / 'wrong.csv'}: the header lacks 'model'")


def test_a_table_of_a_stores_own_dataset_is_read_without_the_store(tmp_path: Path) -> None:
    fill_own(tmp_path / "store")
    table = tmp_path / "runs.parquet"
    assert command("ingest", tmp_path / "store", "--out", table).returncode == 0
    done = command("scores", "--source", table, "--dataset", "reviews")
    assert done.returncode == 0 and "610m-clm-42k,SC,reviews,37.500000," in done.stdout
    assert command("ingest", table, "--out", tmp_path / "again.parquet").returncode == 0
    assert (tmp_path / "again.parquet").read_bytes() == table.read_bytes()
    for source in (tmp_path / "store", table):
        done = command("ingest", source, "--out", tmp_path / "runs.csv")
        assert done.returncode == 2 and "a CSV cannot record the definitions of datasets" in done.stderr


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_ingest_leaves_the_old_table_and_the_next_one_finishes(
    store: Path, tmp_path: Path, sign: signal.Signals
) -> None:
    out = tmp_path / "out"
    read(store, out)
    old = (out / "runs.parquet").read_bytes()
    for key in cell_keys(MODELS[0], "sst2") + cell_keys(MODELS[1], "nq"):
        write_results(
            store,
            key,
            {s: [1.0] * n for s, n in zip(("validation", "test"), SIZES[key.dataset], strict=True)},
        )
    script = (
        "import os, sys, time, pathlib, analysis.store.ingest as i\n"
        "real = i.read_cell\n"
        "def slow(*args):\n"
        "    result = real(*args)\n"
        "    print('read', flush=True); time.sleep(30); return result\n"
        "i.read_cell = slow\n"
        f"i.ingest(pathlib.Path({str(store)!r}), pathlib.Path({str(out / 'runs.parquet')!r}), "
        f"instances=pathlib.Path({str(out / 'instances')!r}))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"read\n"
        process.send_signal(sign)
        process.wait(30)
    assert (out / "runs.parquet").read_bytes() == old
    read(store, out)
    read(store, tmp_path / "fresh")
    assert contents(out) == contents(tmp_path / "fresh")


@pytest.mark.slow
def test_the_timing_scripts_store_is_without_fault_and_is_timed(tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "tests.performance.ingest",
        str(tmp_path),
        "--models",
        "2",
        "--share",
        "0.01",
    ]
    done = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True, timeout=300)
    assert re.search(r"ingest with instances, again +\d+\.\d s .* MB", done.stdout)
    ingested = ingest(tmp_path, tmp_path / "runs.parquet")
    assert (ingested.status, kinds(ingested), ingested.runs["model"].nunique()) == (0, [], 2)
