"""Pins of the twelve."""

from __future__ import annotations

from benchmarks.datasets.hub_pins import PINS
from benchmarks.datasets.readers.reader import ROLES
from benchmarks.protocol import DATASETS


def test_pins_are_whole() -> None:
    assert set(PINS) >= set(DATASETS)
    for entries in PINS.values():
        for pin in entries:
            assert pin.role in ROLES
            assert pin.commit is None or (len(pin.commit) == 40 and int(pin.commit, 16))
            assert all(len(value) == 64 and int(value, 16) for value in pin.sha256.values())
    for name, dataset in DATASETS.items():
        assert any(pin.repo.startswith(dataset.hub.split(":")[0]) for pin in PINS[name])
