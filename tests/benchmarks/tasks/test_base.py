"""A family of one's own."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.protocol import FINE_TUNING, FineTuning, get_dataset
from benchmarks.tasks.families import FAMILIES, family_of
from benchmarks.tasks.sequence_classification import SequenceClassification


def test_a_made_up_family_is_used_for_its_datasets_alone() -> None:
    class Odd(SequenceClassification):
        name = "OD"

        def micro_batch(self, fine_tuning: FineTuning) -> int:
            return 3

    FAMILIES.register(Odd())
    try:
        odd = family_of(replace(get_dataset("sst2"), form="OD"))
        assert odd.micro_batch(FINE_TUNING) == 3
        assert family_of(get_dataset("sst2")).micro_batch(FINE_TUNING) == 4
    finally:
        FAMILIES.pop("OD")
