"""How a sequence becomes one vector."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from benchmarks.__main__ import main
from benchmarks.finetuning.heads import MEAN, POOLINGS, Pooling, SequenceHead
from common.errors import UserError


def test_pooling_reads_the_real_tokens_only() -> None:
    hidden = torch.arange(12.0).view(2, 3, 2)
    lengths = torch.tensor([3, 2])
    assert MEAN.pool(hidden, lengths).tolist() == [[2.0, 3.0], [7.0, 8.0]]
    assert POOLINGS["first"].pool(hidden, lengths).tolist() == [[0.0, 1.0], [6.0, 7.0]]
    assert POOLINGS["last"].pool(hidden, lengths).tolist() == [[4.0, 5.0], [8.0, 9.0]]
    late, linear = SequenceHead(2, 2, POOLINGS["late"]), SequenceHead(2, 2, MEAN)
    late.load_state_dict(linear.state_dict())
    one = hidden[:, :1]
    torch.testing.assert_close(late(one, torch.ones(2, dtype=torch.long)), linear(one, torch.tensor([1, 1])))
    with pytest.raises(UserError, match="did you mean 'mean'"):
        _ = POOLINGS["meen"]


def test_a_made_up_pooling_is_used_by_a_run_and_recorded(
    data: Path, model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    seen = []

    def middle(hidden: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        seen.append(len(hidden))
        return hidden[torch.arange(len(hidden)), lengths // 2]

    words = ["--model", str(model_folder("ours")), "--data", str(data), "--steps", "2", "--device", "cpu"]
    words += ["--workers", "1", "--lr", "1e-3", "--seed", "0", "--dataset", "sst2", "msmarco"]
    words += ["--pooling", "middle", "--out", str(tmp_path)]
    with pytest.raises(UserError, match="unknown pooling 'middle'"):
        main(["run", *words])
    POOLINGS.register(Pooling(name="middle", pool=middle))
    try:
        assert main(["run", *words]) == 0
    finally:
        POOLINGS.pop("middle")
    assert seen
    records = [json.loads(path.read_text()) for path in tmp_path.rglob("run.json")]
    assert [record["settings"]["pooling"] for record in records] == ["middle", "middle"]
