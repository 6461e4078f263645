"""Rows of a whole dataset, taken at even distances."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from benchmarks.__main__ import main as benchmarks
from benchmarks.datasets.local_dataset import load, verify
from common.errors import UserError
from miniature.forms import FORMS
from miniature.sample import write_sample

FORM = dataclasses.replace(FORMS["quick"], examples=dict.fromkeys(("SC", "TC", "QA", "IR"), (10, 4)))


def test_a_sample_is_a_dataset_with_rows_of_the_whole(tmp_path: Path) -> None:
    words = ["synthetic", "sst2", "--train", "40", "--evaluation", "8", "--out", str(tmp_path / "whole")]
    assert benchmarks(words) in (0, None)
    write_sample(FORM, "sst2", tmp_path / "whole", tmp_path / "sample")
    whole, sample = load(tmp_path / "whole", "sst2"), load(tmp_path / "sample", "sst2")
    assert verify(tmp_path / "sample", "sst2") == []
    assert sample.manifest.counts == {"train": 10, "validation": 4, "test": 4}
    assert sample.labels == whole.labels
    rows = whole.tables["train"].to_pylist()
    assert sample.tables["train"].to_pylist() == [rows[4 * number] for number in range(10)]
    assert sample.manifest.source["content"] == whole.content_hash


def test_a_dataset_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="sst2"):
        write_sample(FORM, "sst2", tmp_path, tmp_path / "sample")
