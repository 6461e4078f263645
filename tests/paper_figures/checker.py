"""What is wrong with the texts of a drawn figure: any that touch, any outside the canvas, any too small to read."""

import itertools
from collections.abc import Iterator

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

SMALLEST = 7.0
"""Points of the smallest text at the printed size."""


def drawn_texts(figure: Figure) -> Iterator[tuple[Text, Bbox]]:
    """Yield every text that is seen, with its box in pixels."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    for text in figure.findobj(Text):
        if not text.get_visible() or not text.get_text().strip() or not _is_drawn(text):
            continue
        yield text, text.get_window_extent(renderer)


def _is_drawn(text: Text) -> bool:
    """Return whether a tick's label is of a tick within its axis."""
    axes = text.axes
    if axes is None:
        return True
    for axis in (axes.xaxis, axes.yaxis):
        low, high = sorted(axis.get_view_interval())
        for tick in (*axis.majorTicks, *axis.minorTicks):
            if text in (tick.label1, tick.label2):
                slack = 1e-9 * (high - low)
                return low - slack <= tick.get_loc() <= high + slack
    return True


def faults(figure: Figure, *, slack: float = 0.5) -> list[str]:
    """Return a sentence for each fault of a figure's texts; `slack` in points of the page."""
    texts = [(text, box) for text, box in drawn_texts(figure)]
    page, room = figure.bbox, slack * figure.dpi / 72
    found = [
        f"{text.get_text()!r} leaves the canvas"
        for text, box in texts
        if box.x0 < page.x0 - room
        or box.x1 > page.x1 + room
        or box.y0 < page.y0 - room
        or box.y1 > page.y1 + room
    ]
    found += [
        f"{text.get_text()!r} has {text.get_fontsize():g} points"
        for text, _ in texts
        if text.get_fontsize() < SMALLEST
    ]
    for (one, box), (two, other) in itertools.combinations(texts, 2):
        across = min(box.x1, other.x1) - max(box.x0, other.x0)
        along = min(box.y1, other.y1) - max(box.y0, other.y0)
        # The box of a text is its line's: letters without tails leave a fifth of it empty.
        if across > room and along > room + 0.2 * min(box.height, other.height) * (
            box.height < box.width
        ):
            found.append(f"{one.get_text()!r} touches {two.get_text()!r}")
    return found
