"""Forward passes in evaluation that do not fit into memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks.finetuning.trainer import FineTuningError
from benchmarks.tasks.supervised import PaddedBatch, in_halves


@pytest.mark.parametrize("fitting", [1, 2, 7])
def test_a_batch_is_halved_until_it_fits(fitting: int) -> None:
    sizes = []

    def compute(ids: Tensor, lengths: Tensor, kinds: Tensor | None) -> Tensor:
        if len(ids) > fitting:
            raise torch.OutOfMemoryError
        sizes.append(len(ids))
        return ids.double().sum(1) * lengths

    ids, lengths = torch.arange(21, dtype=torch.int32).view(7, 3), torch.arange(1, 8)
    batch = PaddedBatch(rows=np.arange(7), ids=ids, lengths=lengths)
    found = in_halves(compute, batch)
    assert found.dtype == torch.float32 and found.tolist() == (ids.sum(1) * lengths).tolist()
    assert sum(sizes) == 7 and max(sizes) <= fitting


def test_a_row_that_does_not_fit_fails_the_run() -> None:
    def compute(ids: Tensor, lengths: Tensor, kinds: Tensor | None) -> Tensor:
        raise torch.OutOfMemoryError

    with pytest.raises(FineTuningError, match="out of memory in evaluation with one row"):
        ids = torch.zeros(3, 2, dtype=torch.int32)
        in_halves(compute, PaddedBatch(rows=np.arange(3), ids=ids, lengths=torch.ones(3)))
