"""Figures for the report, drawn once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from analysis.sources import Source
from common.provenance import ROOT
from tests.analysis.made_up import random_runs


@pytest.fixture(scope="session")
def figures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("figures")
    command = [sys.executable, "-m", "paper_figures", "3", "6", "--format", "svg", "--out", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="session")
def own(figures: Path) -> Source:
    runs = random_runs(models=("610m-clm-42k", "610m-mlm40-42k", "210m-clm-42k", "1b-clm-42k"))
    return Source(label="<my> runs", runs=runs)


@pytest.fixture(scope="session")
def own_figures(figures: Path, own: Source, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same pictures as if of another source."""
    folder = tmp_path_factory.mktemp("own")
    for path in figures.iterdir():
        text = path.read_text(encoding="utf-8").replace('"name": "published"', f'"name": "{own.name}"')
        (folder / path.name).write_text(text, encoding="utf-8")
    return folder
