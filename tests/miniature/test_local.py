"""Samples of original files in a folder."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from benchmarks.__main__ import main as benchmarks
from benchmarks.datasets.local_dataset import load
from common.errors import UserError
from miniature.folders import Folders
from miniature.forms import FORMS
from miniature.local import LocalFiles

REAL = Path(os.environ.get("REAL_DATA", "/nowhere"))
FORM = FORMS["quick"]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"eltec-eng\.chapters\.jsonl: no such file"):
        LocalFiles(tmp_path).text(FORM, Folders(root=tmp_path))
    with pytest.raises(UserError, match=r"sst2/train\.tsv: no such file"):
        LocalFiles(tmp_path).datasets(FORM, Folders(root=tmp_path))


@pytest.mark.real_data
@pytest.mark.skipif(not REAL.is_dir(), reason="REAL_DATA names no folder with original distribution files")
def test_samples_are_read_by_the_usual_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (job,) = LocalFiles(REAL).datasets(FORM, Folders(root=tmp_path))
    monkeypatch.chdir(tmp_path)
    for _, *words in job.commands:
        assert benchmarks(words) in (0, None)
    counts = {
        name: load(tmp_path / "data", name).manifest.counts for name in ("sst2", "uner_en", "squad", "nq")
    }
    for task, name in (("SC", "sst2"), ("TC", "uner_en"), ("QA", "squad")):
        train, rest = FORM.examples[task]
        assert counts[name] == {"train": train, "validation": rest, "test": rest}
    rest = FORM.examples["IR"][1]
    assert counts["nq"]["validation"] == counts["nq"]["test"] == rest
    pairs = load(tmp_path / "data", "msmarco").tables["pairs"]["query"].to_pylist()
    asked = load(tmp_path / "data", "nq").tables["queries"]["text"].to_pylist()
    assert len(pairs) == FORM.examples["IR"][0] + 100 and not set(pairs) & set(asked)
    squad = json.loads((tmp_path / "raw" / "squad-validation.json").read_text())
    other = json.loads((tmp_path / "raw" / "squad-test.json").read_text())

    def ids(content: dict[str, list[dict[str, list[dict[str, list[dict[str, str]]]]]]]) -> set[str]:
        return {q["id"] for a in content["data"] for p in a["paragraphs"] for q in p["qas"]}

    assert not ids(squad) & ids(other)
