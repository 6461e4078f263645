"""Whether `compare` finds what was planned: simulated sources, whose pairs of models `compare` is given.

Models 0 and 1, 2 and 3, ... differ by the effect that a study of that layout is to find in the share given; where
twelve tests are made the models differ on one dataset alone, so that Holm's adjustment is at its hardest. Spreads are
those of the printed cells' medians.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from analysis.comparisons.comparison import compare
from analysis.evidence.evidence import Evidence
from analysis.evidence.settings import Settings
from analysis.precision.design import PlannedStudy, planned_test, seed_spreads
from analysis.sources import PUBLISHED, Source
from analysis.store.runs_table import COLUMNS
from benchmarks.protocol import AVERAGE, DATASETS, datasets_of
from common.level import ALPHA

RESAMPLES = 10_000
PRINTED = dict(seed_spreads(PUBLISHED))


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What is compared, and by how much."""

    task: str = "SC"
    dataset: str = AVERAGE
    """On which the models differ."""
    seeds: int = 5
    models: int = 46
    """Of a source."""
    tests: int = 1
    """1, or the number of all datasets."""
    wanted: float = 0.8
    """Power that the effect is chosen for."""

    def __str__(self) -> str:
        over = f"{self.task} average" if self.dataset == AVERAGE else self.dataset
        return f"{over:11}{self.seeds:2} seeds, {self.models:2} models, {self.tests:2} tests"

    @property
    def sds(self) -> dict[str, float]:
        """By dataset the standard deviation over seeds, in points."""
        names = datasets_of(self.task) if self.tests == 1 else DATASETS
        return {name: PRINTED[DATASETS[name].task, name].sd for name in names}

    @property
    def sd(self) -> float:
        """Of what is compared; the datasets of an average are independent here."""
        if self.dataset != AVERAGE:
            return self.sds[self.dataset]
        return float(np.sqrt(sum(sd**2 for sd in self.sds.values()))) / len(self.sds)


LAYOUTS = [
    Layout(dataset="sst2"),
    Layout(dataset="sst2", seeds=3),
    Layout(dataset="sst2", tests=12),
    Layout(dataset="sst2", models=6, seeds=10, wanted=0.5),
    Layout(),
    Layout(wanted=0.5),
    Layout(task="QA"),
    Layout(task="QA", models=2),
    Layout(seeds=3),
    Layout(seeds=10, models=6),
]


class _Simulated(Source):
    """A source whose evidence is made once, for all its pairs."""

    @cached_property
    def _evidence(self) -> Evidence:
        # Draws of its own for each source: the error of one bootstrap's quantile would be that of all.
        seed = int(self.label.rpartition(" ")[2])
        return Evidence(
            Settings(interval="pooled", resamples=RESAMPLES, seed=seed), runs=self.runs
        )

    def evidence(self, settings: Settings, *, printed: bool = False) -> Evidence:
        return self._evidence


def source_of(layout: Layout, effect: float, rng: np.random.Generator) -> Source:
    """Return runs in which every other model is better by `effect`, in points, on what the layout is about."""
    frames = []
    for name, sd in layout.sds.items():
        values = 80 + sd * rng.standard_normal((layout.models, layout.seeds))
        values[::2] += effect * (layout.dataset in (name, AVERAGE))
        models = [f"m{model:02}" for model in range(layout.models)]
        index = pd.MultiIndex.from_product(
            [models, range(layout.seeds)], names=["model", "seed"]
        )
        frame = pd.DataFrame(
            {"test_score": values.ravel() / 100}, index=index
        ).reset_index()
        frames.append(frame.assign(dataset=name, task=DATASETS[name].task))
    runs = pd.concat(frames, ignore_index=True)
    runs = runs.assign(
        validation_score=runs["test_score"], lr=1e-5, n_validation=872, n_test=100_000
    )
    return _Simulated(
        label=f"simulated {rng.integers(1 << 30)}",
        runs=runs[list(COLUMNS)],
        added_models=("m*",),
    )


def found(layout: Layout, effect: float, pairs: int, seed: int) -> Iterator[bool]:
    """Yield of pairs of models whether `compare` says, in the p that Holm adjusts over the tests, that they differ."""
    settings = Settings(interval="pooled", resamples=RESAMPLES)
    for nth in range(pairs // (layout.models // 2)):
        source = source_of(layout, effect, np.random.default_rng([seed, nth]))
        for first in range(0, layout.models - 1, 2):
            result = compare(source, [f"m{first:02}", f"m{first + 1:02}"], settings)
            [one] = [
                row
                for row in result.differences
                if (row.place.task, row.place.dataset) == (layout.task, layout.dataset)
            ]
            yield (one.result.p_zero if layout.tests == 1 else one.p_holm) <= ALPHA


def promised_and_reached(
    layout: Layout, pairs: int, seed: int = 0
) -> tuple[float, float]:
    """Return the power that is promised, and the share of differences that `compare` finds at 0.05."""
    spread = type(PRINTED["SC", "sst2"])(sd=layout.sd, cells=layout.models)
    study = PlannedStudy(seeds=layout.seeds, tests=layout.tests)
    test = planned_test(study, spread)
    effect = test.detectable(layout.wanted)
    return test.power(effect), float(np.mean(list(found(layout, effect, pairs, seed))))
