"""Figure 7: the spread at the chosen learning rates."""

from __future__ import annotations

import numpy as np

from paper_figures.output.captions import source_sentence
from pretraining.model_names import FIGURES
from tests.paper_figures.made_up import from_runs, made_up_runs, paper_figure

RUNS = made_up_runs(FIGURES[7])


def test_figure_7_follows_the_selection_rule() -> None:
    figure = paper_figure(7)
    per_seed, pooled = (figure.collect(from_runs(RUNS, selection=rule)) for rule in ("seed", "pooled"))
    assert not np.allclose(per_seed["mean"], pooled["mean"])


def test_its_caption_says_how_rates_were_chosen_and_figure_5_does_not() -> None:
    inputs = from_runs(made_up_runs(dict.fromkeys((*FIGURES[5], *FIGURES[7]))))
    sentences = {n: source_sentence(paper_figure(n), paper_figure(n).collect(inputs), inputs) for n in (5, 7)}
    assert "learning rate chosen for each seed" in sentences[7]
    assert "learning rate" not in sentences[5]
