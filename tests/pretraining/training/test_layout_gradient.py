"""One step has one gradient, whatever the passes and the ranks are."""

import multiprocessing
from datetime import timedelta
from itertools import product
from pathlib import Path

import pytest
import torch
import torch.distributed
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from pretraining.model.masking import MaskRule
from pretraining.model.modeling import EuroBertForMaskedLM, initialise
from pretraining.model.packed_batch import PackedBatch
from pretraining.plan.study_plan import Study
from pretraining.training.composer_parts import PretrainingModel, StepData
from pretraining.training.dataloader import Data
from pretraining.training.objectives import group_weights, loss_sum, mlm
from pretraining.training.ranks import Ranks
from tests.pretraining.packed import sequences
from tests.pretraining.small_study import changed, model_config

SETTINGS = ("global_batch=96", "loss_group=12", "max_length=48")
STEP = 1
CPU = torch.device("cpu")


def prepared(
    study: Study, data: Path, dtype: torch.dtype, *words: str
) -> tuple[Data, EuroBertForMaskedLM]:
    torch.set_num_threads(1)
    config = model_config(study, data)
    model = EuroBertForMaskedLM(config)
    initialise(model, 0)
    return Data(data, changed(study, *SETTINGS, *words), config), model.to(dtype)


def gradient(model: EuroBertForMaskedLM) -> Tensor:
    found = torch.cat(
        [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    )
    model.zero_grad()
    return found


def of_ranks_in_turn(
    source: Data, model: EuroBertForMaskedLM, world: int, weighting: str
) -> Tensor:
    """The sum over the ranks' shares, one after the other in this process."""
    shares = [
        source.step(STEP, "mlm", 40, rank=rank, world=world) for rank in range(world)
    ]
    weights = group_weights(
        torch.stack([share.counts for share in shares]).sum(0), weighting
    )
    for share in shares:
        for part in share.weighed(weights).microbatches:
            loss_sum(model, part).total.backward()
    return gradient(model)


def of_the_papers_loop(
    source: Data, model: EuroBertForMaskedLM, weighting: str
) -> Tensor:
    """The mean of the means of neighbours in twelves, written out; or the mean over all predicted tokens."""
    by_id = sequences(part.inputs for part in source.step(STEP, "clm").microbatches)
    ids = source._cut.spans(source.order.batch_of(STEP)[1])[0].tolist()
    rule = MaskRule.of(source._model_config, ratio=0.4, seed=0)
    losses = []
    for first in range(0, 96, 12):
        part = ids[first : first + 12]
        losses.append(
            loss_sum(
                model, mlm(PackedBatch.of([by_id[i].numpy() for i in part], part), rule)
            )
        )
    if weighting == "equal":
        torch.stack([loss.mean for loss in losses]).mean().backward()
    else:
        (
            torch.stack([loss.total for loss in losses]).sum()
            / sum(loss.count for loss in losses)
        ).backward()
    return gradient(model)


EVERY = tuple(product((1, 4, 12, 48, 96), (1, 2, 4)))
SOME = (*EVERY[::4], (96, 1))


@pytest.mark.parametrize(
    ("weighting", "dtype", "within", "layouts"),
    [
        ("equal", torch.float64, 1e-12, EVERY),
        ("token", torch.float64, 1e-12, SOME),
        ("equal", torch.float32, 2e-5, SOME),
    ],
)
def test_one_gradient_for_all_micro_batches_and_ranks(
    study: Study,
    data: Path,
    weighting: str,
    dtype: torch.dtype,
    within: float,
    layouts: tuple[tuple[int, int], ...],
) -> None:
    source, model = prepared(study, data, dtype)
    expected = of_the_papers_loop(source, model, weighting)
    passes = set()
    for size, world in layouts:
        source, _ = prepared(study, data, dtype, f"microbatch={size}")
        found = of_ranks_in_turn(source, model, world, weighting)
        assert float((found - expected).norm() / expected.norm()) < within, (
            size,
            world,
        )
        passes.add(source.step(STEP, "mlm", 40, world=world).passes)
    assert min(passes) == 1 and max(passes) >= 40


def test_the_weightings_differ(study: Study, data: Path) -> None:
    source, model = prepared(study, data, torch.float64)
    equal, token = (
        of_ranks_in_turn(source, model, 1, rule) for rule in ("equal", "token")
    )
    assert float((equal - token).norm() / token.norm()) > 1e-3


def one_of_many(study: Study, data: Path, folder: Path, rank: int, world: int) -> None:
    torch.distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=60),
    )
    source, model = prepared(study, data, torch.float64, "microbatch=4")
    ranks = Ranks(rank=rank, world=world, device=CPU)
    share = source.step(STEP, "mlm", 40, rank=rank, world=world)
    steps = StepData([share], ranks, stop=lambda: rank == 1)
    (batch,) = steps.dataloader
    weighed = steps.batch_transforms(batch)
    whole = DistributedDataParallel(PretrainingModel(model))
    with whole.no_sync():
        for place, part in enumerate(steps.split_batch(weighed, 1)):
            whole.require_backward_grad_sync = place == len(share.microbatches) - 1
            # As Composer scales it: 1 over the ranks' mean number of passes; DDP then takes the ranks' mean.
            (whole.module.loss(whole(part), part) * world / share.passes).backward()
    if rank == 0:
        torch.save(
            {"gradient": gradient(model), "read": tuple(steps.sums())},
            folder / "gradient.pt",
        )
    torch.distributed.destroy_process_group()


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("world", [2, 4])
def test_processes_end_in_the_same_gradient(
    study: Study, data: Path, tmp_path: Path, world: int
) -> None:
    """Real processes under gloo, through DDP, in float64."""
    source, model = prepared(study, data, torch.float64)
    expected = of_the_papers_loop(source, model, "equal")
    context = multiprocessing.get_context("fork")
    processes = [
        context.Process(target=one_of_many, args=(study, data, tmp_path, rank, world))
        for rank in range(world)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * world
    saved = torch.load(tmp_path / "gradient.pt", weights_only=True)
    assert float((saved["gradient"] - expected).norm() / expected.norm()) < 1e-12
    whole = source.step(STEP, "mlm", 40)
    assert saved["read"] == (int(whole.counts.sum()), whole.fingerprint, True, False)
