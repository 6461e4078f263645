"""From hours of one GPU to studies: what each could not see, what it trains, how long each step takes.

A study here is arms (objectives) that are pretrained several times each and fine-tuned on one dataset of each family.
Its networks are the largest that the hours train on enough tokens; pretrainings come before size, since a difference
is seen only beyond what they differ by.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from analysis.claims.pretraining_spread import MeasuredSpread, measured_spreads
from analysis.precision.design import PlannedStudy, planned_test, seed_spreads
from analysis.sources import PUBLISHED
from benchmarks.protocol import DATASETS
from common.errors import UserError
from pretraining.adapt import adaptation
from pretraining.models import Model, format_steps
from pretraining.paper_settings import TRAINING, Shape
from pretraining.plan.config import TrainingConfig
from pretraining.plan.memory import largest_microbatch, training_gb
from pretraining.plan.speed import Speed
from pretraining.plan.study_plan import Study, plan_of, read_study
from pretraining.starts import Start, start_of
from workflow.study import runs_at_a_time, tuning_hours

__all__ = ["Budget", "Choice", "choices_of", "nearest_spread"]

START = "HuggingFaceTB/SmolLM2-135M"
"""A small decoder whose licence allows everything; its tokenizer serves networks from random weights, too."""
_VOCAB = 49_152
_START_SHAPE = Shape(hidden=576, layers=30, heads=9, kv_heads=3, mlp=1536, vocab=_VOCAB)
"""As its `config.json` says."""
_TUNED = ("sst2", "uner_en", "squad", "nq")
"""One dataset of each family, the miniature's."""
_RATES, _SEEDS, _MOST_TUNING = (5e-5, 1e-4, 2e-4), (0, 1, 2), 0.4
"""The middle of the paper's six rates; fewer of its seeds, since the same hours are worth more as pretrainings, and
fewer still, down to one, where fine-tuning took more than this share of the hours."""
_SPARE = 0.05
"""Share of the hours for starts, compilation and validation."""
_CORES = 8
"""CPU cores next to the GPU; each fine-tuning keeps one busy."""
_TOKENS_PER_PARAMETER = 20
"""Fewest tokens for a network from random weights (Hoffmann et al. 2022)."""
_FEWEST_ADAPTED = 100e6
"""Fewest tokens for a start: 20 M only teach the mask (docs/build-an-encoder.md)."""
_PREFIX, _BATCH, _LONGEST, _MOST_IN_PASS = "gpu-", 256, 1024, 24
"""Of the names; sequences of a step; their longest; how many a pass takes where they fit: the measured tokens."""
_HIGHER, _HIGHER_TO = 1e-3, 100e6
"""Peak rate up to a number of parameters, as in Pythia (Biderman et al. 2023); the paper's above it."""


def _size(hidden: int, layers: int) -> Shape:
    heads = hidden // 64
    return Shape(
        hidden=hidden, layers=layers, heads=heads, kv_heads=heads, mlp=3 * hidden, vocab=_VOCAB, max_length=_LONGEST
    )  # fmt: skip


_SIZES = [_size(*one) for one in ((256, 4), (384, 6), (512, 8), (640, 10), (768, 12), (1024, 16), (1536, 24))]
"""Networks to choose from, 16 to 830 million parameters."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What there is to spend, and on what device."""

    speed: Speed
    """The device."""
    hours: float | None = None
    """Of it; None: as many as `tokens` take."""
    tokens: float | None = None
    """Tokens that each model is trained on; None: as many as the hours allow."""
    pretraining_sd: float | None = None
    """Standard deviation of a score between pretrainings, in points; None: as measured at the nearest scale."""
    start: str = ""
    """Folder or hub id of the model to adapt; empty: SmolLM2-135M."""


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """What a study is for."""

    title: str
    arms: tuple[str, ...]
    """The first objective of each, and after a plus its second."""
    pretrainings: int
    """Of each arm, where the hours allow it."""
    adapts: bool = False
    """Whether its models start from one that exists."""


_KINDS = (
    _Kind(title="three objectives, repeated", arms=("mlm40", "clm", "clm+mlm40"), pretrainings=5),
    _Kind(title="two objectives, larger", arms=("mlm40", "clm+mlm40"), pretrainings=3),
    _Kind(title="an existing model, adapted", arms=("mlm30", "clm+mlm30"), pretrainings=5, adapts=True),
)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A study that the budget pays for."""

    title: str
    """What it is for."""
    content: dict[str, Any]
    """Its study file."""
    shape: Shape
    """Its network."""
    arms: tuple[str, ...]
    """Names of the first pretraining of each arm."""
    models: tuple[str, ...]
    """Names of all its models."""
    start: str
    """What they start from; empty: random weights."""
    tokens: float
    """Of each model."""
    hours: dict[str, float]
    """By step."""
    memory_gb: float
    """That training takes."""
    spread: MeasuredSpread
    """Between pretrainings, as assumed."""
    datasets: tuple[str, ...] = _TUNED
    """What is fine-tuned on."""
    rates: tuple[float, ...] = _RATES
    """Learning rates of the fine-tunings."""
    seeds: tuple[int, ...]
    """Seeds of the fine-tunings."""

    @property
    def pretrainings(self) -> int:
        """Of each arm."""
        return len(self.models) // len(self.arms)

    @property
    def total(self) -> float:
        """Hours in all."""
        return sum(self.hours.values())

    def finds(self) -> dict[str, float]:
        """Return the smallest difference of two arms that `compare --replicates` finds with 80 % power, by dataset."""
        spreads = dict(seed_spreads(PUBLISHED))
        study = PlannedStudy(
            effect=1.0, seeds=len(self.seeds), pretrainings=self.pretrainings, pretraining_sd=self.spread.sd
        )
        return {
            name: planned_test(study, spreads[DATASETS[name].task, name]).detectable()
            for name in self.datasets
        }


def nearest_spread(parameters: float) -> MeasuredSpread:
    """Return the largest spread between pretrainings of those measured at the scale nearest to a network's.

    Args:
        parameters: of the network.
    """
    # Coreference on a few hundred sentences is no task like those here.
    known = [one for one in measured_spreads() if "coreference" not in one.score]

    def far(one: MeasuredSpread) -> float:
        return max(one.parameters * 1e6 / parameters, parameters / (one.parameters * 1e6))

    least = min(map(far, known))
    return max((one for one in known if far(one) == least), key=lambda one: one.sd)


def choices_of(budget: Budget) -> list[Choice | str]:
    """Return three studies, in place of one that the budget does not pay for a sentence that says so.

    Raises:
        UserError: neither hours nor tokens; none of the three can be paid for; a start that cannot be read.
    """
    if budget.hours is None and budget.tokens is None:
        raise UserError("give --hours, --tokens of each model, or both")
    start = _start_of(budget.start)
    found = [_best(budget, kind, start) for kind in _KINDS]
    if not any(isinstance(one, Choice) for one in found):
        raise UserError(str(found[0]))
    return found


def _start_of(text: str) -> tuple[Start, Shape]:
    if text:
        start = start_of(text)
        return start, start.shape
    return Start(text=START, folder=Path(START), config={}), _START_SHAPE


def _best(budget: Budget, kind: _Kind, start: tuple[Start, Shape]) -> Choice | str:
    """Return the most pretrainings that the budget pays for, of the largest network; or what is lacking."""
    device, problem, least = budget.speed.device, "", float("inf")
    for pretrainings in range(kind.pretrainings, 1, -1):
        for shape in [start[1]] if kind.adapts else reversed(_SIZES):
            most = _MOST_IN_PASS * _LONGEST
            length = min(512, shape.max_length) if kind.adapts else _LONGEST
            microbatch = largest_microbatch(shape, device.memory_gb or math.inf, length, most=most // length)
            if not microbatch:
                problem = (
                    f"{kind.title}: {shape.encoder_parameters / 1e6:,.0f} M parameters take "
                    f"{training_gb(shape, length):.1f} GB at microbatch=1, but one {device.name} has "
                    f"{device.memory_gb:g}; use another device or a smaller model"
                )
                continue
            draft = _Draft(
                kind=kind, shape=shape, start=start[0], pretrainings=pretrainings, microbatch=microbatch
            )
            choice = draft.within(budget)
            if isinstance(choice, Choice):
                return choice
            least = min(least, choice)
    if least < float("inf"):
        more = "give more --hours" + (" or fewer --tokens" if budget.tokens else "")
        return f"{kind.title}: takes at least {least:,.1f} hours of one {device.name}; {more}"
    return problem


@dataclass(frozen=True, kw_only=True)
class _Draft:
    """A study whose length is not yet known."""

    kind: _Kind
    shape: Shape
    start: Start
    pretrainings: int
    microbatch: int

    def within(self, budget: Budget) -> Choice | float:
        """Return the study as long as the budget pays for, or the hours of the shortest that is worth it."""
        one_seed, step = self._tuning_hours(budget.speed), self._study(1_000)[1].config.tokens_per_step
        least = _MOST_TUNING * (budget.hours or float("inf"))
        count = next((n for n in range(len(_SEEDS), 1, -1) if n * one_seed <= least), 1)
        tuning = count * one_seed
        fewest = _TOKENS_PER_PARAMETER * self.shape.encoder_parameters
        wanted = -(-int(budget.tokens or (_FEWEST_ADAPTED if self.kind.adapts else fewest)) // int(step))
        one = sum(self._training_hours(budget.speed, 10_000).values()) / 10_000
        needed = (tuning + one * max(wanted, 20)) / (1 - _SPARE)
        if budget.hours is not None and needed > budget.hours:
            return needed
        steps = wanted
        if budget.tokens is None and budget.hours is not None:
            steps = int((budget.hours * (1 - _SPARE) - tuning) / one)
        steps = max(20, steps // (grain := 1_000 if steps >= 10_000 else 20) * grain)
        content, study, models = self._study(steps)
        hours = {**self._training_hours(budget.speed, steps), "fine-tuning": tuning}
        hours["spare"] = sum(hours.values()) * _SPARE / (1 - _SPARE)
        spread = nearest_spread(self.shape.encoder_parameters)
        if budget.pretraining_sd is not None:
            spread = MeasuredSpread(
                sd=budget.pretraining_sd, network="", parameters=float("nan"), pretrainings=0, score="", varies="",
                where="--pretraining-sd",
            )  # fmt: skip
        return Choice(
            title=self.kind.title, content=content, shape=self.shape, arms=tuple(self._arms(steps)),
            models=tuple(model.name for model in models), start=self.start.text if self.kind.adapts else "",
            tokens=steps * study.config.tokens_per_step, hours=hours, spread=spread,
            seeds=_SEEDS[:count],
            memory_gb=training_gb(self.shape, study.config.pass_tokens),
        )  # fmt: skip

    def _tuning_hours(self, speed: Speed) -> float:
        """Return the hours of all fine-tunings with one seed; those of what is adapted are counted, too."""
        shared = runs_at_a_time(self.shape, speed.device, _CORES)
        run = sum(tuning_hours(self.shape, (name,), speed, shared) for name in _TUNED)
        models = self.pretrainings * len(self.kind.arms) + self.kind.adapts
        return run * len(_RATES) * models

    def _training_hours(self, speed: Speed, steps: int) -> dict[str, float]:
        """Return the hours of CLM and of MLM; steps that arms share are trained once."""
        _, study, models = self._study(steps)
        plan = plan_of(models, replace(study, shapes=defaultdict(lambda: self.shape)))
        stages = {
            name: [stage for stage in plan.stages if stage.objective == name.lower()]
            for name in ("CLM", "MLM")
        }
        return {name: plan.costs(some, speed=speed).gpu_hours for name, some in stages.items()}

    def _arms(self, steps: int) -> list[str]:
        if self.kind.adapts:
            return [f"{_PREFIX}{arm.replace('+', '-then-')}" for arm in self.kind.arms]
        size, total = f"{_PREFIX}{self._size}", format_steps(steps)
        first = {"": "", "clm": f"-clm-{format_steps(steps // 4)}"}
        parts = [arm.rpartition("+") for arm in self.kind.arms]
        return [f"{size}{first[before]}-{last}-{total}" for before, _, last in parts]

    @property
    def _size(self) -> str:
        return f"{self.shape.encoder_parameters / 1e6:.0f}m"

    def _study(self, steps: int) -> tuple[dict[str, Any], Study, tuple[Model, ...]]:
        """Return the file's content, its study and all its models."""
        content = self._content(steps)
        study = read_study(content, Path("study.toml"))
        models = tuple(study.models.values())
        if self.kind.adapts:
            again = range(1, self.pretrainings)
            models = tuple(one for model in models for one in (model, *(model.again(seed) for seed in again)))
        return content, study, models

    def _content(self, steps: int) -> dict[str, Any]:
        base, passes = TrainingConfig(), {"microbatch": self.microbatch, "loss_group": 12}
        names = self._arms(steps)
        if self.kind.adapts:
            made = adaptation(self.start, self.shape, objective="mlm30", steps=steps).config
            settings = {key: value for key, value in asdict(made).items() if value != getattr(base, key)}
            models: Any = dict(zip(names, self._tables(steps), strict=True))
            return {
                "prefix": _PREFIX, "decay_steps": max(1, steps // 5), "models": models,
                "settings": {**settings, **passes},
            }  # fmt: skip
        own = {"": "", **{f"-s{again}": again for again in range(1, self.pretrainings)}}
        shape = {item.name: getattr(self.shape, item.name) for item in fields(Shape)}
        small = self.shape.encoder_parameters <= _HIGHER_TO
        settings = {
            "max_length": _LONGEST, "global_batch": _BATCH, **passes, "warmup_steps": max(1, steps // 20),
            "peak_lr": _HIGHER if small else TRAINING.peak_lr, "eval_sequences": _BATCH, "tensorboard": False,
        }  # fmt: skip
        return {
            "prefix": _PREFIX, "decay_steps": max(1, steps // 20),
            "models": [f"{name}{end}" for name in names for end in own],
            "sizes": {self._size: shape}, "settings": settings,
        }  # fmt: skip

    def _tables(self, steps: int) -> Iterator[dict[str, Any]]:
        """Yield each arm's stages: CLM for a fifth if at all, MLM at 30 %, and a decay at 15 % over the last fifth."""
        fifth = max(1, steps // 5)
        last = {"train": "mlm15", "steps": fifth, "decay": "sqrt:100 %"}
        for arm in self.kind.arms:
            detour = [{"train": "clm", "steps": fifth}] if "+" in arm else []
            left = steps - fifth * (1 + len(detour))
            yield {"start": self.start.text, "stages": [*detour, {"train": "mlm30", "steps": left}, last]}
