"""Figures by name (the ones there are, a new one, names that are none), and what they are drawn from."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest
from matplotlib.figure import Figure

from analysis.sources import Source, open_source
from analysis.statistics.scores_table import Settings
from benchmarks.protocol import AVERAGE
from clm_or_mlm.reproduce import reproduce
from common.errors import UserError
from common.provenance import ROOT
from paper_figures.__main__ import main
from paper_figures.figure import COLUMNS, FIGURES, FigureSpec, Inputs, LazyFigure, figures_named
from pretraining.model_names import FIGURES as STUDY_FIGURES
from tests.paper_figures.made_up import from_runs, made_up_runs, paper_figure


def names(*words: str) -> list[str]:
    return [figure.name for figure in figures_named(words)]


def test_figures_are_named_by_number_or_word_or_all() -> None:
    assert names("3", "figure8", "3", "Figure03") == ["3", "8"]
    assert names("2", "all") == [str(number) for number in range(1, 13)]
    assert names("claims", "2") == ["2", "claims"]


@pytest.mark.parametrize("word", ["0", "13", "three", "-1", "3.0", ""])
def test_an_unknown_figure_is_refused(word: str) -> None:
    with pytest.raises(
        UserError, match=rf"there is no figure '{word}'.*the figures are 1, 2, .*, coverage, or all$"
    ):
        names(word)


def test_an_unknown_figure_is_refused_with_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'coverage'"):
        names("coverag")
    with pytest.raises(UserError, match=r"name the figures to draw: 1, 2, .* or all"):
        names()


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_what_the_registry_says(name: str) -> None:
    entry = FIGURES[name]
    figure = entry.load()
    assert (figure.name, figure.stem, figure.supplementary) == (entry.name, entry.stem, entry.supplementary)
    if name.isdecimal():
        assert figure.models == STUDY_FIGURES[int(name)]
    assert bool(figure.models) != entry.supplementary


def test_a_figure_is_drawn_without_importing_the_others() -> None:
    script = (
        "import sys\nfrom paper_figures.figure import FIGURES\nassert 'matplotlib' not in sys.modules\n"
        "FIGURES['3'].load()\nprint(*(name for name in sys.modules if name.startswith('paper_figures.')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    own = [name for name in done.stdout.split() if ".figures." in name or ".supplementary." in name]
    assert own == ["paper_figures.figures.figure03"]


def _collect(inputs: Inputs) -> pd.DataFrame:
    rows = [["SC", "all", "610m-clm-42k", 1.0, 80.0, 79.0, 81.0, 5, "paper", inputs.name]]
    return pd.DataFrame(rows, columns=COLUMNS)


def _draw(data: pd.DataFrame, heading: str, caption: str) -> Figure:
    figure = Figure(figsize=(2, 1))
    figure.text(0, 0, f"{len(data)} {heading} {caption}")
    return figure


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[LazyFigure]:
    """A figure of one's own, registered as Figure 13."""
    module = ModuleType("my.thirteen")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    vars(module)["FIGURE"] = FigureSpec(
        name="13",
        title="Made up",
        collect=_collect,
        draw=_draw,
        describe=lambda data: f"{len(data)} point.",
        models=("610m-clm-42k",),
        tables=(2,),
    )
    yield FIGURES.register(LazyFigure(name="13", module=module.__name__))
    FIGURES.pop("13")


def test_a_new_figure_is_drawn_by_name_and_among_all(
    made_up: LazyFigure, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert names("13") == ["13"]
    assert "13" in names("all")
    assert main(["13", "--out", str(tmp_path), "--format", "svg"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [Path(line).name for line in lines] == [
        f"figure13.{end}" for end in ("svg", "csv", "txt", "json", "provenance.json")
    ]
    assert (tmp_path / "figure13.txt").read_text().startswith("Figure 13. Made up. 1 point.")


def test_a_new_figure_is_in_the_help() -> None:
    script = (
        "from paper_figures.figure import FIGURES, LazyFigure\n"
        "FIGURES.register(LazyFigure(name='scaling', module='my.scaling'))\n"
        "from paper_figures.__main__ import main\nmain(['--help'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "scaling" in done.stdout


def test_a_new_figure_is_reproduced(
    made_up: LazyFigure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clm_or_mlm.reproduce.FIGURES", {"13": made_up})
    outcome = reproduce(open_source("published"), tmp_path)
    monkeypatch.undo()
    assert [path for path in outcome.made if path.startswith("figures/")] == [
        f"figures/figure13.{end}" for end in ("pdf", "png", "svg", "csv", "txt", "json", "provenance.json")
    ]


def test_headings_and_file_names() -> None:
    assert paper_figure(3).heading == "Figure 3. MLM masking ratio by model size"
    assert (paper_figure(3).label, paper_figure(3).stem) == ("Figure 3", "figure3")
    claims = FIGURES["claims"].load()
    assert (claims.heading, claims.stem) == ("Which findings survive a test", "claims")


def test_every_figure_takes_the_interval_that_suits_the_source() -> None:
    runs = Source(label="mine", runs=pd.DataFrame())
    assert Inputs(source=runs, settings=Settings(interval="bca")).settings.interval == "bca"
    assert Inputs(source=runs).settings.interval == "studentised"
    assert Inputs(source=Source(label="published")).settings.interval == "t"


def test_averages_are_of_tasks_and_say_where_from() -> None:
    inputs = from_runs(made_up_runs(["610m-clm-42k"]))
    assert inputs.averages["task"].tolist() == ["SC", "TC", "QA", "IR"]
    assert set(inputs.averages["dataset"]) == {AVERAGE}
    assert set(inputs.averages["source"]) == {inputs.name}
    assert inputs.averages is inputs.averages
