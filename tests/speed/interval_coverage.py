"""Coverage by the shape of the seeds' scores: a simulation in which normal seeds are one case among several.

    clm-or-mlm coverage --shapes

The variances of published cells say nothing about shapes. Here cells of 2 to 20 seeds are drawn from shapes with a
known mean, and every interval is asked how often it holds that mean, and how wide it is next to Student's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.evidence.intervals import INTERVALS, T
from analysis.precision.coverage import Cells, holding, seed_bounds, simulate_dataset
from analysis.statistics.estimates import LEVEL
from common.progress import progress
from common.registry import Registry
from common.tables import Document, Grid

__all__ = ["SEED_COUNTS", "SHAPES", "SHAPE_TRIALS", "Shape", "shapes_document", "simulate_shapes"]

Array = npt.NDArray[np.float64]

SEED_COUNTS = (2, 3, 4, 5, 6, 7, 8, 10, 15, 20)
"""Seeds of the simulated cells."""
SHAPE_TRIALS = 2_300
"""Simulated cells of each shape and number of seeds by default."""

_COMMON = 0.5
"""Share of the variance of a cell's seeds and test set together that all seeds have in common."""
_INSTANCES = 1_000


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A distribution of a seed's deviation from the mean over all seeds; its mean is 0."""

    name: str
    words: str
    draw: Callable[[tuple[int, int], np.random.Generator], Array]
    """From (n_cells, n_seeds) and a generator to deviations, in any unit."""


_SST2_CORRECT = (
    (664, 656, 652, 666, 642), (744, 737, 744, 744, 731), (787, 792, 789, 789, 787),
    (801, 797, 798, 803, 801), (718, 740, 730, 724, 743), (713, 722, 712, 709, 729),
)  # fmt: skip
"""Right answers of 872 in the released runs of 610m-mlm40-42k on SST-2: a row is a learning rate, a column a seed."""


def _sst2(size: tuple[int, int], rng: np.random.Generator) -> Array:
    """Return draws from the deviations of the released runs within each learning rate, each rate of unit variance."""
    counts = np.array(_SST2_CORRECT, dtype=np.float64)
    centred = counts - counts.mean(axis=1, keepdims=True)
    pool = (centred / np.sqrt((centred**2).mean(axis=1, keepdims=True))).ravel()
    return rng.choice(pool, size=size)


_COLLAPSING, _FALL = 0.1, (5.0, 10.0)


def _collapse(size: tuple[int, int], rng: np.random.Generator) -> Array:
    falls = np.where(rng.random(size) < _COLLAPSING, rng.uniform(*_FALL, size=size), 0.0)
    return rng.normal(size=size) - falls + _COLLAPSING * sum(_FALL) / 2


_QUERIES, _UNSETTLED, _FALLS = 43, 8, 0.3
_SECOND = 1 / np.log2(3)
"""NDCG of a query whose passage is second; first: 1."""


def _queries(size: tuple[int, int], rng: np.random.Generator) -> Array:
    second = rng.binomial(_UNSETTLED, _FALLS, size=size)
    lost: Array = (_UNSETTLED * _FALLS - second) * (1 - _SECOND) / _QUERIES
    return lost


SHAPES: Registry[Shape] = Registry(
    "shape of seeds",
    (
        Shape(name="normal", words="normally distributed", draw=lambda size, rng: rng.normal(size=size)),
        Shape(
            name="t3",
            words="Student's t with 3 degrees of freedom",
            draw=lambda size, rng: rng.standard_t(3, size),
        ),
        Shape(
            name="sst2",
            words="the released 30 runs of 610m-mlm40-42k on SST-2, standardised within their learning rate",
            draw=_sst2,
        ),
        Shape(
            name="collapse",
            words=f"normal, but {_COLLAPSING:.0%} of the seeds are {_FALL[0]:g} to {_FALL[1]:g} sd lower",
            draw=_collapse,
        ),
        Shape(
            name="queries",
            words=f"{_QUERIES} queries, of which {_UNSETTLED} drop from rank 1 to 2 in {_FALLS:.0%} of the seeds each",
            draw=_queries,
        ),
    ),
)
"""The shapes, in the order in which they are listed."""


def simulate_shapes(*, trials: int, resamples: int, seed: int) -> pd.DataFrame:
    """Return the coverage of every interval, by shape and number of seeds.

    Intervals over seeds are asked for the mean over seeds. Those over seeds and instances are asked, with normal seeds
    only, for the mean over both, where `_COMMON` of the variance is the test set's.

    Args:
        trials: simulated cells of each shape and number of seeds; the same for every interval.
        resamples: of a bootstrap over more seeds than are enumerated.
        seed: of the simulation.

    Returns:
        Columns `shape, n_seeds, interval, used` (what stands in for it with so few seeds), `coverage` (0 to 1), and
        `width` and `mean_width`: median and mean width over those of Student's interval; nan with instances.
    """
    rows: list[dict[str, object]] = []
    plan = [(shape, count) for shape in SHAPES.values() for count in SEED_COUNTS]
    for rank, (shape, count) in enumerate(progress(plan, "shapes", unit="cell size")):
        rng = np.random.default_rng([seed, rank])
        rows += _one(shape, count, trials, resamples, rng)
    for rank, count in enumerate(progress(SEED_COUNTS, "with test instances", unit="cell size")):
        rows += _with_instances(count, trials, resamples, np.random.default_rng([seed, len(plan) + rank]))
    return pd.DataFrame(rows)


def _with_instances(
    count: int, trials: int, resamples: int, rng: np.random.Generator
) -> Iterator[dict[str, object]]:
    one = np.ones(1)
    cells = Cells(
        dataset="", instances=_INSTANCES, seed_sd=one, common_sd=one * np.sqrt(_COMMON / (1 - _COMMON)),
        joint_sd=one / 2, shape=np.empty(0),
    )  # fmt: skip
    shares = simulate_dataset(cells, trials=trials, resamples=resamples, rng=rng, n_seeds=count)
    for name, interval in INTERVALS.items():
        if interval.needs_instances:
            yield {
                "shape": "normal", "n_seeds": count, "interval": name, "used": name,
                "coverage": shares[name, "seeds and instances"], "width": np.nan, "mean_width": np.nan,
            }  # fmt: skip


def _one(
    shape: Shape, count: int, trials: int, resamples: int, rng: np.random.Generator
) -> Iterator[dict[str, object]]:
    values = shape.draw((trials, count), rng)
    kinds = [name for name, one in INTERVALS.items() if not one.needs_instances]
    found = {name: seed_bounds(values, name, resamples) for name in kinds}
    student = np.ptp(found[T.name][0], axis=1)
    for name, (bounds, used) in found.items():
        widths = np.ptp(bounds, axis=1)
        yield {
            "shape": shape.name, "n_seeds": count, "interval": name, "used": used[0],
            "coverage": holding(bounds, np.zeros(trials)) / trials,
            "width": float(np.median(widths) / np.median(student)),
            "mean_width": float(widths.mean() / student.mean()),
        }  # fmt: skip


def shapes_document(frame: pd.DataFrame, trials: int) -> Document:
    """Return a table of the coverages of `simulate_shapes` for each shape, and one of widths for normal seeds."""
    error = (LEVEL * (1 - LEVEL) / trials) ** 0.5
    body: list[str | Grid] = [
        f"Coverage in % of nominal 95 % intervals over seeds; {trials:,} cells each (standard error "
        f"{100 * error:.1f}). In parentheses: too few seeds for this interval, so the value is that of its substitute."
    ]
    for name in dict.fromkeys(frame["shape"]):
        part = frame[(frame["shape"] == name) & frame["width"].notna()]
        body += ["", f"{name}: {SHAPES[name].words}.", "", Grid(_table_rows(part, _share))]
    part = frame[frame["width"].isna()]
    body += ["", "Intervals over seeds and test instances, normal seeds: the mean over both.", ""]
    body.append(Grid(_table_rows(part, _share)))
    part = frame[(frame["shape"] == "normal") & frame["width"].notna()]
    body += [
        "",
        "Median width relative to t, normal seeds; after the slash, mean width relative to t.",
        "",
    ]
    body.append(Grid(_table_rows(part, lambda row: f"{row['width']:.2f}/{row['mean_width']:.2f}")))
    return Document(body=body, records=frame, digits="%.6g")


def _table_rows(part: pd.DataFrame, text: Callable[[dict[str, object]], str]) -> list[list[str]]:
    kinds = list(dict.fromkeys(part["interval"]))
    rows = [["seeds", *kinds]]
    for count, of_count in part.groupby("n_seeds"):
        by_kind = {
            row["interval"]: {str(k): v for k, v in row.items()} for row in of_count.to_dict("records")
        }
        rows.append([str(count), *(text(by_kind[kind]) for kind in kinds)])
    return rows


def _share(row: dict[str, object]) -> str:
    share = f"{100 * float(str(row['coverage'])):.1f}"
    return share if row["used"] == row["interval"] else f"({share})"
