"""One reader a dataset."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.datasets.listing import list_text
from benchmarks.datasets.readers import READERS, reader_of
from benchmarks.protocol import DATASETS, get_dataset
from common.errors import UserError


def test_every_dataset_has_its_reader_with_its_labels() -> None:
    assert set(READERS) == set(DATASETS)
    for name, dataset in DATASETS.items():
        labels = reader_of(dataset).labels
        assert len(labels) == (dataset.labels if dataset.task in ("SC", "TC") else 0), name


def test_a_made_up_dataset_is_read_by_its_own_reader(tmp_path_factory: pytest.TempPathFactory) -> None:
    entry = replace(get_dataset("sst2"), name="sst3", trained_on="sst3", in_paper=False)
    with pytest.raises(UserError, match="unknown reader of the dataset 'sst3'; did you mean 'sst2'"):
        reader_of(entry)
    READERS.register(replace(READERS["sst2"], name="sst3", licence="made up"))
    DATASETS.register(entry)
    try:
        text = list_text(tmp_path_factory.mktemp("none")).splitlines()
        assert text[-1].split()[0] == "sst3" and text[-1].endswith("made up")
        assert "made up" not in text[1]
    finally:
        READERS.pop("sst3")
        DATASETS.pop("sst3")
