"""How workers share the cells of a call."""

from __future__ import annotations

from pathlib import Path

from benchmarks.protocol import FineTuning
from benchmarks.sweep.jobs import jobs_of
from benchmarks.sweep.request import Request
from benchmarks.sweep.share import Share


def _request(folder: Path) -> Request:
    return Request(
        model="m",
        name="m",
        datasets=("sst2", "qqp", "msmarco", "nq"),
        lrs=(1e-4, 2e-4),
        seeds=(0, 1),
        data=folder,
        store=folder,
        fine_tuning=FineTuning(),
    )


def test_every_fine_tuning_is_claimed_once_and_workers_begin_apart(tmp_path: Path) -> None:
    jobs = jobs_of(_request(tmp_path))
    (tmp_path / "claims").mkdir()
    first, second = (Share(folder=tmp_path / "claims", first=place) for place in (0.0, 0.5))
    assert [job.trained_on for job in first.in_order(jobs)] == ["sst2", "qqp", "msmarco"]
    assert [job.trained_on for job in second.in_order(jobs)] == ["qqp", "msmarco", "sst2"]
    taken = []
    for share in (first, second, first):
        for job in share.in_order(jobs):
            for lr, seed in dict.fromkeys((key.lr, key.seed) for key in job.keys):
                if share.claim(job, lr, seed):
                    taken.append((job.trained_on, lr, seed))
    assert len(taken) == len(set(taken)) == 3 * 2 * 2
    assert not any(first.is_open(job) for job in jobs)
