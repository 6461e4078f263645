"""The miniature as data: its forms, their models, sizes and settings. Standard library only.

A model stands in the place of one of the paper's: all its steps are the paper's divided by the form's `scale`, so that
decay, switch points and checkpoints keep their proportions. Names have their own prefix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from common.registry import Registry
from pretraining.model_names import TABLES, Design, Model, format_steps
from pretraining.model_names import parse as parse_paper
from pretraining.paper_settings import SHAPES, Shape

__all__ = ["FAMILIES", "FORMS", "PREFIX", "RANDOM", "SIZES", "Form"]

PREFIX = "mini-"
"""Before every name, so that no model can be taken for one of the paper's."""
SIZES = {"s": "210m", "m": "610m", "l": "1b"}
"""The miniature's sizes, and the paper's in whose place they stand."""
RANDOM = f"{PREFIX}m-random"
"""The middle size with its initial weights, never trained: what pretraining has to beat."""
FAMILIES = {"SC": "sst2", "TC": "uner_en", "QA": "squad", "IR": "nq"}
"""The dataset of each family. The paper averages three; here a family's average is this one."""


@dataclass(frozen=True, kw_only=True)
class Form:
    """One size of the miniature."""

    name: str
    """`quick`, `cpu`, `long` or `gpu`."""
    about: str
    """What it is for."""
    scale: int
    """Steps of the paper for one step here."""
    paper_models: tuple[str, ...]
    """The paper's models that have a stand-in."""
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
    pretraining_seeds: tuple[int, ...] = (0,)
    """Seeds of the pretrainings of `repeated_models`; the first is that of all models."""
    extra_models: tuple[str, ...] = field(default=())
    """Models that stand for none of the paper's tables: a check needs their loss. Not fine-tuned; without prefix."""

    @property
    def design(self) -> Design:
        """Names: prefix, sizes, length of the decay."""
        return Design(sizes=tuple(self.shapes), prefix=PREFIX, decay_steps=2_000 // self.scale)

    @property
    def stand_ins(self) -> dict[str, str]:
        """The paper's name in whose place each model stands, by the miniature's name."""
        names = dict.fromkeys(self.paper_models) | dict.fromkeys(
            self._paper_name(name) for name in self.extra_models
        )
        return {self._own_name(parse_paper(name)): name for name in names}

    @property
    def models(self) -> dict[str, Model]:
        """The pretrained models by name."""
        return {name: self.design.parse(name) for name in self.stand_ins}

    @property
    def repeated_models(self) -> tuple[str, ...]:
        """Names of the models that are pretrained with every one of several seeds: MLM alone and CLM alone."""
        if len(self.pretraining_seeds) == 1:
            return ()
        return tuple(self.own(paper) for paper in ("610m-mlm40-42k", "610m-clm-42k"))

    @property
    def copies(self) -> dict[str, tuple[str, int]]:
        """The model and the pretraining seed of every further pretraining, by the name of what comes of it."""
        return {
            f"{name}-p{seed}": (name, seed)
            for name in self.repeated_models
            for seed in self.pretraining_seeds[1:]
        }

    @property
    def tuned(self) -> tuple[str, ...]:
        """Names of the models that are fine-tuned, the untrained network first, further pretrainings last."""
        extra = {f"{PREFIX}{name}" for name in self.extra_models}
        return (RANDOM, *(name for name in self.models if name not in extra), *self.copies)

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
        return self._own_name(parse_paper(paper))

    def study_toml(self, seed: int | None = None) -> str:
        """Return the study file that `python -m pretraining --study` reads; `seed`: another one of pretraining."""
        settings = self.settings if seed is None else {**self.settings, "seed": seed}
        lines = [f'prefix = "{PREFIX}"', f"decay_steps = {self.design.decay_steps}"]
        lines.append(f"models = [{', '.join(_toml(name) for name in self.models)}]")
        for size, shape in self.shapes.items():
            lines.append(f"\n[sizes.{size}]")
            names = ("hidden", "layers", "heads", "kv_heads", "mlp", "vocab", "max_length", "init_std")
            lines += [f"{name} = {getattr(shape, name)}" for name in names]
        lines.append("\n[settings]")
        lines += [f"{key} = {_toml(value)}" for key, value in settings.items()]
        return "\n".join(lines) + "\n"

    def _own_name(self, paper: Model) -> str:
        size = next(own for own, theirs in SIZES.items() if theirs == paper.size)
        parts = [f"{PREFIX}{size}", paper.objectives[0]]
        if paper.switch is not None:
            decayed = "dec" if paper.kind == "continued" else ""
            parts += [f"{decayed}{self._steps(paper.switch)}", paper.objectives[1]]
        if paper.kind == "intermediate":
            budget = paper.name.split("-")[2]
            parts.append(self._steps(int(budget.removesuffix("k")) * 1000))
            parts.append(str(paper.steps // self.scale))
        else:
            parts.append(self._steps(paper.steps))
        return "-".join(parts)

    def _steps(self, steps: int) -> str:
        return format_steps(steps // self.scale)

    def _paper_name(self, name: str) -> str:
        """Return the name in the paper's scheme of an extra base model such as `m-mlm40-320`."""
        size, objective, steps = name.split("-")
        return f"{SIZES[size]}-{objective}-{format_steps(int(steps) * self.scale)}"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


_BASE = TABLES[2]
_TWO_STAGE = ("610m-clm-10k-mlm40-42k", "1b-clm-10k-mlm40-42k")
_CONTINUED = ("610m-mlm40-dec42k-mlm40-64k", "610m-clm-dec42k-mlm40-64k")
_EARLY_AND_LATE = tuple(f"610m-{start}-42k-{step}" for start in ("mlm40", "clm") for step in (10_000, 40_000))
_LATE_SWITCH = ("610m-clm-40k-mlm20-42k", "610m-clm-40k-mlm50-42k")
_MIDDLE = ("610m-mlm40-42k", "610m-clm-42k", _TWO_STAGE[0], *_CONTINUED)
_DESIGN = (*_BASE, *_TWO_STAGE, *_CONTINUED)

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

_QUICK = Form(
    name="quick",
    about="the middle size alone with the models that the checks need: minutes, for tests",
    scale=100,
    paper_models=("610m-mlm40-42k", "610m-clm-42k", _TWO_STAGE[0]),
    extra_models=("m-mlm40-320",),
    shapes={"m": _SHAPES["m"]},
    settings={**_SETTINGS, "warmup_steps": 20, "rewarm_steps": 2, "eval_every": 105},
    tokens=1_000_000,
    tokenizer_documents=60,
    examples={"SC": (640, 200), "TC": (640, 200), "QA": (640, 200), "IR": (640, 100)},
    tuning_steps=60,
    tuning_length=128,
    rates=(3e-3,),
    seeds=(0, 1),
)

FORMS: Registry[Form] = Registry(
    "form",
    (
        _QUICK,
        replace(
            _QUICK,
            name="seeds",
            about="`quick` with five pretrainings of MLM and of CLM: how much does a pretraining seed move scores?",
            seeds=(0, 1, 2, 3, 4),
            pretraining_seeds=(0, 1, 2, 3, 4),
        ),
        Form(
            name="cpu",
            about="the paper's design at three sizes, on two idle cores: the example in the package",
            scale=50,
            paper_models=(*_MIDDLE, *_EARLY_AND_LATE, *_DESIGN, *_LATE_SWITCH),
            extra_models=("m-mlm40-640",),
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
            paper_models=("610m-mlm40-42k", "610m-clm-42k", _TWO_STAGE[0]),
            extra_models=("m-mlm40-6400",),
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
        Form(
            name="gpu",
            about="the same design at 10 to 60 M parameters, for one H100 or H200",
            scale=20,
            paper_models=(*_MIDDLE, *_EARLY_AND_LATE, *_DESIGN, *_LATE_SWITCH),
            extra_models=("m-mlm40-1600",),
            shapes={
                "s": _shape(256, 6, 768, vocab=16_384, length=512),
                "m": _shape(384, 8, 1152, vocab=16_384, length=512),
                "l": _shape(512, 12, 1536, vocab=16_384, length=512),
            },
            settings={
                **_SETTINGS, "global_batch": 96, "microbatch": 96, "max_length": 512, "warmup_steps": 100,
                "rewarm_steps": 10, "peak_lr": 1e-3, "eval_every": 525, "eval_sequences": 512, "save_every": 525,
                "compile": "auto", "backend": "auto",
            },
            tokens=100_000_000,
            tokenizer_documents=2_000,
            examples={"SC": (20_000, 800), "TC": (6_400, 2_000), "QA": (4_000, 1_000), "IR": (1_500, 500)},
            tuning_steps=200,
            tuning_length=256,
            rates=(3e-4, 1e-3),
            seeds=(0, 1),
        ),
    ),
)  # fmt: skip
"""The forms by name. `gpu` and `seeds` have not been run; what the others took is in docs/miniature.md."""
