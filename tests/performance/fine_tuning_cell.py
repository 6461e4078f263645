"""One fine-tuning cell for a device: two rates and two seeds on a made-up task, next to the same on the CPU.

It needs nothing of the datasets' libraries. The task: sequences of random words in which one of two marks stands
somewhere; the mark is the label.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.finetuning.device import Device, choose_device
from benchmarks.finetuning.trainer import Groups, example_order, fine_tune
from benchmarks.protocol import FINE_TUNING
from pretraining.model.configuration import EncoderConfig, config_for
from pretraining.model.modeling import EuroBertModel

TRAIN, TEST, STEPS, LENGTH = 640, 256, 60, 24
SPECIAL = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1, "mask_token_id": 2}
MARKS, FIRST_WORD, VOCAB = (4, 5), 6, 200
CLOSE = {"fp32": 2e-3, "bf16": 2e-2}
"""Largest difference of the first losses from the CPU's in float32, in nats."""
LEARNT = 0.9
"""Share of held-out examples that every run must get right."""


class MarkedWords:
    """The task's examples, padded: the objective of `fine_tune`."""

    def __init__(self, size: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        lengths = rng.integers(6, LENGTH + 1, size)
        self.size = size
        self.tokens = torch.from_numpy(rng.integers(FIRST_WORD, VOCAB, (size, LENGTH)))
        self.labels = torch.from_numpy(rng.integers(0, 2, size))
        places = torch.from_numpy(rng.integers(0, lengths))
        self.tokens[torch.arange(size), places] = torch.tensor(MARKS)[self.labels]
        self.mask = (torch.arange(LENGTH) < torch.from_numpy(lengths)[:, None]).long()

    def order(self, seed: int) -> Iterator[Groups]:
        """Yield the micro-batches of each step without end."""
        micro = FINE_TUNING.micro_batch
        return example_order(self.size, seed, micro, FINE_TUNING.batch // micro)

    def logits(self, model: nn.Module, rows: Tensor, device: Device) -> Tensor:
        """Return the logits of some examples."""
        place = device.torch_device
        with device.autocast():
            found: Tensor = model(self.tokens[rows].to(place), self.mask[rows].to(place))
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


class Classifier(nn.Module):
    """The mean of the hidden states, a dense layer, GELU and two logits."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.model, width = EuroBertModel(config), config.hidden_size
        self.head = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, 2))

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Return the logits (B, 2) of a padded batch."""
        hidden = self.model(tokens, mask).last_hidden_state
        weights = mask.to(hidden.dtype).unsqueeze(-1)
        logits: Tensor = self.head((hidden * weights).sum(1) / weights.sum(1))
        return logits


def one_run(lr: float, seed: int, device: Device) -> tuple[tuple[float, ...], float]:
    """Return the losses of a fine-tuning, and its accuracy on held-out examples."""
    torch.manual_seed(seed)
    model = Classifier(config_for("tiny", vocab_size=VOCAB, **SPECIAL))
    device.place(model)
    task, held_out = MarkedWords(TRAIN, 0), MarkedWords(TEST, 1)
    log = fine_tune(model, task, device, lr=lr, seed=seed, steps=STEPS, fine_tuning=FINE_TUNING)
    model.eval()
    with torch.no_grad():
        guesses = held_out.logits(model, torch.arange(TEST), device).argmax(-1).cpu()
    return log.losses, float((guesses == held_out.labels).float().mean())


def fine_tuning(device: str, *, small: bool) -> Iterator[tuple[bool, str]]:
    """Compare the cell's runs with the same on the CPU in float32; yield whether each holds, and words."""
    runs = [(1e-3, 0), (1e-3, 1), (2e-3, 0), (2e-3, 1)]
    for lr, seed in runs[:1] if small else runs:
        losses, right = one_run(lr, seed, choose_device("cpu", "fp32"))
        for precision in ("bf16",) if small else CLOSE:
            found, accuracy = one_run(lr, seed, choose_device(device, precision))
            off = abs(found[0] - losses[0])
            yield (
                accuracy >= LEARNT and off < CLOSE[precision],
                f"{precision} lr {lr:g} seed {seed}: first loss {off:.1e} from the CPU's, last {found[-1]:.4f} "
                f"({losses[-1]:.4f}), {accuracy:.1%} right ({right:.1%})",
            )
