"""The Python names against what the commands print and the files hold."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure

import clm_or_mlm as cm
from analysis.published_cells import published_cells
from clm_or_mlm.__main__ import main
from tests.messages import refused


def test_a_source_is_a_name_a_path_a_frame_or_itself(store: Path) -> None:
    opened = cm.load(str(store))
    assert cm.load(opened) is opened
    from_frame = cm.load(cm.runs(store))
    columns = ["model", "dataset", "mean", "low", "high", "n_seeds"]
    pd.testing.assert_frame_equal(
        cm.scores(from_frame)[columns], cm.scores(store)[columns]
    )
    assert cm.load().label == "published"


def test_a_frame_is_checked_like_a_file(store: Path) -> None:
    frame = cm.runs(store)
    frame.loc[3, "test_score"] = 1.5
    with refused("test_score", "1.5"):
        cm.load(frame)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda store: cm.load(
                cm.runs(store), protocol="standard", models=["x"], nonsense=1
            ),
            "a frame of runs takes no protocol, models, nonsense: ",
        ),
        (
            lambda store: cm.load(
                cm.load(str(store)), protocol="standard", add_models=["mine"]
            ),
            "a source that is open takes no protocol, add_models: ",
        ),
        (lambda _: cm.runs("published"), "published"),
        (lambda _: cm.table(1), "Table 1 has no scores"),
        (lambda _: cm.explain("F99"), "no finding 'F99'"),
        (lambda _: cm.findings("F99"), "no finding 'F99'"),
        (lambda _: cm.claims("f8"), "cm.findings('F8') has its parts"),
        (lambda _: cm.table("x"), "there is no table 'x'"),
        (
            lambda _: cm.scores(models=["610m-mlm40-43k"]),
            "'610m-mlm40-43k'; did you mean",
        ),
        (lambda _: cm.audit("miniature"), "networks other than the paper's"),
        (lambda _: cm.compare("610m-mlm40-42k", "610m-clm-43k"), "610m-clm-42"),
        (lambda _: cm.figure(3, task="MT"), "task= is one of SC, TC, QA, IR"),
        (lambda _: cm.figure(1, task="SC"), "Figure 1 has no such panel"),
        (lambda _: cm.figure("all"), "name one, or draw all"),
    ],
)
def test_what_cannot_be_is_refused(
    call: Callable[[Path], object], said: str, store: Path
) -> None:
    with refused(said):
        call(store)


def test_scores_are_those_of_the_command(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not main(
        ["scores", "--source", str(store), "--interval", "t", "--format", "csv"]
    )
    printed = pd.read_csv(io.StringIO(capsys.readouterr().out))
    ours = cm.scores(store, interval="t").reset_index(drop=True)
    pd.testing.assert_frame_equal(
        ours[["model", "dataset"]], printed[["model", "dataset"]], check_dtype=False
    )
    for name in ("mean", "low", "high"):
        assert (ours[name] - printed[name]).abs().max() < 1e-6


def test_table_holds_published_cells_or_is_refused() -> None:
    cells = published_cells()
    wanted = cells[cells["table"] == 2].set_index(["model", "dataset"])["mean"]
    ours = cm.table(2).set_index(["model", "dataset"])["published"]
    assert ours.dropna().sort_index().to_dict() == wanted.sort_index().to_dict()


def test_verdicts_are_those_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(cm.claims()) == [
        "short",
        "verdict",
        "typical_effect",
        "typical_low",
        "typical_high",
        "p_holm",
    ]
    frame = cm.claims(full=True)
    assert len(frame) == 22
    assert not main(["claims", "--format", "csv"])
    printed = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert (
        frame["verdict"].tolist() == printed.drop_duplicates("id")["verdict"].tolist()
    )
    assert frame.loc["F1", "effect"] > 1
    assert "MLM - CLM" in cm.explain("F1")


def test_the_audit_has_every_cell() -> None:
    frame = cm.audit()
    assert len(frame) == len(published_cells())


def test_models_are_compared_as_by_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pair = ("610m-mlm40-42k", "610m-clm-42k")
    ours = cm.compare(*pair)
    assert not main(["compare", *pair, "--format", "csv"])
    printed = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert ours["effect"].round(6).tolist() == printed["effect"].round(6).tolist()


def test_a_figure_is_the_one_that_the_command_draws(tmp_path: Path) -> None:
    drawn = cm.figure(3)
    assert isinstance(drawn, Figure)
    assert not main(["figure", "3", "--format", "svg", "--out", str(tmp_path)])
    csv = pd.read_csv(tmp_path / "figure3.csv")
    shown = {
        round(float(y), 6)
        for ax in drawn.axes
        for line in ax.lines
        for y in line.get_ydata()
    }
    assert {round(mean, 6) for mean in csv["mean"]} <= shown
    assert len(drawn.axes) == 8  # the second row shows differences


@pytest.mark.parametrize("name", ["3", "2"])
def test_a_panel_on_axes_of_ones_own_shows_what_the_figure_shows(name: str) -> None:
    whole, ax = cm.figure(name), Figure().subplots()
    assert cm.figure(name, task="QA", ax=ax) is ax
    assert isinstance(whole, Figure)
    panel = whole.axes[2]
    for ours, theirs in zip(ax.lines, panel.lines, strict=True):
        assert ours.get_xydata().tolist() == theirs.get_xydata().tolist()
    assert len(ax.patches) == len(panel.patches) and (ax.lines or ax.patches)
    assert ax.get_legend() is not None and ax.get_title() and "QA" in ax.get_ylabel()


def test_plans_and_sensitivity_are_those_of_the_commands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = "610m-clm-10k-mlm40-42k"
    assert not main(["plan", name, "--format", "json"])
    costs = json.loads(capsys.readouterr().out)["costs"]
    ours = cm.plan(name)
    assert (
        ours["tokens"].sum() == costs["tokens"]
        and (ours["end"] - ours["start"]).sum() == costs["steps"]
    )
    assert not main(["sensitivity", "--format", "csv"])
    printed = pd.read_csv(io.StringIO(capsys.readouterr().out))
    pd.testing.assert_frame_equal(
        cm.sensitivity(), printed, check_dtype=False, rtol=1e-5
    )
    with pytest.raises(cm.UserError, match="610m-clm-43k"):
        cm.plan("610m-clm-43k!")


def test_a_source_says_what_it_holds() -> None:
    assert "1,520 runs of 38 models" in repr(cm.load("miniature"))
    assert "not the paper's models" in cm.load("miniature")._repr_html_().replace(
        "&#x27;", "'"
    )


def test_what_was_trained_and_measured() -> None:
    assert (
        len(cm.models()) == 51
        and cm.models().loc["610m-clm-10k-mlm40-42k", "switch"] == 10_000
    )
    assert cm.datasets()["task"].value_counts().to_dict() == {
        "SC": 3,
        "TC": 3,
        "QA": 3,
        "IR": 3,
    }
    assert len(cm.scores("miniature")) > 20


def test_the_parts_of_a_finding_are_a_frame() -> None:
    found = cm.findings("f8")
    parts = found[(found["role"] == "verdict") & (found["counted"] != "")]
    assert len(parts) == 12 and (parts["counted"] == "holds").sum() == 6
    [main] = found[found["role"] == "finding"].to_dict("records")
    assert main["outcome"] == "holds in k of n"
    assert found[found["role"] == "mean"]["effect"].iloc[0] == pytest.approx(
        1.585, abs=0.001
    )
    by_dataset = cm.findings("F8", by_dataset=True)
    parts = by_dataset[by_dataset["counted"] != ""]
    assert len(parts) == 36 and parts["dataset"].nunique() == 12
    assert (parts["outcome"] == "holds").sum() == 21


def test_words_and_models_in_place_of_numbers_and_all() -> None:
    pd.testing.assert_frame_equal(cm.table("10"), cm.table(10))
    every, some = cm.scores(), cm.scores(models=["610m-mlm40-*k", "1b-clm-42k"])
    assert set(some["model"]) < set(every["model"]) and {
        "610m-mlm40-42k",
        "1b-clm-42k",
    } <= set(some["model"])
    attrs = cm.compare("610m-clm-10k-mlm40-42k", "610m-mlm40-42k").attrs
    assert attrs == {"source": "published", "interval": "t", "correction": "Holm"}
    assert cm.__version__.count(".") == 2
