"""The claims as a forest plot: what is drawn, said, and repeated byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from analysis.claims.catalogue import CLAIMS
from common.errors import UserError
from paper_figures.__main__ import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("claims")
    assert main(["claims", "--out", str(made)]) == 0
    return made


def test_every_format_is_written(folder: Path) -> None:
    for suffix in ("pdf", "png", "svg", "csv", "txt", "json"):
        assert (folder / f"claims.{suffix}").stat().st_size > 100
    record = json.loads((folder / "claims.json").read_text())
    assert record["settings"]["interval"] == "t" and record["source"]["name"] == "published"


def test_the_forest_plot_has_a_row_for_each_claim_and_all_its_comparisons(folder: Path) -> None:
    data = pd.read_csv(folder / "claims.csv")
    decisive = data[data["role"] == "decisive"]
    assert list(decisive["id"]) == list(CLAIMS)
    row = decisive.set_index("id").loc["F1"]
    assert row["effect"] == pytest.approx(2.09) and row["low"] < row["effect"] < row["high"]
    of_f6 = data[data["id"] == "F6"]["role"].value_counts()
    assert of_f6.to_dict() == {"other": 18, "decisive": 1, "typical": 1}
    spoken = (folder / "claims.txt").read_text()
    assert "4 supported" in spoken and "F12" in spoken
    picture = (folder / "claims.svg").read_text()
    assert 'role="img"' in picture and "<title>" in picture


def test_the_interval_asked_for_is_used_and_refused_where_it_cannot_be(tmp_path: Path) -> None:
    assert main(["claims", "--interval", "paper", "--format", "svg", "--out", str(tmp_path)]) == 0
    assert json.loads((tmp_path / "claims.json").read_text())["settings"]["interval"] == "paper"
    with pytest.raises(UserError, match="needs"):
        main(["claims", "--interval", "bca", "--out", str(tmp_path)])
