"""Readable in grey and by colour-blind eyes; the same whatever a matplotlibrc says."""

from __future__ import annotations

import itertools

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import pytest

from paper_figures.drawing.style import CLM, EXTRA, MLM, RAMP_BLUE, RAMP_PURPLE, Look, looks, paper_style

Array = npt.NDArray[np.float64]

# Machado, Oliveira & Fernandes (2009), severity 1, on linear RGB.
EYES = {
    "usual": np.eye(3),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def lab(color: str, eye: str = "usual") -> Array:
    """Return CIE L*a*b* (D65) of a hexadecimal colour as that eye sees it."""
    rgb = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ np.clip(EYES[eye] @ linear, 0, 1) / np.array([0.95047, 1.0, 1.08883])
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


GROUPS: dict[str, tuple[Look, ...]] = {"objectives": (MLM, CLM), "sizes": RAMP_BLUE, "budgets": RAMP_PURPLE}


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("group", GROUPS)
def test_colours_of_one_figure_differ_for_every_eye(group: str, eye: str) -> None:
    for one, two in itertools.combinations(GROUPS[group], 2):
        assert np.linalg.norm(lab(one.color, eye) - lab(two.color, eye)) > 18


@pytest.mark.parametrize("group", GROUPS)
def test_colours_of_one_figure_differ_in_lightness_and_stand_out_from_the_paper(group: str) -> None:
    lightness = [lab(look.color)[0] for look in GROUPS[group]]
    assert min(abs(a - b) for a, b in itertools.combinations(lightness, 2)) > 15
    assert max(lightness) < 73


@pytest.mark.parametrize("group", GROUPS)
def test_series_also_differ_in_marker_and_dash(group: str) -> None:
    everyone = (*GROUPS[group], *EXTRA)
    assert len({look.marker for look in everyone}) == len(everyone)
    assert len({look.dash for look in everyone}) == len(everyone)


def test_bars_differ_in_hatch() -> None:
    assert len({look.hatch for look in (MLM, CLM, *EXTRA)}) == 2 + len(EXTRA)


def test_series_of_ones_own_get_looks_in_turn() -> None:
    found = looks(["MLM", "mine", "yours"], {"MLM": MLM})
    assert (found["MLM"], found["mine"], found["yours"]) == (MLM, EXTRA[0], EXTRA[1])


def test_the_style_ignores_and_restores_what_was_set() -> None:
    with mpl.rc_context(
        {"font.size": 30, "axes.grid.axis": "x", "lines.linewidth": 9, "svg.fonttype": "none"}
    ):
        with paper_style():
            assert mpl.rcParams["font.size"] == 7
            assert mpl.rcParams["lines.linewidth"] == mpl.rcParamsDefault["lines.linewidth"]
            assert mpl.rcParams["svg.fonttype"] == "path"
        assert mpl.rcParams["font.size"] == 30
