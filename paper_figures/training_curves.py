"""Training losses from the logs below a folder, such as what `python -m pretraining train --out DIR` wrote.

A stage's steps are in its own log (`DIR/stages/610m-clm/log.jsonl`) and again in the log of every
finished model they led to (`DIR/models/610m-clm-42k/log.jsonl`); either is enough. What a row of a log holds:
`pretraining.training.log`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.store.stand_ins import StandIns
from common.errors import UserError
from pretraining.model_names import OBJECTIVES
from pretraining.training.log import LOG, read_log

__all__ = ["COLUMNS", "placed_losses", "training_losses"]

COLUMNS = ["stage", "step", "objective", "loss"]


def placed_losses(
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
        Columns `COLUMNS`, a row a step, sorted; empty when no log is one of theirs.

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
    return pd.DataFrame([(*key, loss) for key, (loss, _) in sorted(losses.items())], columns=COLUMNS)


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
