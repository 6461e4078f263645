"""`clm-or-mlm figure` as a user types it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from analysis.sources import EXAMPLE
from analysis.store.runs_table import write_runs
from clm_or_mlm.__main__ import main
from pretraining.models import FIGURES
from tests.paper_figures.made_up import made_up_runs


def test_all_from_published_makes_nine_and_says_why_not_three(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["figure", "all", "--out", str(tmp_path), "--format", "svg"]) == 0
    lines = capsys.readouterr().out.splitlines()
    made = [Path(line) for line in lines if not line.startswith("not drawn: ")]
    assert sorted(made) == sorted(tmp_path.iterdir())
    assert {path.name.split(".")[0] for path in made} == {
        f"figure{number}" for number in (1, 2, 3, 4, 6, 8, 9, 10, 11)
    }
    refused = [line for line in lines if line.startswith("not drawn: ")]
    assert [line.split()[3] for line in refused] == ["5", "7", "12"]
    assert all("--source released" in line for line in refused[:2])
    assert "--logs DIR" in refused[2]


def test_some_of_several_figures_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figure", "5", "3", "--out", str(tmp_path), "--format", "svg"]) == 2
    *files, problem = capsys.readouterr().out.splitlines()
    assert problem.startswith("not drawn: Figure 5 needs individual runs")
    endings = ("svg", "csv", "txt", "json", "provenance.json")
    assert files == [str(tmp_path / f"figure3.{end}") for end in endings]
    assert sorted(files) == sorted(map(str, tmp_path.iterdir()))


@pytest.mark.parametrize("given", [(), ("--logs", str(EXAMPLE.parent / "logs"))])
def test_losses_of_a_small_study_are_placed_by_its_source(given: tuple[str, ...], tmp_path: Path) -> None:
    out = ["--out", str(tmp_path), "--format", "svg"]
    assert main(["figure", "12", "--source", "miniature", *given, *out]) == 0
    around = json.loads((tmp_path / "figure12.provenance.json").read_text())
    assert around["source_given_as"] == (given[1] if given else "miniature")


@pytest.mark.parametrize(
    "interval", ["bootstrap", *(pytest.param(one, marks=pytest.mark.slow) for one in ("t", "pooled"))]
)
def test_runs_of_ones_own_with_another_interval(
    interval: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_runs(tmp_path / "runs.parquet", made_up_runs(FIGURES[3]))
    source = ["--source", str(tmp_path / "runs.parquet"), "--interval", interval, "--selection", "mean"]
    assert main(["figure", "3", *source, "--out", str(tmp_path), "--format", "svg"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5
    assert f",5,{interval},runs-" in (tmp_path / "figure3.csv").read_text()
    text = (tmp_path / "figure3.txt").read_text()
    assert "one learning rate for a model and dataset, by the mean validation score" in text
    assert "4,320 runs of 12 models" in text


def test_of_the_release_only_the_models_that_are_drawn_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []

    def opened(store: Path, *, models: Sequence[str], **_: object) -> tuple[SimpleNamespace, None]:
        asked.append(tuple(models))
        return SimpleNamespace(runs=made_up_runs(models)), None

    monkeypatch.setattr("analysis.store.ingest.open_store", opened)
    monkeypatch.setattr("analysis.store.release.released_store", lambda models: tmp_path)
    monkeypatch.setattr("analysis.store.release.cached_release", lambda: FIGURES[2])
    for words in (["3"], ["3", "8"], ["all"]):
        out = ["--out", str(tmp_path / words[-1]), "--format", "svg"]
        assert main(["figure", *words, "--source", "released", *out]) == 0
    assert asked == [FIGURES[3], tuple(dict.fromkeys(FIGURES[3] + FIGURES[8])), FIGURES[2]]
    text = (tmp_path / "3" / "figure3.txt").read_text()
    assert "Source: the authors' released runs (4,320 runs of 12 models)" in text
