"""The defaults of `adapt`, by the start's size, each with its reason; and what one adaptation trains.

What published recipes agree on, and where they do not, is in docs/build-an-encoder.md. Imports no torch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from common.errors import UserError
from common.settings import assignments, read_settings, values_of
from pretraining.models import (
    OBJECTIVES,
    Design,
    Model,
    StageSpec,
    format_steps,
    make_stages,
    parse_objective,
)
from pretraining.plan.config import TrainingConfig
from pretraining.plan.devices import Device, largest_microbatch
from pretraining.plan.study_plan import Plan, Study, Targets, targets_of
from pretraining.starts import Start

_RATES = ((100e6, 5e-4), (300e6, 2e-4), (2e9, 1e-4), (math.inf, 2e-5))
"""Peak learning rates, each up to a number of parameters."""
_PASSES = 20
"""Most passes over a text that are not asked for by name."""
_FEW_SEQUENCES = 12
"""Of a step where the text has not enough for the usual one."""
_MUCH = 1e9
"""Tokens from which a decayed start is trained at the whole rate."""
_LENGTH = 512
_LEAST_TOKENS, _MOST_TOKENS = 2**11, 2**18
"""Of a step: what published recipes have, and less where that would make few updates."""
_UPDATES = 1000
"""As many at least as the step's least tokens allow: what a budget is split into."""
_MOST_STEPS = 99_999_999  # eight digits name a checkpoint
_WARMUP, _LEAST_WARMUP, _DECAY = 0.03, 10, 0.2
_DECAY_STEPS = "decay"
"""Name of the choice that is no setting: the stages say how long they decay."""
_LAST_RATIO = 15
"""Masking ratio of the decay, in percent."""


class _Choice(NamedTuple):
    """A setting that is chosen."""

    setting: str
    """Its name in `TrainingConfig`, or `_DECAY_STEPS`."""
    value: object
    reason: str
    """Why, in a clause that is printed."""


@dataclass(frozen=True, kw_only=True)
class Adaptation:
    """One model to train from a start: what was asked for, and what is chosen for it.

    Raises:
        UserError: neither steps nor tokens or both, an unknown objective or setting.
    """

    start: Start
    """What to start from."""
    objective: str = "mlm30"
    """What it is trained on, as a model's name says it."""
    steps: int | None = None
    """Updates; either these or tokens."""
    tokens: float | None = None
    """Tokens to train on, at least."""
    changes: tuple[str, ...] = ()
    """Settings as `KEY=VALUE`."""

    def __post_init__(self) -> None:
        """Refuse at once what cannot be trained."""
        if (self.steps is None) == (self.tokens is None):
            remedy = "leave one of them out" if self.steps else "give one of them"
            raise UserError(
                f"either --steps or --tokens says how long to train: {remedy}"
            )
        if OBJECTIVES[parse_objective(self.objective).name].is_causal:
            raise UserError(
                f"--objective {self.objective} looks back only, and makes no encoder; give mlm30 or another ratio"
            )
        if self.tokens is not None and not math.isfinite(self.tokens):
            raise UserError(f"--tokens must be a number, not {self.tokens}")
        if self.updates > _MOST_STEPS:
            raise UserError(
                f"give at most {_MOST_STEPS:,} steps, not {str(self.updates)[:20]}"
            )
        if self.updates < 2:
            raise UserError(
                f"give at least 2 steps, not {self.updates}: one takes {self._step_tokens:,.0f} tokens"
            )
        _ = self.config

    @cached_property
    def _length(self) -> int:
        """Tokens of a sequence."""
        usual = min(_LENGTH, self.start.longest)
        chosen: dict[str, object] = {"max_length": usual, "min_length": 1}
        length: int = _changed(chosen, self.changes).batches.max_length
        return length

    @cached_property
    def _batch(self) -> int:
        """Sequences of a step, where they are not changed: a power of two, shared by GPUs."""
        wanted = float(_MOST_TOKENS)
        if self.tokens is not None:
            wanted = min(max(self.tokens / _UPDATES, _LEAST_TOKENS), _MOST_TOKENS)
        batch: int = 2 ** max(0, math.floor(math.log2(wanted / self._length)))
        return batch

    @cached_property
    def _batches(self) -> TrainingConfig:
        """Settings that say what a step is."""
        chosen: dict[str, object] = {
            "max_length": self._length,
            "min_length": 1,
            "cut": "fixed",
            "global_batch": self._batch,
        }
        return _changed(chosen, self.changes)

    @property
    def _step_tokens(self) -> float:
        """Tokens of a step."""
        return self._batches.tokens_per_step

    @property
    def updates(self) -> int:
        """Steps of all stages."""
        if self.steps is not None:
            return self.steps
        assert self.tokens is not None
        return math.ceil(self.tokens / self._step_tokens)

    def check_passes(self, held: int, where: str) -> None:
        """Refuse more than 20 passes over a text, and one of less than a step; no sequence is for its reader to refuse.

        Args:
            held: the text's tokens for training.
            where: its shards.

        Raises:
            UserError: so many passes.
        """
        length = self._length
        if held < length:
            return
        text = f"{where}: its text has {held:,} training tokens, and"
        if held < self._step_tokens:
            sequences = min(_FEW_SEQUENCES, held // length)
            tokens = sequences * length
            fits = _PASSES * held // tokens * tokens
            raise UserError(
                f"{text} one step takes {self._step_tokens:,.0f}; give --set global_batch={sequences} with --tokens "
                f"{fits} ({_PASSES} passes) or fewer, or more text"
            )
        passes = self.updates * self._step_tokens / held
        if passes > _PASSES:
            fits = int(_PASSES * held // self._step_tokens * self._step_tokens)
            raise UserError(
                f"{text} {self.updates:,} steps of {self._step_tokens:,.0f} are {passes:,.0f} passes over it; give "
                f"--tokens {fits} ({_PASSES} passes) or fewer, more text, or --repeat-text"
            )

    @property
    def _warmup(self) -> int:
        """Steps of warm-up: fewer than ten would only make the first updates the largest."""
        usual = max(_LEAST_WARMUP, round(_WARMUP * self.updates))
        return usual if 10 * usual <= self.updates else 0

    @property
    def _decay(self) -> int:
        return max(1, round(_DECAY * self.updates))

    @cached_property
    def _stages(self) -> list[StageSpec]:
        """One stage, or two where the masking ratio falls in the decay."""
        first = parse_objective(self.objective)
        last = first
        # Only a constant ratio is lowered in the decay: a ratio that changes was asked for as it is.
        is_constant = first.last_ratio is None
        if is_constant and (first.ratio or 0) > _LAST_RATIO:
            last = first._replace(ratio=_LAST_RATIO)
        decayed = StageSpec(
            objective=last, end=self.updates, decay_steps=self._decay, curve="sqrt"
        )
        if last == first:
            return [decayed]
        before = StageSpec(objective=first, end=self.updates - self._decay)
        return [before, decayed]

    @property
    def _rate(self) -> _Choice:
        """The peak learning rate."""
        parameters = self.start.shape.encoder_parameters
        usual = next(rate for most, rate in _RATES if parameters <= most)
        size = f"{parameters:,}"
        if parameters >= 1e7:
            size = f"{parameters / 1e6:,.0f} M"
        rate, halved = usual, ""
        tokens = self.updates * self._step_tokens
        if tokens < _MUCH:
            rate = usual / 2
            halved = f", halved because {tokens:,.0f} tokens are less than 1 B for a start that has decayed"
        reason = (
            f"for {size} parameters {usual:g}{halved}; "
            "recipes differ, so a third and three times of it are worth a try"
        )
        return _Choice("peak_lr", rate, reason)

    @cached_property
    def _choices(self) -> list[_Choice]:
        """What is chosen, in the order in which it is printed."""
        batch, steps = self._batch, self.updates
        last = self._stages[-1].objective
        usual = "as most published encoders"
        choices = [self._rate]

        def choose(setting: str, value: object, reason: str) -> None:
            choices.append(_Choice(setting, value, reason))

        choose(
            "warmup_steps",
            self._warmup,
            "3 % of the steps and at least ten, none of fewer than 100: the optimizer's moments begin anew",
        )
        choose(
            _DECAY_STEPS,
            self._decay,
            f"1-sqrt towards zero over the last 20 % of the steps, with {last}",
        )
        choose(
            "max_length",
            self._length,
            "documents end to end, up to the start's positions",
        )
        choose("cut", "fixed", "every sequence is full")
        choose("attention", "document", "no token sees another document")
        choose(
            "global_batch",
            batch,
            f"{batch * self._length:,} tokens a step, so that the budget makes {steps:,} updates",
        )
        choose("weighting", "token", "the loss is the mean over all predicted tokens")
        choose("beta2", 0.98, usual)
        choose("eps", 1e-8, usual)
        choose("weight_decay", 0.01, f"{usual}; the start was decayed before")
        # A validation has as many sequences as a step, but at least 16 and at most 512.
        choose(
            "eval_sequences",
            min(512, max(16, batch)),
            "validation at masks that never change",
        )
        choose("eval_every", max(1, steps // 10), "ten times")
        choose(
            "save_every",
            max(1, min(1000, steps // 10)),
            "so much is lost at most by a kill",
        )
        choose("tensorboard", False, "the log has the losses")
        if not self.start.is_our_class:
            choose("compile", "off", "not measured on a GPU for transformers' classes")
        return choices

    @cached_property
    def config(self) -> TrainingConfig:
        """Its settings."""
        chosen: dict[str, object] = {"min_length": 1}
        for choice in self._choices:
            if choice.setting != _DECAY_STEPS:
                chosen[choice.setting] = choice.value
        return _changed(chosen, self.changes)

    @property
    def advice(self) -> dict[str, str]:
        """Why each setting was chosen, by its name in `TrainingConfig`, or `decay`: value and reason, in a clause."""
        made = values_of(self.config)
        advice = {}
        for setting, value, reason in self._choices:
            # `--set` may have replaced the value, for which the reason would be untrue.
            if setting != _DECAY_STEPS and made[setting] != value:
                continue
            text = f"{value:g}" if isinstance(value, float) else str(value)
            advice[setting] = f"{setting} = {text}: {reason}"
        return advice

    def plan_on(self, device: Device) -> Plan:
        """Return what it takes on a device, in the largest passes that fit there."""
        plan, batches = self.targets.plan, self.config.batches
        memory_gb = device.memory_gb or math.inf
        fits = largest_microbatch(self.start.shape, memory_gb, batches.max_length)
        microbatch = batches.microbatch or max(1, fits)
        batches = replace(batches, microbatch=microbatch)
        config = replace(self.config, batches=batches)
        return replace(plan, study=replace(plan.study, config=config))

    @cached_property
    def targets(self) -> Targets:
        """What `train` trains: a study of this one model."""
        start = self.start
        size = re.sub(r"[^a-z0-9]+", ".", start.name.lower()).strip(".")
        size = size[:40] or "start"
        name = f"{size}-{self._stages[0].objective}-{format_steps(self.updates)}"
        stages = make_stages(size, self._stages, usual_decay=0)
        model = Model(name=name, size=size, stages=stages, start=start.text)
        study = Study(
            name="adapt",
            design=Design(sizes=(size,), decay_steps=self._decay),
            shapes={size: start.shape},
            models={name: model},
            config=self.config,
        )
        return replace(targets_of(name, study), start=start)


def _changed(chosen: dict[str, object], changes: Sequence[str]) -> TrainingConfig:
    base = read_settings(TrainingConfig, chosen)
    return read_settings(
        TrainingConfig, assignments(changes), "--set", base=base, typed=False
    )
