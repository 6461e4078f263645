"""The coverage of nominal intervals as dots."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from paper_figures.__main__ import main


def test_the_coverage_is_drawn_from_the_simulation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.precision.coverage.COVERAGE_TRIALS", 200)
    monkeypatch.setattr("analysis.precision.coverage.COVERAGE_RESAMPLES", 100)
    assert main(["coverage", "--format", "png", "--out", str(tmp_path)]) == 0
    data = pd.read_csv(tmp_path / "coverage.csv")
    assert set(data["target"]) == {"seeds", "seeds and instances"} and len(data) == 26
    assert data["t"].between(0, 1).all() and np.isfinite(data["crossed"]).all()
    assert "MS MARCO" not in (tmp_path / "coverage.txt").read_text()  # ranges are given, not every dataset
