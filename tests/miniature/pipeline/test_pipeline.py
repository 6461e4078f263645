"""The miniature's refusals, and the folders of its forms."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from analysis.store.stand_ins import read_stand_ins
from common.errors import UserError
from miniature import pipeline
from miniature.data_source import MADE_UP
from miniature.folders import Folders
from miniature.forms import FORMS
from miniature.pipeline import _refuse_other_data, folders_of, show_miniature
from miniature.plan import plan, workflow_for
from workflow.jobs import load, save

FORM = dataclasses.replace(FORMS["quick"], tokens=3_000)


def test_nothing_to_show_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no fine-tunings yet; make them with `python -m miniature run`"):
        show_miniature(FORM, MADE_UP, tmp_path)


def test_each_form_on_each_source_has_a_folder(tmp_path: Path) -> None:
    assert folders_of(FORM, MADE_UP, tmp_path).root == tmp_path / "quick-made-up"


def test_a_folder_of_other_data_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path = tmp_path / "quick-made-up"
    folders = Folders(root=tmp_path)
    jobs = plan(FORM, MADE_UP, folders)
    _refuse_other_data(jobs, folders)
    save(workflow_for(jobs), tmp_path)
    _refuse_other_data(jobs, folders)
    # `show` in between forgets nothing.
    monkeypatch.setattr(pipeline, "run_workflow", lambda workflow, folder, **_: save(workflow, folder))
    (folders.store / "results").mkdir(parents=True)
    with pytest.raises(UserError, match="not everything was done"):
        show_miniature(FORM, MADE_UP, tmp_path.parent)
    # The analysis reads what was written for it.
    read = read_stand_ins(folders.store)
    assert read is not None and read.models == FORM.stand_ins and read.logs is None
    assert [job.kind.name for job in load(tmp_path).jobs.values()] == ["data", "shards", "data", "analysis"]
    with pytest.raises(UserError, match="was made of other data; give the same --data"):
        _refuse_other_data(plan(dataclasses.replace(FORM, tokens=6_000), MADE_UP, folders), folders)
