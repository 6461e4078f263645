"""Figure 12: training loss, pretraining and then continued pretraining with MLM, 610M (needs training logs).

A stage's steps are in its own log (`DIR/stages/610m-clm/log.jsonl`) and again in the log of every finished model they
led to (`DIR/models/610m-clm-42k/log.jsonl`); either is enough. What a row of a log holds: `pretraining.training.log`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from analysis.store.stand_ins import StandIns
from common.errors import UserError
from paper_figures.drawing.marks import empty_panel, line_handles, names_fit, write_names
from paper_figures.drawing.page import Panel, make_page
from paper_figures.drawing.style import GREY, Look
from paper_figures.figure import COLUMNS, FigureSpec, Inputs, x_axis
from paper_figures.figures.continued import LOOKS
from paper_figures.positions import BUDGET, start_series
from pretraining.model_names import FIGURES, MODELS, OBJECTIVES, Model, format_steps
from pretraining.training.log import LOG, read_log

__all__ = ["FIGURE", "POINTS", "training_losses"]

POINTS = 300
"""Points of a curve at most; more steps are averaged in bins of equal length."""

_COLUMNS = ["stage", "step", "objective", "loss"]
_X_LABEL = "Step (thousands)"
_TICKS = [mantissa * 10.0**power for power in range(-3, 4) for mantissa in (1, 1.5, 2, 3, 4, 5, 7)]


def _panel(model: Model) -> str:
    assert model.switch is not None
    return f"CPT {format_steps(model.steps - model.switch).upper()}"


_PANELS = tuple(dict.fromkeys(_panel(MODELS[name]) for name in FIGURES[12]))


def _collect(inputs: Inputs) -> pd.DataFrame:
    stand_ins = inputs.source.stand_ins
    logs = inputs.logs or (stand_ins.logs if stand_ins else None)
    if logs is None:
        raise UserError(
            "Figure 12 needs training logs, which neither the published tables nor result files hold: pretrain its "
            f"models ({', '.join(FIGURES[12])}) with python -m pretraining train and give the folder of their {LOG} "
            "files with --logs DIR"
        )
    models = {name: {stage.name for stage in MODELS[name].stages} for name in FIGURES[12]}
    losses = _placed_losses(logs, models, stand_ins)
    parts = [part for name in FIGURES[12] if len(part := _curve(MODELS[name], losses))]
    if not parts:
        known = sorted({stage for stages in models.values() for stage in stages})
        raise UserError(
            f"{logs}: no log of a run that Figure 12 shows; it looks for folders named {', '.join(known)}"
        )
    data = pd.concat(parts, ignore_index=True)
    order = data["panel"].map(_PANELS.index)
    return data.iloc[np.argsort(order.to_numpy(), kind="stable")].reset_index(drop=True)[COLUMNS]


def _curve(model: Model, losses: pd.DataFrame) -> pd.DataFrame:
    """Return the losses of all steps that led to `model`, in bins that never span two stages."""
    width = max(1, -(-model.steps // POINTS))
    parts = []
    for stage in model.stages:
        own = (losses["stage"] == stage.name) & (losses["objective"] == stage.objective)
        rows = losses[own & (losses["step"] > stage.start) & (losses["step"] <= stage.end)]
        if rows.empty:
            continue
        bins = rows.groupby((rows["step"] - stage.start - 1) // width)
        parts.append(
            bins.agg(x=("step", "mean"), mean=("loss", "mean"), low=("loss", "min"), high=("loss", "max"))
        )
    if not parts:
        return pd.DataFrame(columns=COLUMNS)
    curve = pd.concat(parts, ignore_index=True)
    return curve.assign(
        panel=_panel(model), series=start_series(model), model=model.name, x=curve["x"] / 1000, n_seeds=1,
        interval="range", source="logs",
    )  # fmt: skip


def draw(data: pd.DataFrame, heading: str, caption: str) -> Figure:
    """Return loss curves on a logarithmic axis: a panel for each length of continued pretraining."""
    panels = [
        Panel(name=name, title=f"CPT of {name.removeprefix('CPT ')} steps", unit="Loss (logarithmic)")
        for name in _PANELS
    ]
    direct = names_fit(data, _PANELS[-1])
    plain = {name: Look(color=look.color, marker="") for name, look in LOOKS.items()}
    drawing, axes = make_page(heading=heading, panels=panels, x_label=_X_LABEL, caption=caption,
                     names=list(LOOKS) if direct else (),
                     handles=() if direct else line_handles(plain))  # fmt: skip
    values = data[["low", "high"]].to_numpy(dtype=float)
    low, high = float(values.min()) / 1.1, float(values.max()) * 1.1
    for name, ax in axes.items():
        _draw_panel(ax, data[data["panel"] == name])
        ax.set_yscale("log")
        ax.set_ylim(low, high)
        ticks = [tick for tick in _TICKS if low <= tick <= high]
        ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.yaxis.set_minor_locator(NullLocator())
    if direct:
        write_names(axes[_PANELS[-1]], data[data["panel"] == _PANELS[-1]], LOOKS)
    return drawing


def _draw_panel(ax: Axes, rows: pd.DataFrame) -> None:
    if rows.empty:
        empty_panel(ax)
        return
    switch, end = BUDGET / 1000, max(MODELS[name].steps for name in rows["model"]) / 1000
    for series, part in rows.groupby("series", sort=False):
        look = LOOKS[str(series)]
        for stage in _pieces(part, switch):
            x = stage["x"].to_numpy(dtype=float)
            ax.fill_between(x, stage["low"].to_numpy(dtype=float), stage["high"].to_numpy(dtype=float),
                            color=look.color, alpha=0.2, linewidth=0)  # fmt: skip
            ax.plot(x, stage["mean"], color=look.color, linewidth=1.1, label=str(series))
    ax.axvline(switch, color=GREY, linewidth=0.6, zorder=1)
    ax.annotate("CPT", (switch, 1), xycoords=("data", "axes fraction"), xytext=(-2, -1), textcoords="offset points",
                color=GREY, va="top", ha="right")  # fmt: skip
    ax.set_xlim(0, end)
    ax.set_xticks([*range(0, int(end) - 5, 20), end])


def _pieces(rows: pd.DataFrame, switch: float) -> list[pd.DataFrame]:
    """Return the rows cut where the loss changes at `switch`, and where steps between them have no log."""
    x = rows["x"].to_numpy(dtype=float)
    steps = np.diff(x)
    hole = steps > 4 * np.median(steps) if len(steps) else steps.astype(bool)
    cuts = np.flatnonzero(hole | ((x[:-1] <= switch) & (x[1:] > switch))) + 1
    bounds = [0, *cuts.tolist(), len(rows)]
    return [rows.iloc[start:end] for start, end in itertools.pairwise(bounds)]


def describe(data: pd.DataFrame) -> str:
    """Return what is seen."""
    sentences = []
    for panel, rows in data.groupby("panel", sort=False):
        parts = []
        for series, part in rows.groupby("series", sort=False):
            text = f"{series} {part['mean'].iloc[0]:.2f} at {part['x'].iloc[0]:.3g}K steps"
            before = part[part["x"] <= BUDGET / 1000]
            if len(before) and len(before) < len(part):
                after = part.iloc[len(before)]
                text += (
                    f", {before['mean'].iloc[-1]:.2f} before and {after['mean']:.2f} after the switch to CPT"
                )
            parts.append(f"{text}, {part['mean'].iloc[-1]:.2f} at {part['x'].iloc[-1]:.3g}K")
        sentences.append(f"{panel}: {'; '.join(parts)}.")
    return "Loss curves on a logarithmic axis in three panels, one a length of CPT. " + " ".join(sentences)


def _placed_losses(
    folder: Path, models: Mapping[str, Collection[str]], stand_ins: StandIns | None
) -> pd.DataFrame:
    """Return `training_losses` under the paper's names and steps, where a small study stands in its place."""
    if stand_ins is None:
        return training_losses(folder, models)
    own_models = {own: paper for own, paper in stand_ins.models.items() if paper in models}
    own_stage = {paper: own for own, paper in stand_ins.stages.items()}
    wanted = {own: [own_stage[name] for name in models[paper]] for own, paper in own_models.items()}
    losses = training_losses(folder, wanted)
    return losses.assign(stage=losses["stage"].map(stand_ins.stages), step=losses["step"] * stand_ins.steps)


def training_losses(folder: Path, models: Mapping[str, Collection[str]]) -> pd.DataFrame:
    """Return the training losses of the stages that lead to `models`, as far as there are logs of them.

    Args:
        folder: searched with all its folders for logs in folders named after a stage or a model.
        models: for each model the stages that lead to it.

    Returns:
        Columns `stage`, `step`, `objective` and `loss`, a row a step, sorted; empty when no log is one of theirs.

    Raises:
        UserError: no such folder, no log in it, a line of a log that is no row, or two logs that differ.
    """
    if not folder.is_dir():
        raise UserError(
            f"{folder}: no such folder; --logs names the one that python -m pretraining train wrote into"
        )
    paths: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob(LOG)):
        paths.setdefault(path.parent.name, []).append(path)
    if not paths:
        raise UserError(f"{folder}: no {LOG} below it; python -m pretraining train writes one for every run")
    wanted = {stage for stages in models.values() for stage in stages}
    # A model's log repeats those of its stages: it is read only where one of them is absent.
    names = wanted | {name for name, stages in models.items() if not set(stages) <= paths.keys()}
    losses: dict[tuple[str, int, str], tuple[float, Path]] = {}
    for path in (path for name in sorted(names) for path in paths.get(name, [])):
        for row in read_log(path):
            if row["split"] != "train" or row["stage"] not in wanted:
                continue
            step, objective, loss = _checked(row, path)
            key = row["stage"], step, objective
            known, elsewhere = losses.setdefault(key, (loss, path))
            if known != loss:
                raise UserError(
                    f"{path}: step {step} of {row['stage']} has another loss here than in {elsewhere}; name the "
                    "folder of one training with --logs"
                )
    return pd.DataFrame([(*key, loss) for key, (loss, _) in sorted(losses.items())], columns=_COLUMNS)


def _checked(row: dict[str, Any], path: Path) -> tuple[int, str, float]:
    step, objective, loss = row["step"], row["objective"], row.get("loss")
    if not isinstance(step, int) or isinstance(step, bool) or step < 0:
        raise UserError(f"{path}: a row has step {step!r}, which is no whole number from 0 on")
    if objective not in OBJECTIVES:
        raise UserError(
            f"{path}: step {step} has objective {objective!r}; it is one of {', '.join(OBJECTIVES)}"
        )
    if not isinstance(loss, int | float) or isinstance(loss, bool) or not math.isfinite(loss) or loss <= 0:
        raise UserError(f"{path}: step {step} has loss {loss!r}, which a logarithmic axis cannot show")
    return step, str(objective), float(loss)


FIGURE = FigureSpec(
    name="12",
    title="Training loss through continued pretraining",
    collect=_collect,
    draw=draw,
    describe=describe,
    models=FIGURES[12],
    x_axis=x_axis(_X_LABEL),
    note="610M. Up to 42K the pretraining loss of either start (MLM or CLM), from there the MLM loss at 40 %; the two "
    "losses are of different tasks. Line: mean of equally long stretches; band: their range. "
    "Steps without a log are left out.",
    averaged=False,
    selected=False,
    from_logs=True,
)
