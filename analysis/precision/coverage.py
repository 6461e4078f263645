"""How often does a nominal 95 % interval of a five-seed cell hold the truth? A simulation with observed variances.

A run's score is  m + b + a_k + e_k:  m the model's mean over all seeds and test sets, b what the test set at hand
adds for all seeds alike, a_k the seed's own effect, e_k what seed and test set add together. Two truths can be
meant: m + b (these test instances, any seed) and m (any instances, any seed).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from analysis.evidence.cells import SMALLEST_HALF_WIDTH
from analysis.evidence.evidence import Evidence, Settings, level_of
from analysis.evidence.intervals import INTERVALS
from analysis.published_cells import N_SEEDS, NORMAL_QUANTILE, TEST_INSTANCES, published_values
from analysis.sources import Source
from analysis.statistics.crossed import covariance_of_means, crossed_estimate
from analysis.statistics.estimates import LEVEL
from analysis.statistics.learning_rate_selection import select_runs
from benchmarks.protocol import AVERAGE, DATASETS, Dataset, is_paired, title_of
from common.errors import UserError
from common.progress import progress
from common.tables import Document, Grid

__all__ = [
    "KINDS", "Cells", "coverage_document", "holding", "observed_cells", "published_cells_of", "seed_bounds", "simulate",
    "simulate_dataset",
]  # fmt: skip

COVERAGE_TRIALS = 2_000
"""Simulated cells of a dataset by default."""
COVERAGE_RESAMPLES = 1_000
"""Resamples of each bootstrap in them."""


Array = npt.NDArray[np.float64]

KINDS = INTERVALS
"""The intervals simulated."""

TARGETS = {
    "seeds": "The mean over seeds on these test instances:",
    "seeds and instances": "The mean over seeds and test instances:",
}
"""The two truths: with these test instances, and with any."""

COMMON_SHARE = 0.7
"""Assumed for published cells: the share of a run's variance over test instances that all seeds have in common."""

SOURCE_CELLS = 46
"""Simulated cells that are one source, as many as the released runs have of a dataset."""
_ROUNDING = 1e-9
"""Points. Where all seeds agree an interval is one value, and its last digit must not decide whether it covers."""


@dataclass(frozen=True, kw_only=True)
class Cells:
    """The variances of a dataset's cells, in points."""

    dataset: str
    instances: int
    """Test instances."""
    seed_sd: Array
    """(n_cells,) standard deviation over seeds, as seen: of a_k + e_k."""
    common_sd: Array
    """(n_cells,) standard deviation of b."""
    joint_sd: Array
    """(n_cells,) standard deviation of e_k; at most `seed_sd`."""
    shape: Array
    """Standardised deviations of seeds to draw from; empty for normal ones."""


def published_cells_of(dataset: str, common_share: float = COMMON_SHARE) -> Cells:
    """Return the variances of the published cells; those over instances are bounds for scores in [0, 1].

    A score of mean p in [0, 1] varies by p (1 - p) at most from instance to instance, exactly so when it is 0 or
    1. `common_share` of that is put to b and the rest to e_k, as far as the spread over seeds allows; NQ's test
    set is drawn again for each run, so there nothing is common.
    """
    cells = published_values()
    rows = cells[cells["dataset"] == dataset]
    count = TEST_INSTANCES[dataset]
    seed_sd = np.maximum(rows["ci95"].to_numpy(), SMALLEST_HALF_WIDTH) / NORMAL_QUANTILE * math.sqrt(N_SEEDS)
    common, joint = _most_instance_sds(rows["mean"].to_numpy() / 100, count, dataset, common_share)
    return Cells(
        dataset=dataset, instances=count, seed_sd=seed_sd, common_sd=common, joint_sd=np.minimum(joint, seed_sd),
        shape=np.empty(0),
    )  # fmt: skip


def _most_instance_sds(mean: Array, count: int, dataset: str, share: float) -> tuple[Array, Array]:
    """Return the bounds of the standard deviations of b and e_k, in points, for scores of `mean` in [0, 1]."""
    share = share if is_paired(dataset) else 0.0
    whole = 1e4 * mean * (1 - mean) / count
    return np.sqrt(share * whole), np.sqrt((1 - share) * whole)


def observed_cells(source: Source, dataset: str, selection: str = "seed") -> Cells | None:
    """Return the variances of a dataset's cells in runs, or None when fewer than two seeds of any are there.

    With instances, b and e_k come from the covariances between seeds over instances; without, or with a single
    one, as for published cells from the scores' bounds.
    """
    chosen = select_runs(source.need_runs("observed variances"), selection)
    rows = chosen[chosen["dataset"] == dataset]
    wide = rows.pivot(index="model", columns="seed", values="test_score") * 100
    wide = wide[wide.notna().sum(axis=1) >= 2]
    if wide.empty:
        return None
    seed_sd = wide.std(axis=1, ddof=1).to_numpy()
    centred = wide.sub(wide.mean(axis=1), axis=0)
    counts = wide.notna().sum(axis=1)
    spread = wide.std(axis=1, ddof=1) * np.sqrt((counts - 1) / counts)
    standardised = centred.div(spread.where(spread > 0), axis=0).to_numpy().ravel()
    known = rows["n_test"].dropna()
    count = int(known.median()) if len(known) else TEST_INSTANCES[dataset]
    if source.instances is not None and count > 1:
        common, joint = _instance_sds(source, rows, list(wide.index), dataset)
        common *= is_paired(dataset)
    else:
        mean = (wide.mean(axis=1) / 100).to_numpy()
        common, joint = _most_instance_sds(mean, count, dataset, COMMON_SHARE)
    return Cells(
        dataset=dataset, instances=count, seed_sd=seed_sd, common_sd=common, joint_sd=np.minimum(joint, seed_sd),
        shape=np.sort(standardised[np.isfinite(standardised)]),
    )  # fmt: skip


def _instance_sds(source: Source, rows: pd.DataFrame, models: list[str], dataset: str) -> tuple[Array, Array]:
    from analysis.store.instances import read_instances

    assert source.instances is not None
    common, joint = np.zeros(len(models)), np.zeros(len(models))
    for place, model in enumerate(models):
        scores = 100 * read_instances(source.instances, dataset, rows[rows["model"] == model])
        covariance = covariance_of_means(scores)
        size = len(covariance)
        own = float(np.trace(covariance)) / size
        shared = (float(covariance.sum()) - own * size) / (size * (size - 1))
        common[place], joint[place] = math.sqrt(max(0.0, shared)), math.sqrt(max(0.0, own - shared))
    return common, joint


def simulate_dataset(
    cells: Cells, *, trials: int, resamples: int, rng: np.random.Generator, n_seeds: int = N_SEEDS
) -> dict[tuple[str, str], float]:
    """Return the share of simulated cells whose interval holds the truth, by (kind, target).

    Trial j has the variances of cell j mod n_cells; `SOURCE_CELLS` of them make a source, whose cells are read together
    as those of runs are. The covariance between seeds over instances is as noisy as an estimate from so many instances.

    Args:
        cells: the variances.
        trials: simulated cells.
        resamples: of each bootstrap.
        rng: source of all draws.
        n_seeds: seeds of a cell.
    """
    place = np.arange(trials) % len(cells.seed_sd)
    truth_here = rng.normal(size=trials) * cells.common_sd[place]
    values = truth_here[:, None] + _deviations(cells, (trials, n_seeds), rng) * cells.seed_sd[place, None]
    hits = dict.fromkeys(((kind, target) for kind in KINDS for target in TARGETS), 0)
    for kind in KINDS:
        if INTERVALS[kind].needs_instances:
            bounds = _crossed_bounds(values, cells, place, rng)
        else:
            bounds = seed_bounds(values, kind, resamples)[0]
        for target, truth in zip(TARGETS, (truth_here, np.zeros(trials)), strict=True):
            hits[kind, target] += holding(bounds, truth)
    return {key: count / trials for key, count in hits.items()}


def seed_bounds(values: Array, kind: str, resamples: int) -> tuple[Array, list[str]]:
    """Return the intervals of simulated cells by the engine that reads runs.

    Args:
        values: (n_cells, n_seeds) scores; every `SOURCE_CELLS` of them are one source.
        kind: of the interval, one that needs no instances.
        resamples: of a bootstrap.

    Returns:
        (n_cells, 2) bounds, and the kind that was used for each.
    """
    bounds, used = [], []
    for start in range(0, len(values), SOURCE_CELLS):
        part = values[start : start + SOURCE_CELLS]
        keys = [(str(row), "SC", "simulated") for row in range(len(part))]
        index = pd.MultiIndex.from_tuples(keys, names=["model", "task", "dataset"])
        settings = Settings(interval=kind, resamples=resamples, seed=start)
        evidence = Evidence(settings, values=pd.DataFrame(part, index=index))
        found = [evidence.estimate(level_of(key)) for key in keys]
        bounds += [one.estimate.interval() for one in found if one is not None]
        used += [one.interval for one in found if one is not None]
    return np.array(bounds), used


def holding(bounds: Array, truth: Array) -> int:
    """Return how many of (n, 2) bounds hold their truth."""
    low, high = bounds.T
    return int(((low - _ROUNDING <= truth) & (truth <= high + _ROUNDING)).sum())


def _deviations(cells: Cells, size: tuple[int, int], rng: np.random.Generator) -> Array:
    return rng.normal(size=size) if not len(cells.shape) else rng.choice(cells.shape, size=size)


def _crossed_bounds(
    values: Array, cells: Cells, place: npt.NDArray[np.intp], rng: np.random.Generator
) -> Array:
    """Return (n_cells, 2) intervals over seeds and instances, the covariance between seeds Wishart's."""
    n_seeds = values.shape[1]
    freedom = max(cells.instances - 1, n_seeds)
    bounds = []
    for row, scores in zip(place, values, strict=True):
        scale = np.full((n_seeds, n_seeds), cells.common_sd[row] ** 2)
        scale += np.eye(n_seeds) * (cells.joint_sd[row] ** 2 + 1e-12)
        drawn = np.asarray(stats.wishart.rvs(freedom, scale / freedom, random_state=rng))
        bounds.append(crossed_estimate(scores, drawn, freedom).interval())
    return np.array(bounds)


def simulate(
    source: Source, *, trials: int, resamples: int, seed: int, selection: str = "seed"
) -> pd.DataFrame:
    """Return the coverage of every interval on every dataset of a source.

    Returns:
        Columns `dataset, n_cells, n_test, seed_sd` (median over cells, points), `instance_sd` (median of the test
        set's own effect), `target`, and one for each of `KINDS` (0 to 1); a last block `average` over datasets.

    Raises:
        UserError: the source has no cell with two seeds, or cannot give the selection rule.
    """
    source.need_selection(selection)
    rows: list[dict[str, object]] = []
    for rank, dataset in enumerate(progress(source.datasets, "coverage", unit="dataset")):
        published = source.is_published
        cells = published_cells_of(dataset) if published else observed_cells(source, dataset, selection)
        if cells is None:
            continue
        rng = np.random.default_rng([seed, rank])
        shares = simulate_dataset(cells, trials=trials, resamples=resamples, rng=rng)
        sds = {
            "seed_sd": float(np.median(cells.seed_sd)), "instance_sd": float(np.median(cells.common_sd)),
        }  # fmt: skip
        rows += [
            {
                "dataset": cells.dataset, "target": target, "n_cells": len(cells.seed_sd), "n_test": cells.instances,
                **sds, **{kind: shares[kind, target] for kind in KINDS},
            }
            for target in TARGETS
        ]  # fmt: skip
    if not rows:
        raise UserError(
            f"{source.label}: no model was fine-tuned with two seeds on any dataset, so no variance can be estimated"
        )
    frame = pd.DataFrame(rows)
    means = frame.groupby("target", sort=False)[list(KINDS)].mean().reset_index()
    return pd.concat([frame, means.assign(dataset=AVERAGE)], ignore_index=True)[list(frame.columns)]


def coverage_document(
    frame: pd.DataFrame, trials: int, source: str, datasets: Mapping[str, Dataset] = DATASETS
) -> Document:
    """Return the coverages of `simulate` as two tables, one per target, in percent; `source` is the variances'."""
    error = (LEVEL * (1 - LEVEL) / trials) ** 0.5
    body: list[str | Grid] = [
        f"Coverage in % of nominal 95 % intervals of five-seed cells, variances from {source}; "
        f"{trials} trials per dataset (standard error {100 * error:.1f}).",
    ]
    for target in TARGETS:
        part = frame[frame["target"] == target]
        rows = [["dataset", "test set", "sd seeds", "sd test set", *KINDS]]
        for row in part.to_dict("records"):
            single = row["dataset"] != AVERAGE
            rows.append(
                [
                    title_of(row["dataset"], datasets) if single else "mean",
                    f"{int(row['n_test'])}" if single else "",
                    f"{row['seed_sd']:.2f}" if single else "",
                    f"{row['instance_sd']:.2f}" if single else "",
                    *(f"{100 * row[kind]:.1f}" for kind in KINDS),
                ]
            )
        body += ["", TARGETS[target], "", Grid(rows)]
    return Document(body=body, records=frame, digits="%.6g")
