"""The multiverse as a grid of verdicts."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from analysis.claims.catalogue import CLAIMS
from paper_figures.__main__ import main
from tests.analysis.stores import RELEASED


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("multiverse")
    assert main(["multiverse", "--out", str(made)]) == 0
    return made


def test_every_format_is_written(folder: Path) -> None:
    for suffix in ("pdf", "png", "svg", "csv", "txt", "json"):
        assert (folder / f"multiverse.{suffix}").stat().st_size > 100


def test_the_grid_has_a_row_for_each_claim_and_analysis(folder: Path) -> None:
    data = pd.read_csv(folder / "multiverse.csv")
    assert set(data["id"]) == set(CLAIMS)
    assert not data.duplicated(["id", "protocol", "selection", "interval"]).any()
    assert data.groupby("id")["share_supporting"].nunique().max() == 1


def test_the_multiverse_shows_the_gap_of_the_released_runs(tmp_path: Path) -> None:
    args = [
        "multiverse",
        "--source",
        str(RELEASED),
        "--format",
        "svg",
        "--out",
        str(tmp_path),
    ]
    assert main(args) == 0
    assert "gap on SST-2 at 610m by rule: seed +0.32, mean +0.64" in (tmp_path / "multiverse.txt").read_text()
