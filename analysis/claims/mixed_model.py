"""A linear mixed model for the comparisons of objective and size (F1-F4): a second opinion on the seed-wise tests.

For each task: score ~ model (objective x size, each combination with its own mean) + dataset (random) + seed
within dataset (random), fitted by REML with statsmodels' MixedLM. Contrasts of the fixed effects are tested with
normal quantiles. It uses all three datasets at once and pools the residual variance over models, which the
seed-wise tests do not; docs/intervals.md says when that misleads.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.evidence.contrasts import AnyContrast, Finding, Spread, contrast_finding
from analysis.statistics.estimates import Student
from analysis.statistics.learning_rate_selection import select_runs
from benchmarks.protocol import AVERAGE

__all__ = ["MixedEvidence", "MixedFit", "fit_mixed"]


@dataclass(frozen=True, kw_only=True)
class MixedFit:
    """A fitted model of one task."""

    models: tuple[str, ...]
    """The fixed effects: each model's mean score over the datasets, in percent."""
    result: Any
    """statsmodels' `MixedLMResults`; its first parameters are those of `models`."""
    note: str
    """A singular or unconverged fit in words; empty when all is well."""

    def contrast(self, weights: Mapping[str, float]) -> Student:
        """Return a weighted sum of models' means; weights must sum to 0, so that the datasets cancel."""
        assert abs(sum(weights.values())) < 1e-9
        test = self.result.t_test(np.array([[weights.get(model, 0.0) for model in self.models]]))
        return Student(effect=float(test.effect[0]), error=float(np.squeeze(test.sd)), df=math.inf)


def fit_mixed(rows: pd.DataFrame) -> MixedFit:
    """Fit one task.

    Args:
        rows: columns `score` (in percent), `model` (a fixed effect), `dataset` (a random intercept) and `seed` (a
            random intercept within the dataset).

    Returns:
        The fit. When the seeds' variance is estimated as zero the fit is on the boundary; the note says so, and
        the other estimates stand, for it is the same model without that term.

    Raises:
        ValueError: the model cannot be fitted at all (no variation, or too few rows).
    """
    from statsmodels.regression.mixed_linear_model import MixedLM, MixedLMParams

    rows = rows.astype({"model": str, "dataset": str})
    names = tuple(sorted(rows["model"].unique()))
    if len(rows) <= len(names) + 2:
        raise ValueError("no score varies within a model")
    # Moment estimates to start from: from statsmodels' own start the optimiser now and then takes the datasets' large
    # variance for the seeds'.
    means = rows.groupby("model")["score"].mean()
    left = rows["score"] - rows["model"].map(means)
    by_dataset = left.groupby(rows["dataset"]).transform("mean")
    by_seed = (left - by_dataset).groupby([rows["dataset"], rows["seed"]]).transform("mean")
    residual = float((left - by_dataset - by_seed).var(ddof=0))
    if float((left - by_dataset).abs().max()) < 1e-9:
        raise ValueError("no score varies within a model")
    residual = max(residual, 1e-6 * float(left.var(ddof=0)), 1e-12)
    dataset_part, seed_part = (
        max(float(part.var(ddof=0)) / residual, 0.01) for part in (by_dataset, by_seed)
    )
    notes: list[str] = []
    result = None
    for term in ({"seed": "0 + C(seed)"}, None):
        start = MixedLMParams.from_components(
            means.loc[list(names)].to_numpy(),
            np.array([[dataset_part]]),
            None,
            np.array([seed_part] if term else []),
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                model = MixedLM.from_formula(
                    "score ~ 0 + model", rows, groups="dataset", re_formula="1", vc_formula=term
                )
                result = model.fit(start_params=start, reml=True, method=["lbfgs", "powell"])
            except np.linalg.LinAlgError:
                result = None
        if result is not None and result.converged and np.isfinite(result.bse_fe).all():
            notes += sorted({str(entry.message).splitlines()[0].rstrip(".") for entry in caught})
            break
        notes.append(
            "with a seed term the fit is singular or does not converge, so that term is left out"
            if term
            else "the fit does not converge; its numbers are those of the last iteration"
        )
    if result is None:
        raise ValueError("the mixed model is singular")
    if not notes and sum(result.vcomp) < 1e-8 * result.scale:
        notes.append("the seeds' variance is estimated as zero (a fit on the boundary)")
    return MixedFit(models=names, result=result, note="; ".join(notes))


class MixedEvidence:
    """The selected runs of the models that `claims` compare, fitted task by task."""

    def __init__(self, runs: pd.DataFrame, selection: str, models: Iterable[str]) -> None:
        """Select the runs; a task is fitted when a comparison first needs it.

        Args:
            runs: a runs table.
            selection: rule for the learning rate.
            models: the fixed effects.
        """
        chosen = select_runs(runs, selection)
        chosen = chosen[chosen["model"].isin(set(models))]
        self._chosen = chosen.assign(score=100.0 * chosen["test_score"])
        self._fits: dict[str, MixedFit | str] = {}

    def finding(self, comparison: AnyContrast) -> Finding:
        """Return what the fitted models say about a contrast of task averages."""
        if isinstance(comparison, Spread):
            return Finding(comparison=comparison, missing="not a contrast of means")
        parts: list[Student] = []
        notes: list[str] = []
        for task in comparison.tasks:
            fit = self._fit(task)
            if isinstance(fit, str):
                return Finding(comparison=comparison, missing=fit)
            weights: dict[str, float] = {}
            for term in (term for term in comparison.terms if term.task == task):
                if term.model not in fit.models or term.dataset != AVERAGE:
                    return Finding(comparison=comparison, missing=f"no runs of {term.model} on {task}")
                weights[term.model] = weights.get(term.model, 0.0) + term.weight
            parts.append(fit.contrast(weights))
            notes += [f"{task}: {fit.note}"] * bool(fit.note)
        estimate = Student(
            effect=math.fsum(part.effect for part in parts), error=math.hypot(*(part.error for part in parts)),
            df=math.inf,
        )  # fmt: skip
        return contrast_finding(comparison, estimate, test="mixed model", inputs=tuple(notes), seeds=())

    def _fit(self, task: str) -> MixedFit | str:
        if task not in self._fits:
            try:
                self._fits[task] = fit_mixed(self._chosen[self._chosen["task"] == task])
            except ValueError as error:
                self._fits[task] = f"no mixed model on {task}: {error}"
        return self._fits[task]
