"""Figure 12: training losses read from logs, and their curves."""

import json
from pathlib import Path

import numpy as np
import pytest

from analysis.sources import open_source
from paper_figures.drawing.style import paper_style
from paper_figures.figure import FigureInputs
from paper_figures.figures.figure12 import POINTS, training_losses
from paper_figures.words import alt_text, missing
from pretraining.paper_models import FIGURE_MODELS
from tests.messages import refused
from tests.paper_figures.made_up import paper_figure, write_logs

FIGURE = paper_figure(12)


def logged(folder: Path | None) -> FigureInputs:
    return FigureInputs(source=open_source("published"), logs=folder)


def test_curves_are_the_losses_of_steps_that_led_there(
    tmp_path: Path,
) -> None:
    losses = write_logs(tmp_path)
    data = FIGURE.collect(logged(tmp_path))
    assert list(dict.fromkeys(data["panel"])) == ["CPT 2K", "CPT 12K", "CPT 22K"]
    for extra, panel in ((2, "CPT 2K"), (12, "CPT 12K"), (22, "CPT 22K")):
        total = 42_000 + extra * 1000
        for start, objective in (("MLM start", "mlm40"), ("CLM start", "clm")):
            rows = data[(data["panel"] == panel) & (data["series"] == start)]
            trunk = f"610m-{objective}"
            path = {
                step: loss for step, loss in losses[trunk].items() if step <= 40_000
            }
            path |= losses[f"{trunk}-42k"]
            stable = losses.get(f"{trunk}-dec42k-mlm40", {})
            path |= {
                step: loss for step, loss in stable.items() if step <= total - 2000
            }
            path |= losses[f"{trunk}-dec42k-mlm40-{42 + extra}k"]
            assert len(rows) <= POINTS + 4
            assert rows["x"].is_monotonic_increasing
            assert rows["x"].max() <= total / 1000
            # The bins partition the steps: weighted by their counts, their means give the mean of all steps.
            steps = np.array(sorted(path))
            width = -(-total // POINTS)
            starts = np.array([0, 40_000, 42_000, total - 2000])
            first = starts[np.searchsorted(starts, steps, side="left") - 1]
            bins = np.unique(
                np.stack([first, (steps - first - 1) // width]),
                axis=1,
                return_inverse=True,
            )[1]
            for index, got in enumerate(rows.to_dict("records")):
                inside = steps[bins.ravel() == index]
                values = [path[step] for step in inside]
                assert got["x"] == pytest.approx(inside.mean() / 1000)
                assert [got["mean"], got["low"], got["high"]] == pytest.approx(
                    [np.mean(values), min(values), max(values)]
                )


def test_curves_are_logarithmic_and_never_cross_a_hole(
    tmp_path: Path,
) -> None:
    write_logs(tmp_path, leave_out=("610m-clm-42k",))
    inputs = logged(tmp_path)
    data = FIGURE.collect(inputs)
    with paper_style():
        drawn = FIGURE.draw(data, "", "")
    assert len(drawn.axes) == 3
    for ax, panel in zip(drawn.axes, ("CPT 2K", "CPT 12K", "CPT 22K"), strict=True):
        assert ax.get_yscale() == "log"
        for series in ("MLM start", "CLM start"):
            lines = [line for line in ax.lines if line.get_label() == series]
            rows = data[(data["panel"] == panel) & (data["series"] == series)]
            assert (
                np.concatenate([line.get_xdata() for line in lines]).tolist()
                == rows["x"].tolist()
            )  # type: ignore[misc]
            assert (
                np.concatenate([line.get_ydata() for line in lines]).tolist()
                == rows["mean"].tolist()
            )  # type: ignore[misc]
            for line in lines:
                x = np.asarray(line.get_xdata(), float)
                assert not ((x <= 42).any() and (x > 42).any())
                assert not ((x <= 40).any() and (x > 42).any())
    assert missing(FIGURE, data) == {}
    assert "MLM start" in alt_text(FIGURE, data, inputs)


def test_a_start_without_any_log_is_named(tmp_path: Path) -> None:
    runs = (
        "",
        "-42k",
        "-dec42k-mlm40",
        *(f"-dec42k-mlm40-{total}k" for total in (44, 54, 64)),
    )
    write_logs(tmp_path, leave_out=[f"610m-clm{run}" for run in runs])
    data = FIGURE.collect(logged(tmp_path))
    assert list(missing(FIGURE, data)) == [
        name for name in FIGURE_MODELS[12] if name.startswith("610m-clm")
    ]
    assert "610m-clm-dec42k-mlm40-64k, for lack of a training log." in alt_text(
        FIGURE, data, logged(tmp_path)
    )


def test_the_curves_are_on_the_papers_axis() -> None:
    """420 steps of pretraining and 220 of continued pretraining stand where the paper has 42,000 and 22,000."""
    data = paper_figure(12).collect(FigureInputs(source=open_source("miniature")))
    last = data[data["model"] == "610m-clm-dec42k-mlm40-64k"]["x"]
    assert 63 < last.max() <= 64 and last.min() < 1


TRUNK = {"610m-clm-42k": {"610m-clm", "610m-clm-42k"}}


def row(step: object, loss: object = 3.0, **other: object) -> dict[str, object]:
    about = {"split": "train", "objective": "clm", "ratio": None, "stage": "610m-clm"}
    return {"step": step, "loss": loss, **about, **other}


def log(
    folder: Path, *lines: object, name: str = "stages/610m-clm", end: str = "\n"
) -> Path:
    path = folder / name / "log.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(
        "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
        + end
    )
    return path


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (
            [row(30, 2.0), row(10, 4.0, lr=5e-4), row(20, 9, split="validation")],
            {10: 4.0, 30: 2.0},
        ),
        (
            [row(10, 4.0), row(20, 3.0), row(20, 2.5), '{"step": 30, "obj'],
            {10: 4.0, 20: 2.5},
        ),
    ],
    ids=["in the order of steps without validation", "a step done again, a cut line"],
)
def test_losses_of_a_log(
    lines: list[object], found: dict[int, float], tmp_path: Path
) -> None:
    log(tmp_path, *lines, end="")
    losses = training_losses(tmp_path, TRUNK)
    assert losses.to_numpy().tolist() == [
        ["610m-clm", step, "clm", loss] for step, loss in found.items()
    ]


def test_log_of_a_finished_model_is_enough(
    tmp_path: Path,
) -> None:
    rows = [row(10), row(20, stage="610m-clm-42k"), row(20, stage="610m-mlm40")]
    log(tmp_path, *rows, name="models/610m-clm-42k")
    alone = training_losses(tmp_path, TRUNK)
    assert alone["stage"].tolist() == ["610m-clm", "610m-clm-42k"]
    log(tmp_path, row(10))
    log(tmp_path, row(20, stage="610m-clm-42k"), name="stages/610m-clm-42k")
    assert training_losses(tmp_path, TRUNK).equals(alone)


def test_a_log_of_several_trainings_in_the_folder_itself_is_read(
    tmp_path: Path,
) -> None:
    log(
        tmp_path,
        row(10),
        row(20, stage="610m-clm-42k"),
        row(5, stage="210m-clm"),
        name="logs",
    )
    losses = training_losses(tmp_path / "logs", TRUNK)
    assert losses["stage"].tolist() == ["610m-clm", "610m-clm-42k"]
    assert training_losses(tmp_path, TRUNK).empty


def test_two_trainings_of_one_stage_are_not_mixed(tmp_path: Path) -> None:
    log(tmp_path, row(10, 3.0), name="a/610m-clm")
    second = log(tmp_path, row(10, 3.5), name="b/610m-clm")
    with refused(
        f"{second}: step 10 of 610m-clm has a different loss here than in {tmp_path / 'a'}"
    ):
        training_losses(tmp_path, TRUNK)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{oops", "line 2 is not a row of a training log"),
        (row("5"), "line 2 is not a row of a training log"),
        (row(5, objective="rtd"), "step 5 has objective 'rtd'"),
        (row(5, 0.0), "step 5 has loss 0.0"),
        (row(5, None), "line 2 is not a row of a training log"),
    ],
)
def test_a_wrong_line_is_reported_with_its_file(
    line: object, says: str, tmp_path: Path
) -> None:
    path = log(tmp_path, row(2), line, row(9))
    with refused(f"{path}: {says}"):
        training_losses(tmp_path, TRUNK)


def test_folders_without_logs_of_its_models_are_refused(tmp_path: Path) -> None:
    with refused("absent: no such folder", "--logs"):
        logged(tmp_path / "absent")
    with refused("no log.jsonl in it"):
        training_losses(tmp_path, TRUNK)
    log(tmp_path, row(1), name="210m-clm")
    with refused("no log of a stage that Figure 12 draws", "are named 610m-clm,"):
        FIGURE.collect(logged(tmp_path))
