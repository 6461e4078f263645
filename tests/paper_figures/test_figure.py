"""Figures by name (the ones there are, a new one, names that are none), and what they are drawn from."""

import pytest

from paper_figures.figure import FIGURES, LazyFigure, figures_named
from pretraining.paper_models import FIGURE_MODELS
from tests.commands import python
from tests.messages import refused


def names(*words: str) -> list[str]:
    return [figure.name for figure in figures_named(words)]


def test_figures_are_named_by_number_or_word_or_all() -> None:
    assert names("figure8", "3", "Figure03") == ["3", "8"]
    assert names("2", "all") == [str(number) for number in range(1, 13)]
    assert names("claims", "2") == ["2", "claims"]


@pytest.mark.parametrize(
    ("word", "near"),
    {"0": "", "13": "", "3.0": "", "": "", "99": "", "claim": "'claims'"}.items(),
)
def test_an_unknown_figure_is_refused_with_the_near_ones_and_all(
    word: str, near: str
) -> None:
    others = [name for name in FIGURES if not name.isdecimal()]
    with refused(f"unknown figure {word!r}", "1 to 12", near, *others):
        names("3", word)


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_what_the_registry_says(name: str) -> None:
    entry, figure = FIGURES[name], FIGURES[name].load()
    assert (figure.name, figure.supplementary) == (entry.name, entry.supplementary)
    if name.isdecimal():
        assert figure.models == FIGURE_MODELS[int(name)]
    assert bool(figure.models) != entry.supplementary


def test_a_figure_is_drawn_without_importing_the_others() -> None:
    script = (
        "import sys\nfrom paper_figures.figure import FIGURES\nassert 'matplotlib' not in sys.modules\n"
        "FIGURES['3'].load()\nprint(*(name for name in sys.modules if name.startswith('paper_figures.')))"
    )
    names = sorted(python("-c", script, code=0).stdout.split())
    own = [name for name in names if ".figures." in name or ".supplementary." in name]
    assert own == [
        "paper_figures.figures.figures2_11",
        "paper_figures.figures.task_figures",
    ]


def test_registered_figure_that_its_module_lacks_is_named() -> None:
    figure = LazyFigure(name="13", module="figures.figure1")
    with pytest.raises(LookupError, match=r"'13'.*figures\.figure1\.FIGURES"):
        figure.load()
