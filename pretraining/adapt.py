"""What the command `adapt` trains: the settings that it chooses for a start, each with its reason, and the stages.

An adaptation continues the pretraining of an existing model (its start) for a given number of steps or tokens. All
settings that the user does not change are chosen here, by the start's size and the number of tokens. What published
recipes agree on, and where they do not, is in docs/build-an-encoder.md. Imports no torch.
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
"""Peak learning rates: the largest number of parameters, and the rate of models up to that size."""
_PASSES = 20
"""Most passes over a text (epochs) without the option --repeat-text."""
_FEW_SEQUENCES = 12
"""Most sequences of the step that is suggested where the text is shorter than a usual step."""
_MUCH = 1e9
"""Number of training tokens from which a start is trained at the whole learning rate, and not at half of it."""
_LENGTH = 512
"""Tokens of a sequence, if the start can read so many."""
_LEAST_TOKENS, _MOST_TOKENS = 2**11, 2**18
"""Fewest and most tokens of a step. The most are what published recipes have."""
_UPDATES = 1000
"""Number of steps that a budget of tokens is divided into, if a step then has neither too few nor too many tokens."""
_MOST_STEPS = 99_999_999  # eight digits name a checkpoint
_WARMUP, _LEAST_WARMUP, _DECAY = 0.03, 10, 0.2
"""Share of the steps that are warm-up, fewest steps of a warm-up, and share of the steps that are decay."""
_DECAY_STEPS = "decay"
"""Name under which the length of the decay is explained. It is not a setting, since stages have their own decays."""
_LAST_RATIO = 15
"""Masking ratio of the decay, in percent."""


class _Choice(NamedTuple):
    """A setting with the value that is chosen for it."""

    setting: str
    """Name of the setting in `TrainingConfig`, or `_DECAY_STEPS`."""
    value: object
    reason: str
    """Reason for the value, as a clause that is printed."""


@dataclass(frozen=True, kw_only=True)
class Adaptation:
    """One model to train from a start: what the user gave, and what is chosen for it.

    Raises:
        UserError: both steps and tokens are given or neither is, or an objective or a setting is unknown.
    """

    start: Start
    """The model whose weights training begins from."""
    objective: str = "mlm30"
    """The training objective, as a model's name writes it."""
    steps: int | None = None
    """Number of updates; None if `tokens` is given."""
    tokens: float | None = None
    """Least number of tokens to train on; None if `steps` is given."""
    changes: tuple[str, ...] = ()
    """Settings that the user changes, as `KEY=VALUE`."""

    def __post_init__(self) -> None:
        """Refuse what cannot be trained."""
        if (self.steps is None) == (self.tokens is None):
            remedy = (
                "give one of them" if self.steps is None else "leave one of them out"
            )
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
            # Tokens such as 1e300 give a number of 300 digits, of which the message has only the first.
            raise UserError(
                f"give at most {_MOST_STEPS:,} steps, not {str(self.updates)[:20]}"
            )

        if self.updates < 2:
            raise UserError(
                f"give at least 2 steps, not {self.updates}: one takes {self._step_tokens:,.0f} tokens"
            )

        # Reading the settings once refuses unknown ones. With `tokens`, `updates` has read them above; with
        # `steps`, it has not.
        _ = self.config

    @cached_property
    def _length(self) -> int:
        """Tokens of a sequence: as many as the start can read up to `_LENGTH`, or what the user changes them to."""
        usual = min(_LENGTH, self.start.longest)
        # The paper's shortest sequence of 12 tokens could be longer than `max_length`, which would be
        # refused.
        chosen: dict[str, object] = {"max_length": usual, "min_length": 1}
        length: int = _changed(chosen, self.changes).batches.max_length
        return length

    @cached_property
    def _batch(self) -> int:
        """Sequences of a step, all GPUs together, as they are chosen: a power of two.

        What the user changes (`--set global_batch=...`) comes over this choice later (`_changed`).
        """
        # With a number of steps there is no budget of tokens to divide, so a step has the most tokens.
        step_tokens = float(_MOST_TOKENS)
        if self.tokens is not None:
            tokens_of_update = self.tokens / _UPDATES
            step_tokens = min(max(tokens_of_update, _LEAST_TOKENS), _MOST_TOKENS)
        # The largest power of two whose sequences have at most so many tokens, and at least one sequence.
        exponent = math.floor(math.log2(step_tokens / self._length))
        batch: int = 2 ** max(0, exponent)
        return batch

    @cached_property
    def _step_settings(self) -> TrainingConfig:
        """The settings as far as they decide how many tokens a step has; the others are at their defaults."""
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
        return self._step_settings.tokens_per_step

    @property
    def updates(self) -> int:
        """Number of steps of all stages together; each makes one update of the weights."""
        if self.steps is not None:
            return self.steps
        assert self.tokens is not None
        return math.ceil(self.tokens / self._step_tokens)

    def check_passes(self, text_tokens: int, where: str) -> None:
        """Refuse a text that is shorter than a step, and training that would read the text more than 20 times.

        Args:
            text_tokens: number of training tokens in the shards.
            where: folder or address of the shards, for the message.

        Raises:
            UserError: the text is too short; the message suggests settings that it is long enough for.
        """
        length = self._length
        # A text without a single whole sequence is refused when its sequences are counted, in training.
        if text_tokens < length:
            return
        text = f"{where}: its text has {text_tokens:,} training tokens, and"
        if text_tokens < self._step_tokens:
            # The suggested step is one that the text can fill: a few sequences, or fewer of a shorter text.
            sequences = min(_FEW_SEQUENCES, text_tokens // length)
            suggested_tokens = sequences * length
            # The most tokens of whole steps that are no more passes than allowed.
            most_tokens = _PASSES * text_tokens // suggested_tokens * suggested_tokens
            raise UserError(
                f"{text} one step takes {self._step_tokens:,.0f}; give --set global_batch={sequences} with --tokens "
                f"{most_tokens} ({_PASSES} passes) or fewer, or more text"
            )

        passes = self.updates * self._step_tokens / text_tokens
        if passes > _PASSES:
            # As above, but a step's tokens may be a fraction: lengths can be random.
            whole_steps = _PASSES * text_tokens // self._step_tokens
            most_tokens = int(whole_steps * self._step_tokens)
            raise UserError(
                f"{text} {self.updates:,} steps of {self._step_tokens:,.0f} are {passes:,.0f} passes over it; give "
                f"--tokens {most_tokens} ({_PASSES} passes) or fewer, more text, or --repeat-text"
            )

    @property
    def _warmup(self) -> int:
        """Steps of warm-up: 3 % of all, but at least ten, and none where ten would be more than a tenth of all."""
        usual = max(_LEAST_WARMUP, round(_WARMUP * self.updates))
        return usual if 10 * usual <= self.updates else 0

    @property
    def _decay(self) -> int:
        """Steps of the decay: the last 20 % of all, but at least one."""
        return max(1, round(_DECAY * self.updates))

    @cached_property
    def _stages(self) -> list[StageSpec]:
        """One stage, or two where the decay has a lower masking ratio than the steps before it."""
        first = parse_objective(self.objective)
        last = first
        # Only a constant ratio is lowered in the decay. A ratio that changes is what the user wants it to be.
        is_constant = first.last_ratio is None

        # An objective without a ratio cannot occur here: `__post_init__` refuses it.
        if is_constant and (first.ratio or 0) > _LAST_RATIO:
            last = first._replace(ratio=_LAST_RATIO)
        # The stage that ends with the last step. If it is the only one, it begins with stable steps, and its
        # last `_decay` steps are the decay. If another stage comes before, that one ends where the decay
        # begins, so that this one is only the decay.
        decayed = StageSpec(
            objective=last, end=self.updates, decay_steps=self._decay, curve="sqrt"
        )
        if last == first:
            return [decayed]
        before = StageSpec(objective=first, end=self.updates - self._decay)
        return [before, decayed]

    @property
    def _rate(self) -> _Choice:
        """The choice of the peak learning rate: by the model's size, and half as high for few tokens."""
        parameters = self.start.shape.encoder_parameters
        # The first rate whose size is not exceeded; the last size is infinite.
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
        """All chosen settings, in the order in which they are printed."""
        batch, steps = self._batch, self.updates
        last_objective = self._stages[-1].objective
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
            f"1-sqrt towards zero over the last 20 % of the steps, with {last_objective}",
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
        """The settings of the training: the chosen ones, where the user does not change them."""
        # The paper's shortest sequence of 12 tokens could be longer than `max_length`.
        chosen: dict[str, object] = {"min_length": 1}
        for choice in self._choices:
            if choice.setting != _DECAY_STEPS:
                chosen[choice.setting] = choice.value
        return _changed(chosen, self.changes)

    @property
    def advice(self) -> dict[str, str]:
        """A line for each chosen setting with its value and the reason, by the setting's name, or `decay`.

        Settings that the user changed have no line.
        """
        final_values = values_of(self.config)
        advice = {}
        for setting, value, reason in self._choices:
            # `--set` may have replaced the value, for which the reason would be untrue.
            if setting != _DECAY_STEPS and final_values[setting] != value:
                continue
            text = f"{value:g}" if isinstance(value, float) else str(value)
            advice[setting] = f"{setting} = {text}: {reason}"
        return advice

    def plan_on(self, device: Device) -> Plan:
        """Return the plan of the training on a device, in the largest passes that fit into its memory.

        A pass is one forward and backward computation. Its size changes the time that is planned.
        """
        plan, batches = self.targets.plan, self.config.batches
        # The memory of a device that the user names by its rate only (`--tflops`) is not known, and counts as
        # enough.
        memory_gb = device.memory_gb or math.inf
        fits = largest_microbatch(self.start.shape, memory_gb, batches.max_length)
        # A pass has at least one sequence, even if that would not fit; a size that the user sets stays.
        microbatch = batches.microbatch or max(1, fits)
        batches = replace(batches, microbatch=microbatch)
        config = replace(self.config, batches=batches)
        return replace(plan, study=replace(plan.study, config=config))

    @cached_property
    def targets(self) -> Targets:
        """What `train` is to train: the one model of a study that is made here."""
        start = self.start
        # The start's name takes the place of a size, with dots for all but letters and digits: `smollm2.135m`.
        size = re.sub(r"[^a-z0-9]+", ".", start.name.lower()).strip(".")

        # Cut, since the names of the model and of its stages begin with it, and name folders. A name without
        # a letter or digit leaves nothing.
        size = size[:40] or "start"
        name = f"{size}-{self._stages[0].objective}-{format_steps(self.updates)}"

        # A stage's name leaves out the length of the study's usual decay. An adaptation has no usual decay
        # (0), so that the name of each stage with a decay says its curve and length.
        stages = make_stages(size, self._stages, usual_decay=0)
        model = Model(name=name, size=size, stages=stages, start=start.text)
        # The `decay_steps` of the design only say how names that the study does not list are read. The one
        # model here is listed, with its stages made above.
        study = Study(
            name="adapt",
            design=Design(sizes=(size,), decay_steps=self._decay),
            shapes={size: start.shape},
            models={name: model},
            config=self.config,
        )

        # The model has its start as a text only; training takes the opened one.
        return replace(targets_of(name, study), start=start)


def _changed(chosen: dict[str, object], changes: Sequence[str]) -> TrainingConfig:
    """Return settings with chosen values for the defaults, and then the user's `KEY=VALUE` changes."""
    base = read_settings(TrainingConfig, chosen)
    return read_settings(
        TrainingConfig, assignments(changes), "--set", base=base, typed=False
    )
