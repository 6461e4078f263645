"""No text of any figure touches another, leaves the canvas, or is too small, from every kind of source."""

from collections.abc import Iterator

import pytest
from matplotlib.figure import Figure

from analysis.sources import Source
from common.errors import UserError
from paper_figures.drawing.style import paper_style
from paper_figures.figure import FIGURES, FigureInputs
from tests.paper_figures.checker import faults
from tests.paper_figures.drawn import INPUTS, collected, picture
from tests.paper_figures.made_up import made_up_runs, write_logs

SOURCES = ("published", "miniature", "stand-in")
NOT_DRAWN = {
    ("published", "5"),
    ("published", "7"),
    ("published", "11"),
    ("published", "12"),
}
"""Runs, logs or models are needed that are not there."""


@pytest.fixture(scope="module", autouse=True)
def whole_grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A third kind of source beside printed cells and a small study in the paper's place: the whole grid of runs."""
    logs = tmp_path_factory.mktemp("logs")
    write_logs(logs, every=300)
    with pytest.MonkeyPatch.context() as patch:
        source = Source(label="runs.parquet", runs=made_up_runs())
        patch.setitem(INPUTS, "stand-in", FigureInputs(source=source, logs=logs))
        yield


CASES = [(source, name) for source in SOURCES for name in FIGURES]
QUICK = {
    *(("published", name) for name in ("1", "claims")),
    *(("miniature", name) for name in ("6", "12")),
    ("stand-in", "5"),
}


@pytest.mark.parametrize(
    ("source", "name"),
    [
        pytest.param(*case, marks=[] if case in QUICK else [pytest.mark.slow])
        for case in CASES
    ],
)
def test_texts_are_apart_on_the_page_and_large_enough(source: str, name: str) -> None:
    if (source, name) in NOT_DRAWN:
        with pytest.raises(UserError):
            collected(name, source)
        return
    with paper_style():
        assert faults(picture(name, source)) == []


def test_the_checker_finds_what_is_wrong() -> None:
    with paper_style():
        figure = Figure(figsize=(3, 2))
        figure.text(0.2, 0.5, "one")
        assert faults(figure) == []
        figure.text(0.22, 0.5, "two")
        figure.text(0.95, 0.9, "beyond the edge")
        figure.text(0.5, 0.1, "small", fontsize=5.6)
        found = faults(figure)
    assert found == [
        "'beyond the edge' leaves the canvas",
        "'small' has 5.6 points",
        "'one' touches 'two'",
    ]
