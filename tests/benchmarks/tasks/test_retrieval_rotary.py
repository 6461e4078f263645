"""What keeps our EuroBERT from sentence-transformers' losses in bfloat16: three operations of rotary positions.

transformers' Llama and EuroBERT classes round where ours computes in float32 (D16): the frequencies, which
`model.to(torch.bfloat16)` casts with the weights; the tables of cosines and sines; products, sums and gradients of the
rotation. Nothing else is left: with all three the losses are equal to the bit, later steps included.
"""

import itertools
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

import pytest
import torch
from torch import Tensor

from benchmarks.datasets.local_dataset import LocalDataset, load_dataset
from benchmarks.finetuning.device import choose_device
from benchmarks.finetuning.trainer import fine_tune
from benchmarks.protocol import FINE_TUNING
from benchmarks.tasks.families import objective_of
from pretraining.model import modeling
from tests.benchmarks.tasks.test_retrieval_oracle import (
    LIMIT,
    LR,
    MODEL,
    SEEDS,
    TRAIN,
    pairs_of,
)
from tests.benchmarks.tiny import resettable_of
from tests.oracle import EUROBERT, Oracle, older_tokenizer

pytestmark = pytest.mark.slow
STEPS, SEED = 3, 1
OPERATIONS = ("frequencies", "tables", "rotation")


@contextmanager
def rounding(*names: str) -> Iterator[None]:
    """Round in the named operations as transformers' classes do."""

    def tables(positions: Tensor, head_dim: int, theta: float) -> tuple[Tensor, Tensor]:
        frequencies = 1.0 / (theta ** (torch.arange(0, head_dim, 2).float() / head_dim))
        if "frequencies" in names:
            frequencies = frequencies.bfloat16().float()
        angles = positions[..., None].float() * frequencies
        found = torch.stack([angles.cos(), angles.sin()])[..., None, :]
        cos, sin = found.bfloat16().float() if "tables" in names else found
        # As `modeling.rotary_tables` shapes them
        return cos[..., None, :], torch.stack((-sin, sin), dim=-2)

    def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        if "rotation" not in names:
            return ours(x, cos, sin)
        first, second = x.chunk(2, dim=-1)
        turned = torch.cat((-second, first), dim=-1)
        products = [
            (part.float() * torch.cat((table, table), dim=-1)).to(x.dtype)
            for part, table in ((x, cos[..., 0, :]), (turned, sin[..., 1, :]))
        ]
        return products[0] + products[1]

    ours = modeling.rotate
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(modeling, "rotary_tables", tables))
        stack.enter_context(mock.patch.object(modeling, "rotate", rotate))
        yield


def losses_of(
    dataset: LocalDataset, folder: Path, *names: str, steps: int = 1
) -> tuple[float, ...]:
    device = choose_device("cpu", "bf16", exact=True)
    resettable = resettable_of(folder, device)
    objective = objective_of(dataset, resettable.setting, [SEED])
    model = resettable.reset(dataset.dataset, SEED)
    with rounding(*names):
        log = fine_tune(
            model,
            objective,
            device,
            lr=LR,
            seed=SEED,
            steps=steps,
            fine_tuning=FINE_TUNING,
        )
    return log.losses


def test_losses_equal_transformers_to_the_bit_when_so_rounded(
    oracle: Oracle, data: Path, model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(model_folder("ours"), tmp_path / "model"))
    older_tokenizer(folder)
    dataset = load_dataset(data, "msmarco")
    pairs = pairs_of(dataset)
    script = SEEDS.replace('("fp32", "bf16")', '("bf16",)').replace(
        "range(5)", f"({SEED},)"
    )
    found = oracle.run(
        EUROBERT + MODEL + TRAIN.partition("arguments =")[0] + script,
        folder=tmp_path / "run",
        model=folder,
        pairs=pairs,
        steps=STEPS,
        lr=LR,
        limit=LIMIT,
        texts=["a"],
    )
    theirs = found[f"bf16 {SEED}"][0]
    assert list(losses_of(dataset, folder, *OPERATIONS, steps=STEPS)) == theirs
    # The first loss without one of the three, with one alone, and with none: each has a share, and none has all of it.
    for names in (
        *itertools.combinations(OPERATIONS, 2),
        *((name,) for name in OPERATIONS),
        (),
    ):
        share = abs(losses_of(dataset, folder, *names)[0] - theirs[0])
        print(f"{', '.join(names) or 'none'}: {share:.1e}")
        assert 0 < share < 0.05, names
