"""The defaults of `adapt`, by the start's size, each with its reason; and what one adaptation trains.

What published recipes agree on, and where they do not, is in docs/build-an-encoder.md. torch is imported only
where rates are tried.
"""

from __future__ import annotations

import json
import logging
import math
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.files import write_text
from common.reading import read_json
from common.settings import Settings, assignments, read_settings
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
from pretraining.plan.study_plan import Study, Targets, targets_of
from pretraining.starts import Start

__all__ = ["Adaptation", "adaptation", "tried_rate"]

log = logging.getLogger(__name__)

_RATES = ((100e6, 5e-4), (300e6, 2e-4), (2e9, 1e-4), (math.inf, 2e-5))
"""Peak learning rates, each up to a number of parameters."""
_MUCH = 1e9
"""Tokens from which a decayed start is trained at the whole rate."""
_LENGTH, _TOKENS = 512, 2**18
_WARMUP, _DECAY = 0.03, 0.2
_LAST_RATIO = 15
"""Masking ratio of the decay, in percent."""
_FACTORS, _SHARE, _FEWEST = (1 / 3, 1, 3), 0.02, 10
"""Rates to try, as parts of the chosen one, on this share of the steps, but not on fewer."""


@dataclass(frozen=True, kw_only=True)
class Adaptation:
    """One model to train from a start."""

    targets: Targets
    """Its stages."""
    config: TrainingConfig
    """Its settings."""
    advice: dict[str, str]
    """Why each setting was chosen, by its name in `TrainingConfig`, or `decay`: value and reason, in a clause."""


def adaptation(
    start: Start,
    *,
    objective: str = "mlm30",
    steps: int | None = None,
    tokens: float | None = None,
    changes: Sequence[str] = (),
) -> Adaptation:
    """Return what `adapt` trains.

    Args:
        start: what to start from.
        objective: what it is trained on, as a model's name says it.
        steps: updates; either these or tokens.
        tokens: tokens to train on, at least.
        changes: settings as `KEY=VALUE`.

    Raises:
        UserError: neither steps nor tokens or both, an unknown objective or setting.
    """
    if (steps is None) == (tokens is None):
        what = "leave one of them out" if steps else "give one of them"
        raise UserError(f"either --steps or --tokens says how long to train: {what}")
    first_on, shape = parse_objective(objective), start.shape
    if OBJECTIVES[first_on.name].is_causal:
        raise UserError(
            f"--objective {objective} looks back only, and makes no encoder; give mlm30 or another ratio"
        )
    length = min(_LENGTH, shape.max_length)
    batch = max(1, _TOKENS // length)
    first = _changed({"max_length": length, "min_length": 1, "cut": "fixed", "global_batch": batch}, changes)
    steps = math.ceil(tokens / first.tokens_per_step) if steps is None and tokens is not None else steps
    assert steps is not None
    if steps < 2:
        raise UserError(f"give at least 2 steps, not {steps}: one takes {first.tokens_per_step:,.0f} tokens")
    total = steps * first.tokens_per_step
    decay, warmup = max(1, round(_DECAY * steps)), round(_WARMUP * steps)
    falls = first_on.ratio is not None and first_on.last_ratio is None and first_on.ratio > _LAST_RATIO
    last_on = first_on._replace(ratio=_LAST_RATIO) if falls else first_on
    size = shape.encoder_parameters
    rate = next(rate for most, rate in _RATES if size <= most)
    few = total < _MUCH
    halved = (
        f", halved because {total:,.0f} tokens are less than 1 B for a start that has decayed" if few else ""
    )
    usual = "as most published encoders"
    rows: tuple[tuple[str, object, str], ...] = (
        ("peak_lr", rate / 2 if few else rate, f"for {size / 1e6:,.0f} M parameters {rate:g}{halved}; recipes differ, "
         "so --sweep tries a third and three times of it"),
        ("warmup_steps", warmup, "3 % of the steps: the optimizer's moments begin anew"),
        ("decay", decay, f"1-sqrt to zero over the last 20 % of the steps, with {last_on}"),
        ("max_length", length, "documents end to end, up to the start's positions"),
        ("cut", "fixed", "every sequence is full"),
        ("attention", "document", "no token sees another document"),
        ("global_batch", batch, f"{batch * length:,} tokens a step"),
        ("weighting", "token", "the loss is the mean over all predicted tokens"),
        ("beta2", 0.98, usual),
        ("eps", 1e-8, usual),
        ("weight_decay", 0.01, f"{usual}; the start was decayed before"),
        ("eval_sequences", min(512, 2 * batch), "validation at masks that never change"),
        ("eval_every", max(1, steps // 10), "ten times"),
        ("save_every", max(1, min(1000, steps // 10)), "so much is lost at most by a kill"),
        ("tensorboard", False, "the log has the losses"),
    )  # fmt: skip
    chosen = {setting: value for setting, value, _ in rows if setting != "decay"} | {"min_length": 1}
    config = _changed(chosen, changes)
    advice = {
        setting: f"{setting} = {f'{value:g}' if isinstance(value, float) else value}: {reason}"
        for setting, value, reason in rows
        if setting == "decay" or getattr(config, setting) == value
    }
    size_name = re.sub(r"[^a-z0-9]+", ".", start.name.lower()).strip(".")[:40] or "start"
    decayed = StageSpec(objective=last_on, end=steps, decay_steps=decay, curve="sqrt")
    specs = [StageSpec(objective=first_on, end=steps - decay), decayed] if falls else [decayed]
    name = f"{size_name}-{first_on}-{format_steps(steps)}"
    stages = make_stages(size_name, specs, usual_decay=0)
    model = Model(name=name, size=size_name, stages=stages, start=start.text)
    design = Design(sizes=(size_name,), decay_steps=decay)
    study = Study(name="adapt", design=design, shapes={size_name: shape}, models={name: model}, config=config)
    return Adaptation(targets=targets_of(name, study), config=config, advice=advice)


@dataclass(frozen=True, kw_only=True)
class _Tried(Settings):
    """What `sweep.json` says: what the losses depend on, and the validation loss of each rate."""

    tried_with: dict[str, Any] = field(default_factory=dict)
    losses: dict[str, float] = field(default_factory=dict)


def tried_rate(
    start: Start,
    made: Adaptation,
    *,
    objective: str,
    changes: Sequence[str],
    data: str,
    out: Path,
    stop_file: Path | None = None,
) -> float | None:
    """Return the one of three learning rates with the lowest validation loss after 2 % of the steps.

    What was tried is in `out/sweep.json`, and is not tried again.

    Args:
        start: what to start from.
        made: what is to be trained, at the middle one of the rates.
        objective: as in `adaptation`.
        changes: as in `adaptation`.
        data: shards.
        out: folder of what is trained.
        stop_file: save and end once this file exists.

    Returns:
        The rate; None when a stop was requested; the same call resumes.

    Raises:
        UserError: as `train`, or the loss is not finite at any of the rates.
    """
    from pretraining.training.log import LOG, read_log
    from pretraining.training.stage import DivergedError
    from pretraining.training.train import train

    model, peak = made.targets.model, made.config.peak_lr
    steps = max(_FEWEST, round(_SHARE * model.steps))
    tried_with = {"start": start.identity, "peak_lr": peak, "steps": steps, "changes": (objective, *changes)}
    path, folder = out / "sweep.json", out / "sweep"
    found = read_json(path, "remove it") if path.is_file() else {}
    record = read_settings(_Tried, found, str(path), remedy="remove it")
    losses = record.losses if record.tried_with == tried_with else {}
    for factor in () if losses else _FACTORS:
        rate = f"{peak * factor:.2g}"
        tried = adaptation(start, objective=objective, steps=steps, changes=(*changes, f"peak_lr={rate}"))
        targets, last = replace(tried.targets, is_model=False), tried.targets.stages[-1][0]
        try:
            if not train(
                targets, data=data, out=folder / rate, config=tried.config, stop_file=stop_file, start=start
            ):
                return None
            rows = list(read_log(folder / rate / "stages" / last.name / LOG))
            losses[rate] = next(row["loss"] for row in reversed(rows) if row["split"] == "validation")
        except DivergedError as error:
            log.warning("peak_lr = %s: %s", rate, error)
    if not losses:
        raise UserError(
            f"no rate from {peak * min(_FACTORS):.2g} on can be trained at; give --set peak_lr=RATE"
        )
    best = min(losses, key=lambda rate: losses[rate])
    write_text(path, json.dumps({"tried_with": tried_with, "losses": losses}, indent=1) + "\n")
    for checkpoint in folder.glob("*/stages/*/step-*"):  # other processes may still read the logs
        shutil.rmtree(checkpoint, ignore_errors=True)
    found = ", ".join(f"{rate}: {loss:.3f}" for rate, loss in losses.items())
    log.info("peak_lr = %s: the lowest validation loss after %d steps (%s)", best, steps, found)
    return float(best)


def _changed(chosen: dict[str, object], changes: Sequence[str]) -> TrainingConfig:
    known = {item.name for item in fields(TrainingConfig)}
    base = TrainingConfig(**{key: value for key, value in chosen.items() if key in known})  # type: ignore[arg-type]
    return read_settings(TrainingConfig, assignments(tuple(changes)), "--set", base=base, typed=False)
