"""Which mark of a picture is which row of its CSV."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pandas as pd
import pytest

from analysis.sources import open_source
from paper_figures.drawing.points import point_id
from paper_figures.inputs import Inputs
from paper_figures.output.formats import formats_named
from paper_figures.output.save import save_figure
from paper_figures.registry import FIGURES


@pytest.mark.parametrize("name", ["1", "8", "claims"])
def test_every_row_of_the_csv_is_a_group_of_the_svg(name: str, tmp_path: Path) -> None:
    save_figure(
        FIGURES[name].load(), Inputs(source=open_source("published")), tmp_path, formats_named(["svg"])
    )
    stem = FIGURES[name].stem
    rows = pd.read_csv(tmp_path / f"{stem}.csv")
    root = ElementTree.parse(tmp_path / f"{stem}.svg").getroot()
    ids = [str(element.get("id")) for element in root.iter("{http://www.w3.org/2000/svg}g")]
    points = [found for found in ids if re.fullmatch(r"point-\d+", found)]
    drawn = rows.index if "effect" not in rows else rows.index[rows["effect"].notna()]
    assert sorted(points) == sorted(point_id(row) for row in drawn)
