"""How a request becomes fine-tunings."""

from __future__ import annotations

from pathlib import Path

from benchmarks.protocol import DATASETS, LEARNING_RATES, SEEDS
from benchmarks.runs import RunKey
from benchmarks.sweep.jobs import jobs_of
from tests.benchmarks.sweep.stores import request_of


def test_the_default_grid_is_the_papers(data: Path) -> None:
    request = request_of("m", data, Path("s"), datasets=tuple(DATASETS), lrs=LEARNING_RATES, seeds=SEEDS)
    found = jobs_of(request)
    assert [len(found), sum(len(job.keys) for job in found), sum(len(j.fine_tunings) for j in found)] == [
        10,
        360,
        300,
    ]
    assert RunKey(model="tiny", dataset="nq", lr=1e-5, seed=4) in found[-1].keys
    assert len({job.claim_path(each) for job in found for each in job.fine_tunings}) == 300
