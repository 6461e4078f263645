"""Figure 12: training loss, pretraining and then continued pretraining with MLM (CPT), 610M (needs training logs).

A model is trained in stages: stretches of steps with one objective (`pretraining.models.Stage`), which models may
share. A stage's steps are in its own log (`DIR/stages/610m-clm/log.jsonl`) and again in the log of every finished model
that they led to (`DIR/models/610m-clm-42k/log.jsonl`); either is enough. What a row of a log holds is said in
`pretraining.training.log`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from analysis.records import records
from common.errors import NotApplicableError, UserError
from paper_figures.drawing.marks import empty_panel, names_fit, write_names
from paper_figures.drawing.page import Panel, make_page
from paper_figures.drawing.style import GREY, Look
from paper_figures.figure import FIGURE_COLUMNS, FigureInputs, FigureSpec
from paper_figures.figures.figures2_11 import BUDGET, STARTS, start_series
from pretraining.models import OBJECTIVES, Model, format_steps
from pretraining.paper_models import FIGURE_MODELS, MODELS
from pretraining.training.log import LOG, read_log

POINTS = 300
"""Points of a curve at most; more steps are averaged in bins of equal length."""

_X_LABEL = "Step (thousands)"
_SWITCH = BUDGET / 1000
"""Where continued pretraining begins, in thousands of steps."""
_TICKS = [
    mantissa * 10.0**power
    for power in range(-3, 4)
    for mantissa in (1, 1.5, 2, 3, 4, 5, 7)
]
"""Losses at which the y axis may have a tick."""


def _panel(model: Model) -> str:
    """Return the name of the panel of a model, after the length of its continued pretraining: `CPT 22K`."""
    assert model.switch is not None
    return f"CPT {format_steps(model.steps - model.switch).upper()}"


_PANELS = tuple(dict.fromkeys(_panel(MODELS[name]) for name in FIGURE_MODELS[12]))


@dataclass(frozen=True, kw_only=True)
class _Losses(FigureSpec):
    """Loss curves on a logarithmic axis: a panel for each length of continued pretraining."""

    from_logs: bool = True

    @property
    def x_axis(self) -> Mapping[str, Any]:
        return {**super().x_axis, "label": _X_LABEL}

    def collect(self, inputs: FigureInputs) -> pd.DataFrame:
        """Return the points of all curves: `mean`, `low` and `high` are the losses of a bin of steps.

        Rows are ordered by panel, and within a panel by model and step.

        Raises:
            UserError: there are no logs, or none of a stage that the figure draws.
        """
        # How the names and steps of a small study map onto the paper's; None for all other sources.
        stand_ins = inputs.source.stand_ins
        logs = inputs.logs
        if logs is None and stand_ins is not None:
            logs = stand_ins.logs
        if logs is None:
            raise NotApplicableError(
                "Figure 12 needs training logs, which neither the published tables nor result files have: pretrain "
                f"its models ({', '.join(self.models)}) with clm-or-mlm train and give the folder of "
                f"their {LOG} files with --logs DIR"
            )

        # The losses of all stages, a row for each step.
        stages = {}
        for name in self.models:
            stages[name] = [stage.name for stage in MODELS[name].stages]
        if stand_ins is None:
            losses = training_losses(logs, stages)
        else:
            # The models, stages and steps of a small study stand for the paper's: its logs are read by its own names of
            # models and stages.
            small_name = {paper: small for small, paper in stand_ins.stages.items()}
            small_stages = {}
            for small_model, paper_model in stand_ins.models.items():
                if paper_model in stages:
                    names = stages[paper_model]
                    small_stages[small_model] = [small_name[stage] for stage in names]

            losses = training_losses(logs, small_stages)
            # From here on the rows have the paper's stages and steps.
            losses["stage"] = losses["stage"].map(stand_ins.stages)
            # `stand_ins.steps` is how many steps of the paper one step of these logs stands for.
            losses["step"] *= stand_ins.steps

        # The curves.
        parts: list[pd.DataFrame] = []
        for name in self.models:
            parts += _curve(MODELS[name], losses)
        if not parts:
            known = sorted(set[str]().union(*stages.values()))
            raise UserError(
                f"{logs} has no log of a stage that Figure 12 draws; the folders of these stages are named "
                f"{', '.join(known)}"
            )

        data = pd.concat(parts, ignore_index=True)
        # A stable sort by panel keeps the order of models and steps.
        panel_ranks = data["panel"].map(_PANELS.index).to_numpy()
        ordered = data.iloc[np.argsort(panel_ranks, kind="stable")]
        return ordered.reset_index(drop=True)[FIGURE_COLUMNS]

    def finding(self, data: pd.DataFrame, inputs: FigureInputs) -> str:
        """Return the loss of each series at the end of the longest continued pretraining, as a sentence."""
        del inputs
        # Panels are in the order of the lengths, and the longest is the last.
        of_longest = data["panel"] == data["panel"].iloc[-1]
        continued = data[of_longest & (data["x"] > _SWITCH)]
        # A later mean of a series replaces an earlier one, so that the last stays.
        last_means = dict(records(continued, "series", "mean"))
        if not last_means:
            return ""
        ends = ", ".join(f"{mean:.2f} ({name})" for name, mean in last_means.items())
        return f"MLM loss at the end of the longest continued pretraining: {ends}"

    def draw(self, data: pd.DataFrame, heading: str, caption: str) -> Figure:
        """Return the page of panels.

        Series are named right of the first panel where their curves end, or in a legend if that panel lacks a series.
        """
        panels = []
        for name in _PANELS:
            title = f"CPT of {name.removeprefix('CPT ')} steps"
            panels.append(Panel(name=name, title=title, unit="Loss (logarithmic)"))

        names_at_ends = names_fit(data, _PANELS[0])
        # Curves of hundreds of points are drawn without markers and dashes.
        plain_looks = {}
        for name, look in STARTS.items():
            plain_looks[name] = Look(color=look.color, marker="")
        drawing, axes = make_page(
            heading=heading,
            panels=panels,
            x_label=_X_LABEL,
            caption=caption,
            look=plain_looks,
            legend=not names_at_ends,
        )
        values = data[["low", "high"]].to_numpy(dtype=float)

        # The panels have one range; on a logarithmic axis, room is a factor.
        low, high = float(values.min()) / 1.1, float(values.max()) * 1.1
        for name, ax in axes.items():
            _draw_panel(ax, data[data["panel"] == name])
            ax.set_yscale("log")
            ax.set_ylim(low, high)
            ticks = [tick for tick in _TICKS if low <= tick <= high]
            ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
            # A logarithmic axis would add ticks of its own.
            ax.yaxis.set_minor_locator(NullLocator())

        if names_at_ends:
            first_panel = _PANELS[0]
            first_rows = data[data["panel"] == first_panel]
            # `STARTS`, since the plain looks lack its darker colours for names.
            write_names(axes[first_panel], first_rows, STARTS)

        return drawing

    def describe(self, data: pd.DataFrame) -> str:
        """Return a sentence for each panel: the loss of each series at its start, around the switch, and at its end."""
        sentences = []
        for panel, rows in data.groupby("panel", sort=False):
            parts = []
            for series, part in rows.groupby("series", sort=False):
                # By rising step; x is in thousands of steps.
                losses, steps = part["mean"], part["x"]
                text = f"{series} {losses.iloc[0]:.2f} at {steps.iloc[0]:.3g}K steps"
                before_switch = losses[steps <= _SWITCH]

                # Logs may be missing on one side of the switch.
                if 0 < len(before_switch) < len(part):
                    last = before_switch.iloc[-1]
                    first = losses.iloc[len(before_switch)]
                    text += (
                        f", {last:.2f} before and {first:.2f} after the switch to CPT"
                    )

                end = f"{losses.iloc[-1]:.2f} at {steps.iloc[-1]:.3g}K"
                parts.append(f"{text}, {end}")

            sentences.append(f"{panel}: {'; '.join(parts)}.")

        text = " ".join(sentences)
        return f"Loss curves on a logarithmic axis in three panels, one for each length of CPT. {text}"


def _curve(model: Model, losses: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield the points of the curve of each stage that led to `model`, a row for each bin of steps.

    Args:
        model: a model of the paper.
        losses: a row for each step, as `training_losses` returns them.
    """
    # Bins are equally long over all stages of a model, in steps.
    width = math.ceil(model.steps / POINTS)
    for stage in model.stages:
        is_stage = losses["stage"] == stage.name
        is_objective = losses["objective"] == stage.objective
        rows = losses[is_stage & is_objective]

        # Models share the undecayed stages of an objective: the log may go on beyond the step where this model branched
        # off. A log counts steps from 1, a stage from 0.
        is_of_model = rows["step"].between(stage.first_step + 1, stage.end)
        rows = rows[is_of_model]
        if rows.empty:
            continue
        steps_into_stage = rows["step"] - stage.first_step - 1
        bins = rows.groupby(steps_into_stage // width)
        curve = bins.agg(
            x=("step", "mean"),
            mean=("loss", "mean"),
            low=("loss", "min"),
            high=("loss", "max"),
        )

        # The x axis is in thousands of steps.
        curve["x"] /= 1000
        yield curve.assign(
            panel=_panel(model),
            series=start_series(model),
            model=model.name,
            n_seeds=1,
            interval="range",
            source="logs",
        )


def _draw_panel(ax: Axes, rows: pd.DataFrame) -> None:
    """Draw the curves of a panel, each on a band from its lowest to its highest losses, and mark the switch to CPT."""
    if rows.empty:
        empty_panel(ax)
        return

    end = max(MODELS[name].steps for name in rows["model"]) / 1000
    for series, part in rows.groupby("series", sort=False):
        look = STARTS[str(series)]
        for piece in _pieces(part):
            x = piece["x"].to_numpy(dtype=float)
            low = piece["low"].to_numpy(dtype=float)
            high = piece["high"].to_numpy(dtype=float)
            ax.fill_between(x, low, high, color=look.color, alpha=0.2, linewidth=0)
            ax.plot(
                x, piece["mean"], color=look.color, linewidth=1.1, label=str(series)
            )

    ax.axvline(_SWITCH, color=GREY, linewidth=0.6, zorder=1)
    ax.annotate(
        "CPT",
        (_SWITCH, 1),
        xycoords=("data", "axes fraction"),
        xytext=(-2, -1),
        textcoords="offset points",
        color=GREY,
        va="top",
        ha="right",
    )
    ax.set_xlim(0, end)

    # A tick at every 20,000 steps and at the end, but none so near the end that their labels would touch.
    ax.set_xticks([*range(0, int(end) - 5, 20), end])


def _pieces(rows: pd.DataFrame) -> list[pd.DataFrame]:
    """Return the rows of a curve in pieces, through each of which a line can be drawn.

    They are cut at the switch to continued pretraining, and where steps are missing from the logs.
    """
    x = rows["x"].to_numpy(dtype=float)
    # From each row to the next, in thousands of steps.
    distances = np.diff(x)
    usual = np.median(distances) if len(distances) else 0.0

    # Bins at the end of a stage hold fewer steps, so that distances differ a little even if no step is missing. If the
    # next point is more than four times as far as usual, several bins are missing.
    is_hole = distances > 4 * usual

    # The losses of CLM and MLM are not comparable: no line leads from one to the other.
    before, after = x[:-1], x[1:]
    is_switch = (before <= _SWITCH) & (after > _SWITCH)

    # Where the distance after row i is a hole or the switch, row i + 1 begins a piece.
    piece_starts = np.flatnonzero(is_hole | is_switch) + 1
    bounds = [0, *piece_starts.tolist(), len(rows)]
    return [rows.iloc[start:end] for start, end in itertools.pairwise(bounds)]


def training_losses(
    folder: Path, models: Mapping[str, Collection[str]]
) -> pd.DataFrame:
    """Return the training losses of the stages that lead to `models`, as far as the stages have logs.

    Args:
        folder: searched for logs. A log in the folder itself may be of any stages; below it, logs are read in folders
            that are named after a stage or a model.
        models: for each model the names of the stages that lead to it.

    Returns:
        Columns `stage`, `step`, `objective` and `loss`, one row per step, sorted; empty when no log is of these stages.

    Raises:
        UserError: there is no log, a line of a log is no row, a loss or objective cannot be drawn, or two logs differ.
    """
    # Find the logs, by the name of the folder that each is in.
    paths: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob(LOG)):
        paths.setdefault(path.parent.name, []).append(path)
    if not paths:
        raise UserError(
            f"{folder}: no {LOG} in it; clm-or-mlm train writes one for every run"
        )

    # Choose the folders to read.
    wanted_stages = set[str]().union(*models.values())
    folder_names = set(wanted_stages)

    # A model's log repeats the logs of its stages: it is read only where the log of a stage is absent.
    for name, stages in models.items():
        if not set(stages) <= paths.keys():
            folder_names.add(name)

    # The log in the folder itself.
    folder_names.add(folder.name)
    to_read: list[Path] = []
    for name in sorted(folder_names):
        to_read += paths.get(name, [])

    # Read the logs. From (stage, step, objective) to the loss, and to the log in which it was found first.
    first_found: dict[tuple[str, int, str], tuple[float, Path]] = {}
    for path in to_read:
        for row in read_log(path):
            if row["split"] != "train" or row["stage"] not in wanted_stages:
                continue
            # Without a masked token there is no loss.
            if row.get("predicted") == 0:
                continue

            # A row without a loss is refused below, like a loss of 0.
            loss = row.get("loss") or 0.0
            where = f"{path}: step {row['step']}"
            if row["objective"] not in OBJECTIVES:
                kinds = ", ".join(OBJECTIVES)
                raise UserError(
                    f"{where} has objective {row['objective']!r}; it must be one of {kinds}"
                )

            # NaN is refused as well: it compares as false with every number.
            if not loss > 0:
                raise UserError(
                    f"{where} has loss {loss}, which a logarithmic axis cannot show"
                )

            # `setdefault` keeps the loss that was found first, and returns it.
            key = (row["stage"], row["step"], row["objective"])
            first_loss, first_path = first_found.setdefault(key, (float(loss), path))

            # A step that two logs hold has one loss, unless they are of different runs.
            if first_loss != loss:
                raise UserError(
                    f"{where} of {row['stage']} has a different loss here than in {first_path}; give --logs the "
                    "folder of a single training run"
                )

    losses = [(*key, loss) for key, (loss, _) in sorted(first_found.items())]
    return pd.DataFrame(losses, columns=["stage", "step", "objective", "loss"])


FIGURES = (
    _Losses(
        name="12",
        title="Training loss through continued pretraining",
        models=FIGURE_MODELS[12],
        note="610M. Up to 42K steps the loss of MLM or CLM, not comparable; then of MLM. Band: range.",
    ),
)
