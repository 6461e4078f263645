"""The numbers of docs/one-gpu.md are those that the commands print."""

import math

from analysis.precision.design import PlannedStudy, design_table
from analysis.sources import PUBLISHED
from clm_or_mlm.budget_plan import Choice, choices_of
from common.provenance import ROOT
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


def test_designs() -> None:
    def table(**study: float) -> dict[str, dict[str, float]]:
        found = design_table(PUBLISHED, PlannedStudy(**study)).set_index("dataset")  # type: ignore[arg-type]
        return {name: found.loc[name].to_dict() for name in TUNED}

    needed = [
        row["pretrainings"]
        for row in table(effect=0.5, pretraining_sd=0.416, pretrainings=5, seeds=3).values()
    ]
    assert f"needs {min(needed):.0f} to {max(needed):.0f} pretrainings" in WORDS
    finds = table(effect=1, pretraining_sd=0.57, pretrainings=5)
    low, high = (
        min(finds, key=lambda name: finds[name]["find"]),
        max(finds, key=lambda name: finds[name]["find"]),
    )
    assert (low, high) == ("uner_en", "nq")
    assert f"{finds[low]['find']:.1f} (UNER) to {finds[high]['find']:.1f} points (NQ)" in WORDS
    least = min(row["find"] for row in table(effect=1, pretraining_sd=0.57).values())
    assert f"above {math.floor(10 * least) / 10} points at a spread of 0.57" in WORDS
