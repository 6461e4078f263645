"""Figures by name (the ones there are, a new one, names that are none), and what they are drawn from."""

from __future__ import annotations

import pytest

from common.errors import UserError
from paper_figures.figure import FIGURES, figures_named
from pretraining.models import FIGURES as STUDY_FIGURES
from tests.commands import python


def names(*words: str) -> list[str]:
    return [figure.name for figure in figures_named(words)]


def test_figures_are_named_by_number_or_word_or_all() -> None:
    assert names("figure8", "3", "Figure03") == ["3", "8"]
    assert names("2", "all") == [str(number) for number in range(1, 13)]
    assert names("claims", "2") == ["2", "claims"]


@pytest.mark.parametrize("word", ["0", "13", "3.0", ""])
def test_an_unknown_figure_is_refused(word: str) -> None:
    with pytest.raises(UserError, match=r"unknown figure '.*one of 1, 2, .*, coverage"):
        names("3", word)


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_what_the_registry_says(name: str) -> None:
    entry, figure = FIGURES[name], FIGURES[name].load()
    assert (figure.name, figure.supplementary) == (entry.name, entry.supplementary)
    if name.isdecimal():
        assert figure.models == STUDY_FIGURES[int(name)]
    assert bool(figure.models) != entry.supplementary


def test_a_figure_is_drawn_without_importing_the_others() -> None:
    script = (
        "import sys\nfrom paper_figures.figure import FIGURES\nassert 'matplotlib' not in sys.modules\n"
        "FIGURES['3'].load()\nprint(*(name for name in sys.modules if name.startswith('paper_figures.')))"
    )
    names = sorted(python("-c", script, code=0).stdout.split())
    own = [name for name in names if ".figures." in name or ".supplementary." in name]
    assert own == ["paper_figures.figures.figures2_11", "paper_figures.figures.task_figures"]
