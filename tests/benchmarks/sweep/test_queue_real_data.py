"""Real files, a tiny model with random weights: SST-2 is learnt. All families run in test_queue_model_families."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.datasets.local_dataset import load
from tests.benchmarks.command import command
from tests.benchmarks.datasets.test_import_files import CASES, REAL
from tests.benchmarks.tiny import make_tokenizer, save_model


@pytest.mark.slow
@pytest.mark.real_data
@pytest.mark.skipif(not REAL.is_dir(), reason="REAL_DATA names no folder with original distribution files")
def test_sst2_is_learnt_from_random_weights(tmp_path: Path) -> None:
    """872 sentences, 444 of them positive: chance is 0.509 +- 0.034 (95 %)."""
    words = ["sst2", "--out", str(tmp_path / "data")]
    for role, paths in CASES["sst2"][0].items():
        words += [f"--{role}", *(str(REAL / path) for path in paths)]
    command("import")(words)
    tokenizer = make_tokenizer(
        load(tmp_path / "data", "sst2").train["first"].to_pylist()[:20_000], size=4_000
    )
    model = save_model(tmp_path / "tiny", tokenizer, hidden=64)
    words = ["--model", str(model), "--data", str(tmp_path / "data"), "--out", str(tmp_path)]
    words += ["--dataset", "sst2", "--lr", "2e-3", "--seed", "0", "--steps", "250", "--device", "cpu"]
    assert command("benchmarks", "run")(words) == 0
    content = json.loads((tmp_path / "results/tiny/SC/sst2/lr2e-03_sd0/results.json").read_text())
    assert [len(content[split]["scores_i"]) for split in ("validation", "test")] == [3_368, 872]
    assert min(content[split]["score"] for split in ("validation", "test")) > 0.65
