"""A miniature of seconds for the tests of the machinery: `python -m tests.miniature.tiny OUT`."""

from __future__ import annotations

import dataclasses
import logging
import sys
from pathlib import Path

from miniature.data import MADE_UP
from miniature.forms import FORMS
from miniature.pipeline import make_miniature
from miniature.plan import Miniature
from pretraining.paper_settings import Shape

_SHAPE = Shape(hidden=16, layers=1, heads=4, kv_heads=2, mlp=32, vocab=300, max_length=64)

TINY = dataclasses.replace(
    FORMS["quick"],
    name="tiny",
    scale=1000,
    shapes={"m": _SHAPE},
    settings={
        **FORMS["quick"].settings,
        "global_batch": 4,
        "microbatch": 4,
        "max_length": 32,
        "warmup_steps": 2,
        "rewarm_steps": 0,
        "eval_every": 21,
        "eval_sequences": 8,
        "save_every": 7,
        "shuffle_block": 64,
    },
    tokens=20_000,
    tokenizer_documents=20,
    examples=dict.fromkeys(("SC", "TC", "QA", "IR"), (96, 12)),
    tuning_steps=6,
    tuning_length=48,
    seeds=(0, 1),
)

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    miniature = Miniature.below(Path(sys.argv[1]), TINY, MADE_UP)
    sys.stdout.write(make_miniature(miniature, report="report" in sys.argv[2:]))
