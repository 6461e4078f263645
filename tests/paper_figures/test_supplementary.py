"""The findings as a forest plot, the multiverse as a grid of verdicts, the coverage of intervals as dots."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.claims.catalogue import CLAIMS
from common.errors import UserError
from paper_figures.__main__ import main
from tests.analysis.stores import RELEASED


def test_the_forest_plot_has_a_row_for_each_claim_and_all_its_comparisons(tmp_path: Path) -> None:
    assert main(["claims", "--format", "svg", "--out", str(tmp_path)]) == 0
    data = pd.read_csv(tmp_path / "claims.csv")
    decisive = data[data["role"] == "decisive"]
    assert list(decisive["id"]) == list(CLAIMS)
    row = decisive.set_index("id").loc["F1"]
    assert row["effect"] == pytest.approx(2.09) and row["low"] < row["effect"] < row["high"]
    of_f6 = data[data["id"] == "F6"]["role"].value_counts()
    assert of_f6.to_dict() == {"other": 18, "decisive": 1, "typical": 1}
    spoken = (tmp_path / "claims.txt").read_text()
    assert "4 supported" in spoken and "F12" in spoken
    record = json.loads((tmp_path / "claims.json").read_text())
    assert record["settings"]["interval"] == "t" and record["source"]["name"] == "published"


def test_the_interval_asked_for_is_used_and_refused_where_it_cannot_be(tmp_path: Path) -> None:
    assert main(["claims", "--interval", "paper", "--format", "svg", "--out", str(tmp_path)]) == 0
    assert json.loads((tmp_path / "claims.json").read_text())["settings"]["interval"] == "paper"
    with pytest.raises(UserError, match="needs"):
        main(["claims", "--interval", "bootstrap", "--out", str(tmp_path)])


def test_the_grid_has_a_row_for_each_claim_and_analysis(tmp_path: Path) -> None:
    assert main(["multiverse", "--format", "svg", "--out", str(tmp_path)]) == 0
    data = pd.read_csv(tmp_path / "multiverse.csv")
    assert set(data["id"]) == set(CLAIMS)
    assert not data.duplicated(["id", "protocol", "selection", "interval"]).any()
    assert data.groupby("id")["share_supporting"].nunique().max() == 1


def test_the_multiverse_shows_the_gap_of_the_released_runs(tmp_path: Path) -> None:
    source = ["--source", str(RELEASED)]
    assert main(["multiverse", *source, "--format", "svg", "--out", str(tmp_path)]) == 0
    assert "gap on SST-2 at 610m by rule: seed +0.32, mean +0.64" in (tmp_path / "multiverse.txt").read_text()


def test_the_coverage_is_drawn_from_the_simulation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.precision.coverage.COVERAGE_TRIALS", 200)
    monkeypatch.setattr("analysis.precision.coverage.COVERAGE_RESAMPLES", 100)
    assert main(["coverage", "--format", "png", "--out", str(tmp_path)]) == 0
    data = pd.read_csv(tmp_path / "coverage.csv")
    assert set(data["target"]) == {"seeds", "seeds and instances"} and len(data) == 26
    assert data["t"].between(0, 1).all() and np.isfinite(data["crossed"]).all()
    assert "MS MARCO" not in (tmp_path / "coverage.txt").read_text()  # ranges are given, not every dataset


def test_sizes_are_drawn_from_their_table(tmp_path: Path) -> None:
    assert main(["sizes", "--format", "svg", "--out", str(tmp_path)]) == 0
    data = pd.read_csv(tmp_path / "sizes.csv")
    assert len(data) == 3 * 13
    assert "610M orders 90% of 10 pairs of recipes as 1B does" in (tmp_path / "sizes.txt").read_text()
