"""What is done is reused for the settings that it was made from, and for no others; a study may grow."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common.errors import UserError
from workflow.engine import run_workflow
from workflow.jobs import (
    JOB_KINDS,
    WORKFLOW,
    Job,
    Workflow,
    by_marker,
    refuse_other_settings,
    save,
)
from workflow.study import workflow_of
from workflow.study_settings import StudySettings

MODEL = "210m-clm-42k"
BEFORE = StudySettings(
    text=("/text/a.jsonl",),
    train_tokenizer=300,
    shard_options=("--tokens", "1000"),
    pretraining_settings=("peak_lr=1e-3", "save_every=50"),
    make_datasets=("--train", "4"),
    datasets=("sst2", "qqp"),
    learning_rates=(1e-4, 2e-4),
    seeds=(0, 1),
    tuning_options=("--steps", "4"),
)


def _made(
    folder: Path,
    settings: StudySettings = BEFORE,
    kinds: tuple[str, ...] = tuple(JOB_KINDS),
) -> Workflow:
    """A study whose artefacts of some kinds are there, as empty files."""
    workflow = workflow_of(MODEL, settings)
    for job in workflow.jobs.values():
        for path in job.makes if job.kind.name in kinds else ():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).touch()
    save(workflow, folder)
    return workflow


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"text": ("/text/b.jsonl",)},
            r'shards shards was made with text \["/text/a.jsonl"\], but the settings now give \["/text/b.jsonl"\]; '
            "restore the setting or choose another folder",
        ),
        (
            {"train_tokenizer": 0, "tokenizer": "/t.json"},
            'tokenizer 300, but the settings now give "/t.json"',
        ),
        (
            {"shard_options": ()},
            r'with options.--tokens \["1000"\], but the settings now give null',
        ),
        (
            {"pretraining_settings": ("peak_lr=2e-3",)},
            '(stage|model) 210m-clm.* was made with settings.peak_lr "1e-3", but the settings now give "2e-3"',
        ),
        (
            {"make_datasets": ("--train", "5")},
            r'data datasets was made with made up with.--train \["4"\]',
        ),
        (
            {"tuning_options": ("--steps", "500")},
            r'cell 210m-clm-42k/sst2 was made with options.--steps \["4"\], but the settings now give \["500"\]',
        ),
        ({"tuning_options": ("--steps=500",)}, r'the settings now give \["500"\]'),
        (
            {"tuning_gpus": 2, "tuning_options": ()},
            "cell 210m-clm-42k was made with options.--steps",
        ),
        ({"data": "/other"}, 'data "", but the settings now give "/other"'),
    ],
)
def test_other_settings_are_refused_before_anything_is_written(
    changed: dict[str, Any], message: str, tmp_path: Path
) -> None:
    _made(tmp_path)
    recorded = (tmp_path / WORKFLOW).read_text()
    now = workflow_of(MODEL, replace(BEFORE, **changed))
    for dry_run in (True, False):
        with pytest.raises(UserError, match=message):
            run_workflow(now, tmp_path, dry_run=dry_run)
    assert (tmp_path / WORKFLOW).read_text() == recorded
    assert not (tmp_path / "done").exists()


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"datasets": ("sst2", "qqp", "squad")},
        {"datasets": ("qqp",)},
        {"learning_rates": (1e-4, 2e-4, 3e-4), "seeds": (0, 1, 2)},
        {"seeds": (1,)},
        {"tuning_gpus": 4},
        {
            "tuning_options": (
                "--steps",
                "4",
                "--retry-failed",
                "--workers",
                "2",
                "--positions",
                "4096",
            )
        },
        {"shard_options": ("--tokens", "1000", "--workers", "8")},
        {"pretraining_settings": ("peak_lr=1e-3", "microbatch=4", "tensorboard=false")},
        {"device": "A100", "nodes": 2, "account": "abc", "limit_hours": 5.0},
    ],
    ids=str,
)
def test_a_study_may_grow_and_what_decides_no_result_may_change(
    changed: dict[str, Any], tmp_path: Path
) -> None:
    _made(tmp_path)
    refuse_other_settings(workflow_of(MODEL, replace(BEFORE, **changed)), tmp_path)


def test_settings_of_storage_alone_are_as_good_as_none(tmp_path: Path) -> None:
    _made(tmp_path, replace(BEFORE, pretraining_settings=("save_every=50",)))
    refuse_other_settings(
        workflow_of(MODEL, replace(BEFORE, pretraining_settings=())), tmp_path
    )


def test_another_target_reuses_what_both_share(tmp_path: Path) -> None:
    _made(tmp_path)
    refuse_other_settings(workflow_of("210m-mlm40-42k", BEFORE), tmp_path)
    with pytest.raises(UserError, match="shards shards was made with"):
        refuse_other_settings(
            workflow_of("210m-mlm40-42k", replace(BEFORE, text=("/b",))), tmp_path
        )


def test_what_is_not_done_may_still_change_unless_it_is_queued(tmp_path: Path) -> None:
    _made(tmp_path, kinds=("data", "shards"))
    now = workflow_of(MODEL, replace(BEFORE, pretraining_settings=("peak_lr=2e-3",)))
    refuse_other_settings(now, tmp_path)
    with pytest.raises(UserError, match=r"was made with settings\.peak_lr"):
        refuse_other_settings(now, tmp_path, live=[f"done/model/{MODEL}.json"])


def test_a_damaged_record_is_refused_a_missing_one_is_not(
    tmp_path: Path,
) -> None:
    _made(tmp_path)
    now = workflow_of(MODEL, replace(BEFORE, tuning_options=()))
    for text in ("{", '{"jobs": [{"strange": 1}]}', '{"jobs": [{"kind": "strange"}]}'):
        (tmp_path / WORKFLOW).write_text(text)
        with pytest.raises(
            UserError, match=r"is damaged.*delete it .* and rerun the study"
        ):
            refuse_other_settings(now, tmp_path)
    (tmp_path / WORKFLOW).unlink()
    with pytest.raises(UserError, match="is no study and holds other files"):
        refuse_other_settings(now, tmp_path)
    shutil.rmtree(tmp_path / "analysis")
    refuse_other_settings(now, tmp_path)


def test_tables_follow_and_are_not_compared(tmp_path: Path) -> None:
    def tables(word: str) -> Workflow:
        job = Job(
            kind=JOB_KINDS["analysis"],
            name="all",
            commands=(("ingest", word),),
            makes=("t",),
        )
        return Workflow(target="all", jobs=by_marker([job]))

    (tmp_path / "t").touch()
    save(tables("a"), tmp_path)
    refuse_other_settings(tables("b"), tmp_path)
