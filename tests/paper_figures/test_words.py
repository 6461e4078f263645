"""The words of a figure: what it shows, where numbers come from, what is not drawn."""

from __future__ import annotations

import numpy as np

from analysis.sources import Source, open_source
from paper_figures.drawing.style import paper_style
from paper_figures.figure import FIGURES, FigureInputs
from paper_figures.words import alt_text, caption, source_sentence, title
from pretraining.models import FIGURES as STUDY_FIGURES
from tests.paper_figures.made_up import from_runs, made_up_runs, paper_figure

PUBLISHED = FigureInputs(source=open_source("published"))


def test_titles_say_what_is_drawn_and_first_that_it_is_not_of_the_papers_models() -> None:
    miniature = FigureInputs(source=open_source("miniature"))
    titles = {
        "2": "Figure 2. MLM and CLM by model size",
        "claims": "Which findings survive a test",
        "coverage": "Coverage of nominal 95 % intervals",
    }
    figures = {name: FIGURES[name].load() for name in titles}
    assert {name: title(figure, PUBLISHED) for name, figure in figures.items()} == titles
    assert title(figures["2"], miniature) == f"MINIATURE. {titles['2']}"
    assert title(figures["coverage"], miniature) == titles["coverage"]
    data = figures["2"].collect(miniature)
    assert caption(figures["2"], data, miniature).startswith("MINIATURE: not the paper")
    assert "MINIATURE: not the paper" in alt_text(figures["2"], data, miniature)


FULL = made_up_runs()


def test_a_missing_model_breaks_the_line_and_is_named_in_the_caption() -> None:
    figure, inputs = paper_figure(3), from_runs(FULL[FULL["model"] != "610m-mlm30-42k"])
    data = figure.collect(inputs)
    with paper_style():
        drawn = figure.draw(data, "", "")
    (line,) = [line for line in drawn.axes[0].lines if line.get_label() == "610M"]
    assert np.isnan(np.asarray(line.get_ydata(), float)).tolist() == [False, True, False, False]
    assert "No score: 610m-mlm30-42k, not in this source." in caption(figure, data, inputs)


def test_a_caption_says_where_points_of_one_x_stand_side_by_side() -> None:
    said = {}
    for name in ("2", "3", "10", "11"):
        figure = FIGURES[name].load()
        said[name] = "side by side" in caption(figure, figure.collect(PUBLISHED), PUBLISHED)
    assert said == {"2": False, "3": True, "10": False, "11": False}


def test_the_caption_counts_what_is_drawn_so_that_more_runs_beside_it_change_nothing() -> None:
    figure = paper_figure(8)
    few, many = (
        Source(label="released", runs=made_up_runs(names))
        for names in (
            dict.fromkeys(STUDY_FIGURES[8] + STUDY_FIGURES[2]),  # enough models for the pooled interval
            dict.fromkeys(STUDY_FIGURES[8] + STUDY_FIGURES[2] + STUDY_FIGURES[3]),
        )
    )
    one, two = (FigureInputs(source=source) for source in (few, many))
    assert source_sentence(figure, figure.collect(one), one) == source_sentence(
        figure, figure.collect(two), two
    )


def test_a_caption_says_which_models_are_not_the_papers_and_that_their_test_sets_are_others() -> None:
    runs = made_up_runs(["my-s-mlm15-120", "my-s-mlm15-120-s1", "my-s-mlm15-240", "610m-mlm40-42k"])
    source = Source(label="mine", runs=runs, added_models=("my-*",))
    figure = FIGURES["3"].load()
    inputs = FigureInputs(source=source)
    data = figure.collect(inputs)
    for words in (caption(figure, data, inputs), alt_text(figure, data, inputs)):
        said = words.replace("\u00a0", " ").partition("Added models, not in the paper: ")[2]
        names, _, rest = said.partition(". ")
        assert "my-s-mlm15-120" in names and "610m" not in names
        assert rest.startswith("Their steps and masking ratios are those in their names.")
        assert "If a model was pretrained several times, the first is drawn." in rest
    one = data[~data["model"].str.startswith("my-")]
    assert "Added models" not in caption(figure, one, inputs)


def test_names_too_long_for_the_side_of_the_panels_are_in_a_legend_of_several_lines() -> None:
    names = [f"a-rather-long-name-{place}-clm-60-mlm15-120" for place in "abcd"]
    source = Source(label="mine", runs=made_up_runs(names), added_models=("a-*",))
    figure = FIGURES["6"].load()
    inputs = FigureInputs(source=source)
    with paper_style():
        drawn = figure.draw(figure.collect(inputs), "x", "y")
        drawn.draw_without_rendering()
        [legend] = drawn.legends
        assert legend.get_window_extent().x1 <= drawn.bbox.x1
        assert len({round(text.get_window_extent().x0) for text in legend.get_texts()}) > 1


def test_of_several_pretrainings_the_first_is_drawn_and_the_caption_says_so() -> None:
    inputs = FigureInputs(source=open_source("miniature"))
    figure = FIGURES["2"].load()
    data = figure.collect(inputs)
    assert not [name for name in data["model"] if name.endswith(("-s1", "-s4"))]
    assert "If a model was pretrained several times, the first is drawn." in caption(figure, data, inputs)
