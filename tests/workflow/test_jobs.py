"""Jobs as data: what is written to a folder is what is read there; when what a kind makes is complete."""

from pathlib import Path

import pytest

from common.manifest import manifest_text
from workflow.jobs import JOB_KINDS, WORKFLOW, Job, JobKind, load_workflow, save
from workflow.study import workflow_of
from workflow.study_settings import JobOptions, StudySettings


def test_a_workflow_survives_the_way_to_the_node(tmp_path: Path) -> None:
    settings = StudySettings(
        text=("/a/x.jsonl", "/b/*"),
        learning_rates=(1e-4,),
        nodes=2,
        jobs={"gpus": JobOptions(partition="gpu", slurm_extra="--reservation=x")},
    )
    workflow = workflow_of("figure3", settings, "/x/full.sif")
    save(workflow, tmp_path)
    assert load_workflow(tmp_path) == workflow
    assert list(load_workflow(tmp_path).jobs) == list(workflow.jobs)
    # The same one is not written again.
    before = (tmp_path / WORKFLOW).stat().st_mtime_ns
    save(workflow, tmp_path)
    assert (tmp_path / WORKFLOW).stat().st_mtime_ns == before


def test_files_of_a_job_have_no_folders_of_its_name() -> None:
    job = Job(kind=JOB_KINDS["cell"], name="m/sst2")
    assert job.marker == "done/cell/m/sst2.json"
    files = (job.log, job.refused, job.stop, job.attempts)
    assert files[:2] == ("logs/cell/m__sst2.log", "logs/cell/m__sst2.refused")
    assert len(set(files)) == 4 and all(path.count("/") == 2 for path in files)


@pytest.mark.parametrize("kind", JOB_KINDS.values(), ids=lambda kind: kind.name)
def test_a_job_is_complete_when_all_its_files_are_there(
    kind: JobKind, tmp_path: Path
) -> None:
    job = Job(kind=kind, name="j", makes=("a/one", "a/two"))
    assert not job.is_complete(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a/one").touch()
    assert not job.is_complete(tmp_path)
    (tmp_path / "a/two").touch()
    assert job.is_complete(tmp_path)


@pytest.mark.parametrize(
    ("record", "counts"),
    [
        (manifest_text({"status": "failed"}), True),
        (manifest_text({"status": "done"}), False),
        ('{"status": "failed"}', False),
        ("[", False),
    ],
)
def test_a_cell_counts_runs_that_are_recorded_as_failed(
    record: str, counts: bool, tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/run.json").write_text(record)
    cell = Job(kind=JOB_KINDS["cell"], name="m", makes=("run/results.json",))
    assert cell.is_complete(tmp_path) == bool(cell.failures(tmp_path)) == counts
    assert not Job(
        kind=JOB_KINDS["model"], name="m", makes=("run/results.json",)
    ).is_complete(tmp_path)
    (tmp_path / "run/results.json").touch()
    assert cell.is_complete(tmp_path) and not cell.failures(tmp_path)
