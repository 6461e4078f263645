"""Losses of twenty steps of a tiny model in a plain loop: CLM, MLM at 40 %, and CLM then MLM.

    python -m tests.pretraining.training.train.golden > tests/golden/pretraining_losses.json

The numbers are committed. A change that is not meant to change training must give them again; a change that is must
commit new ones and say why.
"""

import json
import sys

import numpy as np
import torch

from pretraining.model.masking import MaskRule
from pretraining.model.modeling import EuroBertForMaskedLM, initialise
from pretraining.model.packed_batch import PackedBatch
from pretraining.paper_settings import TRAINING
from pretraining.training.objectives import clm, loss_sum, mlm
from tests.pretraining.sizes import config_for

STEPS, SEQUENCES, VOCAB = 20, 8, 311
SCHEDULES = {
    "clm": ["clm"] * STEPS,
    "mlm40": ["mlm"] * STEPS,
    "clm-10-mlm40-20": ["clm"] * 10 + ["mlm"] * 10,
}


def batch_of(step: int) -> PackedBatch:
    """Return the step's sequences: walks on a circle of thirty tokens, so that there is something to learn."""
    rng = np.random.default_rng(step)
    sequences = []
    for _ in range(SEQUENCES):
        length = rng.integers(12, 65)
        walk = rng.integers(0, 300) + np.cumsum(rng.integers(0, 4, length))
        sequences.append(4 + walk % 30)
    return PackedBatch.of(
        sequences, np.arange(step * SEQUENCES, (step + 1) * SEQUENCES)
    )


def losses(schedule: list[str], device: str = "cpu") -> list[float]:
    """Return the mean loss of each step, in nats a predicted token."""
    torch.set_num_threads(1)
    config = config_for(
        "tiny",
        vocab_size=VOCAB,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
        mask_token_id=2,
    )
    model = EuroBertForMaskedLM(config)
    initialise(model, 0)
    model.to(device)
    rule = MaskRule.of(config, ratio=0.4, seed=0)
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=5e-3,
        betas=TRAINING.betas,
        eps=TRAINING.eps,
        weight_decay=TRAINING.weight_decay,
    )
    found = []
    for step, objective in enumerate(schedule):
        batch = batch_of(step)
        made = clm(batch) if objective == "clm" else mlm(batch, rule)
        loss = loss_sum(model, made.to(device)).mean
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), TRAINING.clip_norm)
        optimizer.step()
        optimizer.zero_grad()
        found.append(round(loss.item(), 6))
    return found


if __name__ == "__main__":
    json.dump(
        {name: losses(schedule) for name, schedule in SCHEDULES.items()},
        sys.stdout,
        indent=1,
    )
    sys.stdout.write("\n")
