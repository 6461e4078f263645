"""Ten damaged files of each format through the command line: an exit code and a sentence, never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from common.provenance import ROOT
from tests.fuzz.formats import FORMATS
from tests.fuzz.mutations import mutants

CASES = 10
Words = Callable[[Path, Path], Sequence[str | Path]]
"""(folder, file) -> the command."""


def imported(dataset: str, at: Path, file: Path) -> list[str | Path]:
    """Return the import of a file as the training examples, next to a whole one for validation."""
    validation = at / f"validation{''.join(file.suffixes)}"
    words: list[str | Path] = ["benchmarks", "import", dataset, "--train", file, "--validation", validation]
    return [*words, "--out", at / "data", "--replace"]


COMMANDS: dict[str, Words] = {
    "results.json": lambda at, _: ["analysis", "ingest", at, "--out", at / "out.parquet"],
    "run.json": lambda at, _: [
        "analysis", "ingest", at, "--out", at / "out.parquet", "--protocol", "standard"
    ],
    "provenance.json of a run": lambda at, _: ["analysis", "provenance", at],
    "runs.parquet.ingest.json": lambda at, _: ["analysis", "ingest", at / "store", "--out", at / "runs.parquet"],
    "runs.parquet": lambda at, file: ["analysis", "scores", "--source", file],
    "runs.csv": lambda at, file: ["analysis", "scores", "--source", file],
    "instances": lambda at, _: [
        "analysis", "scores", "--source", at / "runs.parquet", "--interval",
        "hierarchical",
    ],
    "manifest.json of a dataset": lambda at, _: ["benchmarks", "datasets", "verify", "uner_en", "--data", at],
    "table of a dataset": lambda at, _: ["benchmarks", "datasets", "show", "uner_en", "--data", at],
    "hub.lock.json": lambda at, file: ["benchmarks", "fetch", "sst2", "--out", at],
    "log.jsonl": lambda at, _: ["paper_figures", "12", "--logs", at, "--out", at / "out"],
    "stand_ins.json": lambda at, _: ["analysis", "scores", "--source", at],
    "results.json of the release": lambda at, _: ["analysis", "ingest", at, "--out", at / "out.parquet"],
    "runs.csv of somebody else": lambda at, file: ["analysis", "scores", "--source", file],
    "seal of runs.csv": lambda at, file: ["analysis", "scores", "--source", file.with_suffix("")],
    "record of the release": lambda *_: ["analysis", "scores", "--source", "released"],
    "sst2.tsv": lambda at, file: imported("sst2", at, file),
    "sst2.tsv.gz": lambda at, file: imported("sst2", at, file),
    "squad.json": lambda at, file: imported("squad", at, file),
    "record.jsonl": lambda at, file: imported("record", at, file),
    "conll2003_en.parquet": lambda at, file: [*imported("conll2003_en", at, file), "--test", at / "test.parquet"],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_damaged_file_ends_in_a_sentence(name: str, tmp_path: Path) -> None:
    form = next(form for form in FORMATS if form.name == name)
    path = form.make(tmp_path)
    content = path.read_bytes()
    for number, mutant in enumerate(mutants(content, 3, CASES)):
        path.write_bytes(mutant)
        done = subprocess.run(
            [sys.executable, "-m", *map(str, COMMANDS[name](tmp_path, path))], cwd=tmp_path, capture_output=True,
            text=True, timeout=120, check=False,
            env=os.environ
            | {"PYTHONPATH": str(ROOT), "CLM_OR_MLM_CACHE": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"},
        )  # fmt: skip
        assert done.returncode in (0, 1, 2), f"{name}, mutant {number}: {done.stderr}"
        assert "Traceback" not in done.stderr, f"{name}, mutant {number}: {done.stderr}"
        assert all(line.isprintable() for line in done.stderr.splitlines()), f"{name}, mutant {number}"
        if done.returncode == 2:
            assert done.stderr.splitlines()[-1].startswith("error: "), (
                f"{name}, mutant {number}: {done.stderr}"
            )


def test_every_format_goes_through_a_command() -> None:
    """A provenance of its own is read as that of a run is."""
    assert set(COMMANDS) | {"provenance.json"} == {form.name for form in FORMATS}
