"""Figure 1: its two panels are parts of Figures 6 and 8."""

from __future__ import annotations

from paper_figures.drawing.style import paper_style
from paper_figures.figures.figure01 import position_by_share
from paper_figures.output.captions import caption
from pretraining.model_names import FIGURES, parse
from tests.paper_figures.made_up import from_runs, made_up_runs, paper_figure


def test_the_line_is_the_full_budget_of_figure_6() -> None:
    there = position_by_share(parse("610m-clm-10k-mlm40-42k"))
    assert there is not None
    assert (there.series, there.x) == ("42K steps", 25.0)
    assert position_by_share(parse("610m-clm-3k-mlm40-12k")) is None


def test_each_panel_repeats_the_points_of_the_other_figure() -> None:
    inputs = from_runs(made_up_runs(dict.fromkeys((*FIGURES[1], *FIGURES[6], *FIGURES[8]))))
    data = paper_figure(1).collect(inputs)
    for panel, number in (("SC: CLM share", 6), ("SC: CPT", 8)):
        other = paper_figure(number).collect(inputs).query("panel == 'SC'")
        means = dict(zip(zip(other["series"], other["model"], strict=True), other["mean"], strict=True))
        rows = data[data["panel"] == panel]
        assert len(rows) in (4, 5)
        for series, model, mean in zip(rows["series"], rows["model"], rows["mean"], strict=True):
            assert mean == means[series, model]


def test_a_source_of_one_panel_leaves_the_other_empty() -> None:
    inputs = from_runs(made_up_runs(["610m-clm-10k-mlm40-42k"]))
    figure = paper_figure(1)
    data = figure.collect(inputs)
    with paper_style():
        picture = figure.draw(data, caption(figure, data, inputs))
    assert set(data["panel"]) == {"SC: CLM share"}
    assert [text.get_text() for text in picture.axes[1].texts] == ["not in this source"]
