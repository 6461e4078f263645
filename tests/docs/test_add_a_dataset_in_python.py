"""docs/add-a-dataset.md does what it says of readers: its two blocks of Python are run as they stand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from analysis.statistics.scores_table import Settings, run_scores
from benchmarks import protocol
from benchmarks.__main__ import main
from benchmarks.datasets.listing import list_text, show_text
from benchmarks.datasets.local_dataset import load, verify
from benchmarks.datasets.readers import READERS
from benchmarks.datasets.synthetic import synthetic
from benchmarks.protocol import DATASETS, Dataset, datasets_of
from common.errors import UserError

PAGE = Path(__file__).resolve().parents[2] / "docs/add-a-dataset.md"


@pytest.fixture
def entry() -> Iterator[Dataset]:
    module_code, entry_code = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    module = ModuleType("benchmarks.datasets.readers.reviews")
    exec(compile(module_code, str(PAGE), "exec"), vars(module))
    entry = DATASETS.register(eval(entry_code, vars(protocol)))
    assert isinstance(entry, Dataset)
    yield entry
    DATASETS.pop(entry.name)
    READERS.pop(entry.name)


def test_the_page(tmp_path: Path, entry: Dataset) -> None:
    for name, count in (("train", 100), ("test", 20)):
        lines = "".join(f"{name} {i}\t{('bad', 'fair', 'good')[i % 3]}\n" for i in range(count))
        (tmp_path / f"{name}.tsv").write_text("text\tlabel\n" + lines)
    files = [str(tmp_path / "train.tsv"), str(tmp_path / "test.tsv")]
    assert not main(["import", "reviews", *files, "--out", str(tmp_path / "data")])
    assert verify(tmp_path / "data", "reviews") == []
    assert load(tmp_path / "data", "reviews").manifest.counts == {"train": 95, "validation": 5, "test": 20}
    assert "label good" in show_text(tmp_path / "data", "reviews", split="test")
    assert list_text(tmp_path / "data").splitlines()[-1].startswith("reviews")
    (tmp_path / "train.tsv").write_text("text\tlabel\nx\tawful\n")
    with pytest.raises(UserError, match=r"train\.tsv:2: 'awful' is outside the label set bad, fair, good"):
        main(["import", "reviews", *files, "--out", str(tmp_path / "data")])


def test_it_enters_no_average(entry: Dataset) -> None:
    import pandas as pd

    assert "reviews" not in datasets_of("SC")
    values = {"sst2": 0.9, "qqp": 0.8, "mnli_m": 0.7, "reviews": 0.1}
    runs = pd.DataFrame(
        [
            {"model": "m", "task": "SC", "dataset": name, "lr": 1e-4, "seed": seed, "validation_score": value,
             "test_score": value, "n_validation": 10, "n_test": 10}
            for name, value in values.items()
            for seed in range(5)
        ]
    )  # fmt: skip
    scores = run_scores(runs, Settings(), source="x").set_index("dataset")["mean"]
    assert scores["average"] == pytest.approx(80)
    assert scores["reviews"] == pytest.approx(10)


def test_it_can_be_made_up(entry: Dataset) -> None:
    content = synthetic(entry)
    assert content.labels == ("class 0", "class 1", "class 2")
    assert set(content.tables["train"]["label"].to_pylist()) == {0, 1, 2}
