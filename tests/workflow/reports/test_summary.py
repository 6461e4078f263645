"""What a study's workflow would do, as text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from workflow.reports.summary import summary, warnings
from workflow.settings import Settings
from workflow.study import workflow_of


def test_jobs_to_do_are_counted_by_kind_and_in_all() -> None:
    settings = Settings()
    workflow = workflow_of("210m-clm-42k", settings)
    todo = workflow.of_kind("cell")[:3]
    rows = {
        line[:26].strip(): line[26:].split()
        for line in summary(workflow, todo, settings, Path("x"), 1).splitlines()
    }
    assert rows["cells of fine-tunings"][:2] == ["10", "3"]
    assert rows["shards"][:2] == ["1", "0"]
    assert rows["all"][:2] == [str(len(workflow.jobs)), "3"]
    hours = sum(job.gpu_hours for job in todo)
    assert rows["all"][2] == rows["cells of fine-tunings"][2] == f"{hours:.1f}"


def test_without_gpus_hours_are_those_of_jobs() -> None:
    settings = Settings(gpus_per_node=0)
    workflow = workflow_of("210m-clm-42k", settings)
    text = summary(workflow, list(workflow.jobs.values()), settings, Path("x"), 1)
    assert text.startswith("210m-clm-42k: 1 models in x\n")
    assert "CPU-job hours" in text and "peak rate" not in text


def test_finished_runs_are_subtracted_and_what_does_not_suffice_is_said(tmp_path: Path) -> None:
    settings = Settings()
    workflow = workflow_of("210m-clm-42k", settings)
    (cell, *_) = workflow.of_kind("cell")
    for path in cell.makes[: len(cell.makes) // 2]:
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).touch()
    row = next(
        line
        for line in summary(workflow, [cell], settings, tmp_path, 1).splitlines()
        if line.startswith("all")
    )
    assert row.split()[3] == f"{cell.gpu_hours / 2:.1f}"
    huge = replace(cell, disk_bytes=1e18, files=10**15)
    found = warnings([huge], tmp_path)
    assert any("GB free and the study leaves 500,000,000 GB" in line for line in found)
    assert any("files more and the study makes 1,000,000,000,000,000" in line for line in found)
    (shards,) = workflow.of_kind("shards")
    (line,) = warnings([replace(shards, gpu_hours=50.0, disk_bytes=0.0, files=0)], tmp_path)
    assert line.startswith("shards shards takes about 50.0 h and cannot resume, the limit is 20 h")


def test_hours_follow_what_finished_jobs_took(tmp_path: Path) -> None:
    settings = Settings()
    workflow = workflow_of("210m-clm-42k", settings)
    done, *todo = workflow.of_kind("cell")
    (tmp_path / done.attempts).parent.mkdir(parents=True)
    (tmp_path / done.attempts).write_text('{"seconds": 3600.0, "gpus": 1, "code": 0}\n{"seco')
    text = summary(workflow, todo, settings, tmp_path, 1)
    row = next(line for line in text.splitlines() if line.startswith("all"))
    assert row.split()[3] == f"{len(todo):.1f}"
    assert "cell follow what finished jobs took" in text
    assert "longest chain of jobs: 1.0 h" in text
