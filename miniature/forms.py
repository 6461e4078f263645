"""The miniature as data: its forms, each a study file in `studies/` and what is fine-tuned after it.

A model stands in the place of one of the paper's: all its steps are the paper's divided by the form's `scale`, so that
decay, switch points and checkpoints keep their proportions. Names have their own prefix.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from common.errors import UserError
from common.registry import Registry
from pretraining.models import MODELS, PAPER_DESIGN, Model, arm_of, format_steps
from pretraining.models import parse as parse_paper
from pretraining.plan.study_plan import Study, read_study
from pretraining.plan.study_text import divided_study, study_text

PREFIX = "mini-"
"""Before every name, so that no model can be taken for one of the paper's."""
SIZES = {f"{PREFIX}s": "210m", f"{PREFIX}m": "610m", f"{PREFIX}l": "1b"}
"""The miniature's sizes, and the paper's in whose place they stand."""
RANDOM = f"{PREFIX}m-random"
"""The middle size with its initial weights, never trained: what pretraining has to beat."""
CONTROL = "610m-mlm40-32k"
"""The paper's name of MLM alone, decayed, after as many steps as the two-stage model has in its second stage. Every
form has it, for its loss, and fine-tunes it not: the paper has no such model."""
FAMILIES = {"SC": "sst2", "TC": "uner_en", "QA": "squad", "IR": "nq"}
"""The dataset of each family. The paper averages three; here a family's average is this one."""

WHOLE_CONTEXTS = 512
"""Longest input, in tokens, from which questions keep their whole paragraph."""
_FEW_SHARDS = (
    "--validation-share", "0.05", "--validation-tokens", "100000", "--shard-records", "64", "--workers", "1",
)  # fmt: skip
"""Options of `clm-or-mlm shards` for little text."""


@dataclass(frozen=True, kw_only=True)
class Form:
    """One size of the miniature."""

    name: str
    """Value of `--form`."""
    about: str
    """What it is for."""
    study_file: Path
    """Its sizes, models and settings of pretraining."""
    tokens: int
    """Training tokens of the text; fewer than the steps need are seen again."""
    tokenizer_documents: int
    """Documents that the tokenizer is trained on."""
    examples: dict[str, tuple[int, int]]
    """For each family, examples to train on and in each other split at most."""
    tuning_steps: int
    """Optimiser steps of a fine-tuning, of token classification too."""
    tuning_length: int
    """Longest input of a fine-tuning, in tokens."""
    rates: tuple[float, ...]
    """Learning rates of the fine-tunings; small networks want larger ones than the paper's."""
    seeds: tuple[int, ...]
    """Seeds of the fine-tunings."""
    tasks: tuple[str, ...] = tuple(FAMILIES)
    """Families that are fine-tuned on."""
    whole_example: bool = True
    """Whether its example has the scores of single instances, and each step's loss where Figure 12 draws it."""
    shard_options: tuple[str, ...] = _FEW_SHARDS
    """More options for `clm-or-mlm shards`."""
    divide: int = 1
    """What its sizes and steps were divided by."""

    def divided(self, by: int) -> Form:
        """Return the form with sizes and steps divided, for a try on a CPU.

        Raises:
            UserError: the steps are not divisible, so that decay and budgets would lose their proportions.
        """
        decay = self.study.design.decay_steps
        if by == 1:
            return self
        if decay % by:
            raise UserError(f"--divide {by} must divide the decay of {decay} steps of the form {self.name}")

        def fewer(number: int, least: int) -> int:
            """Return a number divided by `by`, but no less than what the commands need."""
            return max(least, number // by)

        return replace(
            self,
            divide=by,
            tokens=max(20_000, self.tokens // by**2),  # steps and batches are fewer
            tokenizer_documents=fewer(self.tokenizer_documents, 20),
            examples={
                task: (fewer(train, 96), fewer(rest, 12)) for task, (train, rest) in self.examples.items()
            },
            tuning_steps=fewer(self.tuning_steps, 4),
            tuning_length=fewer(self.tuning_length, 48),
            shard_options=_FEW_SHARDS,
        )

    @cached_property
    def study_text(self) -> str:
        """Its study file, divided if the form is."""
        text = self.study_file.read_text("utf-8")
        return text if self.divide == 1 else study_text(divided_study(tomllib.loads(text), self.divide))

    @cached_property
    def study(self) -> Study:
        """What is pretrained."""
        return read_study(tomllib.loads(self.study_text), self.study_file)

    @property
    def scale(self) -> int:
        """Steps of the paper for one step here."""
        return PAPER_DESIGN.decay_steps // self.study.design.decay_steps

    @property
    def models(self) -> dict[str, Model]:
        """The pretrained models by name."""
        return self.study.models

    @property
    def families(self) -> dict[str, str]:
        """The dataset of each family that is fine-tuned on."""
        return {task: FAMILIES[task] for task in self.tasks}

    @property
    def datasets(self) -> tuple[str, ...]:
        """What is fine-tuned on, and what retrieval is trained on."""
        return (*self.families.values(), *(("msmarco",) if "IR" in self.tasks else ()))

    @property
    def stand_ins(self) -> dict[str, str]:
        """The paper's name in whose place each model stands, by the miniature's name; another pretraining keeps its
        `-s1`. Models of lengths that the paper has not are not among them."""
        paper_name = {self.own(name): name for name in (*MODELS, CONTROL)}
        arms = {name: arm_of(name)[0] for name in self.models}
        return {name: name.replace(arm, paper_name[arm]) for name, arm in arms.items() if arm in paper_name}

    @property
    def others(self) -> tuple[str, ...]:
        """The models that stand for none of the paper's, the untrained network first."""
        return (RANDOM, *(name for name in self.models if name not in self.stand_ins))

    def own(self, paper: str) -> str:
        """Return the name of the model that stands for the paper's `paper`."""
        size, *words = paper.split("-")
        own_size = next(own for own, paper_size in SIZES.items() if paper_size == size)
        return "-".join([own_size, *map(self._own_word, words)])

    def _own_word(self, word: str) -> str:
        """Return a part of a paper's name with its steps (`42k`, `dec42k`, `1000`) divided by the scale."""
        if match := re.fullmatch(r"(dec)?(\d+)k", word):
            return (match[1] or "") + format_steps(1_000 * int(match[2]) // self.scale)
        return str(int(word) // self.scale) if word.isdigit() else word

    @property
    def tuned(self) -> tuple[str, ...]:
        """Names of the models that are fine-tuned, the untrained network first."""
        return (RANDOM, *(name for name in self.models if self.stand_ins.get(name) != CONTROL))

    @property
    def fine_tunings(self) -> int:
        """How many there are of them in all."""
        return len(self.tuned) * len(self.families) * len(self.rates) * len(self.seeds)

    @property
    def stages(self) -> dict[str, str]:
        """The paper's stage in whose place each of the miniature's stands."""
        paper_stage = {}
        for name, paper_name in self.stand_ins.items():
            pairs = zip(self.models[name].stages, parse_paper(paper_name).stages, strict=True)
            paper_stage.update({own.name: paper.name for own, paper in pairs})
        return paper_stage


_STUDIES = Path(__file__).with_name("studies")

FORMS: Registry[Form] = Registry(
    "form",
    (
        Form(
            name="quick",
            study_file=_STUDIES / "quick.toml",
            about="tests, in minutes: only the middle size and the models that the checks need",
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
            study_file=_STUDIES / "cpu.toml",
            about="the paper's design at three sizes, on two idle cores; its results come with the package",
            tokens=3_000_000,
            tokenizer_documents=100,
            examples={"SC": (3200, 600), "TC": (2560, 600), "QA": (2560, 400), "IR": (1800, 150)},
            tuning_steps=80,
            tuning_length=128,
            rates=(1e-3, 3e-3),
            seeds=tuple(range(5)),
        ),
        Form(
            name="long",
            study_file=_STUDIES / "long.toml",
            about="whether pretraining helps by more than the variation between seeds: the largest size of `cpu`, "
            "ten times the steps",
            tokens=20_000_000,
            tokenizer_documents=100,
            examples={"SC": (5_120, 1_000), "TC": (5_120, 2_000), "QA": (2_560, 400), "IR": (1_800, 150)},
            tuning_steps=160,
            tuning_length=128,
            rates=(3e-3,),
            seeds=tuple(range(10)),
        ),
        Form(
            name="curves",
            study_file=Path(__file__).with_name("curves") / "study.toml",
            about="whether CLM first still helps after six times the steps: three lengths, five pretrainings each",
            tokens=20_000_000,
            tokenizer_documents=100,
            examples={"SC": (3200, 600), "IR": (1800, 150)},
            tuning_steps=80,
            tuning_length=128,
            rates=(1e-3, 3e-3),
            seeds=tuple(range(5)),
            tasks=("SC", "IR"),
            whole_example=False,
        ),
        Form(
            name="gpu",
            study_file=_STUDIES / "gpu.toml",
            about="one day of one H100: how much scores vary between pretrainings at a size that learns the tasks",
            tokens=4_200_000_000,
            tokenizer_documents=20_000,
            examples={
                "SC": (32_000, 2_000), "TC": (32_000, 2_000), "QA": (32_000, 2_000), "IR": (32_000, 650),
            },
            tuning_steps=1_000,
            tuning_length=WHOLE_CONTEXTS,
            rates=(1e-4, 2e-4, 5e-4),
            seeds=tuple(range(5)),
            shard_options=(),
        ),
    ),
)  # fmt: skip
"""The forms by name; what they took is in docs/miniature.md."""
