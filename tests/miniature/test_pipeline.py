"""The miniature's refusals, and what is analysed before its end."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from analysis.store.stand_ins import read_stand_ins
from common.errors import UserError
from miniature import pipeline
from miniature.data_source import MADE_UP
from miniature.forms import FORMS
from miniature.pipeline import make_miniature
from miniature.plan import Miniature
from workflow.jobs import load, save

FORM = dataclasses.replace(FORMS["quick"], tokens=3_000)


def test_before_the_end_what_is_complete_is_analysed_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    miniature = Miniature.below(tmp_path, FORM, MADE_UP)
    root = miniature.root
    assert root == tmp_path / "quick-made-up"
    with pytest.raises(UserError, match="no fine-tunings yet; make them with `python -m miniature run`"):
        make_miniature(miniature, train=False)
    monkeypatch.setattr(pipeline, "run_workflow", lambda workflow, folder, **_: save(workflow, folder))
    (root / "store" / "results").mkdir(parents=True)
    done, other = [job for job in miniature.jobs() if job.kind.name == "data"]
    for path in done.makes:
        (root / path).parent.mkdir(parents=True)
        (root / path).write_text("{}")
    with pytest.raises(UserError, match="not everything was done"):
        make_miniature(miniature, train=False)
    assert [job.name for job in load(root).jobs.values()] == [done.name, "report"] and other.name != done.name
    # The analysis reads what was written for it.
    read = read_stand_ins(root / "store")
    assert read is not None and read.models == FORM.stand_ins and read.logs is None


def test_a_folder_of_other_data_is_refused(tmp_path: Path) -> None:
    """By the workflow: what is complete was made by other commands."""
    miniature = Miniature.below(tmp_path, FORM, MADE_UP)
    jobs = miniature.jobs()
    save(pipeline.workflow_for(jobs), miniature.root)
    for path in jobs[1].makes:
        (miniature.root / path).parent.mkdir(parents=True)
        (miniature.root / path).write_text("{}")
    other = dataclasses.replace(miniature, form=dataclasses.replace(FORM, tokens=6_000))
    with pytest.raises(UserError, match=r"shards shards was made with .*\"3000\".* and now .*\"6000\""):
        make_miniature(other)
