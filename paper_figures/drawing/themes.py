"""Light and dark pictures: the same drawing, every colour exchanged for one that stands out as well on the other page.

Figures are drawn light. `recolour` looks at every mark and text of a finished drawing; a colour that has no partner
here is an error, so that a new figure cannot be half dark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.artist import Artist
from matplotlib.collections import Collection
from matplotlib.colors import to_hex, to_rgb, to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text

from common.registry import Registry
from paper_figures.drawing.style import GREY, INK, LIGHT, PAPER

__all__ = ["THEMES", "Theme", "recolour", "themes_named"]


@dataclass(frozen=True, kw_only=True)
class Theme:
    """The colours of a picture."""

    name: str
    suffix: str
    """What follows the figure's name in the name of its file."""
    colors: Mapping[str, str]
    """For each colour that figures are drawn in the one that stands for it; empty: itself."""


DARK = {
    PAPER: "#16191d",
    INK: "#ececec",
    GREY: "#b0b6be",
    LIGHT: "#30363d",
    # MLM and CLM
    "#15508f": "#5f9fdf",
    "#d9523d": "#ffb3a3",
    "#b8391f": "#ffb3a3",
    # sizes, budgets
    "#4f93d0": "#4a86c4",
    "#2a72b5": "#5b97d4",
    "#2463a3": "#7ab3ea",
    "#0d3766": "#cfe4fa",
    "#a57fc9": "#8d67bb",
    "#7f55a8": "#a585d0",
    "#7c4aa9": "#b794dd",
    "#42206a": "#e2d2f5",
    # further series
    "#2f8f75": "#3fae8f",
    "#1f7a5c": "#4cc29a",
    "#b07d00": "#d9a530",
    "#8a6200": "#e0b048",
    "#b8609a": "#d985bb",
    "#9c4680": "#e090c4",
    # grades
    "#3a7f66": "#7fd0b4",
    "#6a51a3": "#b3a0e6",
    "#b3261e": "#ff8f85",
    "#b54b3b": "#f2a79c",
    "#2c6fa6": "#7ab8ea",
    "#9a6b00": "#e0b048",
    "#6f6f6f": "#a0a6ae",
}
"""On a dark page."""

THEMES: Registry[Theme] = Registry(
    "theme", (Theme(name="light", suffix="", colors={}), Theme(name="dark", suffix=".dark", colors=DARK))
)
"""Themes in the order in which pictures are written."""


def themes_named(words: str) -> tuple[Theme, ...]:
    """Return the themes of a list such as `light,dark` in the order of `THEMES`; `UserError` for an unknown one."""
    chosen = {THEMES[name].name for name in words.lower().split(",") if name}
    return tuple(theme for name, theme in THEMES.items() if name in chosen)


def recolour(figure: Figure, theme: Theme) -> None:
    """Exchange every colour of a drawing, which is changed; call it within `style.paper_style`.

    Raises:
        KeyError: a colour without a partner.
    """
    if not theme.colors:
        return
    figure.draw_without_rendering()  # ticks and their labels are made when a figure is drawn
    for artist in figure.findobj(lambda artist: artist.get_visible()):
        _recolour(artist, theme.colors)


def _recolour(artist: Artist, colors: Mapping[str, str]) -> None:
    if isinstance(artist, Text):
        artist.set_color(_partner(artist.get_color(), colors))
    elif isinstance(artist, Line2D):
        parts = (artist.get_color(), artist.get_markerfacecolor(), artist.get_markeredgecolor())
        line, face, edge = (_partner(color, colors) for color in parts)
        artist.set(color=line, markerfacecolor=face, markeredgecolor=edge)
    elif isinstance(artist, Patch):
        face, edge = _partner(artist.get_facecolor(), colors), _partner(artist.get_edgecolor(), colors)
        artist.set_alpha(None)
        artist.set(facecolor=face, edgecolor=edge)
    elif isinstance(artist, Collection):
        faces, edges = (
            [_partner(color, colors) for color in np.atleast_2d(found)] if len(found) else "none"
            for found in (artist.get_facecolor(), artist.get_edgecolor())
        )
        artist.set_alpha(None)
        artist.set(facecolor=faces, edgecolor=edges)


def _partner(color: object, colors: Mapping[str, str]) -> tuple[float, float, float, float]:
    """Return the partner of a colour, as opaque as it."""
    red, green, blue, alpha = to_rgba(color)  # type: ignore[arg-type]
    if alpha == 0:
        return red, green, blue, alpha
    return (*to_rgb(colors[to_hex((red, green, blue))]), alpha)
