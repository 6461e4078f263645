"""How often does a nominal 95 % interval hold the truth? Simulations of cells whose truth is known.

    python -m tests.speed.interval_coverage --trials 23000 --out analysis/data/interval_coverage.csv

writes again the file that captions and the figure `coverage` read: cells of 2 to 20 seeds from distributions of several
shapes.

    python -m tests.speed.interval_coverage cells --trials 9200

prints the coverage of five-seed cells and their differences in sources of 4 to 46 cells, of more shapes.

    python -m tests.speed.interval_coverage published

prints the coverage of five-seed cells with the variances of the printed ones. A run's score is  m + b + a_k + e_k:  m
the model's mean over all seeds and test sets, b what the test set at hand adds for all seeds alike, a_k the seed's own
effect, e_k what seed and test set add together. Two truths can be meant: m + b (these test instances, any seed) and m
(any instances, any seed).
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from analysis.evidence.cells import SMALLEST_HALF_WIDTH
from analysis.evidence.contrasts import Cell, Term
from analysis.evidence.evidence import Evidence
from analysis.evidence.intervals import INTERVALS, POOLED, SOURCE_CELLS, T
from analysis.evidence.pooled import FEWEST_CELLS, FEWEST_SEEDS
from analysis.evidence.settings import DEFAULT_SEED, Settings
from analysis.published_cells import (
    N_SEEDS,
    NORMAL_QUANTILE,
    TEST_INSTANCES,
    published_values,
)
from analysis.statistics.crossed import crossed_estimate
from benchmarks.protocol import AVERAGE, DATASETS, is_paired
from common.progress import progress
from common.provenance import ROOT

Array = npt.NDArray[np.float64]
Draw = Callable[[tuple[int, int], np.random.Generator], Array]
"""From (n_cells, n_seeds) and a generator to deviations from the mean over all seeds, in any unit; their mean is 0."""

SEED_COUNTS = (2, 3, 4, 5, 6, 7, 8, 10, 15, 20)
FEWER_CELLS = (FEWEST_CELLS, 6, 10)
"""Cells of a source besides `SOURCE_CELLS` that the pooled bootstrap is simulated with."""
RESAMPLES = 1_000
OVER_SEEDS = tuple(name for name, one in INTERVALS.items() if not one.needs_instances)
CROSSED = tuple(name for name, one in INTERVALS.items() if one.needs_instances)
TARGETS = "seeds", "seeds and instances"
"""The two truths: with these test instances, and with any."""

_ROUNDING = 1e-9
"""Points. Where all seeds agree an interval is one value, and its last digit must not decide whether it covers."""
_RELEASED = ROOT / "tests" / "data" / "released_sst2_610m-mlm40-42k.csv"
_COLLAPSING, _FALL = 0.1, (5.0, 10.0)
"""Share of the seeds that collapse, and by how many standard deviations."""
_MIXED = 0.3
"""Share of the seeds that collapse in the cells of `_mixed` that do."""
_SKEW = 0.7
"""Sd of the logarithm in `_lognormal`."""
_QUERIES, _UNSETTLED, _FALLS = 43, 8, 0.3
"""Queries of a test set, those that drop from rank 1 to 2 in some seeds, and in what share of them."""
_SECOND = 1 / np.log2(3)
"""NDCG of a query whose passage is second; first: 1."""


def _sst2(size: tuple[int, int], rng: np.random.Generator) -> Array:
    """Return draws from the deviations of the released runs within each learning rate, each rate of unit variance."""
    runs = pd.read_csv(_RELEASED).pivot(index="lr", columns="seed", values="test_score")
    counts = (runs.to_numpy() * TEST_INSTANCES["sst2"]).round()
    centred = counts - counts.mean(axis=1, keepdims=True)
    pool = (centred / np.sqrt((centred**2).mean(axis=1, keepdims=True))).ravel()
    return rng.choice(pool, size=size)


def _collapse(size: tuple[int, int], rng: np.random.Generator) -> Array:
    falls = np.where(
        rng.random(size) < _COLLAPSING, rng.uniform(*_FALL, size=size), 0.0
    )
    return rng.normal(size=size) - falls + _COLLAPSING * sum(_FALL) / 2


def _queries(size: tuple[int, int], rng: np.random.Generator) -> Array:
    second = rng.binomial(_UNSETTLED, _FALLS, size=size)
    lost: Array = (_UNSETTLED * _FALLS - second) * (1 - _SECOND) / _QUERIES
    return lost


def _lognormal(size: tuple[int, int], rng: np.random.Generator) -> Array:
    deviations: Array = np.exp(_SKEW**2 / 2) - rng.lognormal(sigma=_SKEW, size=size)
    return deviations


def _mixed(size: tuple[int, int], rng: np.random.Generator) -> Array:
    """Return draws of one source: in three seeds of ten an eighth of its cells collapse, and no other does."""
    values = rng.normal(size=size)
    few = max(1, size[0] // 8)
    fallen = rng.random((few, size[1])) < _MIXED
    values[:few] += _MIXED * sum(_FALL) / 2 - fallen * rng.uniform(
        *_FALL, size=fallen.shape
    )
    return values


SHAPES: dict[str, Draw] = {
    "normal": lambda size, rng: rng.normal(size=size),
    "t3": lambda size, rng: rng.standard_t(3, size),
    "sst2": _sst2,
    "collapse": _collapse,
    "queries": _queries,
}


@dataclass(frozen=True, kw_only=True)
class Variances:
    """Standard deviations of the cells of a dataset, in points, each (n_cells,)."""

    instances: int
    """Test instances."""
    seeds: Array
    """Over seeds, as seen: of a_k + e_k."""
    common: Array
    """Of b."""
    joint: Array
    """Of e_k; at most that over seeds."""


def published_variances(dataset: str, common_share: float = 0.7) -> Variances:
    """Return the variances of the printed cells; those over instances are bounds for scores in [0, 1].

    A score of mean p in [0, 1] varies by p (1 - p) at most from instance to instance, exactly so when it is 0 or
    1. `common_share` of that is put to b and the rest to e_k, as far as the spread over seeds allows; NQ's test
    set is drawn again for each run, so there nothing is common.
    """
    cells = published_values()
    rows = cells[cells["dataset"] == dataset]
    count, mean = TEST_INSTANCES[dataset], rows["mean"].to_numpy() / 100
    seeds = (
        np.maximum(rows["ci95"].to_numpy(), SMALLEST_HALF_WIDTH)
        / NORMAL_QUANTILE
        * N_SEEDS**0.5
    )
    share = common_share if is_paired(dataset) else 0.0
    whole = 1e4 * mean * (1 - mean) / count
    joint = np.minimum(np.sqrt((1 - share) * whole), seeds)
    return Variances(
        instances=count, seeds=seeds, common=np.sqrt(share * whole), joint=joint
    )


def simulate_cells(
    cells: Variances,
    kinds: Iterable[str],
    *,
    trials: int,
    resamples: int,
    rng: np.random.Generator,
    n_seeds: int = N_SEEDS,
) -> dict[tuple[str, str], float]:
    """Return the share of simulated cells whose interval holds the truth, by (kind, target); seeds are normal.

    Trial j has the variances of cell j mod n_cells. The covariance between seeds over instances is as noisy as an
    estimate from so many instances.
    """
    place = np.arange(trials) % len(cells.seeds)
    truth_here = rng.normal(size=trials) * cells.common[place]
    values = (
        truth_here[:, None]
        + rng.normal(size=(trials, n_seeds)) * cells.seeds[place, None]
    )
    shares = {}
    for kind in kinds:
        crossed = kind in CROSSED
        bounds = (
            _crossed_bounds(values, cells, place, rng)
            if crossed
            else seed_bounds(values, kind, resamples)[0]
        )
        for target, truth in zip(TARGETS, (truth_here, np.zeros(trials)), strict=True):
            shares[kind, target] = holding(bounds, truth)
    return shares


def seed_bounds(
    values: Array,
    kind: str,
    resamples: int,
    n_cells: int = SOURCE_CELLS,
    *,
    differences: bool = False,
) -> tuple[Array, str]:
    """Return the intervals of simulated cells by the engine that reads runs.

    Args:
        values: (n_cells, n_seeds) scores; every `n_cells` of them are one source.
        kind: of the interval, one that needs no instances.
        resamples: of a bootstrap.
        n_cells: of a source.
        differences: of each cell and the next one of its source, in place of the cells' own.

    Returns:
        (n_cells, 2) bounds, and the kind that was used in place of this one with so few seeds.
    """
    bounds, used = [], ""
    for start in range(0, len(values), n_cells):
        part = values[start : start + n_cells]
        keys, index = _simulated(len(part))
        settings = Settings(interval=kind, resamples=resamples, seed=start)
        evidence = Evidence(settings, values=pd.DataFrame(part, index=index))
        asked = [[_term(1.0, key)] for key in keys]
        if differences:
            pairs = zip(keys[::2], keys[1::2], strict=False)
            asked = [[_term(1.0, one), _term(-1.0, other)] for one, other in pairs]
        found = [one for one in map(evidence.estimate, asked) if one is not None]
        bounds += [one.estimate.interval() for one in found]
        used = used or found[0].interval
    return np.array(bounds), used


@cache
def _simulated(count: int) -> tuple[list[Cell], pd.MultiIndex]:
    """Return the cells of a source, as a list and as the index of their scores."""
    keys = [(str(row), "SC", "simulated") for row in range(count)]
    return keys, pd.MultiIndex.from_tuples(keys, names=["model", "task", "dataset"])


def _term(weight: float, cell: Cell) -> Term:
    model, task, dataset = cell
    return Term(weight=weight, model=model, task=task, dataset=dataset)


def holding(bounds: Array, truth: Array | float) -> float:
    """Return the share of (n, 2) bounds that hold their truth."""
    low, high = bounds.T
    return int(((low - _ROUNDING <= truth) & (truth <= high + _ROUNDING)).sum()) / len(
        bounds
    )


def _crossed_bounds(
    values: Array,
    cells: Variances,
    place: npt.NDArray[np.intp],
    rng: np.random.Generator,
) -> Array:
    """Return (n_cells, 2) intervals over seeds and instances, the covariance between seeds Wishart's."""
    n_seeds = values.shape[1]
    freedom = max(cells.instances - 1, n_seeds)
    bounds = []
    for row, scores in zip(place, values, strict=True):
        scale = np.full((n_seeds, n_seeds), cells.common[row] ** 2)
        scale += np.eye(n_seeds) * (cells.joint[row] ** 2 + 1e-12)
        drawn = np.asarray(
            stats.wishart.rvs(freedom, scale / freedom, random_state=rng)
        )
        bounds.append(crossed_estimate(scores, drawn, freedom).interval())
    return np.array(bounds)


def of_shape(
    name: str, count: int, trials: int, resamples: int
) -> Iterator[dict[str, object]]:
    """Yield a row for each interval over seeds of `trials` cells: coverage of the mean over seeds, widths over t's.

    Of sources with fewer cells a fifth of the trials is enough.
    """
    rank = list(SHAPES).index(name) * len(SEED_COUNTS) + SEED_COUNTS.index(count)
    values = SHAPES[name]((trials, count), np.random.default_rng([DEFAULT_SEED, rank]))
    of_student = seed_bounds(values, T.name, resamples)
    student = np.ptp(of_student[0], axis=1)
    asked = [(kind, SOURCE_CELLS) for kind in OVER_SEEDS]
    asked += [
        (POOLED.name, cells)
        for cells in FEWER_CELLS
        if count >= FEWEST_SEEDS and POOLED.name in OVER_SEEDS
    ]
    for kind, cells in asked:
        few = len(values) if cells == SOURCE_CELLS else trials // 5 // cells * cells
        bounds, used = (
            of_student
            if kind == T.name
            else seed_bounds(values[:few], kind, resamples, cells)
        )
        widths = np.ptp(bounds, axis=1)
        yield {
            "shape": name,
            "n_seeds": count,
            "n_cells": cells,
            "interval": kind,
            "used": used,
            "coverage": holding(bounds, 0.0),
            "width": float(np.median(widths) / np.median(student[:few])),
            "mean_width": float(widths.mean() / student[:few].mean()),
        }


def with_instances(
    count: int, trials: int, resamples: int
) -> Iterator[dict[str, object]]:
    """Yield the coverage over seeds and instances, where half of the variance of both is the test set's."""
    rng = np.random.default_rng(
        [DEFAULT_SEED, len(SHAPES) * len(SEED_COUNTS) + SEED_COUNTS.index(count)]
    )
    one = np.ones(1)
    cells = Variances(instances=1_000, seeds=one, common=one, joint=one / 2)
    shares = simulate_cells(
        cells, CROSSED, trials=trials, resamples=resamples, rng=rng, n_seeds=count
    )
    for kind in CROSSED:
        yield {
            "shape": "normal",
            "n_seeds": count,
            "n_cells": SOURCE_CELLS,
            "interval": kind,
            "used": kind,
            "coverage": shares[kind, TARGETS[1]],
            "width": np.nan,
            "mean_width": np.nan,
        }


def by_shape(trials: int, resamples: int = RESAMPLES) -> pd.DataFrame:
    """Return the coverage of every interval by shape and number of seeds: the shipped file."""
    plan = [(name, count) for name in SHAPES for count in SEED_COUNTS]
    rows = [
        row
        for one in progress(plan, "shapes")
        for row in of_shape(*one, trials, resamples)
    ]
    rows += [
        row
        for count in progress(SEED_COUNTS, "instances")
        for row in with_instances(count, trials, resamples)
    ]
    return pd.DataFrame(rows)


def published(trials: int, resamples: int = RESAMPLES) -> pd.DataFrame:
    """Return the coverage of every interval of five-seed cells with the printed variances, by dataset; their mean."""
    rows: list[dict[str, object]] = []
    for rank, dataset in enumerate(progress(DATASETS, "datasets")):
        rng, cells = (
            np.random.default_rng([DEFAULT_SEED, rank]),
            published_variances(dataset),
        )
        shares = simulate_cells(
            cells, INTERVALS, trials=trials, resamples=resamples, rng=rng
        )
        rows += [
            {
                "dataset": dataset,
                "target": target,
                **{kind: shares[kind, target] for kind in INTERVALS},
            }
            for target in TARGETS
        ]
    frame = pd.DataFrame(rows)
    means = frame.groupby("target", sort=False)[list(INTERVALS)].mean().reset_index()
    return pd.concat([frame, means.assign(dataset=AVERAGE)], ignore_index=True)[
        list(frame.columns)
    ]


def by_cells(
    trials: int, resamples: int = RESAMPLES, only: Iterable[str] = ()
) -> pd.DataFrame:
    """Return the coverage of five-seed cells and of their differences by shape and number of a source's cells.

    Of all shapes, or `only` of those named.

    In `mixed`, an eighth of a source's cells, one at least, collapse in three seeds of ten and the others are normal;
    `affected` is the coverage of those.
    """
    shapes = {**SHAPES, "lognormal": _lognormal, "mixed": _mixed}
    rows = []
    for rank, (name, draw) in enumerate(
        progress(shapes.items(), "shapes", total=len(shapes))
    ):
        if only and name not in only:
            continue
        for cells in (FEWEST_CELLS - 1, *FEWER_CELLS, SOURCE_CELLS):
            rng = np.random.default_rng([DEFAULT_SEED, rank, cells])
            values = np.concatenate(
                [draw((cells, N_SEEDS), rng) for _ in range(trials // cells)]
            )
            row: dict[str, object] = {"shape": name, "n_cells": cells}
            few = np.arange(len(values)) % cells < max(1, cells // 8)
            widths = {}
            for kind in (T.name, POOLED.name):
                bounds, _ = seed_bounds(values, kind, resamples, cells)
                apart, _ = seed_bounds(values, kind, resamples, cells, differences=True)
                row |= {
                    kind: holding(bounds, 0.0),
                    f"{kind}_difference": holding(apart, 0.0),
                }
                row[f"{kind}_affected"] = (
                    holding(bounds[few], 0.0) if name == "mixed" else np.nan
                )
                widths[kind] = float(np.median(np.ptp(bounds, axis=1)))
            rows.append({**row, "width": widths[POOLED.name] / widths[T.name]})
    return pd.DataFrame(rows)


SIMULATIONS = {"shapes": by_shape, "cells": by_cells, "published": published}


def main() -> None:
    """Write the table of one simulation as CSV."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("of", nargs="?", default="shapes", choices=SIMULATIONS)
    parser.add_argument(
        "--trials", type=int, default=2_000, help="cells of each shape or dataset"
    )
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    text = SIMULATIONS[options.of](options.trials).to_csv(
        index=False, float_format="%.6g"
    )
    if options.out is None:
        sys.stdout.write(text)
    else:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
