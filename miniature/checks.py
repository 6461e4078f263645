"""Checks that a broken pipeline fails: pretraining helps, the objectives differ, two stages lower the loss.

Forms with enough seeds ask more of the first: MLM and CLM both help, beyond what seeds explain.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from safetensors.numpy import load_file

from analysis.statistics.estimates import student_estimate, welch_estimate
from analysis.statistics.learning_rate_selection import select_runs
from miniature.forms import CONTROL, RANDOM, Form
from pretraining.training.log import LOG, read_log

TWO_STAGE, MLM, CLM = "610m-clm-10k-mlm40-42k", "610m-mlm40-42k", "610m-clm-42k"
ENOUGH_SEEDS = 3
"""Seeds from which a spread can be seen: two can only be equal or not."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One check and what it saw."""

    what: str
    holds: bool
    seen: str


def mean_scores(form: Form, runs: pd.DataFrame) -> pd.DataFrame:
    """Return the mean test score in percent over seeds at the rate chosen by validation: models by datasets.

    The untrained network comes first; what was not fine-tuned is not a number.
    """
    means = 100 * select_runs(runs).pivot_table(index="model", columns="dataset", values="test_score")
    return means.reindex(index=[RANDOM, *form.models], columns=list(form.families.values()))


def final_losses(form: Form, pretrained: Path) -> dict[str, float]:
    """Return each exported model's validation loss at its last step, in nats a predicted token of its last objective.

    Checkpoints along the way whose step was not validated have none.
    """
    losses = {}
    for name, model in form.models.items():
        log = pretrained / "models" / name / LOG
        for row in read_log(log) if log.is_file() else ():
            if row["split"] == "validation" and row["step"] == model.steps:
                losses[name] = row["loss"]
    return losses


def checks(form: Form, pretrained: Path, runs: pd.DataFrame) -> list[Check]:
    """Return the checks of a finished miniature.

    Args:
        form: the form.
        pretrained: its stages and models.
        runs: its runs table, under its own names.
    """
    scores = mean_scores(form, runs)
    losses = {**dict.fromkeys(form.models, float("nan")), **final_losses(form, pretrained)}
    two_stage, mlm, clm, control = map(form.own, (TWO_STAGE, MLM, CLM, CONTROL))
    models = (mlm, clm, two_stage)
    # On how many families each is above the untrained network.
    better = (scores.loc[list(models)] > scores.loc[RANDOM]).sum(axis=1)
    best = str(better.idxmax())
    detail = "; ".join(
        f"{name}: "
        + ", ".join(
            f"{task} {scores[dataset][name]:.2f} against {scores[dataset][RANDOM]:.2f}"
            for task, dataset in form.families.items()
        )
        for name in models
    )
    distance = _distance(*(pretrained / "models" / name / "model.safetensors" for name in (mlm, clm)))
    results = [
        Check(
            what=f"a pretrained model beats the same network with random weights on {_most_of(form)}",
            holds=better[best] >= _most(form),
            seen=f"{best} on {better[best]} ({detail})",
        ),
        Check(
            what="the MLM and CLM checkpoints of the same size differ",
            holds=distance > 0.01,
            seen=f"weights of {mlm} and {clm} differ by {distance:.0%} of their norm",
        ),
        Check(
            what="after the same number of MLM steps, the two-stage model's MLM loss is below that of MLM alone",
            holds=losses[two_stage] < losses[control],
            seen=f"{two_stage} {losses[two_stage]:.3f}, {control} {losses[control]:.3f} nats",
        ),
    ]
    return [*results, beyond_seeds(form, runs, mlm, clm)] if len(form.seeds) >= ENOUGH_SEEDS else results


def _most(form: Form) -> int:
    """Return three quarters of its families, rounded up."""
    return -(-3 * len(form.families) // 4)


def _most_of(form: Form) -> str:
    return f"at least {_most(form)} of {len(form.families)} tasks"


def beyond_seeds(form: Form, runs: pd.DataFrame, *models: str) -> Check:
    """Return whether each model beats the untrained network on most families: Welch's 95 % interval is above zero."""
    scores = select_runs(runs)
    beyond, detail = [], []
    for name in models:
        lows = {task: _low(scores[scores["dataset"] == data], name) for task, data in form.families.items()}
        beyond.append(sum(low > 0 for low in lows.values()))
        each = ", ".join(f"{task} {low:+.2f}" for task, low in lows.items())
        detail.append(f"{name} on {beyond[-1]}: {each}")
    return Check(
        what=f"MLM and CLM each beat the untrained network on {_most_of(form)}, by more than the variation between "
        "seeds",
        holds=min(beyond) >= _most(form),
        seen=f"{'; '.join(detail)} (lower ends of Welch's 95 % intervals of the difference, points)",
    )


def _low(runs: pd.DataFrame, model: str) -> float:
    """Return the lower end in points, not a number where either side has fewer than two runs."""
    pair = [100 * runs.loc[runs["model"] == name, "test_score"].to_numpy() for name in (model, RANDOM)]
    if min(map(len, pair)) < 2:
        return float("nan")
    samples = [student_estimate(one) for one in pair]
    means, errors, counts = np.array([(one.effect, one.error, one.df + 1) for one in samples]).T
    return welch_estimate(means, errors, counts, np.array([1.0, -1.0])).interval()[0]


def _distance(*files: Path) -> float:
    """Return how far two models' weights are apart, as a share of the first's norm; not a number if one is missing."""
    if not all(file.is_file() for file in files):
        return float("nan")
    one, other = map(load_file, files)
    apart = sum(float(np.square(one[name] - other[name]).sum()) for name in one)
    return float(np.sqrt(apart / sum(float(np.square(tensor).sum()) for tensor in one.values())))
