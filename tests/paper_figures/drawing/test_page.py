"""Captions stay on the page."""

from matplotlib.figure import Figure

from paper_figures.drawing.page import WIDTH, make_page, task_panels, wrapped
from paper_figures.drawing.style import paper_style
from pretraining.paper_models import MODELS


def rendered(figure: Figure) -> list[tuple[str, float, float]]:
    """Return each text with its left and right end, as shares of the page's width."""
    boxes = [(text.get_text(), text.get_window_extent()) for text in figure.texts]
    return [
        (text, box.x0 / figure.bbox.width, box.x1 / figure.bbox.width)
        for text, box in boxes
    ]


def test_no_caption_runs_over_the_page_and_no_name_is_broken() -> None:
    caption = (
        f"Not drawn: {', '.join(MODELS)}, {'W' * 40} {'i' * 90}, not in this source."
    )
    with paper_style():
        lines = wrapped(caption, WIDTH - 0.24)
        drawing, _ = make_page(
            heading="Figure", panels=task_panels(), x_label="", caption=caption
        )
        ends = [right for text, _, right in rendered(drawing) if text in lines]
    assert len(ends) == len(lines) > 5
    assert max(ends) <= 1 - 0.1 / 7.2
    assert " ".join(lines) == caption, "broken at spaces alone"
    assert all(any(name in line for line in lines) for name in MODELS)


def test_lines_are_as_long_as_fits() -> None:
    with paper_style():
        lines = wrapped("one two three " * 200, WIDTH - 0.24)
    assert len({len(line) for line in lines[:-1]}) <= 6
    assert min(map(len, lines[:-1])) > 120
