"""The words of a figure: what it shows, where numbers come from, what is not drawn."""

import numpy as np
import pytest

from analysis.sources import Source
from common.errors import UserError
from paper_figures.drawing.page import WIDTH, wrapped
from paper_figures.drawing.style import paper_style
from paper_figures.figure import FIGURES, FigureInputs
from paper_figures.words import alt_text, caption, source_sentence
from pretraining.paper_models import FIGURE_MODELS
from tests.paper_figures.checker import drawn_texts
from tests.paper_figures.drawn import collected, picture
from tests.paper_figures.made_up import from_runs, made_up_runs, paper_figure


def test_titles_say_first_whose_models_they_show() -> None:
    titles = {
        ("2", False): "Figure 2. MLM and CLM by model size",
        ("claims", False): "7 of 21 findings hold as stated",
        (
            "answer",
            False,
        ): "CLM first is clearly better than MLM alone in 6 of 12 comparisons, clearly worse in none",
        ("2", True): "MINIATURE. Figure 2. MLM and CLM by model size",
        ("11", True): "MINIATURE. Figure 11. CLM and MLM at 0.42M",
        (
            "answer",
            True,
        ): "MINIATURE. CLM first is clearly better than MLM alone in 2 of 4 comparisons (8 not run), "
        "clearly worse in none",
    }
    for (name, small), wanted in titles.items():
        drawn = collected(name, "miniature" if small else "published")
        assert drawn.title == wanted
        assert ("Not the paper's models." in drawn.caption) == small
        assert ("MINIATURE: not the paper" in drawn.alt) == small


@pytest.mark.parametrize("name", [str(number) for number in FIGURE_MODELS])
@pytest.mark.parametrize("source", ["published", "miniature"])
def test_caption_begins_with_the_finding_ends_with_the_source(
    name: str, source: str
) -> None:
    try:
        drawn = collected(name, source)
    except UserError:
        assert source == "published" and name in ("5", "7", "11", "12")
        return
    lines = wrapped(drawn.caption, WIDTH - 0.24)
    assert len(lines) == 2 or (source == "miniature" and len(lines) == 3)
    assert (
        lines[0]
        == drawn.spec.finding(drawn.data, drawn.inputs).replace(" %", "\u00a0%") + "."
    )
    assert "Source: " in " ".join(lines[1:])


def test_the_sizes_on_the_axes_of_stand_ins_are_their_own() -> None:
    for name, sizes in (
        ("2", {"0.15", "0.23", "0.42"}),
        ("3", {"0.15M", "0.23M", "0.42M"}),
    ):
        texts = {text.get_text() for text, _ in drawn_texts(picture(name, "miniature"))}
        assert sizes <= texts and not {"210M", "610M", "1B"} & texts
        assert "210M" in collected(name, "miniature").csv  # the place of the paper's


FULL = made_up_runs()


def test_missing_model_breaks_the_line_and_is_named() -> None:
    figure, inputs = paper_figure(3), from_runs(FULL[FULL["model"] != "610m-mlm30-42k"])
    data = figure.collect(inputs)
    with paper_style():
        drawn = figure.draw(data, "", "")
    (line,) = [line for line in drawn.axes[0].lines if line.get_label() == "610M"]
    assert np.isnan(np.asarray(line.get_ydata(), float)).tolist() == [
        False,
        True,
        False,
        False,
    ]
    assert "Without 610m-mlm30-42k (crosses)." in caption(figure, data, inputs)


def test_caption_counts_only_what_is_drawn() -> None:
    figure = paper_figure(8)
    few, many = (
        Source(label="released", runs=made_up_runs(names))
        for names in (
            dict.fromkeys(
                FIGURE_MODELS[8] + FIGURE_MODELS[2]
            ),  # enough models for the pooled interval
            dict.fromkeys(FIGURE_MODELS[8] + FIGURE_MODELS[2] + FIGURE_MODELS[3]),
        )
    )
    one, two = (FigureInputs(source=source) for source in (few, many))
    assert source_sentence(figure, figure.collect(one), one) == source_sentence(
        figure, figure.collect(two), two
    )


def test_caption_names_models_that_are_not_the_papers() -> None:
    runs = made_up_runs(
        ["my-s-mlm15-120", "my-s-mlm15-120-s1", "my-s-mlm15-240", "610m-mlm40-42k"]
    )
    source = Source(label="mine", runs=runs, added_models=("my-*",))
    figure = FIGURES["3"].load()
    inputs = FigureInputs(source=source)
    data = figure.collect(inputs)
    for words in (caption(figure, data, inputs), alt_text(figure, data, inputs)):
        said = words.replace("\u00a0", " ").partition(
            "Added models, not in the paper: "
        )[2]
        names, _, rest = said.partition(". ")
        assert "my-s-mlm15-120" in names and "610m" not in names
        assert rest.startswith(
            "Their steps and masking ratios are those in their names."
        )
        assert "If a model was pretrained several times, the first is drawn." in rest
    one = data[~data["model"].str.startswith("my-")]
    assert "Added models" not in caption(figure, one, inputs)


def test_long_names_are_in_a_legend_of_several_lines() -> None:
    names = [f"a-rather-long-name-{place}-clm-60-mlm15-120" for place in "abcd"]
    source = Source(label="mine", runs=made_up_runs(names), added_models=("a-*",))
    figure = FIGURES["6"].load()
    inputs = FigureInputs(source=source)
    with paper_style():
        drawn = figure.draw(figure.collect(inputs), "x", "y")
        drawn.draw_without_rendering()
        [legend] = drawn.legends
        assert legend.get_window_extent().x1 <= drawn.bbox.x1
        assert (
            len({round(text.get_window_extent().x0) for text in legend.get_texts()}) > 1
        )


def test_first_of_several_pretrainings_is_drawn_and_named() -> None:
    drawn = collected("2", "miniature")
    assert not [name for name in drawn.data["model"] if name.endswith(("-s1", "-s4"))]
    assert "If a model was pretrained several times, the first is drawn." in drawn.alt
