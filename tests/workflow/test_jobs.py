"""Jobs as data: what is written to a folder is what is read there."""

from __future__ import annotations

from pathlib import Path

from workflow.jobs import KINDS, WORKFLOW, Job, Workflow, by_marker, load, save
from workflow.settings import Settings
from workflow.study import workflow_of


def test_a_workflow_survives_the_way_to_the_node(tmp_path: Path) -> None:
    settings = Settings(
        text=("/a/x.jsonl", "/b/*"),
        learning_rates=(1e-4,),
        nodes=2,
        partition="gpu",
        slurm_extra="--reservation=x",
    )
    workflow = workflow_of("figure3", settings, "/x/full.sif")
    save(workflow, tmp_path)
    assert load(tmp_path) == workflow
    assert list(load(tmp_path).jobs) == list(workflow.jobs)


def test_the_same_workflow_is_not_written_again(tmp_path: Path) -> None:
    workflow = workflow_of("210m-clm-42k", Settings())
    save(workflow, tmp_path)
    before = (tmp_path / WORKFLOW).stat().st_mtime_ns
    save(workflow, tmp_path)
    assert (tmp_path / WORKFLOW).stat().st_mtime_ns == before


def test_files_of_a_job_have_no_folders_of_its_name() -> None:
    job = Job(kind=KINDS["cell"], name="m/sst2")
    assert job.marker == "done/cell/m/sst2.json"
    files = (job.log, job.refused, job.stop, job.saved, job.timings)
    assert files[:2] == ("logs/cell/m__sst2.log", "logs/cell/m__sst2.refused")
    assert len(set(files)) == 5 and all(path.count("/") == 2 for path in files)


def test_a_long_job_may_be_started_once_a_part_and_twice_for_lost_nodes() -> None:
    job = Job(kind=KINDS["stage"], name="s", gpu_hours=50.0, gpus=1, limit_hours=20.0)
    assert job.parts == 3


def test_kinds_are_in_the_order_of_a_study() -> None:
    jobs = [Job(kind=KINDS[name], name="x") for name in ("analysis", "cell", "data")]
    assert [kind.name for kind in Workflow(target="t", jobs=by_marker(jobs)).kinds] == [
        "data",
        "cell",
        "analysis",
    ]
