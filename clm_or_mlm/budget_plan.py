"""From hours of one GPU to three studies: what each could not see, what it trains, how long each step takes.

A study here is arms (objectives) that are pretrained several times each and fine-tuned on one dataset of each family.
Its networks are the largest that the hours train on enough tokens; pretrainings come before size, since a difference
is seen only beyond what they differ by.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from analysis.claims.pretraining_spread import MeasuredSpread, measured_spreads
from analysis.precision.design import POWER, seed_spreads
from analysis.sources import PUBLISHED
from analysis.statistics.inference import ALPHA
from benchmarks.costs import runs_at_a_time, tuning_hours
from benchmarks.protocol import DATASETS, format_lr
from common.errors import UserError
from common.plain_text import counted
from common.tables import Grid, Heading, TableDocument
from pretraining.adapt import Adaptation
from pretraining.data.tokenizer_files import MaskToken, TokenizerFiles
from pretraining.models import arm_of, format_steps
from pretraining.paper_settings import TRAINING, Shape
from pretraining.plan.devices import Device, largest_microbatch, training_gb
from pretraining.plan.study_plan import Study, plan_of, read_study
from pretraining.plan.study_text import study_text
from pretraining.starts import Start, start_of
from workflow.study_checks import sample_of

_VOCAB = 49_152
_START = Start(
    text="HuggingFaceTB/SmolLM2-135M",
    folder=Path(),
    config={
        "model_type": "llama", "hidden_size": 576, "num_hidden_layers": 30,
        "num_attention_heads": 9, "num_key_value_heads": 3, "intermediate_size": 1536, "vocab_size": _VOCAB,
    },
    tokenizer=TokenizerFiles(
        content={}, mask=MaskToken(token="", id=0, origin="new"), special={}, rows=_VOCAB
    ),
)  # fmt: skip
"""A small decoder whose licence allows everything; its tokenizer serves networks from random weights, too."""
_TUNED = ("sst2", "uner_en", "squad", "nq")
"""One dataset of each family."""
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
_SIMULATED = 20_000
"""Studies that the smallest differences are counted in."""
_HIGHER, _HIGHER_TO = 1e-3, 100e6
"""Peak rate up to a number of parameters, as in Pythia (Biderman et al. 2023); the paper's above it."""


def _network(hidden: int, layers: int) -> Shape:
    """Return a network of that width and depth, with heads of 64 and an MLP three times as wide."""
    heads = hidden // 64
    return Shape(
        hidden=hidden, layers=layers, heads=heads, kv_heads=heads, mlp=3 * hidden, vocab=_VOCAB, max_length=_LONGEST
    )  # fmt: skip


_SIZES = [
    _network(*one) for one in ((256, 4), (384, 6), (512, 8), (640, 10), (768, 12), (1024, 16), (1536, 24))
]
"""Networks to choose from, 16 to 830 million parameters."""


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
    """A study of some length on one device."""

    kind: _Kind
    device: Device
    shape: Shape
    """Its network."""
    start: Start | None
    """What its models start from; None: random weights."""
    pretrainings: int
    """Of each arm."""
    microbatch: int
    """Sequences of a pass."""
    steps: int
    """Of each model."""
    seeds: tuple[int, ...]
    """Of the fine-tunings."""
    pretraining_sd: float
    """Spread of a score between pretrainings, in points."""
    measured_on: str
    """Where that spread was seen."""

    @cached_property
    def arms(self) -> tuple[str, ...]:
        """Names of the first pretraining of each arm."""
        if self.start is not None:
            return tuple(f"{_PREFIX}{arm.replace('+', '-then-')}" for arm in self.kind.arms)
        size, total = f"{_PREFIX}{self._size}", format_steps(self.steps)
        # What a name says of a first objective: CLM for a quarter of the steps.
        before_last = {"": "", "clm": f"-clm-{format_steps(self.steps // 4)}"}
        parts = [arm.rpartition("+") for arm in self.kind.arms]
        return tuple(f"{size}{before_last[before]}-{last}-{total}" for before, _, last in parts)

    @property
    def _size(self) -> str:
        """What its models' names call the network, such as `43m`."""
        return f"{self.shape.encoder_parameters / 1e6:.0f}m"

    def every(self, arms: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of all pretrainings of some arms."""
        seeds = ["", *(f"-s{seed}" for seed in range(1, self.pretrainings))]
        return tuple(f"{arm}{seed}" for arm in arms for seed in seeds)

    @cached_property
    def content(self) -> dict[str, Any]:
        """Its study file."""
        passes = {"microbatch": self.microbatch, "loss_group": 12}
        if self.start is not None:
            settings = Adaptation(start=self.start, steps=self.steps).config.changes()
            return {
                "prefix": _PREFIX, "decay_steps": max(1, self.steps // 5),
                "models": {
                    name: {"start": self.start.text, "stages": self._stages(is_two="+" in arm)}
                    for name, arm in zip(self.arms, self.kind.arms, strict=True)
                },
                "settings": {**settings, **passes},
            }  # fmt: skip
        twentieth = max(1, self.steps // 20)
        small = self.shape.encoder_parameters <= _HIGHER_TO
        return {
            "prefix": _PREFIX, "decay_steps": twentieth, "models": list(self.every(self.arms)),
            "sizes": {self._size: {item.name: getattr(self.shape, item.name) for item in fields(Shape)}},
            "settings": {
                "max_length": _LONGEST, "global_batch": _BATCH, **passes, "warmup_steps": twentieth,
                "peak_lr": _HIGHER if small else TRAINING.peak_lr, "eval_sequences": _BATCH, "tensorboard": False,
            },
        }  # fmt: skip

    def _stages(self, *, is_two: bool) -> list[dict[str, Any]]:
        """Return stages after a start: CLM for a fifth if at all, MLM at 30 %, a decay at 15 % over the last fifth."""
        fifth = max(1, self.steps // 5)
        detour = [{"train": "clm", "steps": fifth}] if is_two else []
        left = self.steps - fifth * (1 + len(detour))
        last = {"train": "mlm15", "steps": fifth, "decay": "sqrt:100 %"}
        return [*detour, {"train": "mlm30", "steps": left}, last]

    @cached_property
    def study(self) -> Study:
        """What its file says."""
        return read_study(self.content, Path("study.toml"))

    @property
    def tokens(self) -> float:
        """Of each model."""
        return self.steps * self.study.config.tokens_per_step

    @property
    def memory_gb(self) -> float:
        """That training takes."""
        return training_gb(self.shape, self.study.config.batches.pass_tokens)

    @cached_property
    def training_hours(self) -> dict[str, float]:
        """Hours of CLM and of MLM; steps that arms share are trained once."""
        models = [self.study.model(name) for name in self.every(self.arms)]
        plan = plan_of(models, replace(self.study, shapes=defaultdict(lambda: self.shape)))
        stages = {
            name: [stage for stage in plan.stages if stage.objective == name.lower()]
            for name in ("CLM", "MLM")
        }
        return {name: plan.costs(of_name, device=self.device).gpu_hours for name, of_name in stages.items()}

    @property
    def tuning_hours(self) -> float:
        """Hours of all fine-tunings; those of what is adapted are counted, too."""
        shared = runs_at_a_time(self.shape, self.device, _CORES)
        run = tuning_hours(self.shape, _TUNED, self.device, shared)
        models = self.pretrainings * len(self.arms) + self.kind.adapts
        return len(self.seeds) * (run * len(_RATES) * models)

    @property
    def hours(self) -> dict[str, float]:
        """By step."""
        hours = {**self.training_hours, "fine-tuning": self.tuning_hours}
        return {**hours, "spare": sum(hours.values()) * _SPARE / (1 - _SPARE)}

    @property
    def total(self) -> float:
        """Hours in all."""
        return sum(self.hours.values())

    def finds(self, *, alone: bool = False) -> dict[str, float]:
        """Return the smallest difference of two arms that `compare` calls ahead in 80 % of studies, by dataset.

        Args:
            alone: whether the arms differ on that dataset alone, not on all of them.
        """
        spreads = dict(seed_spreads(PUBLISHED))
        least = _least_found(self.pretrainings, alone)
        seed_sds = {
            name: spreads[DATASETS[name].task, name].sd / math.sqrt(len(self.seeds)) for name in _TUNED
        }
        return {name: least * math.hypot(self.pretraining_sd, sd) for name, sd in seed_sds.items()}


@cache
def _least_found(pretrainings: int, alone: bool) -> float:
    """Return `Choice.finds` in standard deviations of an arm's pretrainings, each the mean of its fine-tunings.

    The command's test is Welch's, then Holm's adjustment over the datasets; in this unit no dataset differs from
    another. So many simulated studies give its power within 0.5 %.
    """
    from scipy import optimize, special  # take longer to import than a plan to make

    rng = np.random.default_rng(0)
    tests = len(_TUNED)
    arms = rng.standard_normal((2, _SIMULATED, tests, pretrainings))
    variances = arms.var(axis=-1, ddof=1) / pretrainings
    error = np.sqrt(variances.sum(axis=0))
    freedom = (pretrainings - 1) * error**4 / (variances**2).sum(axis=0)
    noise = arms[0].mean(axis=-1) - arms[1].mean(axis=-1)
    differs = np.arange(tests) < (1 if alone else tests)

    def power(effect: float) -> float:
        """Return the share of the studies that find such an effect."""
        p = 2 * special.stdtr(freedom, -np.abs(noise + effect * differs) / error)
        adjusted = np.maximum.accumulate(np.sort(p) * np.arange(tests, 0, -1), axis=-1) <= ALPHA
        # Found, if the first dataset, which differs, is among the significant ones, which have the smallest p.
        return float(((p < p[:, :1]).sum(axis=-1) < adjusted.sum(axis=-1)).mean())

    return float(optimize.brentq(lambda effect: power(effect) - POWER, 0, 20, xtol=1e-3))


def nearest_spread(parameters: float) -> MeasuredSpread:
    """Return the largest spread between pretrainings of those measured at the scale nearest to a network's.

    Args:
        parameters: of the network.
    """
    # Coreference on a few hundred sentences is no task like those here.
    spreads = [one for one in measured_spreads() if "coreference" not in one.score]

    def ratio(one: MeasuredSpread) -> float:
        """Return how many times larger the larger of the two networks is."""
        return max(one.parameters * 1e6 / parameters, parameters / (one.parameters * 1e6))

    least = min(map(ratio, spreads))
    return max((one for one in spreads if ratio(one) == least), key=lambda one: one.sd)


def choices_of(
    device: Device,
    *,
    hours: float | None = None,
    tokens: float | None = None,
    pretraining_sd: float | None = None,
    start: str = "",
) -> list[Choice | str]:
    """Return three studies, in place of one that the budget does not pay for a sentence that says so.

    Args:
        device: the GPU.
        hours: of it; None: as many as the tokens take.
        tokens: that each model is trained on; None: as many as the hours allow.
        pretraining_sd: spread between pretrainings, in points; None: what others measured at the nearest scale.
        start: folder or hub id of the model to adapt; empty: SmolLM2-135M.

    Raises:
        UserError: neither hours nor tokens; none of the three can be paid for; a start that cannot be read.
    """
    if hours is None and tokens is None:
        raise UserError("give --hours, --tokens of each model, or both")
    adapted = start_of(start) if start else _START
    choices = [
        _best(device, kind, adapted if kind.adapts else None, hours, tokens, pretraining_sd)
        for kind in _KINDS
    ]
    if not any(isinstance(one, Choice) for one in choices):
        raise UserError(str(choices[0]))
    return choices


def _best(
    device: Device,
    kind: _Kind,
    start: Start | None,
    hours: float | None,
    tokens: float | None,
    sd: float | None,
) -> Choice | str:
    """Return the most pretrainings that the budget pays for, of the largest network; or what is lacking."""
    problem = ""  # of memory
    least = math.inf  # hours of the cheapest study that fits
    for pretrainings in range(kind.pretrainings, 1, -1):
        for shape in reversed(_SIZES) if start is None else [start.shape]:
            length = _LONGEST if start is None else min(512, shape.max_length)
            most_sequences = _MOST_IN_PASS * _LONGEST // length
            microbatch = largest_microbatch(shape, device.memory_gb or math.inf, length, most=most_sequences)
            if not microbatch:
                problem = (
                    f"{kind.title}: {shape.encoder_parameters / 1e6:,.0f} M parameters take "
                    f"{training_gb(shape, length):.1f} GB at microbatch=1, but one {device.name} has "
                    f"{device.memory_gb:g}; use another device or a smaller model"
                )
                continue
            spread = nearest_spread(shape.encoder_parameters)
            where = (
                f"{spread.network}, {spread.score}, {spread.pretrainings} pretrainings, "
                f"the largest at the nearest scale ({spread.where})."
            )
            draft = Choice(
                kind=kind, device=device, shape=shape, start=start, pretrainings=pretrainings, microbatch=microbatch,
                steps=10_000, seeds=_SEEDS[:1], pretraining_sd=spread.sd if sd is None else sd,
                measured_on=where if sd is None else "--pretraining-sd",
            )  # fmt: skip
            study_or_hours = _longest(draft, hours, tokens)
            if isinstance(study_or_hours, Choice):
                return study_or_hours
            least = min(least, study_or_hours)
    if least < math.inf:
        more = "give more --hours" + (" or fewer --tokens" if tokens else "")
        return f"{kind.title}: takes at least {least:,.1f} hours of one {device.name}; {more}"
    return problem


def _longest(draft: Choice, hours: float | None, tokens: float | None) -> Choice | float:
    """Return a study as long as the budget pays for, or the hours of the shortest that is worth it.

    Args:
        draft: the study with one seed, of any length.
        hours: what there is of the device.
        tokens: of each model.
    """
    most_tuning = _MOST_TUNING * (hours or math.inf)
    # The draft has one seed, so its fine-tuning hours are those of a seed.
    seeds = next((n for n in range(len(_SEEDS), 1, -1) if n * draft.tuning_hours <= most_tuning), 1)
    tuning_hours_of_all = seeds * draft.tuning_hours
    fewest_tokens = _TOKENS_PER_PARAMETER * draft.shape.encoder_parameters
    wanted = tokens or (fewest_tokens if draft.start is None else _FEWEST_ADAPTED)
    step_tokens = draft.study.config.tokens_per_step
    steps = math.ceil(wanted / step_tokens)
    if steps < 20:
        raise UserError(
            f"--tokens {wanted:g} is {counted(steps, 'step')} of {step_tokens:,.0f} tokens; give at least "
            f"{20 * step_tokens:,.0f}, so that a stage can take a twentieth of them"
        )
    step_hours = sum(draft.training_hours.values()) / draft.steps  # a step of all models
    hours_needed = (tuning_hours_of_all + step_hours * steps) / (1 - _SPARE)
    if hours is not None:
        if hours_needed > hours:
            return hours_needed
        if tokens is None:
            most = int((hours * (1 - _SPARE) - tuning_hours_of_all) / step_hours)
            # Hours leave the length open: round numbers, for the models' names.
            grain = 1_000 if most >= 10_000 else 20
            steps = max(steps, most // grain * grain)
    return replace(draft, steps=steps, seeds=_SEEDS[:seeds])


def budget_document(
    device: Device, hours: float | None, choices: list[Choice | str], price: float | None
) -> TableDocument:
    """Return what cannot be seen, then the studies, then their hours.

    Args:
        device: the GPU.
        hours: of it, where they were given.
        choices: of `choices_of`.
        price: of an hour; None: no money is counted.
    """
    affordable = [(number, choice) for number, choice in enumerate(choices, 1) if isinstance(choice, Choice)]
    unseen = [["", *(DATASETS[name].title for name in _TUNED), "between pretrainings"]]
    studies = [["", "for", "parameters", "tokens a model", "arms", "pretrainings", "fine-tuning", "memory"]]
    parts = list(affordable[0][1].hours)  # of the hours: CLM, MLM, fine-tuning, spare
    hours_rows = [["", *parts, "in all", *["money"] * (price is not None)]]
    for number, choice in affordable:
        alone = choice.finds(alone=True)
        unseen.append(
            [
                f"{number}",
                *(f"{points:.2f} / {alone[name]:.2f}" for name, points in choice.finds().items()),
                f"{choice.pretraining_sd:g}",
            ]
        )
        studies.append(
            [
                f"{number}",
                choice.kind.title,
                f"{choice.shape.encoder_parameters / 1e6:,.0f} M",
                _short(choice.tokens),
                f"{len(choice.arms)}",
                f"{len(choice.arms)} x {choice.pretrainings}",
                f"{len(_TUNED)} datasets x {len(_RATES)} rates x {counted(len(choice.seeds), 'seed')}",
                f"{choice.memory_gb:.0f} GB",
            ]
        )
        money = [f"{price * choice.total:,.2f}"] if price is not None else []
        hours_rows.append(
            [f"{number}", *(f"{choice.hours[part]:,.1f}" for part in parts), f"{choice.total:,.1f}", *money]
        )
    limit = "" if hours is None else f" for {hours:g} hours"
    body: list[str | Grid | Heading] = [
        f"What one {device.name}{limit} cannot see: differences between two arms below these points, on all datasets / "
        "on that one alone (`compare` calls larger ones ahead in 80 of 100 studies, after Holm's adjustment over the "
        f"{len(_TUNED)} datasets, at the paper's spread of fine-tunings).",
        "",
        Grid(unseen, range(1, 6)),
        "",
        *dict.fromkeys(
            f"Spread between pretrainings of {choice.pretraining_sd:g} points: {choice.measured_on}"
            for _, choice in affordable
        ),
        *["An adapted model's pretrainings share a start, so theirs should be smaller; nobody measured it."] * any(
            choice.start for _, choice in affordable
        ),
        "",
        "What it can train: choose a row; `--choose N --out study.toml` writes it.",
        "",
        Grid(studies, (2, 3, 4)),
        *(f"{number}: {problem}" for number, problem in enumerate(choices, 1) if isinstance(problem, str)),
        "",
        f"Hours of each step, pretraining {device.basis}.",
        *["Once you have trained 20 steps there, give the MFU that `train` logs as --mfu."]
        * ("estimated" in device.basis),
        "",
        Grid(hours_rows, range(1, 9)),
    ]  # fmt: skip
    data = [
        {
            "title": choice.kind.title, "arms": choice.arms, "models": choice.every(choice.arms),
            "start": choice.start.text if choice.start else "", "tokens": choice.tokens, "hours": choice.hours,
            "memory_gb": choice.memory_gb, "datasets": _TUNED, "rates": _RATES, "seeds": choice.seeds,
            "parameters": choice.shape.encoder_parameters, "pretraining_sd": choice.pretraining_sd,
            "finds": choice.finds(), "finds_alone": choice.finds(alone=True),
            "total_hours": choice.total, **({} if price is None else {"money": price * choice.total}),
        }
        if isinstance(choice, Choice) else {"problem": choice}
        for choice in choices
    ]  # fmt: skip
    return TableDocument(body=body, data={"device": device.name, "hours": hours, "choices": data})


def _short(tokens: float) -> str:
    """Return a number of tokens in millions or billions."""
    return f"{tokens / 1e9:,.1f} B" if tokens >= 1e9 else f"{tokens / 1e6:,.0f} M"


def chosen_study(choice: Choice) -> str:
    """Return the text of a choice's study file, with the commands that run it."""
    content = choice.content
    arms = tuple(dict.fromkeys(arm_of(name)[0] for name in content["models"]))
    start = choice.start or _START
    sample = sample_of(choice.tokens)
    subset = sample if sample.startswith("sample") else "default"  # the whole data set
    tuned = " ".join(_TUNED)
    rates, seeds = " ".join(map(format_lr, _RATES)), " ".join(map(str, choice.seeds))
    lines = [
        f"{choice.kind.title}: {counted(len(arms), 'arm')} of {choice.pretrainings} pretrainings, about "
        f"{choice.total:.1f} hours",
        f"clm-or-mlm shards --source hf:HuggingFaceFW/fineweb-edu:{subset} --tokenizer {start.text} --out shards",
        f"clm-or-mlm fetch {tuned} msmarco --out data",
        f"for model in {' '.join(choice.every(arms))}; do",
        "clm-or-mlm train $model --study study.toml --data shards --out pretrained",
        f"clm-or-mlm benchmarks run --model pretrained/models/$model --name $model --dataset {tuned} \\",
        f"    --lr {rates} --seed {seeds} --data data --out results --workers 4",
        "done",
        *[f"# the same run of what is adapted: --model {start.text} --name start"]
        * (choice.start is not None),
        *(
            f"clm-or-mlm compare --source results --study study.toml --replicates {one} --replicates {other}"
            for one, other in combinations(arms, 2)
        ),
    ]
    return "".join(f"# {line}\n" for line in lines) + study_text(content)
