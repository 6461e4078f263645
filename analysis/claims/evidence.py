"""From a source of scores to estimates of contrasts: which test a source allows, and with how many seeds.

published cells             Welch, from means and intervals (interval / 1.96 is the standard error, n = 5)
runs                        paired by seed, over the seeds that every model of the contrast has
runs with no seed in common Welch, from each model's own seeds
runs and instances          paired by seed and instance (`estimates.crossed_estimate`)
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.claims.inference import brown_forsythe, region_p, spread_ratios
from analysis.claims.statements import Comparison, Contrast, Spread, Term
from analysis.published_cells import N_SEEDS, NORMAL_QUANTILE, published_values
from analysis.records import records
from analysis.statistics.estimates import Estimate, Resampled, welch_estimate
from analysis.statistics.instance_covariance import InstanceCovariance
from analysis.statistics.interval_kinds import INTERVALS, Sample
from analysis.statistics.learning_rate_selection import select_runs
from analysis.statistics.reselection import Reselection
from analysis.statistics.scores_table import Settings, seed_scores
from analysis.store.stand_ins import averaged_datasets
from benchmarks.protocol import AVERAGE

__all__ = ["Finding", "PublishedEvidence", "RunEvidence", "contrast_finding"]

Array = npt.NDArray[np.float64]

SMALLEST_HALF_WIDTH = 0.005
"""A published interval of 0.00 stands for anything below this; the largest of it is taken."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a source says about one contrast or spread."""

    comparison: Comparison
    effect: float = float("nan")
    low: float = float("nan")
    """Of the 95 % interval."""
    high: float = float("nan")
    inner_low: float = float("nan")
    """Of the 90 % interval, which goes with two one-sided tests."""
    inner_high: float = float("nan")
    p_for: float = 1.0
    p_against: float = 1.0
    p_zero: float = float("nan")
    """Two-sided p of "no difference" (for a spread: of the Brown-Forsythe test)."""
    df: float = float("nan")
    error: float = float("nan")
    """Standard error."""
    seeds: tuple[int, ...] = ()
    """Seeds used: how many, once when all scores have the same, else for each score."""
    test: str = ""
    """The test, in words."""
    inputs: tuple[str, ...] = field(default=())
    """The numbers that enter, one line a score."""
    missing: str = ""
    """Why the source does not decide it; empty when it does."""
    instance_share: float = 0.0
    """Share of the squared error that comes from the test instances."""
    estimate: Estimate | None = field(default=None, repr=False, compare=False)
    """What interval and p's follow from; None for spreads, and where it was not asked for."""

    @property
    def known(self) -> bool:
        """Whether the source decides anything."""
        return not self.missing

    @property
    def outside(self) -> bool:
        """Whether the 95 % interval is wholly outside the claimed region."""
        low, high = self.comparison.ends
        return self.known and (self.high < low or self.low > high)


class PublishedEvidence:
    """The paper's printed cells."""

    def __init__(self, interval: str = "t") -> None:
        """Take the cells; `interval` chooses the test.

        Raises:
            UserError: an unknown interval, one that needs single runs, or one without a test.
        """
        self._test = INTERVALS[interval].need_independent()
        values = published_values()
        self._cells = {
            (model, task, dataset): (mean, half)
            for model, task, dataset, mean, half in records(
                values, "model", "task", "dataset", "mean", "ci95"
            )
        }

    def finding(self, comparison: Comparison) -> Finding:
        """Return what the cells say: Welch's test on the weighted sum."""
        if isinstance(comparison, Spread):
            return Finding(comparison=comparison, missing="needs single runs")
        absent = [term for term in comparison.terms if term.cell not in self._cells]
        if absent:
            return Finding(comparison=comparison, missing=f"no published cell for {_names(absent)}")
        cells = np.array([self._cells[term.cell] for term in comparison.terms])
        errors = np.maximum(cells[:, 1], SMALLEST_HALF_WIDTH) / NORMAL_QUANTILE
        counts = np.full(len(cells), N_SEEDS, dtype=np.float64)
        weights = np.array([term.weight for term in comparison.terms])
        estimate = self._test.estimate(welch_estimate(cells[:, 0], errors, counts, weights))
        inputs = tuple(
            f"{term.weight:+.4g} x {term.model} {term.task} {term.dataset}: {mean:.2f} (+-{half:.2f}), n = {N_SEEDS}"
            for term, (mean, half) in zip(comparison.terms, cells, strict=True)
        )
        return contrast_finding(comparison, estimate, test=self._test.name, inputs=inputs, seeds=(N_SEEDS,))


class RunEvidence:
    """A runs table, and the test instances behind it where they are known."""

    def __init__(
        self,
        runs: pd.DataFrame,
        settings: Settings,
        *,
        instances: Path | None = None,
        keep_estimates: bool = False,
    ) -> None:
        """Select the runs and, for an interval that needs instances, read the covariances between them.

        Args:
            runs: a runs table.
            settings: its `interval` chooses the test.
            instances: the per-instance Parquet.
            keep_estimates: whether findings carry their estimates, which for a bootstrap are large.

        Raises:
            UserError: an interval without a test, or one that needs instances, without them.
        """
        self._keep = keep_estimates
        settings.method.need_paired()
        self._settings = settings
        self._runs = runs
        self._values = seed_scores(runs, settings.selection)
        self._rows = {key: row for row, key in enumerate(self._values.index)}
        self._matrix = self._values.to_numpy()
        needed = settings.method.need_instances(instances)
        chosen = None if needed is None else select_runs(runs, settings.selection)
        self._covariance = None if chosen is None or needed is None else InstanceCovariance.of(chosen, needed)
        self._reselection = Reselection(runs=runs, rule=settings.rule)

    def finding(self, comparison: Comparison) -> Finding:
        """Return what the runs say."""
        return self._spread(comparison) if isinstance(comparison, Spread) else self._contrast(comparison)

    def _contrast(self, comparison: Contrast) -> Finding:
        absent = [term for term in comparison.terms if term.cell not in self._rows]
        if absent:
            return Finding(comparison=comparison, missing=f"no runs of {_names(absent)}")
        table = self._matrix[[self._rows[term.cell] for term in comparison.terms]]
        weights = np.array([term.weight for term in comparison.terms])
        counts = np.isfinite(table).sum(axis=1)
        means = np.nanmean(table, axis=1)
        shared = np.isfinite(table).all(axis=0)
        inputs = tuple(
            f"{term.weight:+.4g} x {term.model} {term.task} {term.dataset}: mean {mean:.4f}, "
            f"n = {count} (seeds {', '.join(str(s) for s in self._values.columns[np.isfinite(row)])})"
            for term, row, mean, count in zip(comparison.terms, table, means, counts, strict=True)
        )
        if shared.sum() >= 2:
            values = np.array([math.fsum(weights * column) for column in table[:, shared].T])
            seeds = [int(seed) for seed in self._values.columns[shared]]
            method = self._settings.method.of(len(seeds))
            sample = Sample(
                values=values, pick=self._settings.picks,
                reselected=self._reselect(comparison.terms, seeds) if method.is_resampled else None,
                known_covariance=self._between_seeds(comparison.terms, seeds),
                freedom=self._freedom(comparison.terms, seeds),
            )  # fmt: skip
            estimate, test = method.need_paired().estimate(sample)
            found = contrast_finding(comparison, estimate, test=test, inputs=inputs, seeds=(len(seeds),))
            return replace(found, estimate=estimate) if self._keep else found
        if counts.min() < 2:
            fewest = comparison.terms[int(counts.argmin())]
            return Finding(
                comparison=comparison, missing=f"only one seed of {_names([fewest])}", inputs=inputs
            )
        independent = self._settings.method.independent
        if independent is None:
            return Finding(comparison=comparison, missing="no two seeds that all models share", inputs=inputs)
        errors = np.nanstd(table, axis=1, ddof=1) / np.sqrt(counts)
        welch = independent.estimate(welch_estimate(means, errors, counts.astype(np.float64), weights))
        seen = tuple(int(count) for count in counts)
        return contrast_finding(
            comparison, welch, test="Welch (no seeds in common)", inputs=inputs, seeds=seen
        )

    def _reselect(self, terms: Sequence[Term], seeds: Sequence[int]) -> Array | None:
        """Return the contrast of resampled seeds at the rates that they choose, or None where rates are fixed."""
        total = np.zeros(())
        picks = self._settings.seed_resamples(len(seeds)).picks
        for term in terms:
            scores = self._reselection.scores(term.cell, seeds, picks)
            if scores is None:
                return None
            total = total + term.weight * scores
        return total

    def _between_seeds(self, terms: Sequence[Term], seeds: Sequence[int]) -> Array | None:
        """Return the covariance of the contrast between seeds, (n_seeds, n_seeds), or None without instances."""
        if self._covariance is None:
            return None
        return self._covariance.between_seeds(self._parts(terms), seeds)

    def _freedom(self, terms: Sequence[Term], seeds: Sequence[int]) -> float:
        """Return the degrees of freedom of that covariance."""
        return math.inf if self._covariance is None else self._covariance.freedom(self._parts(terms), seeds)

    def _parts(self, terms: Sequence[Term]) -> list[tuple[float, str, str]]:
        """Return the weights, models and datasets of terms, averages apart into their datasets."""
        parts = []
        for term in terms:
            names = averaged_datasets(self._runs, term.task) if term.dataset == AVERAGE else (term.dataset,)
            parts += [(term.weight / len(names), term.model, name) for name in names]
        return parts

    def _spread(self, comparison: Spread) -> Finding:
        groups = []
        for models in (comparison.narrow, comparison.wide):
            group = self._conditions(comparison, models)
            if isinstance(group, str):
                return Finding(comparison=comparison, missing=group)
            groups.append(group)
        narrow, wide = groups
        seeds = narrow.columns.intersection(wide.columns)
        first, second = narrow[seeds].to_numpy(), wide[seeds].to_numpy()
        complete = np.isfinite(first).all(axis=0) & np.isfinite(second).all(axis=0)
        if complete.sum() < 2:
            return Finding(comparison=comparison, missing="fewer than two seeds that have every condition")
        first, second = first[:, complete], second[:, complete]
        count = int(complete.sum())
        resamples = self._settings.seed_resamples(count)
        spreads = [float(group.std(ddof=1)) for group in (first, second)]
        if 0.0 in spreads:
            return Finding(comparison=comparison, missing="a group whose scores are all alike")
        logs = spread_ratios(first, second, resamples.picks)
        ratio = spreads[0] / spreads[1]
        finite = np.isfinite(logs)
        draws = Resampled.of(float(np.log(ratio)), logs[finite], resamples.counts[finite])
        equal = brown_forsythe(first, second)
        boot_for, boot_against = region_p(draws, -np.inf, 0.0)
        low, high = np.exp(draws.interval())
        inner_low, inner_high = np.exp(draws.interval(0.90))
        return Finding(
            comparison=comparison, effect=ratio, low=float(low), high=float(high),
            inner_low=float(inner_low), inner_high=float(inner_high),
            p_for=max(equal, boot_for) if ratio < 1 else 1.0,
            p_against=max(equal, boot_against) if ratio > 1 else 1.0,
            p_zero=equal, seeds=(count,),
            test="Brown-Forsythe and bootstrap of the ratio over seeds, the larger p of the two",
            inputs=tuple(
                f"{', '.join(models)} {comparison.task} {comparison.dataset}: sd {spread:.4f} over {len(group)} "
                f"conditions x {count} seeds"
                for models, spread, group in zip(
                    (comparison.narrow, comparison.wide), spreads, (first, second), strict=True
                )
            ),
        )  # fmt: skip

    def _conditions(self, comparison: Spread, models: tuple[str, ...]) -> pd.DataFrame | str:
        """Return task averages with conditions as rows and seeds as columns, or why there are none."""
        if not comparison.learning_rates:
            keys = [(model, comparison.task, comparison.dataset) for model in models]
            absent = [model for model, key in zip(models, keys, strict=True) if key not in self._rows]
            if absent:
                return f"no runs of {', '.join(absent)}"
            places = [self._rows[key] for key in keys]
            return pd.DataFrame(self._matrix[places], columns=self._values.columns)
        rows = self._runs[
            self._runs["model"].isin(models)
            & (self._runs["task"] == comparison.task)
            & self._runs["lr"].isin(comparison.learning_rates)
        ]
        rates = list(comparison.learning_rates)
        single = comparison.dataset != AVERAGE
        names = (comparison.dataset,) if single else averaged_datasets(self._runs, comparison.task)
        parts = []
        for name in names:
            one = rows[rows["dataset"] == name]
            part = one.pivot(index="lr", columns="seed", values="test_score") * 100
            if any(rate not in part.index for rate in rates):
                return f"runs of {', '.join(models)} at some learning rate of {name} are missing"
            parts.append(part.loc[rates])
        return reduce(operator.add, parts) / len(parts)


def contrast_finding(
    comparison: Contrast, estimate: Estimate, *, test: str, inputs: tuple[str, ...], seeds: tuple[int, ...]
) -> Finding:
    """Return the finding of an estimated contrast."""
    p_for, p_against = region_p(estimate, comparison.low, comparison.high)
    low, high = estimate.interval()
    inner_low, inner_high = estimate.interval(0.90)
    return Finding(
        comparison=comparison, effect=estimate.effect, low=low, high=high, inner_low=inner_low, inner_high=inner_high,
        p_for=p_for, p_against=p_against,
        p_zero=min(1.0, 2 * min(estimate.p_above(0.0), estimate.p_below(0.0))),
        df=getattr(estimate, "df", float("nan")), error=getattr(estimate, "error", float("nan")),
        seeds=seeds if len(set(seeds)) > 1 else seeds[:1], test=test, inputs=inputs,
        instance_share=getattr(estimate, "instance_share", 0.0),
    )  # fmt: skip


def _names(terms: Sequence[Term]) -> str:
    return ", ".join(dict.fromkeys(f"{term.model} on {term.task} {term.dataset}" for term in terms))
