"""`clm-or-mlm datasets`: what is there, and whether it is whole."""

from pathlib import Path

import pytest

from benchmarks.datasets.listing import dataset_table
from benchmarks.datasets.local_dataset import load_dataset
from benchmarks.datasets.synthetic import make_synthetic
from benchmarks.protocol import DATASETS
from common.errors import UserError
from tests.benchmarks.command import command
from tests.flips import flip

main = command("datasets")


def test_list(data: Path, tmp_path: Path) -> None:
    rows = dataset_table(data).rows
    assert len(rows) == 1 + len(DATASETS)
    assert list(rows[1][:6]) == ["sst2", "SC", "96", "24", "24", "synthetic"]
    assert list(rows[10][:6]) == ["nq", "IR", "-", "24", "24", "synthetic"]
    assert all("absent" in row for row in dataset_table(tmp_path).rows[1:])


def test_verify_finds_a_flipped_byte(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_synthetic(tmp_path, "sst2", train=20, evaluation=6)
    make_synthetic(tmp_path, "squad", train=20, evaluation=6)
    assert main(["verify", "--data", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "sst2: intact\nsquad: intact\n"
    flip(tmp_path / "squad/train.parquet")
    assert main(["verify", "--data", str(tmp_path)]) == 1
    assert "train.parquet: its content has changed" in capsys.readouterr().out
    with pytest.raises(UserError, match="fetch or import squad again with --replace"):
        load_dataset(tmp_path, "squad")
