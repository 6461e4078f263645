"""Real files, a tiny model with random weights: all four families run, and SST-2 is learnt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModel

import pretraining.model.heads  # noqa: F401  (registers the encoder with AutoModel)
from benchmarks.datasets.local_dataset import load
from tests.benchmarks.command import command
from tests.benchmarks.datasets.test_import_files import CASES, REAL
from tests.benchmarks.tiny import make_config, make_tokenizer

pytestmark = [
    pytest.mark.real_data,
    pytest.mark.skipif(
        not REAL.is_dir(), reason="REAL_DATA names no folder with original distribution files"
    ),
]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("real")
    for name, (files, _) in CASES.items():
        arguments = [name, "--out", str(folder)]
        for role, paths in files.items():
            arguments += [f"--{role}", *(str(REAL / path) for path in paths)]
        command("import")([*arguments, *(["--skip-bad-lines"] if name == "msmarco" else [])])
    return folder


@pytest.fixture(scope="module")
def tiny(real: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    texts = load(real, "sst2").train["first"].to_pylist()[:20_000]
    texts += load(real, "squad").train["context"].to_pylist()[:500]
    tokenizer = make_tokenizer(texts, size=4_000)
    torch.manual_seed(0)
    AutoModel.from_config(make_config("ours", vocab=len(tokenizer), hidden=64)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _run(tiny: Path, real: Path, store: Path, *more: str) -> int:
    arguments = [
        "--model",
        str(tiny),
        "--name",
        "tiny",
        "--data",
        str(real),
        "--out",
        str(store),
        "--device",
        "cpu",
    ]
    return command("run")([*arguments, *more])


@pytest.mark.slow
def test_sst2_is_learnt_from_random_weights(tiny: Path, real: Path, tmp_path: Path) -> None:
    """872 sentences, 444 of them positive: chance is 0.509 +- 0.034 (95 %)."""
    assert (
        _run(tiny, real, tmp_path, "--dataset", "sst2", "--lr", "2e-3", "--seed", "0", "--steps", "250") == 0
    )
    path = tmp_path / "results/tiny/SC/sst2/lr2e-03_sd0/results.json"
    content = json.loads(path.read_text())
    assert len(content["validation"]["scores_i"]) == 3_368
    assert len(content["test"]["scores_i"]) == 872
    assert content["test"]["score"] > 0.65
    assert content["validation"]["score"] > 0.65


@pytest.mark.slow
def test_all_families_run_on_real_files(tiny: Path, real: Path, tmp_path: Path) -> None:
    assert (
        _run(tiny, real, tmp_path, "--dataset", *CASES, "--lr", "1e-3", "--seed", "0", "--steps", "20") == 0
    )
    for name, (_, counts) in CASES.items():
        found = list(tmp_path.glob(f"results/tiny/*/{name}/*/results.json"))
        assert len(found) == 1
        content = json.loads(found[0].read_text())
        for split in ("validation", "test"):
            assert len(content[split]["scores_i"]) == counts[split]
