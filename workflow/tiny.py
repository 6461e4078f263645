"""A study of minutes, made up on the spot: text from a grammar, a tokenizer, two models, four families of tasks.

It shows that a machine, an image and a scheduler can run the whole chain; its scores say nothing.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

from analysis.store.stand_ins import STAND_INS
from benchmarks.protocol import TASKS, datasets_of, get_dataset
from common.files import write_text

__all__ = ["DATASETS", "MODELS", "make_text", "write_tiny_study"]

STANDS_FOR = {"tiny-t-mlm40-42": "610m-mlm40-42k", "tiny-t-clm-21-mlm40-42": "610m-clm-21k-mlm40-42k"}
"""The paper's model in whose place each is shown: a thousandth of its steps."""

MODELS = tuple(STANDS_FOR)
"""Two models that share nothing but the data: one of one stage, one that switches half-way."""

DATASETS = tuple(
    next(name for name in datasets_of(task) if get_dataset(name).trained_on == name) for task in TASKS
)
"""The first dataset of each family that is trained on itself."""

_WORDS = {
    "who": (
        "the harbour", "a teacher", "the old river", "an engine", "the garden", "every farmer", "the bridge", "my song",
        "a letter", "the window", "another kitchen", "the quiet museum",
    ),
    "does": ("watches", "carries", "remembers", "repairs", "follows", "hides", "paints", "builds", "forgets"),
    "how": (
        "slowly", "at night", "in the valley", "every spring", "on a small island", "again", "without a word",
        "with great care", "near the mountains", "for the market",
    ),
}  # fmt: skip


def make_text(documents: int, seed: int = 0) -> Iterator[str]:
    """Yield documents of a small grammar; each keeps to its few nouns."""
    draw = random.Random(seed)
    for _ in range(documents):
        cast = draw.choices(_WORDS["who"], k=3)
        sentences = []
        for _ in range(draw.randrange(4, 12)):
            words = (draw.choice(place) for place in (cast, _WORDS["does"], cast, _WORDS["how"]))
            sentences.append(f"{' '.join(words)}.".capitalize())
        yield " ".join(sentences)


_STUDY = f"""\
prefix = "tiny-"
decay_steps = 2
models = {list(MODELS)}

[sizes.t]
vocab = 384
hidden = 32
layers = 2
heads = 4
kv_heads = 2
mlp = 64
max_length = 128

[settings]
global_batch = 8
microbatch = 8
min_length = 12
max_length = 128
warmup_steps = 4
rewarm_steps = 0
peak_lr = 3e-3
eval_every = 20
eval_sequences = 8
save_every = 5
shuffle_block = 256
tensorboard = false
"""


def write_tiny_study(folder: Path, *, documents: int = 600) -> Path:
    """Write documents, `study.toml`, `workflow.toml` and `stand_ins.json` into a folder; return the settings' path.

    Files that are there with the same content are left alone, so that nothing looks newer than it is.
    """
    text = "\n".join(f'{{"text": "{document}"}}' for document in make_text(documents)) + "\n"
    settings = f"""\
study = "study.toml"
text = ["text.jsonl"]
train_tokenizer = 384
shard_options = ["--validation-tokens", "2000", "--validation-share", "0.05", "--shard-records", "8", "--workers", "1"]
make_datasets = ["--train", "64", "--evaluation", "16"]
datasets = {list(DATASETS)}
learning_rates = [1e-4, 5e-4]
seeds = [0, 1]
tuning_options = ["--steps", "4", "--max-length", "128"]
gpus_per_node = 0
cpus = 1
memory_gb = 2.0
limit_hours = 0.25
"""
    stand_ins = {
        "title": "TINY STUDY",
        "note": "made-up text and tasks and networks of 0.04M parameters, not the paper's models; "
        "it shows that the chain runs, and its numbers mean nothing.",
        "steps": 1000,
        "models": STANDS_FOR,
        "others": [],
        "stages": {},
        "families": {get_dataset(name).task: [name] for name in DATASETS},
    }
    files = {
        "text.jsonl": text,
        "study.toml": _STUDY,
        "workflow.toml": settings,
        STAND_INS: json.dumps(stand_ins, indent=1) + "\n",
    }
    for name, content in files.items():
        path = folder / name
        if not path.is_file() or path.read_text("utf-8") != content:
            write_text(path, content)
    return folder / "workflow.toml"
