"""More runs at a time than GPUs: as many as the memory that a run was measured to need allows, with the same bytes."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.finetuning import device as devices
from benchmarks.finetuning.device import DEVICES, RESERVED, DeviceKind
from benchmarks.protocol import FINE_TUNING
from benchmarks.sweep import run as sweep
from benchmarks.sweep.queue import compared_jobs, runs_that_fit
from benchmarks.sweep.request import Request
from tests.benchmarks.sweep.stores import results, run

GIB = 1 << 30


class Pretended(DeviceKind):
    """Two CPUs that look like GPUs of 10 GiB."""

    def count(self) -> int:
        return 2

    def free_memory(self, device: torch.device) -> int:
        return 10 * GIB


@pytest.fixture
def request_of(
    arguments: list[str], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Request, DeviceKind]:
    kind = Pretended(**{**vars(DEVICES["cpu"]), "side_by_side": False})
    monkeypatch.setitem(DEVICES, "cpu", kind)
    request = Request(
        model=arguments[1], name="tiny", datasets=("sst2",), lrs=(1e-3, 2e-3), seeds=(0,), data=data,
        store=tmp_path / "several", fine_tuning=replace(FINE_TUNING, steps=2), workers=9,
    )  # fmt: skip
    return request, kind


def test_what_fits_follows_from_what_was_measured() -> None:
    assert [runs_that_fit(139 * GIB, size * GIB) for size in (0, 1, 8, 60, 200)] == [1, 62, 13, 2, 1]


def test_the_first_run_is_measured_alone_and_decides_how_many_share_a_gpu(
    request_of: tuple[Request, DeviceKind], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    request, kind = request_of
    caplog.set_level(logging.INFO)
    alone: list[Any] = []

    def measure(names: list[str], asked: Request) -> None:
        alone.append((names, asked.datasets, asked.lrs, asked.seeds, asked.workers))
        monkeypatch.setattr(sweep, "measured", lambda store, key, name: 2 * GIB if name == RESERVED else 0)

    monkeypatch.setattr(sweep, "run_on", measure)
    jobs = compared_jobs(request)
    assert sweep._devices(jobs, request, kind) == ["cpu:0", "cpu:1"] * 3  # 9 GiB hold three runs of 2 + 1
    assert alone == [(["cpu:0"], ("sst2",), (1e-3,), (0,), 1)]
    assert "6 runs at a time on 2 GPUs; 2.0 GiB each, 10.0 GiB free on a GPU" in caplog.text
    assert sweep._devices(jobs, replace(request, workers=2), kind) == ["cpu:0", "cpu:1"]
    assert len(alone) == 1, "finished runs say it"


def test_runs_that_share_a_device_make_the_same_bytes(
    request_of: tuple[Request, DeviceKind],
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    request, _ = request_of
    sweep.run_on(["cpu:0", "cpu:0"], request)
    monkeypatch.undo()
    assert devices.DEVICES["cpu"].side_by_side
    run([*arguments, "--dataset", "sst2", "--lr", "1e-3", "2e-3", "--seed", "0", "--steps", "2"])
    assert results(tmp_path / "several") == results(tmp_path) and len(results(tmp_path)) == 2
