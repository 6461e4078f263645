"""The miniature as data: its forms, their models, sizes and settings. Standard library only.

A model stands in the place of one of the paper's: all its steps are the paper's divided by the form's `scale`, so that
decay, switch points and checkpoints keep their proportions. Names have their own prefix.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass

from common.registry import Registry
from pretraining.model_names import TABLES, Design, Model, format_steps
from pretraining.model_names import parse as parse_paper
from pretraining.paper_settings import SHAPES, Shape

__all__ = ["CONTROL", "FAMILIES", "FORMS", "PREFIX", "RANDOM", "SIZES", "Form"]

PREFIX = "mini-"
"""Before every name, so that no model can be taken for one of the paper's."""
SIZES = {"s": "210m", "m": "610m", "l": "1b"}
"""The miniature's sizes, and the paper's in whose place they stand."""
RANDOM = f"{PREFIX}m-random"
"""The middle size with its initial weights, never trained: what pretraining has to beat."""
CONTROL = "610m-mlm40-32k"
"""The paper's name of MLM alone, decayed, after as many steps as the two-stage model has in its second stage. Every
form has it, for its loss, and fine-tunes it not: the paper has no such model."""
FAMILIES = {"SC": "sst2", "TC": "uner_en", "QA": "squad", "IR": "nq"}
"""The dataset of each family. The paper averages three; here a family's average is this one."""


@dataclass(frozen=True, kw_only=True)
class Form:
    """One size of the miniature."""

    name: str
    """Value of `--form`."""
    about: str
    """What it is for."""
    scale: int
    """Steps of the paper for one step here."""
    paper_models: tuple[str, ...]
    """The paper's models that have a stand-in, but for `CONTROL`."""
    shapes: dict[str, Shape]
    """Architectures by size: `s`, `m`, `l`."""
    settings: dict[str, object]
    """Fields of `pretraining.plan.config.TrainingConfig` that differ from the paper's."""
    tokens: int
    """Training tokens of the text; fewer than the steps need are seen again."""
    tokenizer_documents: int
    """Documents that the tokenizer is trained on."""
    examples: dict[str, tuple[int, int]]
    """For each family, examples to train on and in each other split at most."""
    tuning_steps: int
    """Optimiser steps of a fine-tuning; token classification takes one epoch, as in the paper."""
    tuning_length: int
    """Longest input of a fine-tuning, in tokens."""
    rates: tuple[float, ...]
    """Learning rates of the fine-tunings; small networks want larger ones than the paper's."""
    seeds: tuple[int, ...]
    """Seeds of the fine-tunings."""

    @property
    def design(self) -> Design:
        """Names: prefix, sizes, length of the decay."""
        return Design(sizes=tuple(self.shapes), prefix=PREFIX, decay_steps=2_000 // self.scale)

    @property
    def stand_ins(self) -> dict[str, str]:
        """The paper's name in whose place each model stands, by the miniature's name."""
        return {self.own(name): name for name in dict.fromkeys((*self.paper_models, CONTROL))}

    @property
    def models(self) -> dict[str, Model]:
        """The pretrained models by name."""
        return {name: self.design.parse(name) for name in self.stand_ins}

    @property
    def tuned(self) -> tuple[str, ...]:
        """Names of the models that are fine-tuned, the untrained network first."""
        return (RANDOM, *(name for name, paper in self.stand_ins.items() if paper != CONTROL))

    @property
    def fine_tunings(self) -> int:
        """How many there are of them in all."""
        return len(self.tuned) * len(FAMILIES) * len(self.rates) * len(self.seeds)

    @property
    def stages(self) -> dict[str, str]:
        """The paper's stage in whose place each of the miniature's stands."""
        found = {}
        for own, paper in self.stand_ins.items():
            pairs = zip(self.models[own].stages, parse_paper(paper).stages, strict=True)
            found.update({mine.name: theirs.name for mine, theirs in pairs})
        return found

    def own(self, paper: str) -> str:
        """Return the name of the model that stands for the paper's `paper`."""
        size, *words = paper.split("-")
        here = next(own for own, theirs in SIZES.items() if theirs == size)
        return "-".join([f"{PREFIX}{here}", *map(self._own_word, words)])

    def _own_word(self, word: str) -> str:
        if match := re.fullmatch(r"(dec)?(\d+)k", word):
            return (match[1] or "") + format_steps(1_000 * int(match[2]) // self.scale)
        return str(int(word) // self.scale) if word.isdigit() else word

    def study_toml(self) -> str:
        """Return the study file that `python -m pretraining --study` reads."""
        lines = [f'prefix = "{PREFIX}"', f"decay_steps = {self.design.decay_steps}"]
        lines.append(f"models = {json.dumps([*self.models])}")
        for size, shape in self.shapes.items():
            lines.append(f"\n[sizes.{size}]")
            names = ("hidden", "layers", "heads", "kv_heads", "mlp", "vocab", "max_length", "init_std")
            lines += [f"{name} = {getattr(shape, name)}" for name in names]
        lines.append("\n[settings]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in self.settings.items()]
        return "\n".join(lines) + "\n"


_MIDDLE = ("610m-mlm40-42k", "610m-clm-42k", "610m-clm-10k-mlm40-42k")
_CONTINUED = ("610m-mlm40-dec42k-mlm40-64k", "610m-clm-dec42k-mlm40-64k")
_EARLY_AND_LATE = tuple(f"610m-{start}-42k-{step}" for start in ("mlm40", "clm") for step in (10_000, 40_000))
_LATE_SWITCH = ("610m-clm-40k-mlm20-42k", "610m-clm-40k-mlm50-42k")

_SETTINGS: dict[str, object] = {
    "seed": 0, "min_length": 12, "max_length": 128, "global_batch": 32, "microbatch": 32, "warmup_steps": 40,
    "rewarm_steps": 4, "peak_lr": 3e-3, "eval_every": 210, "eval_sequences": 128, "save_every": 100,
    "weighting": "token", "tensorboard": False, "compile": "off", "backend": "sdpa",
}  # fmt: skip


def _shape(hidden: int, layers: int, mlp: int, *, vocab: int = 2048, length: int = 128) -> Shape:
    # The paper's ratio of initial weights to 1 / sqrt(width): its 0.02 would start networks this narrow near zero.
    std = round(SHAPES["610m"].init_std * math.sqrt(SHAPES["610m"].hidden / hidden), 3)
    return Shape(
        hidden=hidden, layers=layers, heads=4, kv_heads=2, mlp=mlp, vocab=vocab, max_length=length, init_std=std
    )  # fmt: skip


_SHAPES = {"s": _shape(48, 2, 144), "m": _shape(64, 2, 192), "l": _shape(96, 2, 288)}

FORMS: Registry[Form] = Registry(
    "form",
    (
        Form(
            name="quick",
            about="the middle size alone with the models that the checks need: minutes, for tests",
            scale=100,
            paper_models=_MIDDLE,
            shapes={"m": _SHAPES["m"]},
            settings={**_SETTINGS, "warmup_steps": 20, "rewarm_steps": 2, "eval_every": 105},
            tokens=1_000_000,
            tokenizer_documents=60,
            examples={"SC": (640, 200), "TC": (640, 200), "QA": (640, 200), "IR": (640, 100)},
            tuning_steps=60,
            tuning_length=128,
            rates=(3e-3,),
            seeds=(0, 1),
        ),
        Form(
            name="cpu",
            about="the paper's design at three sizes, on two idle cores: the example in the package",
            scale=50,
            paper_models=(
                *_MIDDLE, *_CONTINUED, *_EARLY_AND_LATE, *TABLES[2], "1b-clm-10k-mlm40-42k", *_LATE_SWITCH,
            ),
            shapes=_SHAPES,
            settings=_SETTINGS,
            tokens=3_000_000,
            tokenizer_documents=100,
            examples={"SC": (3200, 600), "TC": (2560, 600), "QA": (2560, 400), "IR": (1800, 150)},
            tuning_steps=80,
            tuning_length=128,
            rates=(1e-3, 3e-3),
            seeds=(0, 1),
        ),
        Form(
            name="long",
            about="the widest size of `cpu` alone, ten times as many steps: does pretraining help, beyond the seeds?",
            scale=5,
            paper_models=_MIDDLE,
            shapes={"m": _SHAPES["l"]},
            settings={
                **_SETTINGS, "warmup_steps": 400, "rewarm_steps": 40, "eval_every": 1_400, "save_every": 400,
            },
            tokens=20_000_000,
            tokenizer_documents=100,
            examples={"SC": (5_120, 1_000), "TC": (5_120, 2_000), "QA": (2_560, 400), "IR": (1_800, 150)},
            tuning_steps=160,
            tuning_length=128,
            rates=(3e-3,),
            seeds=tuple(range(10)),
        ),
    ),
)  # fmt: skip
"""The forms by name; what they took is in docs/miniature.md."""
