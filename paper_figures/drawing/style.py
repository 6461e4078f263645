"""How the figures look: colours, markers, dashes, hatches, and settings that no user's matplotlibrc can change.

MLM is blue and CLM red, as in the paper. Every pair of series also differs in lightness and in marker, dash or
hatch, so that the figures can be read in grey and by colour-blind eyes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import matplotlib as mpl

__all__ = [
    "CLM",
    "EXTRA",
    "GREY",
    "INK",
    "LIGHT",
    "MLM",
    "RAMP_BLUE",
    "RAMP_PURPLE",
    "Look",
    "looks",
    "paper_style",
]

INK = "#1a1a1a"
"""Text and axes."""
GREY = "#6b6b6b"
"""Secondary text."""
LIGHT = "#e4e4e4"
"""Grid lines."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """How one series looks."""

    color: str
    marker: str = "o"
    """Marker of its points."""
    dash: Literal["-"] | tuple[float, tuple[float, ...]] = "-"
    """Style of its line."""
    hatch: str = ""
    """Hatch of its bars."""


MLM = Look(color="#15508f", marker="o", dash="-")
CLM = Look(color="#e8604c", marker="s", dash=(0, (4.5, 1.6)), hatch="/////")

RAMP_BLUE = (
    Look(color="#7db4e2", marker="^", dash=(0, (1.2, 1.2))),
    Look(color="#3a7fc0", marker="s", dash=(0, (4.5, 1.6))),
    Look(color="#0d3766", marker="o", dash="-"),
)
"""Three series of MLM, light to dark."""

RAMP_PURPLE = (
    Look(color="#b99ad6", marker="^", dash=(0, (1.2, 1.2))),
    Look(color="#8654b3", marker="s", dash=(0, (4.5, 1.6))),
    Look(color="#42206a", marker="o", dash="-"),
)
"""Three series of mixes of the two objectives, light to dark."""

EXTRA = (
    Look(color="#2f8f75", marker="D", dash=(0, (6, 1.5, 1.2, 1.5)), hatch="....."),
    Look(color="#b07d00", marker="v", dash=(0, (2.5, 1.2)), hatch="xxxxx"),
    Look(color="#5f5f5f", marker="P", dash=(0, (8, 2)), hatch="\\\\\\\\\\"),
    Look(color="#c477a8", marker="X", dash=(0, (1, 2)), hatch="+++++"),
)
"""Series that the paper does not have."""


def looks(series: Sequence[str], known: dict[str, Look]) -> dict[str, Look]:
    """Return a look for each of `series`: its own where `known`, else one of `EXTRA` in turn."""
    spare = iter(range(len(series)))
    return {name: known[name] if name in known else EXTRA[next(spare) % len(EXTRA)] for name in series}


_SETTINGS: dict[Any, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 7.0,
    "mathtext.fontset": "dejavusans",
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.unicode_minus": True,
    "axes.formatter.use_locale": False,
    "grid.color": LIGHT,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 6.6,
    "ytick.labelsize": 6.6,
    "xtick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "xtick.minor.size": 0.0,
    "ytick.major.size": 0.0,
    "ytick.major.pad": 3.0,
    "hatch.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 7.0,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "savefig.dpi": 300,
    "pdf.fonttype": 42,
    "pdf.compression": 9,
    "svg.fonttype": "path",
    "svg.hashsalt": "paper_figures",
    "path.simplify": False,
}


@contextlib.contextmanager
def paper_style() -> Iterator[None]:
    """Within this block matplotlib has its own defaults and ours on top, whatever a matplotlibrc says."""
    with mpl.rc_context():
        backend = {"backend", "backend_fallback", "interactive", "toolbar", "timezone"}
        mpl.rcParams.update(
            {key: mpl.rcParamsDefault[key] for key in mpl.rcParamsDefault if key not in backend}
        )
        mpl.rcParams.update(_SETTINGS)
        yield
