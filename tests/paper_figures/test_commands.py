"""`clm-or-mlm figure` as a user types it."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from matplotlib.figure import Figure

from analysis.sources import EXAMPLES
from analysis.store.runs_table import write_runs
from clm_or_mlm.__main__ import main
from pretraining.paper_models import FIGURE_MODELS
from tests.paper_figures.made_up import made_up_runs


@pytest.fixture
def blank(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are empty pages: what is drawn is not looked at, and takes most of the time."""
    monkeypatch.setattr(
        "paper_figures.save.DrawnFigure.drawing", property(lambda _: Figure())
    )


@pytest.mark.usefixtures("blank")
def test_all_from_published_makes_eight_and_says_why_not_four(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["figure", "all", "--out", str(tmp_path), "--format", "svg"]) == 0
    lines = capsys.readouterr().out.splitlines()
    made = [line for line in lines if not line.startswith("not drawn: ")]
    assert made == [
        f"{tmp_path / f'figure{number}'}.* (5 files)"
        for number in (1, 2, 3, 4, 6, 8, 9, 10)
    ]
    assert len(list(tmp_path.iterdir())) == 5 * len(made)
    refused = [line for line in lines if line.startswith("not drawn: ")]
    assert [line.split()[3] for line in refused] == ["5", "7", "11", "12"]
    assert all("--source released" in line for line in refused[:2])
    assert "--source PATH" in refused[2] and "--logs DIR" in refused[3]


def test_some_of_several_figures_is_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["figure", "5", "3", "--out", str(tmp_path), "--format", "svg"]) == 2
    made, problem = capsys.readouterr().out.splitlines()
    assert problem.startswith("not drawn: Figure 5 needs individual runs")
    endings = ("svg", "csv", "txt", "json", "provenance.json")
    assert made == f"{tmp_path / 'figure3'}.* (5 files)"
    assert {path.name for path in tmp_path.iterdir()} == {
        f"figure3.{end}" for end in endings
    }


@pytest.mark.parametrize(
    "given", [(), ("--logs", str(EXAMPLES["miniature"].parent / "logs"))]
)
def test_losses_of_a_small_study_are_placed_by_its_source(
    given: tuple[str, ...], tmp_path: Path
) -> None:
    out = ["--out", str(tmp_path), "--format", "svg"]
    assert main(["figure", "12", "--source", "miniature", *given, *out]) == 0
    around = json.loads((tmp_path / "figure12.provenance.json").read_text())
    assert around["source"] == (given[1] if given else "miniature")


@pytest.mark.parametrize(
    "interval",
    [
        "bootstrap",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("t", "pooled")),
    ],
)
def test_runs_of_ones_own_with_another_interval(
    interval: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_runs(tmp_path / "runs.parquet", made_up_runs(FIGURE_MODELS[3]))
    source = [
        "--source",
        str(tmp_path / "runs.parquet"),
        "--interval",
        interval,
        "--selection",
        "mean",
    ]
    assert (
        main(["figure", "3", *source, "--out", str(tmp_path), "--format", "svg"]) == 0
    )
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert f",5,{interval},runs-" in (tmp_path / "figure3.csv").read_text()
    text = (tmp_path / "figure3.txt").read_text()
    assert (
        "one learning rate for a model and dataset, by the mean validation score"
        in text
    )
    assert "4,320 runs of 12 models" in text


@pytest.mark.usefixtures("blank")
def test_only_models_that_are_drawn_are_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []

    def opened(
        store: Path, *, models: Sequence[str], **_: object
    ) -> tuple[SimpleNamespace, None]:
        asked.append(tuple(models))
        return SimpleNamespace(runs=made_up_runs(models)), None

    monkeypatch.setattr("analysis.store.ingest.open_store", opened)
    monkeypatch.setattr(
        "analysis.store.release.released_store", lambda models, cache=None: tmp_path
    )
    monkeypatch.setattr(
        "analysis.store.release.cached_release", lambda cache=None: FIGURE_MODELS[2]
    )
    for words in (["3"], ["3", "8"], ["all"]):
        out = ["--out", str(tmp_path / words[-1]), "--format", "svg"]
        assert main(["figure", *words, "--source", "released", *out]) == 0
    assert asked == [
        FIGURE_MODELS[3],
        tuple(dict.fromkeys(FIGURE_MODELS[3] + FIGURE_MODELS[8])),
        FIGURE_MODELS[2],
    ]
    text = (tmp_path / "3" / "figure3.txt").read_text()
    assert "Source: the authors' released runs (4,320 runs of 12 models)" in text


def test_models_of_a_study_file_take_their_place_by_their_stages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their names say nothing: share of CLM, ratio and data come from the file, in figures and tables."""
    (tmp_path / "own.toml").write_text(
        """
        [sizes."610m"]
        hidden = 1152
        layers = 26
        heads = 18
        kv_heads = 6
        mlp = 4096
        [models.sandwich]
        stages = ["mlm40:10k", {train = "clm", steps = "11k", data = "s3://bucket/news"}, "mlm40-15:21k"]
        """
    )
    names = ["sandwich", "sandwich-s1", "610m-mlm40-42k"]
    write_runs(tmp_path / "runs.parquet", made_up_runs(names))
    words = ["--source", str(tmp_path / "runs.parquet")]
    study = ["--study", str(tmp_path / "own.toml")]
    assert not main(
        ["figure", "6", *words, *study, "--format", "svg", "--out", str(tmp_path)]
    )
    drawn = pd.read_csv(tmp_path / "figure6.csv")
    label = "MLM 40 % + CLM on news + MLM 40 to 15 %"
    # Its repetition is not a model of its own
    rows = drawn[drawn["model"] == "sandwich"]
    assert (set(rows["series"]), len(rows)) == ({f"{label}, 42K steps"}, 4)
    assert list(rows["x"]) == pytest.approx([100 * 11 / 42] * 4)
    capsys.readouterr()
    assert not main(["table", "10", *words, *study, "--format", "csv"])
    first, again = [
        line for line in capsys.readouterr().out.splitlines() if "news" in line
    ]
    assert first.startswith(f"sandwich,42K,11K+31K ({label}),")
    assert again.startswith(f'sandwich-s1,42K,"11K+31K ({label}), pretraining seed 1",')
