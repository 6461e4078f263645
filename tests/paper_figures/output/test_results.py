"""Several figures: one that cannot be drawn does not stop the others."""

from __future__ import annotations

from pathlib import Path

from analysis.sources import open_source
from paper_figures.inputs import Inputs
from paper_figures.output.formats import formats_named
from paper_figures.output.results import draw_figures
from tests.paper_figures.made_up import paper_figure


def test_a_figure_has_files_or_a_problem(tmp_path: Path) -> None:
    figures = [paper_figure(number) for number in (5, 3)]
    inputs = Inputs(source=open_source("published"))
    five, three = draw_figures(figures, inputs, tmp_path, formats_named(["svg"]))
    assert (five.name, five.files) == ("5", ())
    assert str(five.problem).startswith("Figure 5 needs single runs")
    assert (three.name, three.problem) == ("3", None)
    endings = ("svg", "csv", "txt", "json", "provenance.json")
    assert [path.name for path in three.files] == [f"figure3.{end}" for end in endings]
    assert sorted(three.files) == sorted(tmp_path.iterdir())
