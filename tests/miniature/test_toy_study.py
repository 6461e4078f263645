"""The miniature's jobs: what they wait for, and that each stage is trained once."""

import dataclasses
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.costs import tuning_hours
from common.errors import UserError
from miniature.data import MADE_UP, DataSource
from miniature.forms import CONTROL, FAMILIES, FORMS, PREFIX, RANDOM
from miniature.toy_study import Miniature, workflow_for
from pretraining.models import MODELS, arm_of, parse
from pretraining.paper_settings import SHAPES
from pretraining.plan.devices import H100
from pretraining.plan.study_plan import plan_of
from workflow.jobs import Job, load, save

CPU = dataclasses.replace(FORMS["cpu"], tokens=3_000)


def cpu(folder: Path) -> Miniature:
    return Miniature(form=CPU, source=MADE_UP, root=folder)


def jobs_of(folder: Path, kind: str = "") -> list[Job]:
    return [job for job in cpu(folder).jobs() if kind in ("", job.kind.name)]


def test_jobs_wait_for_what_they_need(tmp_path: Path) -> None:
    ended: set[str] = set()
    for job in jobs_of(tmp_path):
        assert ended.issuperset(job.needs), job.name
        ended.add(job.marker)
    assert len(ended) == len(jobs_of(tmp_path))
    assert [job.name for job in jobs_of(tmp_path, "cell")] == list(CPU.tuned)
    assert {job.name for job in jobs_of(tmp_path, "model")} == {RANDOM, *CPU.models}


def test_a_stage_that_models_share_is_trained_by_one_job_before_them(tmp_path: Path) -> None:
    """Two processes may not train one stage; whatever belongs to one model is in that model's job."""
    jobs = {job.marker: job for job in jobs_of(tmp_path)}
    trained = {job.name for job in jobs_of(tmp_path, "stage")} | set(CPU.models)

    def waits_for(job: Job) -> set[str]:
        return {name for need in job.needs for name in (jobs[need].name, *waits_for(jobs[need]))}

    shared = 0
    for model in CPU.models.values():
        for stage in model.stages:
            users = [
                other.name for other in CPU.models.values() if stage.name in {s.name for s in other.stages}
            ]
            if len(users) > 1 and stage.name != model.name:
                shared += 1
                assert stage.name in trained
                assert stage.name in waits_for(jobs[f"done/model/{model.name}.json"])
    assert shared > 10


def test_every_job_is_one_thread_and_offline(tmp_path: Path) -> None:
    jobs = jobs_of(tmp_path)
    assert all(job.cpus == 1 and not job.gpus and not job.network for job in jobs)
    assert workflow_for(jobs).environ == {"MKL_NUM_THREADS": "1"}
    save(workflow_for(jobs), tmp_path)
    assert load(tmp_path) == workflow_for(jobs)


def test_a_folder_of_another_version_of_the_form_is_refused(tmp_path: Path) -> None:
    jobs_of(tmp_path)
    study = tmp_path / "study.toml"
    study.write_text(study.read_text().replace("seed = 0", "seed = 1"))
    with pytest.raises(UserError, match="differs from this version's study file"):
        jobs_of(tmp_path)


def test_the_analysis_ends_with_the_table_or_the_report(tmp_path: Path) -> None:
    short, whole = (
        cpu(tmp_path).analysis_job(("done/cell/a.json",), report=report) for report in (False, True)
    )
    assert [words[0] for words in short.commands] == ["ingest"]
    assert [words[0] for words in whole.commands] == ["ingest", "reproduce"]
    assert short.needs == whole.needs == ("done/cell/a.json",)


@pytest.mark.parametrize("name", FORMS)
def test_every_step_is_the_papers_divided_by_the_scale(name: str) -> None:
    form = FORMS[name]
    for own, paper_name in form.stand_ins.items():
        paper, mine = parse(paper_name), form.models[own]
        assert own.startswith(PREFIX) and own not in MODELS
        assert mine.objectives == paper.objectives and mine.kind == paper.kind
        pairs = list(zip(mine.stages, paper.stages, strict=True))
        assert all((a.start * form.scale, a.end * form.scale) == (b.start, b.end) for a, b in pairs)
        assert all(a.phase == b.phase for a, b in pairs)
    study = form.study
    assert study.design.prefix == PREFIX
    assert form.stand_ins[form.own(CONTROL)] == CONTROL and set(form.tuned) - {RANDOM} < set(form.models)
    for shape in study.shapes.values():  # initial weights keep the paper's ratio to 1 / sqrt(width)
        assert shape.init_std == round(0.02 * (SHAPES["610m"].hidden / shape.hidden) ** 0.5, 3)
    # warm-up and decay keep their proportion to the budget
    assert study.config.optimizer.warmup_steps * form.scale == study.design.decay_steps * form.scale == 2_000
    assert study.config.optimizer.rewarm_steps * form.scale == 200


def test_the_example_has_the_whole_design() -> None:
    """Three sizes with CLM and four ratios of MLM, the 25-75 model, a pair of continued pretrainings."""
    own = set(FORMS["cpu"].stand_ins.values())
    objectives = ("clm", "mlm20", "mlm30", "mlm40", "mlm50")
    assert own >= {f"{size}-{one}-42k" for size in ("210m", "610m", "1b") for one in objectives}
    assert own >= {"610m-clm-10k-mlm40-42k", "610m-mlm40-dec42k-mlm40-64k", "610m-clm-dec42k-mlm40-64k"}


@pytest.mark.parametrize("by", [2, 50, 500])
def test_a_divided_form_keeps_its_design(by: int, tmp_path: Path) -> None:
    whole, form = FORMS["gpu"], FORMS["gpu"].divided(by)
    assert form.scale == whole.scale * by and len(form.models) == len(whole.models) == 16
    assert list(form.stand_ins.values()) == list(whole.stand_ins.values())
    steps = [form.models[name].steps for name, paper in form.stand_ins.items() if paper != CONTROL]
    assert set(steps) == {42_000 // form.scale}
    assert form.study.shapes["mini-m"].encoder_parameters < whole.study.shapes["mini-m"].encoder_parameters
    miniature = Miniature.below(tmp_path, form, DataSource(place=tmp_path))
    assert miniature.root.name == f"gpu-real-divided-{by}"
    [data] = [job for job in miniature.jobs() if job.name == "datasets"]
    assert data.commands[0][-2:] == ("--divide", str(by))
    assert (miniature.root / "study.toml").read_text("utf-8") == form.study_text


def test_steps_that_cannot_be_divided_are_refused() -> None:
    with pytest.raises(UserError, match="--divide 3 must divide the decay of 500 steps"):
        FORMS["gpu"].divided(3)
    assert FORMS["gpu"].divided(1) is FORMS["gpu"]


def test_the_day_of_a_gpu_has_five_pretrainings_of_three_objectives_of_25_to_50_million_parameters() -> None:
    form = FORMS["gpu"]
    arms = Counter(arm_of(name)[0] for name, paper in form.stand_ins.items() if paper != CONTROL)
    assert list(arms.values()) == [5, 5, 5]
    [shape] = form.study.shapes.values()
    assert 25e6 < shape.encoder_parameters < 50e6
    plan = plan_of(tuple(form.models.values()), form.study)
    tuned = tuning_hours(shape, FAMILIES.values(), H100, 2)
    assert 18 < plan.costs().gpu_hours + tuned * form.fine_tunings / len(FAMILIES) < 23
