"""One fine-tuning cell for a device: two rates and two seeds on a made-up task, next to the same on the CPU.

It needs what pretraining's checks need and nothing of the datasets' libraries, so that it runs on a machine with
PyTorch alone. The task: sequences of random words in which one of two marks stands somewhere; the mark is the label.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.finetuning.device import Device, choose_device
from benchmarks.finetuning.trainer import Groups, example_order, fine_tune
from benchmarks.protocol import FINE_TUNING
from pretraining.model.configuration import config_for
from pretraining.model.heads import EuroBertForSequenceClassification

RATES, SEEDS = (1e-3, 2e-3), (0, 1)
TRAIN, TEST, STEPS, LENGTH = 640, 256, 60, 24
MARKS, FIRST_WORD, VOCAB = (4, 5), 6, 200
CLOSE = 2e-3
"""Largest difference of the first losses from the CPU's in float32, in nats."""
LEARNT = 0.9
"""Share of held-out examples that every run must get right."""


class MarkedWords:
    """The task's examples, padded: the objective of `fine_tune`."""

    def __init__(self, size: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        lengths = rng.integers(6, LENGTH + 1, size)
        self.tokens = torch.from_numpy(rng.integers(FIRST_WORD, VOCAB, (size, LENGTH)))
        self.labels = torch.from_numpy(rng.integers(0, 2, size))
        places = torch.from_numpy(rng.integers(0, lengths))
        self.tokens[torch.arange(size), places] = torch.tensor(MARKS)[self.labels]
        self.mask = (torch.arange(LENGTH) < torch.from_numpy(lengths)[:, None]).long()

    @property
    def size(self) -> int:
        """Number of examples."""
        return len(self.labels)

    def order(self, seed: int) -> Iterator[Groups]:
        """Yield the micro-batches of each step without end."""
        micro = FINE_TUNING.micro_batch
        return example_order(self.size, seed, micro, FINE_TUNING.batch // micro)

    def logits(self, model: nn.Module, rows: Tensor, device: Device) -> Tensor:
        """Return the logits of some examples."""
        place = device.torch_device
        with device.autocast():
            found: Tensor = model(self.tokens[rows].to(place), self.mask[rows].to(place)).logits
        return found.float()

    def backward(self, model: nn.Module, groups: Groups, device: Device) -> Tensor:
        """Add the gradient of the mean of the micro-batches' means, and return that mean."""
        rows = torch.from_numpy(np.concatenate(groups))
        shares = [np.full(len(group), 1 / (len(group) * len(groups)), np.float32) for group in groups]
        weights = torch.from_numpy(np.concatenate(shares)).to(device.torch_device)
        labels = self.labels[rows].to(device.torch_device)
        loss = (F.cross_entropy(self.logits(model, rows, device), labels, reduction="none") * weights).sum()
        loss.backward()
        return loss.detach()


def one_run(lr: float, seed: int, device: Device) -> tuple[tuple[float, ...], float]:
    """Return the losses of a fine-tuning, and its accuracy on held-out examples."""
    torch.manual_seed(seed)
    config = config_for(
        "tiny",
        vocab_size=VOCAB,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
        mask_token_id=2,
        num_labels=2,
    )
    model = EuroBertForSequenceClassification(config)
    device.place(model)
    log = fine_tune(
        model, MarkedWords(TRAIN, 0), device, lr=lr, seed=seed, steps=STEPS, fine_tuning=FINE_TUNING
    )
    held_out = MarkedWords(TEST, 1)
    model.eval()
    with torch.no_grad():
        guesses = held_out.logits(model, torch.arange(TEST), device).argmax(-1).cpu()
    return log.losses, float((guesses == held_out.labels).float().mean())


def fine_tuning(
    device: str,
    precisions: Sequence[str] = ("fp32", "bf16"),
    rates: Sequence[float] = RATES,
    seeds: Sequence[int] = SEEDS,
) -> Iterator[tuple[bool, str]]:
    """Compare the cell's runs on a device with the same on the CPU in float32; yield whether each holds, and words."""
    plain = choose_device("cpu", "fp32")
    expected = {(lr, seed): one_run(lr, seed, plain) for lr in rates for seed in seeds}
    for precision in precisions:
        chosen = choose_device(device, precision)
        for (lr, seed), (losses, right) in expected.items():
            found, accuracy = one_run(lr, seed, chosen)
            off = abs(found[0] - losses[0])
            holds = accuracy >= LEARNT and off < (CLOSE if precision == "fp32" else 10 * CLOSE)
            yield (
                holds,
                f"{precision} lr {lr:g} seed {seed}: first loss {off:.1e} from the CPU's, last {found[-1]:.4f} "
                f"({losses[-1]:.4f}), {accuracy:.1%} right ({right:.1%})",
            )
