"""Whether `design` promises what `compare` then finds: simulated sources of 46 models, read by the engine.

Models 0 and 1, 2 and 3, ... differ by the effect that a study of that layout is to find in the share given; where
several tests are made the others are of models that do not differ, so that Holm's adjustment is at its hardest. Spreads
are those of the printed cells' medians.

    python -m tests.speed.design_power [--sources 150]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.evidence.contrasts import Contrast, Term
from analysis.evidence.evidence import Evidence, Settings
from analysis.precision.design import AssumedSpread, PlannedStudy, planned_test
from analysis.statistics.inference import ALPHA, holm
from tests.speed.timing import parser_of

MODELS = 46


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What is compared, and by how much."""

    seeds: int
    sds: Sequence[float]
    """Over seeds, of the datasets that are averaged."""
    tests: int = 1
    wanted: float = 0.8
    """Power that the effect is chosen for."""

    def __str__(self) -> str:
        over = "mean of 3 datasets" if len(self.sds) > 1 else "one dataset"
        return f"{self.seeds:2} seeds, {self.tests:2} tests, {over}"


SC, QA = (0.54, 0.21, 0.31), (0.39, 0.74, 1.54)
LAYOUTS = [
    *(Layout(seeds=n, sds=sds, tests=m) for n in (5, 10) for m in (1, 12) for sds in (SC[:1], SC, QA)),
    Layout(seeds=5, sds=SC[:1], wanted=0.4),
    Layout(seeds=3, sds=SC[:1]),
]


def promised_and_reached(layout: Layout, sources: int, rng: np.random.Generator) -> tuple[float, float]:
    """Return the power that is promised, and the share of differences that Holm's p finds at 0.05."""
    spreads = [AssumedSpread(sd=sd, paired_sd=2**0.5 * sd) for sd in layout.sds]
    study = PlannedStudy(effect=1.0, seeds=layout.seeds, tests=layout.tests)
    test = planned_test(study, spreads)
    effect = test.detectable(layout.wanted)
    found = [_found(layout, effect, rng, source) for source in range(sources)]
    return test.power(effect), float(np.mean(found))


def _found(layout: Layout, effect: float, rng: np.random.Generator, source: int) -> list[bool]:
    """Return for each pair of a source whether its difference is found; the other tests are of other datasets."""
    names = [[f"{test}-{place}" for place in range(len(layout.sds))] for test in range(layout.tests)]
    frames = []
    for test, members in enumerate(names):
        for name, sd in zip(members, layout.sds, strict=True):
            values = 80 + sd * rng.standard_normal((MODELS, layout.seeds))
            values[::2] += effect * (test == 0)
            keys = [(f"{model}", "SC", name) for model in range(MODELS)]
            index = pd.MultiIndex.from_tuples(keys, names=["model", "task", "dataset"])
            frames.append(pd.DataFrame(values, index=index))
    settings = Settings(seed=source)
    evidence = Evidence(settings, values=pd.concat(frames))
    pairs = [(f"{model}", f"{model + 1}") for model in range(0, MODELS, 2)]
    return [
        holm([evidence.result(_difference(*pair, members)).p_zero for members in names])[0] <= ALPHA
        for pair in pairs
    ]


def _difference(first: str, second: str, members: Sequence[str]) -> Contrast:
    ends = ((1 / len(members), first), (-1 / len(members), second))
    terms = (
        Term(weight=weight, model=model, task="SC", dataset=name)
        for weight, model in ends
        for name in members
    )
    return Contrast(label="", terms=tuple(terms))


def main() -> None:
    """Print both powers of every layout, with the standard error of the second."""
    parser = parser_of(__doc__)
    parser.add_argument("--sources", type=int, default=150)
    sources = parser.parse_args().sources
    print("layout                                        promised  reached")
    for place, layout in enumerate(LAYOUTS):
        promised, reached = promised_and_reached(layout, sources, np.random.default_rng(place))
        error = (reached * (1 - reached) / (sources * MODELS / 2)) ** 0.5
        print(f"{layout!s:46}{promised:8.1%}{reached:8.1%} +- {error:.1%}", flush=True)


if __name__ == "__main__":
    main()
