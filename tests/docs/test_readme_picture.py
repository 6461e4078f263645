"""The picture in the README is what the package draws now."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from analysis.sources import open_source
from common.provenance import ROOT
from paper_figures.drawing.style import paper_style
from paper_figures.inputs import Inputs
from paper_figures.output.captions import alt_text, caption
from paper_figures.output.formats import FORMATS
from paper_figures.output.save import picture
from tests.paper_figures.made_up import paper_figure

COMMITTED = ROOT / "docs" / "images" / "figure3.png"


def test_the_committed_picture_holds_the_data_drawn_now() -> None:
    figure, inputs = paper_figure(3), Inputs(source=open_source("published"))
    data = figure.collect(inputs)
    spoken = alt_text(figure, data, inputs)
    with paper_style():
        drawn = figure.draw(data, caption(figure, data, inputs))
        now = Image.open(io.BytesIO(picture(drawn, FORMATS["png"], title=figure.heading, description=spoken)))
    then = Image.open(COMMITTED)
    assert then.info["Description"] == spoken
    assert then.size == now.size
    one, two = (np.asarray(image.convert("L"), dtype=float) for image in (then, now))
    assert np.abs(one - two).mean() == pytest.approx(0, abs=0.05)


def test_the_readme_shows_it() -> None:
    assert "docs/images/figure3.png" in (ROOT / "README.md").read_text(encoding="utf-8")
