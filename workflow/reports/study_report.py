"""`python -m workflow.reports.study_report`: a study's own scores and training losses as a table and a picture.

The paper's tables and figures hold the paper's models; a study of one's own, a trial or a miniature has others,
and is shown here: a row a model, a column a dataset; losses by step above scores with their intervals.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from analysis.sources import open_source
from analysis.statistics.scores_table import Settings as ScoreSettings
from common.cli import run
from common.files import write_bytes, write_text
from common.tables import csv_text
from paper_figures.drawing.style import paper_style
from paper_figures.output.formats import FORMATS
from paper_figures.output.save import picture
from pretraining.training.log import LOG, read_log

__all__ = ["draw", "losses_of", "score_table"]

_TITLE = "Scores and training losses of a study"
_COLORS = ("#15508f", "#e8604c", "#3a7fc0", "#8a5fb0", "#4d8f5b", "#b07d2b")


def losses_of(folder: Path) -> pd.DataFrame:
    """Return the losses of all finished models: columns model, step, split, objective, loss."""
    rows = [
        (path.parent.name, row["step"], row["split"], row["objective"], row["loss"])
        for path in sorted((folder / "models").glob(f"*/{LOG}"))
        for row in read_log(path)
        if "loss" in row
    ]
    return pd.DataFrame(rows, columns=["model", "step", "split", "objective", "loss"])


def score_table(scores: pd.DataFrame) -> str:
    """Return scores as Markdown: a row a model, a column a dataset, `mean (+-half width)` in percent."""
    datasets = list(dict.fromkeys(scores["dataset"]))
    lines = ["| model | " + " | ".join(datasets) + " |", "|---" * (len(datasets) + 1) + "|"]
    for model, group in scores.groupby("model", sort=False):
        rows = group.to_dict("records")
        cells = {
            row["dataset"]: f"{row['mean']:.2f} (+-{(row['high'] - row['low']) / 2:.2f})" for row in rows
        }
        words = [cells.get(name, "-") for name in datasets]
        lines.append(f"| {model} | " + " | ".join(words) + " |")
    return "\n".join(lines) + "\n"


def draw(scores: pd.DataFrame, losses: pd.DataFrame) -> Figure:
    """Return the picture: training loss by step, and the score of every dataset with its interval."""
    models = list(dict.fromkeys([*scores["model"], *losses["model"]]))
    colors = {model: _COLORS[number % len(_COLORS)] for number, model in enumerate(models)}
    datasets = list(dict.fromkeys(scores["dataset"]))
    figure = Figure(figsize=(7.0, 4.6), layout="constrained")
    upper, lower = figure.subplots(2, 1)
    for (model, objective), group in losses[losses["split"] == "train"].groupby(
        ["model", "objective"], sort=False
    ):
        dash = "solid" if objective == "mlm" else "dashed"
        upper.plot(group["step"], group["loss"], color=colors[model], linestyle=dash)
    upper.set_xlabel("step")
    upper.set_ylabel("training loss (CLM dashed)")
    for number, model in enumerate(models):
        own = scores[scores["model"] == model]
        place = [datasets.index(name) + 0.12 * (number - (len(models) - 1) / 2) for name in own["dataset"]]
        mean, low, high = (own[name].to_numpy() for name in ("mean", "low", "high"))
        span = [(mean - low).tolist(), (high - mean).tolist()]
        lower.errorbar(place, mean, yerr=span, fmt="o", color=colors[model], capsize=2, label=model)
    lower.set_xticks(range(len(datasets)), datasets)
    lower.set_ylabel("score, %")
    figure.legend(loc="outside lower center", ncols=2, fontsize="small", frameon=False)
    return figure


def main(argv: Sequence[str]) -> int | None:
    parser = argparse.ArgumentParser(
        "python -m workflow.reports.study_report", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("source", help="a runs table or a run store")
    parser.add_argument("--pretraining", type=Path, metavar="DIR", help="folder of the trained models")
    parser.add_argument("--out", type=Path, default=Path("build/study"), metavar="DIR", help="where files go")
    arguments = parser.parse_args(argv)
    # Either logs every glyph and file it looks at.
    for name in ("matplotlib", "fontTools"):
        logging.getLogger(name).setLevel(logging.WARNING)
    source = open_source(arguments.source)
    scores = source.scores(ScoreSettings())
    scores = scores[scores["dataset"] != "average"]
    if source.stand_ins is not None:
        # Tables of the paper show them in its models' places; here they have their own names.
        own = {paper: name for name, paper in source.stand_ins.models.items()}
        scores = scores.assign(model=[own.get(name, name) for name in scores["model"]])
    losses = losses_of(arguments.pretraining or Path("pretraining"))
    table = score_table(scores)
    write_text(arguments.out / "study.md", table)
    write_text(arguments.out / "study.csv", csv_text(scores, digits="%.12g"))
    write_text(arguments.out / "losses.csv", csv_text(losses, digits="%.12g"))
    description = f"Training loss by step and scores of {scores['model'].nunique()} models"
    for name, form in FORMATS.items():
        with paper_style():
            content = picture(draw(scores, losses), form, title=_TITLE, description=description)
        write_bytes(arguments.out / f"study.{name}", content)
    print(table, end="")
    return None


if __name__ == "__main__":
    run(main)
