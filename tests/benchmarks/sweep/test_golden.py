"""What a tiny model's runs end in, for each family, and the version of the code that made it.

    python -m tests.benchmarks.sweep.test_golden > tests/golden/benchmarks.json

A change that gives a model other scores raises `benchmarks.runs.RESULTS_VERSION` and commits this file again.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from benchmarks.datasets.local_dataset import load_dataset
from benchmarks.datasets.synthetic import make_synthetic
from benchmarks.protocol import DATASETS
from benchmarks.runs import RESULTS_VERSION, RunKey
from benchmarks.sweep.run_store import RunStore
from common.provenance import ROOT
from tests.benchmarks.sweep.stores import details, record, run
from tests.benchmarks.tiny import make_tokenizer, save_model

MEASURED = ("qqp", "conll2003_en", "squad_v2", "msmarco")


"""A dataset of each family."""


def ends(folder: Path) -> dict[str, Any]:
    """Return the version, and losses and scores by dataset."""
    for name in MEASURED:
        make_synthetic(folder / "data", name, train=96, evaluation=24)
    data = [load_dataset(folder / "data", name) for name in MEASURED]
    texts = [
        text
        for column in (data[0].train["first"], data[2].train["context"])
        for text in column.to_pylist()
    ]
    save_model(folder / "model", make_tokenizer(texts))
    words = [
        "--model",
        f"{folder}/model",
        "--data",
        f"{folder}/data",
        "--out",
        f"{folder}",
    ]
    words += ["--device", "cpu", "--workers", "1", "--lr", "1e-3", "--seed", "0"]
    run(
        [
            *words,
            "--steps",
            "8",
            "--dataset",
            *(name for name in MEASURED if DATASETS[name].epochs is None),
        ]
    )
    run([*words, "--dataset", *(name for name in MEASURED if DATASETS[name].epochs)])
    runs: dict[str, Any] = {}
    for name in MEASURED:
        key = RunKey(model="model", dataset=DATASETS[name].name, lr=1e-3, seed=0)
        where = str(key.folder)
        runs[name] = {
            "losses": details(folder, where)["losses"],
            "scores": RunStore(folder).state(key).scores,
            "standard": record(folder, where)["standard"]["test"],
        }
    return {"results_version": RESULTS_VERSION, "runs": runs}


GOLDEN = json.loads((ROOT / "tests/golden/benchmarks.json").read_text())


def test_the_golden_scores_are_of_this_version() -> None:
    assert GOLDEN["results_version"] == RESULTS_VERSION, (
        "make tests/golden/benchmarks.json again"
    )


def test_runs_end_where_this_version_ended(tmp_path: Path) -> None:
    """Losses to rounding; a score may move by one example of the 24."""
    found = ends(tmp_path)["runs"]
    assert found.keys() == GOLDEN["runs"].keys()
    for name, golden in GOLDEN["runs"].items():
        assert found[name]["losses"] == pytest.approx(golden["losses"], abs=2e-4), name
        assert found[name]["scores"] == pytest.approx(golden["scores"], abs=0.05), name
        assert found[name]["standard"] == pytest.approx(golden["standard"], abs=0.05), (
            name
        )


if __name__ == "__main__":
    out = sys.stdout
    sys.stdout = sys.stderr  # the command's own lines
    with tempfile.TemporaryDirectory() as place:
        found = ends(Path(place))
    json.dump(found, out, indent=1)
    out.write("\n")
