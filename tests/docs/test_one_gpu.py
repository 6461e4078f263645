"""The numbers of docs/one-gpu.md are those that the commands print."""

import math
from functools import partial

from analysis.precision.design import (
    POWER,
    AssumedSpread,
    PlannedStudy,
    fewest,
    planned_test,
    seed_spreads,
)
from analysis.sources import PUBLISHED
from benchmarks.protocol import DATASETS
from clm_or_mlm.budget_plan import Choice, choices_of
from common.provenance import ROOT
from miniature.forms import FORMS
from pretraining.paper_settings import SHAPES
from pretraining.plan.devices import DEVICES, H100, MEASURED, reached
from pretraining.plan.study_plan import PAPER_STUDY, plan_of

PAGE = (ROOT / "docs" / "one-gpu.md").read_text(encoding="utf-8")
WORDS = " ".join(PAGE.split())
TUNED = ("sst2", "uner_en", "squad", "nq")


def test_the_studies_of_a_day() -> None:
    for device in ("H100", "RTX 4090"):
        for number, one in enumerate(choices_of(DEVICES[device], hours=24), 1):
            assert isinstance(one, Choice)
            every, alone = one.finds(), one.finds(alone=True)
            found = " | ".join(f"{every[name]:.2f} / {alone[name]:.2f}" for name in TUNED)
            row = f"{one.shape.encoder_parameters / 1e6:.0f} M | {one.tokens / 1e9:.1f} B | {len(one.arms)} x"
            assert f"| {device} | {number} | {row} {one.pretrainings} | {found} |" in PAGE


def test_speeds_and_hours() -> None:
    measured, left_out = [], []
    for size, speed in MEASURED.items():
        counted = H100.tokens_per_second(SHAPES[size], predicted=0.4) / reached("H100")
        measured.append(f"{speed:,.0f}")
        left_out.append(f"{round(counted * reached('H100', size), -2):,.0f}")
    for row in (measured, left_out):
        assert f"| {' | '.join(row)} |" in PAGE
    pair = [PAPER_STUDY.model(name) for name in ("610m-mlm40-12k", "610m-clm-3k-mlm40-12k")]
    assert f"take {plan_of(pair).costs().gpu_hours:.0f} H100 hours" in WORDS
    form = FORMS["gpu"]
    assert (
        f"{plan_of(tuple(form.models.values()), form.study).costs().gpu_hours:.0f} hours of an H100" in WORDS
    )


def test_designs() -> None:
    spreads = dict(seed_spreads(PUBLISHED))
    sds = {name: spreads[DATASETS[name].task, name] for name in TUNED}

    def finds(pretrainings: int) -> dict[str, float]:
        study = PlannedStudy(pretraining_sd=0.57, pretrainings=pretrainings)
        return {name: planned_test(study, spread).detectable() for name, spread in sds.items()}

    def power(spread: AssumedSpread, pretrainings: int) -> float:
        study = PlannedStudy(pretraining_sd=0.416, pretrainings=pretrainings, seeds=3)
        return planned_test(study, spread).power(0.5)

    needed = [fewest(partial(power, spread), POWER, least=1) for spread in sds.values()]
    assert f"needs {min(needed)} to {max(needed)} pretrainings" in WORDS  # type: ignore[type-var]
    found = finds(5)
    assert (min(found, key=found.__getitem__), max(found, key=found.__getitem__)) == ("uner_en", "nq")
    assert f"{found['uner_en']:.1f} (UNER) to {found['nq']:.1f} points (NQ)" in WORDS
    least = min(finds(1).values())
    assert f"above {math.floor(10 * least) / 10} points at a spread of 0.57" in WORDS
