"""How the figures look: colours, markers, dashes, sizes of type, and settings that no user's matplotlibrc can change.

MLM is blue and CLM red, as in the paper. Every pair of series also differs in lightness, marker and dash, so that the
figures can be read in grey and by colour-blind eyes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Literal

import matplotlib as mpl

from analysis.palette import OBJECTIVE

WHITE = "#ffffff"
"""What is drawn on."""
INK = "#1a1a1a"
"""Text and axes."""
GREY = "#5f5f5f"
"""Secondary text."""
LIGHT = "#e4e4e4"
"""Grid lines."""
SMALLEST = 7.0
"""Points of the smallest text at the printed size."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """How one series looks."""

    color: str
    """Colour of its line and points. Its contrast with white is 3:1 or more (WCAG 2.2, 1.4.11)."""
    text: str = ""
    """Colour of its name, with a contrast of 4.5:1 or more (WCAG 2.2, 1.4.3); by default `color`."""
    marker: str = "o"
    """Marker of its points."""
    dash: Literal["-"] | tuple[float, tuple[float, ...]] = "-"
    """Style of its line."""

    @property
    def ink(self) -> str:
        """The colour of its name."""
        return self.text or self.color


MLM = Look(color=OBJECTIVE["MLM"], marker="o", dash="-")
CLM = Look(color=OBJECTIVE["CLM"], text="#b8391f", marker="s", dash=(0, (4.5, 1.6)))

RAMP_BLUE = (
    Look(color="#4f93d0", text="#2a72b5", marker="^", dash=(0, (1.2, 1.2))),
    Look(color="#2463a3", marker="s", dash=(0, (4.5, 1.6))),
    Look(color="#0d3766", marker="o", dash="-"),
)
"""Three series of MLM, light to dark."""

RAMP_PURPLE = (
    Look(color="#a57fc9", text="#7f55a8", marker="^", dash=(0, (1.2, 1.2))),
    Look(color=OBJECTIVE["CLM then MLM"], marker="s", dash=(0, (4.5, 1.6))),
    Look(color="#42206a", marker="o", dash="-"),
)
"""Three series of mixes of the two objectives, light to dark."""

EXTRA = (
    Look(color="#2f8f75", text="#217a60", marker="D", dash=(0, (6, 1.5, 1.2, 1.5))),
    Look(color="#b07d00", text="#866000", marker="v", dash=(0, (2.5, 1.2))),
    Look(color="#5f5f5f", marker="P", dash=(0, (8, 2))),
    Look(color="#b8609a", text="#9c4680", marker="X", dash=(0, (1, 2))),
)
"""Series that the paper does not have."""


def looks_of(series: Iterable[str], known: Mapping[str, Look]) -> dict[str, Look]:
    """Return a look for each series by its name: that of `known`, or else the next one of `EXTRA`.

    Args:
        series: names; the returned ones have the same order, each once.
        known: looks by name.
    """
    # With more unknown series than looks in `EXTRA`, looks are used again.
    spare = cycle(EXTRA)
    looks = {}
    for name in dict.fromkeys(series):
        looks[name] = known[name] if name in known else next(spare)
    return looks


_SETTINGS: dict[Any, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": SMALLEST,
    "text.hinting": "none",
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
    "grid.color": LIGHT,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": SMALLEST,
    "ytick.labelsize": SMALLEST,
    "xtick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "xtick.minor.size": 0.0,
    "ytick.major.size": 0.0,
    "ytick.major.pad": 3.0,
    "legend.frameon": False,
    "legend.fontsize": SMALLEST,
    "savefig.dpi": 300,
    "pdf.fonttype": 42,
    # A PDF's fonts depend on this one as well: with 3, matplotlib would divide them into parts of 256 characters.
    "ps.fonttype": 42,
    "pdf.compression": 9,
    "svg.hashsalt": "paper_figures",
    "path.simplify": False,
}


@contextlib.contextmanager
def paper_style() -> Iterator[None]:
    """Within this block matplotlib has its own defaults and `_SETTINGS` on top, whatever a user's matplotlibrc says."""
    # This context gives the user's settings back when the block ends.
    with mpl.rc_context():
        # These settings are about windows and the time zone, not about files: they stay as the user has them.
        users_own = {
            "backend",
            "backend_fallback",
            "interactive",
            "toolbar",
            "timezone",
        }
        for key in mpl.rcParamsDefault:
            if key not in users_own:
                mpl.rcParams[key] = mpl.rcParamsDefault[key]

        mpl.rcParams.update(_SETTINGS)
        yield
