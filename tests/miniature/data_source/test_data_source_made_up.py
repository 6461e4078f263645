"""A miniature from nothing."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from miniature.data_source import MADE_UP
from miniature.folders import Folders
from miniature.forms import FAMILIES, FORMS

FORM = dataclasses.replace(FORMS["quick"], tokens=3_000)


def test_the_text_is_written_once_and_named_from_the_folder(tmp_path: Path) -> None:
    folders = Folders(root=tmp_path)
    assert MADE_UP.text(FORM, folders) == ["raw/text.jsonl"]
    before = (folders.raw / "text.jsonl").stat().st_mtime_ns
    assert (folders.raw / "text.jsonl").read_text().count("\n") == 3_000 // 150
    MADE_UP.text(FORM, folders)
    assert (folders.raw / "text.jsonl").stat().st_mtime_ns == before


def test_one_job_writes_all_datasets_in_the_forms_sizes(tmp_path: Path) -> None:
    (job,) = MADE_UP.datasets(FORM, Folders(root=tmp_path))
    assert job.makes == tuple(f"data/{name}/manifest.json" for name in (*FAMILIES.values(), "msmarco"))
    sizes = {words[2]: words[4::2][:2] for words in job.commands}
    large, small = ("640", "200"), ("640", "100")
    assert sizes == {"sst2": large, "uner_en": large, "squad": large, "nq": small, "msmarco": small}
