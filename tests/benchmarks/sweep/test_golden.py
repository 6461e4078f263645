"""The version of the code that decides scores is raised when the scores change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.runs import RESULTS_VERSION
from common.provenance import ROOT
from tests.benchmarks.sweep.golden import ends

GOLDEN = json.loads((ROOT / "tests/golden/benchmarks.json").read_text())


def test_the_golden_scores_are_of_this_version() -> None:
    assert GOLDEN["results_version"] == RESULTS_VERSION, "make tests/golden/benchmarks.json again"


def test_runs_end_where_this_version_ended(tmp_path: Path) -> None:
    """Losses to rounding; a score may move by one example of the 24."""
    found = ends(tmp_path)["runs"]
    assert found.keys() == GOLDEN["runs"].keys()
    for name, golden in GOLDEN["runs"].items():
        assert found[name]["losses"] == pytest.approx(golden["losses"], abs=2e-4), name
        assert found[name]["scores"] == pytest.approx(golden["scores"], abs=0.05), name
        assert found[name]["standard"] == pytest.approx(golden["standard"], abs=0.05), name
