"""Readable in grey and by colour-blind eyes; the same whatever a matplotlibrc says."""

import itertools
import re
from importlib import resources
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

import paper_figures
from analysis.claims.verdicts import OUTCOMES
from analysis.palette import OBJECTIVE, SIGN, VERDICT
from paper_figures.drawing.style import (
    CLM,
    EXTRA,
    GREY,
    INK,
    LIGHT,
    MLM,
    RAMP_BLUE,
    RAMP_PURPLE,
    WHITE,
    Look,
    looks_of,
    paper_style,
)
from tests.paper_figures.colours import EYES, contrast, lab

GROUPS: dict[str, tuple[Look, ...]] = {
    "objectives": (MLM, CLM),
    "sizes": RAMP_BLUE,
    "budgets": RAMP_PURPLE,
}


@pytest.mark.parametrize("group", GROUPS)
def test_series_differ_in_grey_marker_and_dash(
    group: str,
) -> None:
    for one, two in itertools.combinations(GROUPS[group], 2):
        for eye in EYES:
            assert np.linalg.norm(lab(one.color, eye) - lab(two.color, eye)) > 18
        assert abs(lab(one.color)[0] - lab(two.color)[0]) > 15
    assert max(lab(look.color)[0] for look in GROUPS[group]) < 73
    everyone = (*GROUPS[group], *EXTRA)
    assert (
        len({look.marker for look in everyone})
        == len({look.dash for look in everyone})
        == len(everyone)
    )


def test_contrast_of_lines_is_three_of_text_four_and_a_half() -> None:
    everyone = (MLM, CLM, *RAMP_BLUE, *RAMP_PURPLE, *EXTRA)
    assert {
        look.color: c for look in everyone if (c := contrast(look.color, WHITE)) < 3
    } == {}
    texts = (
        INK,
        GREY,
        *(look.ink for look in everyone),
        *VERDICT.values(),
        *SIGN.values(),
    )
    assert {text: c for text in texts if (c := contrast(text, WHITE)) < 4.5} == {}
    assert contrast(GREY, LIGHT) >= 4.5


def test_colours_of_objectives_verdicts_and_signs_differ() -> None:
    assert (MLM.color, CLM.color, RAMP_PURPLE[1].color) == tuple(OBJECTIVE.values())
    assert set(VERDICT) == set(OUTCOMES)
    everything = [*OBJECTIVE.values(), *VERDICT.values(), *SIGN.values()]
    for one, two in itertools.combinations(everything, 2):
        assert np.linalg.norm(lab(one) - lab(two)) > 18, (one, two)
    # The report takes them from the table.
    page = (
        resources.files("clm_or_mlm") / "report" / "templates" / "style.css"
    ).read_text()
    assert not set(everything) & set(re.findall(r"#[0-9a-f]{6}", page))
    for path in Path(paper_figures.__path__[0]).rglob("*.py"):
        taken = set(re.findall(r"#[0-9a-f]{6}", path.read_text())) & set(everything)
        assert not taken, f"{path} has colours of the table: {taken}"


def test_series_of_ones_own_get_looks_in_turn() -> None:
    found = looks_of(["MLM", "mine", "yours", "mine"], {"MLM": MLM})
    assert (found["MLM"], found["mine"], found["yours"]) == (MLM, EXTRA[0], EXTRA[1])


def test_the_style_ignores_and_restores_what_was_set() -> None:
    with mpl.rc_context(
        {
            "font.size": 30,
            "axes.grid.axis": "x",
            "lines.linewidth": 9,
            "svg.fonttype": "none",
        }
    ):
        with paper_style():
            assert mpl.rcParams["font.size"] == 7
            assert (
                mpl.rcParams["lines.linewidth"]
                == mpl.rcParamsDefault["lines.linewidth"]
            )
            assert mpl.rcParams["svg.fonttype"] == "path"
        assert mpl.rcParams["font.size"] == 30
