"""The pictures and the answer in the README are what the package draws and finds now."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

import clm_or_mlm as cm
from analysis.claims.answer import answer
from analysis.claims.assessment import assess
from analysis.sources import PUBLISHED, open_source
from analysis.statistics.scores_table import Settings
from common.provenance import ROOT
from paper_figures.drawing.style import paper_style
from paper_figures.inputs import Inputs
from paper_figures.output.captions import alt_text, caption
from paper_figures.output.formats import FORMATS
from paper_figures.output.save import picture
from paper_figures.output.titles import entitle
from tests.paper_figures.made_up import paper_figure

README = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())


@pytest.mark.parametrize("number", [3, 6])
def test_the_committed_picture_holds_the_data_drawn_now(number: int) -> None:
    figure, inputs = paper_figure(number), Inputs(source=open_source("published"))
    data = figure.collect(inputs)
    spoken = alt_text(figure, data, inputs)
    with paper_style():
        drawn = figure.draw(data, caption(figure, data, inputs))
        title = entitle(drawn, figure, inputs)
        now = Image.open(io.BytesIO(picture(drawn, FORMATS["png"], title=title, description=spoken)))
    then = Image.open(ROOT / "docs" / "images" / f"figure{number}.png")
    assert then.info["Description"] == spoken
    assert then.size == now.size
    one, two = (np.asarray(image.convert("L"), dtype=float) for image in (then, now))
    assert np.abs(one - two).mean() == pytest.approx(0, abs=0.05)


def test_the_readme_shows_them() -> None:
    assert "docs/images/figure3.png" in README and "docs/images/figure6.png" in README


def test_the_readmes_answer_is_what_the_claims_say() -> None:
    claims = cm.claims("published")
    two_stage = claims.loc["F8"]
    assert f"in at least {two_stage['holds_in']} of {two_stage['parts']} comparisons" in README
    assert two_stage["fails_in"] == 0 and "shown to be worse in none" in README
    effect, low, high = (
        f"{two_stage[name]:+.1f}" for name in ("typical_effect", "typical_low", "typical_high")
    )
    assert f"{effect} points [{low}, {high}]" in README
    for sentence in answer(assess(PUBLISHED, Settings(), datasets=False).verdicts).sentences:
        assert sentence in README.replace("**", "")
    assert claims.loc[["F1", "F2", "F5a", "F5c"], "verdict"].unique().tolist() == ["supported"]
    assert claims.loc["F14", "verdict"] == "undecided"
    assert claims.loc["F12", "verdict"].startswith("contradicted")
    assert claims.loc["F9", "verdict"] == "mixed"
