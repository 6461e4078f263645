"""The claims, the multiverse and the coverage as figures: what is drawn, said, and repeated byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.claims.catalogue import CLAIMS
from clm_or_mlm.commands.paper_figures.draw import main, numbers
from common.errors import UserError
from tests.analysis.stores import RELEASED


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix != ".json"}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("extras")
    assert main(["claims", "multiverse", "--out", str(folder)]) == 0
    return folder


def test_every_format_is_written(drawn):
    for name in ("claims", "multiverse"):
        for suffix in ("pdf", "png", "svg", "csv", "txt", "json"):
            assert (drawn / f"{name}.{suffix}").stat().st_size > 100
    record = json.loads((drawn / "claims.json").read_text())
    assert record["settings"]["interval"] == "t" and record["source"]["name"] == "published"


def test_the_same_source_gives_the_same_bytes(drawn, tmp_path):
    assert main(["claims", "multiverse", "--out", str(tmp_path)]) == 0
    assert files(tmp_path) == files(drawn)


def test_the_forest_plot_has_a_row_for_each_claim_and_all_its_comparisons(drawn):
    data = pd.read_csv(drawn / "claims.csv")
    decisive = data[data["role"] == "decisive"]
    assert list(decisive["id"]) == list(CLAIMS)
    row = decisive.set_index("id").loc["F1"]
    assert row["effect"] == pytest.approx(2.09) and row["low"] < row["effect"] < row["high"]
    assert (data["id"] == "F6").sum() == 19
    spoken = (drawn / "claims.txt").read_text()
    assert "4 supported" in spoken and "F12" in spoken
    picture = (drawn / "claims.svg").read_text()
    assert 'role="img"' in picture and "<title>" in picture


def test_the_multiverse_shows_the_gap_of_the_released_runs(tmp_path):
    args = [
        "multiverse",
        "--source",
        str(RELEASED),
        "--resamples",
        "200",
        "--format",
        "svg",
        "--out",
        str(tmp_path),
    ]
    assert main(args) == 0
    assert "gap on SST-2 at 610m by rule: seed +0.32, mean +0.64" in (tmp_path / "multiverse.txt").read_text()


def test_the_interval_asked_for_is_used_and_refused_where_it_cannot_be(tmp_path):
    assert main(["claims", "--interval", "paper", "--format", "svg", "--out", str(tmp_path)]) == 0
    assert json.loads((tmp_path / "claims.json").read_text())["settings"]["interval"] == "paper"
    with pytest.raises(UserError, match="needs"):
        main(["claims", "--interval", "bca", "--out", str(tmp_path)])


def test_unknown_words_are_told_the_nearest():
    with pytest.raises(UserError, match="did you mean 'coverage'"):
        numbers(["coverag"])


def test_the_coverage_is_drawn_from_the_simulation(tmp_path, monkeypatch):
    monkeypatch.setattr("analysis.precision.coverage.COVERAGE_TRIALS", 200)
    monkeypatch.setattr("analysis.precision.coverage.COVERAGE_RESAMPLES", 100)
    assert main(["coverage", "--format", "png", "--out", str(tmp_path)]) == 0
    data = pd.read_csv(tmp_path / "coverage.csv")
    assert set(data["target"]) == {"seeds", "seeds and instances"} and len(data) == 26
    assert data["t"].between(0, 1).all() and np.isfinite(data["crossed"]).all()
    assert "MS MARCO" not in (tmp_path / "coverage.txt").read_text()  # ranges are told, not every dataset
