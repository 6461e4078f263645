"""The example that comes with the package: drawn offline, and marked wherever it is shown."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from analysis.sources import EXAMPLE, open_source
from paper_figures.figure import Inputs
from paper_figures.save import DrawnFigure, formats_named
from tests.paper_figures.made_up import paper_figure

SLOW = [pytest.param(number, marks=pytest.mark.slow) for number in range(1, 13) if number != 3]


@pytest.mark.parametrize("number", [3, *SLOW])
def test_figures_of_the_example_say_what_it_is(number: int, tmp_path: Path) -> None:
    source = open_source("miniature")
    paths = DrawnFigure.of(paper_figure(number), Inputs(source=source)).save(tmp_path, formats_named(["svg"]))
    assert len(pd.read_csv(tmp_path / f"figure{number}.csv"))
    text = next(path for path in paths if path.suffix == ".svg").read_text()
    assert f"<title>MINIATURE. Figure {number}." in text
    assert re.search("MINIATURE: not the paper", text.replace("\u00a0", " "))


def test_the_example_is_small() -> None:
    assert sum(path.stat().st_size for path in EXAMPLE.parent.rglob("*") if path.is_file()) < 600_000
