"""The defaults of `adapt`, by the start's size, each with its reason; and what one adaptation trains.

What published recipes agree on, and where they do not, is in docs/build-an-encoder.md. Imports no torch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

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
_LAST_RATIO = 15
"""Masking ratio of the decay, in percent."""


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
            what = "leave one of them out" if self.steps else "give one of them"
            raise UserError(
                f"either --steps or --tokens says how long to train: {what}"
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
                f"give at least 2 steps, not {self.updates}: one takes {self._batches.tokens_per_step:,.0f} tokens"
            )
        _ = self.config

    @cached_property
    def _usual(self) -> tuple[int, int]:
        """Tokens of a sequence and sequences of a step, where these are not changed: a power of two, shared by GPUs."""
        chosen: dict[str, object] = {
            "max_length": min(_LENGTH, self.start.longest),
            "min_length": 1,
        }
        length = _changed(chosen, self.changes).batches.max_length
        wanted = float(_MOST_TOKENS)
        if self.tokens is not None:
            wanted = min(max(self.tokens / _UPDATES, _LEAST_TOKENS), _MOST_TOKENS)
        return length, 2 ** max(0, math.floor(math.log2(wanted / length)))

    @property
    def _warmup(self) -> int:
        """Steps of warm-up: fewer than ten would only make the first updates the largest."""
        usual = max(_LEAST_WARMUP, round(_WARMUP * self.updates))
        return usual if 10 * usual <= self.updates else 0

    @cached_property
    def _batches(self) -> TrainingConfig:
        """Settings that say what a step is."""
        length, batch = self._usual
        chosen = {
            "max_length": length,
            "min_length": 1,
            "cut": "fixed",
            "global_batch": batch,
        }
        return _changed(chosen, self.changes)

    @property
    def updates(self) -> int:
        """Steps of all stages."""
        if self.steps is not None:
            return self.steps
        assert self.tokens is not None
        return math.ceil(self.tokens / self._batches.tokens_per_step)

    def check_passes(self, held: int, where: str) -> None:
        """Refuse more than 20 passes over a text, and one of less than a step; no sequence is for its reader to refuse.

        Args:
            held: the text's tokens for training.
            where: its shards.

        Raises:
            UserError: so many passes.
        """
        step_tokens, length = (
            self._batches.tokens_per_step,
            self._batches.batches.max_length,
        )
        if length <= held < step_tokens:
            fewer = min(_FEW_SEQUENCES, held // length)
            fits = _PASSES * held // (fewer * length) * fewer * length
            raise UserError(
                f"{where}: its text has {held:,} training tokens, and one step takes {step_tokens:,.0f}; give "
                f"--set global_batch={fewer} with --tokens {fits} ({_PASSES} passes) or fewer, or more text"
            )
        if (
            held >= step_tokens
            and (passes := self.updates * step_tokens / held) > _PASSES
        ):
            fits = int(_PASSES * held // step_tokens * step_tokens)
            raise UserError(
                f"{where}: its text has {held:,} training tokens, and {self.updates:,} steps of {step_tokens:,.0f} are "
                f"{passes:,.0f} passes over it; give --tokens {fits} ({_PASSES} passes) or fewer, more text, or "
                "--repeat-text"
            )

    @property
    def _decay(self) -> int:
        return max(1, round(_DECAY * self.updates))

    @cached_property
    def _stages(self) -> list[StageSpec]:
        """One stage, or two where the masking ratio falls in the decay."""
        first = parse_objective(self.objective)
        falls = (
            first.ratio is not None
            and first.last_ratio is None
            and first.ratio > _LAST_RATIO
        )
        last = first._replace(ratio=_LAST_RATIO) if falls else first
        decayed = StageSpec(
            objective=last, end=self.updates, decay_steps=self._decay, curve="sqrt"
        )
        before = StageSpec(objective=first, end=self.updates - self._decay)
        return [before, decayed] if falls else [decayed]

    @cached_property
    def _choices(self) -> tuple[tuple[str, object, str], ...]:
        """What is chosen: a setting's name in `TrainingConfig` or `decay`, its value, and the reason."""
        (length, batch), steps = self._usual, self.updates
        size = self.start.shape.encoder_parameters
        rate = next(rate for most, rate in _RATES if size <= most)
        total = steps * self._batches.tokens_per_step
        few = total < _MUCH
        words = f"{size / 1e6:,.0f} M" if size >= 1e7 else f"{size:,}"
        because = f", halved because {total:,.0f} tokens are less than 1 B for a start that has decayed"
        usual = "as most published encoders"
        return (
            (
                "peak_lr",
                rate / 2 if few else rate,
                f"for {words} parameters {rate:g}{because * few}; "
                "recipes differ, so a third and three times of it are worth a try",
            ),
            (
                "warmup_steps",
                self._warmup,
                "3 % of the steps and at least ten, none of fewer than 100: the optimizer's moments begin anew",
            ),
            (
                "decay",
                self._decay,
                "1-sqrt towards zero over the last 20 % of the steps, with "
                f"{self._stages[-1].objective}",
            ),
            ("max_length", length, "documents end to end, up to the start's positions"),
            ("cut", "fixed", "every sequence is full"),
            ("attention", "document", "no token sees another document"),
            (
                "global_batch",
                batch,
                f"{batch * length:,} tokens a step, so that the budget makes {steps:,} updates",
            ),
            ("weighting", "token", "the loss is the mean over all predicted tokens"),
            ("beta2", 0.98, usual),
            ("eps", 1e-8, usual),
            ("weight_decay", 0.01, f"{usual}; the start was decayed before"),
            (
                "eval_sequences",
                min(512, max(16, batch)),
                "validation at masks that never change",
            ),
            ("eval_every", max(1, steps // 10), "ten times"),
            (
                "save_every",
                max(1, min(1000, steps // 10)),
                "so much is lost at most by a kill",
            ),
            ("tensorboard", False, "the log has the losses"),
            *(
                []
                if self.start.is_our_class
                else [
                    (
                        "compile",
                        "off",
                        "not measured on a GPU for transformers' classes",
                    )
                ]
            ),
        )

    @cached_property
    def config(self) -> TrainingConfig:
        """Its settings."""
        chosen = {
            setting: value for setting, value, _ in self._choices if setting != "decay"
        }
        return _changed({**chosen, "min_length": 1}, self.changes)

    @property
    def advice(self) -> dict[str, str]:
        """Why each setting was chosen, by its name in `TrainingConfig`, or `decay`: value and reason, in a clause."""
        made = values_of(self.config)
        return {
            setting: f"{setting} = {f'{value:g}' if isinstance(value, float) else value}: {reason}"
            for setting, value, reason in self._choices
            if setting == "decay" or made[setting] == value
        }

    def plan_on(self, device: Device) -> Plan:
        """Return what it takes on a device, in the largest passes that fit there."""
        plan, batches = self.targets.plan, self.config.batches
        fits = largest_microbatch(
            self.start.shape, device.memory_gb or math.inf, batches.max_length
        )
        batches = replace(batches, microbatch=batches.microbatch or max(1, fits))
        return replace(
            plan,
            study=replace(plan.study, config=replace(self.config, batches=batches)),
        )

    @cached_property
    def targets(self) -> Targets:
        """What `train` trains: a study of this one model."""
        start = self.start
        size = re.sub(r"[^a-z0-9]+", ".", start.name.lower()).strip(".")[:40] or "start"
        name = f"{size}-{self._stages[0].objective}-{format_steps(self.updates)}"
        stages = make_stages(size, self._stages, usual_decay=0)
        model = Model(name=name, size=size, stages=stages, start=start.text)
        design = Design(sizes=(size,), decay_steps=self._decay)
        study = Study(
            name="adapt",
            design=design,
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
