"""The families by name, and which training examples are used."""

from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from benchmarks.datasets.local_dataset import load_dataset
from benchmarks.datasets.schema import FORMS
from benchmarks.datasets.synthetic import GRAMMARS
from benchmarks.finetuning.trainer import example_order
from benchmarks.own_datasets.definition_file import DATASET_KINDS
from benchmarks.protocol import FINE_TUNING, TASKS, get_dataset
from benchmarks.tasks.families import TASK_FAMILIES, family_of, sampled_rows
from common.errors import UserError


def test_only_what_the_seeds_draw_is_tokenised(data: Path) -> None:
    dataset = load_dataset(data, "sst2")
    fine_tuning = replace(FINE_TUNING, steps=2)
    rows = sampled_rows(dataset, fine_tuning, [0])
    expected = np.concatenate(
        [np.concatenate(step) for step in islice(example_order(96, 0, 4, 8), 2)]
    )
    assert rows.tolist() == sorted(expected.tolist())
    assert len(sampled_rows(dataset, fine_tuning, [0, 1])) > len(rows)


def test_every_task_has_its_parts_and_an_unknown_one_none() -> None:
    assert [*GRAMMARS, "IR"] == list(TASKS)
    assert (
        set(TASK_FAMILIES)
        == set(FORMS)
        == {kind.form for kind in DATASET_KINDS.values()}
        > set(TASKS)
    )
    made_up = replace(get_dataset("sst2"), name="made_up", task="SCC", form="SCC")
    for lookup in (family_of, lambda dataset: FORMS[dataset.form]):
        with pytest.raises(UserError, match=r"unknown task 'SCC'; .*did you mean 'SC'"):
            lookup(made_up)
