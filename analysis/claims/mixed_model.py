"""A linear mixed model for the comparisons of objective and size (F1-F4): a second opinion on the seed-wise tests.

For each task: score ~ model (objective x size, each combination with its own mean) + dataset (random) + seed
within dataset (random), fitted by REML with statsmodels' MixedLM. Contrasts of the fixed effects are tested with
normal quantiles. It uses all three datasets at once and pools the residual variance over models, which the
seed-wise tests do not; docs/intervals.md says when that misleads.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.claims.evidence import Finding, contrast_finding
from analysis.claims.statements import Comparison, Spread
from analysis.statistics.estimates import Student
from analysis.statistics.learning_rate_selection import select_runs
from benchmarks.protocol import AVERAGE

__all__ = ["MixedEvidence", "MixedFit", "fit_mixed"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class MixedFit:
    """A fitted model of one task."""

    models: tuple[str, ...]
    """The fixed effects, in the order of `means`."""
    means: Array
    """(n_models,) mean score over the datasets, in percent."""
    covariance: Array
    """(n_models, n_models) of `means`, with what all share through the datasets."""
    residual_variance: float
    note: str
    """A singular or unconverged fit in words; empty when all is well."""

    def contrast(self, weights: Array) -> Student:
        """Return the weighted sum of the means; weights must sum to 0, so that the datasets cancel."""
        assert abs(weights.sum()) < 1e-9
        return Student(
            effect=float(weights @ self.means),
            error=float(np.sqrt(max(0.0, float(weights @ self.covariance @ weights)))),
            df=float("inf"),
        )


def fit_mixed(
    scores: Array, models: Iterable[str], datasets: Iterable[str], seeds: Iterable[int]
) -> MixedFit:
    """Fit one task.

    Args:
        scores: (n_rows,) in percent.
        models: for each row its model, a fixed effect.
        datasets: for each row its dataset, a random intercept.
        seeds: for each row its seed, a random intercept within the dataset.

    Returns:
        The fit. When the seeds' variance is estimated as zero the fit is on the boundary; the note says so, and
        the other estimates stand, for it is the same model without that term.

    Raises:
        ValueError: the model cannot be fitted at all (no variation, or too few rows).
    """
    from statsmodels.regression.mixed_linear_model import MixedLM, MixedLMParams, VCSpec

    names, columns = np.unique(np.asarray(list(models)), return_inverse=True)
    groups = np.asarray(list(datasets))
    levels, codes = np.unique(np.asarray(list(seeds)), return_inverse=True)
    design = np.eye(len(names))[columns]
    centred = scores - _group_means(scores, groups)
    if len(scores) <= len(names) + 2 or np.ptp(centred - _group_means(centred, columns)) < 1e-9:
        raise ValueError("nothing varies within the models")
    by_group = [np.eye(len(levels))[codes[groups == group]] for group in np.unique(groups)]
    seed_term = VCSpec(["seed"], [[[str(level) for level in levels]] * len(by_group)], [by_group])
    notes: list[str] = []
    result = None
    for exog_vc in (seed_term, None):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                model = MixedLM(scores, design, groups, exog_re=np.ones(len(scores)), exog_vc=exog_vc)
                start = MixedLMParams.from_components(
                    *_start(scores, columns, groups, codes, exog_vc is not None)
                )
                result = model.fit(start_params=start, reml=True, method=["lbfgs", "powell"])
            except np.linalg.LinAlgError:
                result = None
        if (
            result is not None
            and result.converged
            and np.isfinite(np.diag(result.cov_params())[: len(names)]).all()
        ):
            notes += sorted({str(entry.message).splitlines()[0].rstrip(".") for entry in caught})
            break
        notes.append(
            "with a seed term the fit is singular or does not converge, so that term is left out"
            if exog_vc is not None
            else "the fit does not converge, its numbers are the last ones reached"
        )
    if result is None:
        raise ValueError("the mixed model is singular")
    covariance = np.asarray(result.cov_params())[: len(names), : len(names)]
    vcomp = np.asarray(result.vcomp, dtype=np.float64)
    seed_variance = float(vcomp[0]) if len(vcomp) else 0.0
    if seed_variance < 1e-8 * float(result.scale) and not notes:
        notes.append("the seeds' variance is estimated as zero (a fit on the boundary)")
    return MixedFit(
        models=tuple(str(name) for name in names),
        means=np.asarray(result.fe_params, dtype=np.float64),
        covariance=covariance,
        residual_variance=float(result.scale),
        note="; ".join(notes),
    )


def _start(
    scores: Array,
    columns: npt.NDArray[np.intp],
    groups: npt.NDArray[np.generic],
    codes: npt.NDArray[np.intp],
    seeds: bool,
) -> tuple[Array, Array, None, Array]:
    """Return moment estimates to start from: means, and variances of dataset and seed over the residual one.

    From statsmodels' own start the optimiser takes the datasets' large variance for the seeds' now and then.
    """
    means = np.bincount(columns, weights=scores) / np.bincount(columns)
    left = scores - means[columns]
    by_dataset = _group_means(left, groups)
    within = np.array([f"{group}/{code}" for group, code in zip(groups, codes, strict=True)])
    by_seed = _group_means(left - by_dataset, within)
    residual = max(float((left - by_dataset - by_seed).var()), 1e-6 * float(left.var()), 1e-12)
    parts = [float(by_dataset.var()) / residual, max(float(by_seed.var()) / residual, 0.01)]
    return means, np.array([[max(parts[0], 0.01)]]), None, np.array(parts[1:] if seeds else [])


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
        self._chosen = chosen[chosen["model"].isin(set(models))]
        self._fits: dict[str, MixedFit | str] = {}

    def finding(self, comparison: Comparison) -> Finding:
        """Return what the fitted models say about a contrast of task averages."""
        if isinstance(comparison, Spread):
            return Finding(comparison=comparison, missing="no contrast of means")
        effect, variance = 0.0, 0.0
        notes: list[str] = []
        for task in dict.fromkeys(term.task for term in comparison.terms):
            fit = self._fit(task)
            if isinstance(fit, str):
                return Finding(comparison=comparison, missing=fit)
            weights = dict.fromkeys(fit.models, 0.0)
            for term in comparison.terms:
                if term.task != task:
                    continue
                if term.model not in weights or term.dataset != AVERAGE:
                    return Finding(comparison=comparison, missing=f"no runs of {term.model} on {task}")
                weights[term.model] += term.weight
            part = fit.contrast(np.array(list(weights.values())))
            effect, variance = effect + part.effect, variance + part.error**2
            if fit.note:
                notes.append(f"{task}: {fit.note}")
        estimate = Student(effect=effect, error=float(np.sqrt(variance)), df=float("inf"))
        return contrast_finding(comparison, estimate, test="mixed model", inputs=tuple(notes), seeds=())

    def _fit(self, task: str) -> MixedFit | str:
        if task not in self._fits:
            rows = self._chosen[self._chosen["task"] == task]
            try:
                self._fits[task] = fit_mixed(
                    np.asarray(rows["test_score"], dtype=np.float64) * 100.0,
                    rows["model"],
                    rows["dataset"],
                    rows["seed"],
                )
            except ValueError as error:
                self._fits[task] = f"no mixed model on {task}: {error}"
        return self._fits[task]


def _group_means(values: Array, codes: npt.NDArray[np.generic]) -> Array:
    _, places = np.unique(codes, return_inverse=True)
    means: Array = (np.bincount(places, weights=values) / np.bincount(places))[places]
    return means
