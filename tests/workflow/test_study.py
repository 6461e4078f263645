from pathlib import Path

import pytest

from benchmarks.protocol import DATASETS
from pretraining.paper_models import MODELS
from pretraining.plan.devices import DEVICES
from pretraining.plan.study_plan import plan_of
from tests.pretraining.families import save_start
from tests.workflow import smallest
from workflow.study import cell_runs, place_stand_ins, workflow_of
from workflow.study_progress import StudyProgress
from workflow.study_settings import StudySettings, load_settings


def test_every_job_waits_only_for_jobs_before_it() -> None:
    for target in ("all", "figure9", "table10", "610m-clm-10k-mlm40-42k"):
        seen: set[str] = set()
        for marker, job in workflow_of(target, StudySettings()).jobs.items():
            assert set(job.needs) <= seen, marker
            seen.add(marker)


def test_the_whole_study_is_its_plan_and_its_protocol() -> None:
    workflow = workflow_of("all", StudySettings())
    assert {job.name for job in workflow.of_kind("model")} == set(MODELS)
    trunks = {item.name for item in plan_of(tuple(MODELS.values())).stages} - set(
        MODELS
    )
    assert {job.name for job in workflow.of_kind("stage")} == trunks
    trainings = {dataset.trained_on for dataset in DATASETS.values()}
    assert len(workflow.of_kind("cell")) == len(MODELS) * len(trainings) == 51 * 10


def test_hours_and_disk_are_the_plans() -> None:
    settings = StudySettings(device="H100")
    workflow = workflow_of("all", settings)
    stages = [*workflow.of_kind("stage"), *workflow.of_kind("model")]
    # An intermediate checkpoint's job only exports, which counts three minutes here and nothing in the plan.
    exports = sum(model.kind == "intermediate" for model in MODELS.values())
    plan = plan_of(tuple(MODELS.values()))
    assert sum(job.gpu_hours for job in stages) == pytest.approx(
        plan.costs(device=DEVICES["H100"]).gpu_hours + 0.05 * exports
    )


def test_continued_pretraining_waits_for_the_decayed_model() -> None:
    jobs = workflow_of("610m-clm-dec42k-mlm40-44k", StudySettings()).jobs
    assert (
        jobs["done/model/610m-clm-dec42k-mlm40-44k.json"].needs[1].startswith("done/")
    )
    assert "done/model/610m-clm-42k.json" in jobs
    assert jobs["done/model/610m-clm-42k.json"].needs == (
        "done/shards/shards.json",
        "done/stage/610m-clm.json",
    )


def test_a_stage_longer_than_the_limit_is_several_jobs() -> None:
    workflow = workflow_of(
        "1b-mlm40-42k", StudySettings(limit_hours=20, gpus_per_node=8)
    )
    (trunk,) = workflow.of_kind("stage")
    assert trunk.parts == -(-trunk.hours // 20) > 1
    assert trunk.minutes == 20 * 60
    text = StudyProgress(
        workflow=workflow, folder=Path(), todo=tuple(workflow.jobs.values())
    ).text()
    assert "jobs exceed the limit of 20 h and resume in the next" in text


def test_commands_name_every_setting() -> None:
    workflow = workflow_of("all", load_settings(smallest.SETTINGS))
    cell = next(
        job for job in workflow.of_kind("cell") if job.name.endswith("/msmarco")
    )
    (words,) = cell.commands
    assert words[:4] == (
        "benchmarks",
        "run",
        "--model",
        f"pretraining/models/{smallest.MODELS[0]}",
    )
    assert words[words.index("--lr") + 1 :][:2] == ("1e-04", "5e-04")
    assert cell.kind.accepted == (0, 3)
    tokenizer, shards = workflow.of_kind("shards")[0].commands
    for words in (tokenizer, shards):
        assert str(smallest.FOLDER / "text.jsonl") in words


def test_retrieval_datasets_are_one_job_of_three() -> None:
    runs = cell_runs("610m-clm-42k/msmarco", StudySettings())
    assert {key.dataset for key in runs} == {"msmarco", "nq", "mldr_en"}
    assert len(runs) == 90


def test_folders_of_files_outside_are_named_for_images() -> None:
    settings = StudySettings(
        data="/shared/data/sets",
        text=("/fineweb/*.parquet", "hf:a/b"),
        tokenizer="/t/tok.json",
    )
    assert workflow_of("210m-clm-42k", settings).binds == (
        "/fineweb",
        "/shared/data",
        "/t",
    )


def test_a_start_and_a_stages_own_shards_are_shown_in_images(tmp_path: Path) -> None:
    start = save_start(tmp_path / "starts/mine", "qwen2")
    study = tmp_path / "study.toml"
    stages = '["mlm40:4", {train = "mlm40", steps = 4, data = "/shards/other"}, {train = "mlm15", steps = 4, data = "s3://a/b"}]'
    study.write_text(
        f'decay_steps = 2\n[models.mine]\nstart = "{start}"\nstages = {stages}\n'
    )
    settings = StudySettings(study=str(study))
    assert set(workflow_of("all", settings).binds) == {
        str(tmp_path),
        str(start.parent),
        "/shards",
    }


def test_only_shards_of_a_hub_may_use_the_network() -> None:
    for text, network in (("hf:a/b", True), ("/a/*.parquet", False)):
        jobs = workflow_of("210m-clm-42k", StudySettings(text=(text,))).jobs.values()
        assert {job.kind.name for job in jobs if job.network} == (
            {"shards"} if network else set()
        )


def test_stand_ins_are_placed_where_the_runs_table_will_be(tmp_path: Path) -> None:
    study = tmp_path / "mine" / "study.toml"
    study.parent.mkdir()
    for settings in (StudySettings(), StudySettings(study=str(study))):
        place_stand_ins(settings, tmp_path / "folder", "all")
    assert not (tmp_path / "folder").exists()
    study.with_name("stand_ins.json").write_text("{}")
    place_stand_ins(settings, tmp_path / "folder", "all")
    assert (tmp_path / "folder/analysis/all/stand_ins.json").read_text() == "{}"


def test_the_papers_hours_are_above_the_estimate_on_its_device() -> None:
    settings = StudySettings(device="MI250X")
    cells = workflow_of("all", settings).of_kind("cell")
    # 9,000 GPU hours for 50 models, with ten evaluations during each training and one run at a time.
    assert 2_000 < sum(job.gpu_hours for job in cells) * 50 / len(MODELS) < 9_000


def test_memory_and_cores_or_the_user_say_how_many_share_a_gpu() -> None:
    def workers(**settings: object) -> list[str]:
        words = (
            workflow_of("610m-clm-42k", StudySettings(**settings))
            .of_kind("cell")[0]
            .commands[0]
        )  # type: ignore[arg-type]
        return [
            words[place + 1] for place, word in enumerate(words) if word == "--workers"
        ]

    assert workers() == ["2"] and workers(device="H200") == ["4"]
    assert workers(device="H200", cpus=1) == [] and workers(gpus_per_node=0) == []
    assert workers(gpus_per_node=4, tuning_gpus=4) == ["8"]
    assert workers(tuning_options=("--workers", "1")) == ["1"]
