"""Figure 12: training loss, pretraining and then continued pretraining with MLM, 610M (needs training logs)."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from common.errors import UserError
from paper_figures.drawing.marks import empty_panel, line_handles, names_fit, write_names
from paper_figures.drawing.page import Panel, make_page
from paper_figures.drawing.style import GREY, Look
from paper_figures.figure import COLUMNS, FigureSpec, Inputs, XAxis
from paper_figures.figures.continued import LOOKS
from paper_figures.positions import BUDGET, start_series
from paper_figures.training_curves import placed_losses
from pretraining.model_names import FIGURES, MODELS, Model, format_steps
from pretraining.training.log import LOG

__all__ = ["FIGURE", "POINTS"]

POINTS = 300
"""Points of a curve at most; more steps are averaged in bins of equal length."""

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
    losses = placed_losses(logs, models, stand_ins)
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
    page = make_page(heading=heading, panels=panels, x_label=_X_LABEL, caption=caption,
                     names=list(LOOKS) if direct else (),
                     handles=() if direct else line_handles(plain))  # fmt: skip
    values = data[["low", "high"]].to_numpy(dtype=float)
    low, high = float(values.min()) / 1.1, float(values.max()) * 1.1
    for name, ax in page.axes.items():
        _draw_panel(ax, data[data["panel"] == name])
        ax.set_yscale("log")
        ax.set_ylim(low, high)
        ticks = [tick for tick in _TICKS if low <= tick <= high]
        ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.yaxis.set_minor_locator(NullLocator())
    if direct:
        write_names(page.axes[_PANELS[-1]], data[data["panel"] == _PANELS[-1]], LOOKS)
    return page.figure


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


FIGURE = FigureSpec(
    name="12",
    title="Training loss through continued pretraining",
    collect=_collect,
    draw=draw,
    describe=describe,
    models=FIGURES[12],
    x_axis=XAxis(label=_X_LABEL),
    note="610M. Up to 42K the pretraining loss of either start (MLM or CLM), from there the MLM loss at 40 %; the two "
    "losses are of different tasks. Line: mean of equally long stretches; band: their range. "
    "Steps without a log are left out.",
    averaged=False,
    selected=False,
    from_logs=True,
)
