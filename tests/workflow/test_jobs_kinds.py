"""Kinds of jobs: when what they make is complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.registry import UnknownNameError
from workflow.jobs import KINDS, Job, Kind


def test_an_unknown_kind_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown kind of job 'cel'; did you mean 'cell'\?"):
        KINDS["cel"]


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_a_job_is_complete_when_all_its_files_are_there(kind: Kind, tmp_path: Path) -> None:
    job = Job(kind=kind, name="j", makes=("a/one", "a/two"))
    assert not job.is_complete(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a/one").touch()
    assert not job.is_complete(tmp_path)
    (tmp_path / "a/two").touch()
    assert job.is_complete(tmp_path)


@pytest.mark.parametrize(
    ("record", "counts"),
    [('{"status": "failed"}', True), ('{"status": "done"}', False), ("[", False), ("[]", False)],
)
def test_a_cell_counts_runs_that_are_recorded_as_failed(record: str, counts: bool, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/run.json").write_text(record)
    assert Job(kind=KINDS["cell"], name="m", makes=("run/results.json",)).is_complete(tmp_path) == counts
    assert not Job(kind=KINDS["model"], name="m", makes=("run/results.json",)).is_complete(tmp_path)
