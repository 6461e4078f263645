"""What a study's workflow would do, as text."""

from __future__ import annotations

from pathlib import Path

from workflow.settings import Settings
from workflow.study import workflow_of
from workflow.summary import summary


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
