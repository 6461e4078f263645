"""Every colour has a dark partner that stands out as the light one does; no mark stays light."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from common.errors import UserError
from paper_figures.drawing.style import (
    CLM,
    EXTRA,
    GREY,
    INK,
    LIGHT,
    MLM,
    PAPER,
    RAMP_BLUE,
    RAMP_PURPLE,
    Look,
    paper_style,
)
from paper_figures.drawing.themes import DARK, THEMES, recolour, themes_named
from paper_figures.supplementary.claims import COLORS
from tests.paper_figures.colours import EYES, contrast, lab

LOOKS = (MLM, CLM, *RAMP_BLUE, *RAMP_PURPLE, *EXTRA)
GROUPS = {"objectives": (MLM, CLM), "sizes": RAMP_BLUE, "budgets": RAMP_PURPLE}
PAGES = {"light": {color: color for color in DARK}, "dark": DARK}


@pytest.mark.parametrize("page", PAGES)
def test_lines_have_a_contrast_of_three_and_text_of_four_and_a_half(page: str) -> None:
    shown = PAGES[page]
    paper = shown[PAPER]
    assert {look.color: c for look in LOOKS if (c := contrast(shown[look.color], paper)) < 3} == {}
    texts = (INK, GREY, *(look.ink for look in LOOKS), *COLORS.values())
    assert {text: c for text in texts if (c := contrast(shown[text], paper)) < 4.5} == {}


@pytest.mark.parametrize("page", PAGES)
def test_words_in_the_cells_of_a_grid_have_a_contrast_of_four_and_a_half(page: str) -> None:
    shown = PAGES[page]
    assert {c: r for c in COLORS.values() if (r := contrast(shown[PAPER], shown[c])) < 4.5} == {}
    assert contrast(shown[GREY], shown[LIGHT]) >= 4.5


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("group", GROUPS)
def test_dark_colours_of_one_figure_differ_for_every_eye_and_in_grey(group: str, eye: str) -> None:
    looks: tuple[Look, ...] = GROUPS[group]
    for one, two in itertools.combinations(looks, 2):
        seen = lab(DARK[one.color], eye), lab(DARK[two.color], eye)
        assert np.linalg.norm(seen[0] - seen[1]) > 15
        assert abs(lab(DARK[one.color])[0] - lab(DARK[two.color])[0]) > 14


def test_every_mark_and_text_is_exchanged_as_opaque_as_it_was() -> None:
    with paper_style():
        figure = Figure()
        ax = figure.subplots()
        (line,) = ax.plot([0, 1], [0, 1], color=MLM.color, markeredgecolor=PAPER, alpha=0.5)
        bars = ax.scatter([0, 1], [1, 0], c=[INK, PAPER], edgecolors=INK)
        band = ax.fill_between([0, 1], [0, 0], [1, 1], color=CLM.color, alpha=0.2, linewidth=0)
        recolour(figure, THEMES["dark"])
    assert line.get_color()[3] == 1.0 or to_hex(line.get_color()) == DARK[MLM.color]
    assert to_hex(line.get_color()) == DARK[MLM.color] and line.get_alpha() == 0.5
    assert [to_hex(color) for color in bars.get_facecolor()] == [DARK[INK], DARK[PAPER]]
    assert to_hex(band.get_facecolor()[0]) == DARK[CLM.color]
    assert band.get_facecolor()[0][3] == pytest.approx(0.2)
    assert to_hex(figure.get_facecolor()) == to_hex(ax.get_facecolor()) == DARK[PAPER]
    assert {to_hex(label.get_color()) for label in ax.get_xticklabels()} == {DARK[INK]}


def test_a_colour_without_a_partner_is_an_error() -> None:
    with paper_style():
        figure = Figure()
        figure.text(0, 0, "pink", color="#ff00ff")
        with pytest.raises(KeyError, match="#ff00ff"):
            recolour(figure, THEMES["dark"])


def test_themes_are_named() -> None:
    assert [theme.name for theme in themes_named("Dark,light")] == ["light", "dark"]
    with pytest.raises(UserError, match="dusk"):
        themes_named("dusk")
