"""How many seeds, pretrainings, datasets and test instances a difference needs, for the test that is really run.

The difference between two arms on one dataset has the squared error

    2 (tau^2 / R + sigma^2 / (R n)) + omega^2 / I

for n fine-tuning seeds of each of an arm's R pretrainings, and I test instances. The mean over D datasets has their
mean sigma^2 and omega^2 over D, and the same tau^2: all datasets are judged on the same pretrainings.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import numpy as np
import pandas as pd
from scipy import special

from analysis.evidence.contrasts import Contrast, Term
from analysis.evidence.evidence import Evidence, Settings
from analysis.evidence.intervals import CROSSED, INTERVALS, POOLED, T
from analysis.evidence.pooled import FEWEST_CELLS, FEWEST_SEEDS
from analysis.precision.coverage import SOURCE_CELLS
from analysis.precision.power import MOST_SEEDS, PlannedTest, fewest
from analysis.published_cells import N_SEEDS, NORMAL_QUANTILE, published_values
from analysis.sources import Source
from benchmarks.protocol import AVERAGE, TASKS, title_of
from common.errors import UserError
from common.tables import Document, Grid

__all__ = ["PLANNED", "Spread", "Study", "design_document", "design_table", "planned_test"]

PLANNED = (POOLED.name, T.name, CROSSED.name)
"""Intervals whose tests are t tests, so that their power is known."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """Two arms that are compared: what is looked for, and how much of everything there is."""

    effect: float
    """The difference, in points."""
    seeds: int = N_SEEDS
    """Fine-tuning seeds of each pretraining."""
    pretrainings: int = 1
    """Of each arm; several are the units of the test, each with the mean of its seeds."""
    datasets: int = 0
    """0: those that a row is about; else so many like them."""
    instances: int = 0
    """Of all test sets together; 0: as many as there are."""
    pretraining_sd: float = 0.0
    """Standard deviation of a score over pretrainings, in points; 0: about these very pretrainings."""
    dataset_sd: float = 0.0
    """That of the difference over datasets; 0: about these very datasets. Else several are the units of the test."""
    tests: int = 1
    """Over which Holm adjusts; planned is the worst case, a p below 0.05 over their number."""
    power: float = 0.8
    """The wanted chance to find the difference."""
    interval: str = POOLED.name
    """Kind of interval whose test is planned; one of `PLANNED`."""


@dataclass(frozen=True, kw_only=True)
class Spread:
    """What moves the scores of a dataset: medians over the cells of a source, in points."""

    sd: float
    """Standard deviation of a score over fine-tuning seeds."""
    paired_sd: float
    """That of two models' difference within a seed."""
    from_instances: float = 0.0
    """Variance of the difference through the test set, in squared points; 0 where the test takes the set as it is."""
    instances: float = math.nan
    """Of the test set."""
    cells: int = FEWEST_CELLS
    """With a spread."""


def planned_test(study: Study, spreads: Sequence[Spread]) -> PlannedTest:
    """Return the test of a difference averaged over datasets, which have these spreads."""
    seeds, pretrainings, datasets = study.seeds, study.pretrainings, study.datasets or len(spreads)
    alpha = 0.05 / study.tests
    is_pooled = min(one.cells for one in spreads) >= FEWEST_CELLS and seeds >= FEWEST_SEEDS
    is_paired = pretrainings == 1 and not (study.interval == POOLED.name and is_pooled)
    times = datasets / len(spreads)
    arms = [one.sd**2 / (pretrainings * seeds * datasets**2) for one in spreads]
    over_seeds = 2 * times * math.fsum(arms)
    if is_paired:
        over_seeds = times * math.fsum(one.paired_sd**2 for one in spreads) / (seeds * datasets**2)
    over_instances = times * math.fsum(one.from_instances for one in spreads) / datasets**2
    if study.instances:
        over_instances *= math.fsum(one.instances for one in spreads) / study.instances
    given = study.dataset_sd**2 / datasets + over_instances
    trained, freedom = study.pretraining_sd**2 / pretrainings, pretrainings - 1 or math.inf
    if study.dataset_sd and datasets > 1:
        return PlannedTest(
            "over datasets", np.array([(given + over_seeds, datasets - 1, 1), (trained, freedom, 2)]), alpha
        )
    if pretrainings > 1:
        return PlannedTest(
            "over pretrainings",
            np.array([(trained + over_seeds / 2, freedom, 2), (given, math.inf, 1)]),
            alpha,
        )
    known = given + 2 * trained, math.inf, 1
    if is_paired:
        return PlannedTest("paired t", np.array([(over_seeds, seeds - 1, 1), known]), alpha)
    parts = np.array([*((own, seeds - 1, 2 * times) for own in arms), known])
    return PlannedTest(POOLED.name, parts, alpha, _widening(seeds, datasets, alpha))


@cache
def _widening(seeds: int, datasets: int, alpha: float) -> float:
    """Return by how much the pooled bootstrap's limit is farther out than Student's, of normal seeds: as it gives it.

    With five seeds it is 3 % at a level of 0.05 and 9 % at 0.05 / 12.
    """
    if 2 * datasets * (seeds - 1) > 50:
        return 1.0
    names = [f"{place}" for place in range(datasets)]
    axes = {"model": [f"{model}" for model in range(SOURCE_CELLS)], "task": ["SC"], "dataset": names}
    index = pd.MultiIndex.from_product(list(axes.values()), names=list(axes))
    values = np.random.default_rng([seeds, datasets]).standard_normal((len(index), seeds))
    evidence = Evidence(Settings(), values=pd.DataFrame(values, index=index))
    limits = []
    for model in range(0, SOURCE_CELLS, 2):
        found = evidence.estimate(_difference(f"{model}", f"{model + 1}", "SC", names))
        assert found is not None
        half = found.estimate.interval(1 - alpha)[1] - found.estimate.effect
        limits.append(half / found.estimate.error / special.stdtrit(found.estimate.df, 1 - alpha / 2))
    return float(np.mean(limits))


def design_table(source: Source, study: Study) -> pd.DataFrame:
    """Return what a study needs, each number alone and the others as given, by dataset and task average.

    Returns:
        Columns `task, dataset, n_cells, sd` (of the score over seeds, points), `test`; how many `seeds, pretrainings,
        datasets` and, where the test is over them, `instances` (of all datasets together) are needed, nan where no
        number is enough; the `power` of the study as it is, and the difference that it can `find` (points).

    Raises:
        UserError: an interval that the source cannot give, or no spread to plan with.
    """
    if study.seeds == study.pretrainings == 1:
        raise UserError("--seeds 1: a single run has no spread; give more seeds, or --pretrainings 2")
    spreads = dict(_spreads(source, study.interval))
    if not spreads:
        raise UserError(
            f"{source.label}: no model was fine-tuned with two seeds on any dataset, so no variance can be estimated"
        )
    scopes = {(one.task, one.name): [one.name] for one in source.datasets.values()}
    scopes |= {(task, AVERAGE): list(source.datasets_of(task)) for task in TASKS}
    rows = []
    for (task, dataset), names in scopes.items():
        own = [spreads[task, name] for name in names if (task, name) in spreads]
        if own and len(own) == len(names):
            rows.append({"task": task, "dataset": dataset, **_row(study, own)})
    return pd.DataFrame(rows)


def _row(study: Study, spreads: Sequence[Spread]) -> dict[str, object]:
    def needed(what: str, least: int = 1, most: int = MOST_SEEDS) -> float:
        def power_at(count: int) -> float:
            return planned_test(replace(study, **{what: count}), spreads).power(study.effect)  # type: ignore[arg-type]

        return fewest(power_at, study.power, least, most) or math.nan

    test = planned_test(study, spreads)
    row: dict[str, object] = {
        "n_cells": min(one.cells for one in spreads),
        "sd": math.hypot(*(one.sd for one in spreads)) / len(spreads), "test": test.name,
        "seeds": needed("seeds", 1 if study.pretrainings > 1 else 2),
        "pretrainings": needed("pretrainings", 1 if study.seeds > 1 else 2), "datasets": needed("datasets"),
    }  # fmt: skip
    if INTERVALS[study.interval].needs_instances:
        row["instances"] = needed("instances", most=10_000 * MOST_SEEDS)
    return row | {"power": test.power(study.effect), "find": test.detectable(study.power)}


def _spreads(source: Source, interval: str) -> Iterator[tuple[tuple[str, str], Spread]]:
    """Yield task and dataset with their spread, wherever a cell has two seeds."""
    if source.is_published:
        INTERVALS[interval].need_instances(source.instances)
        for key, half in published_values().groupby(["task", "dataset"])["ci95"]:
            sd = float(half.median()) / NORMAL_QUANTILE * math.sqrt(N_SEEDS)
            yield (str(key[0]), str(key[1])), Spread(sd=sd, paired_sd=sd * math.sqrt(2), cells=len(half))
        return
    evidence = source.evidence(Settings(interval=interval, resamples=100))  # errors need no resamples
    sizes = source.need_runs("design").groupby("dataset", observed=True)["n_test"].median().astype(float)
    values = evidence.values[evidence.values.notna().sum(axis=1) >= 2]
    for key, cells in values.drop(index=AVERAGE, level=2, errors="ignore").groupby(level=["task", "dataset"]):
        task, name = map(str, key)
        sds, pairs = cells.std(axis=1), pairwise(cells.index.get_level_values("model"))
        found = [evidence.finding(_difference(*models, task, [name])) for models in pairs]
        shared = [one.instance_share * one.error**2 for one in found if one.known]
        own = [(1 - one.instance_share) * one.error**2 * min(one.seeds) for one in found if one.known]
        yield (task, name), Spread(
            sd=float(sds.median()), paired_sd=math.sqrt(np.median(own or 2 * sds.median() ** 2)),
            from_instances=float(np.median(shared or 0.0)), instances=float(sizes[name]), cells=int((sds > 0).sum()),
        )  # fmt: skip


def _difference(first: str, second: str, task: str, datasets: Sequence[str]) -> Contrast:
    ends = ((1 / len(datasets), first), (-1 / len(datasets), second))
    terms = (
        Term(weight=weight, model=model, task=task, dataset=name)
        for weight, model in ends
        for name in datasets
    )
    return Contrast(label="", terms=tuple(terms))


def design_document(source: Source, study: Study) -> Document:
    """Return `design_table` under what it is about."""
    table = design_table(source, study)
    counted = [name for name in ("seeds", "pretrainings", "datasets", "instances") if name in table]
    rows = [["dataset", "sd", "test", *counted, "power", "finds"]]
    for row in table.to_dict("records"):
        name = row["dataset"] if row["dataset"] != AVERAGE else f"{row['task']} average"
        needed = ("-" if math.isnan(row[what]) else f"{row[what]:,.0f}" for what in counted)
        rows.append([
            title_of(name, source.datasets), f"{row['sd']:.2f}", row["test"], *needed, f"{row['power']:.0%}",
            f"{row['find']:.2f}",
        ])  # fmt: skip
    holm = f" after Holm's adjustment over {study.tests} tests" if study.tests > 1 else ""
    words = f"""\
Seeds, pretrainings or datasets needed to detect a difference of {study.effect:g} points with {study.power:.0%} power
at the 0.05 level{holm}, if the others stay as given. -: no number is enough.
Given: seeds {study.seeds}, pretrainings {study.pretrainings} (sd {study.pretraining_sd:g} points), sd over datasets \
{study.dataset_sd:g} points.
sd: standard deviation over seeds, in points, in the source's median cell ({source.label}). power: of the study as
given. finds: the smallest difference that the study as given detects with {study.power:.0%} power."""
    return Document(body=[words, "", Grid(rows)], records=table, digits="%.6g")
