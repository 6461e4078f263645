"""Warm-up, stable, decay: the learning rate as a pure function of the step (section 3, Table 1).

The paper's own trainer counts with an offset of one: step 0 has 1 / warm-up of the peak, the last step of the
warm-up has the peak, and the last step of the decay has zero. Steps are counted from the start of pretraining,
in every stage and every branch. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass

from pretraining.models import Model, Stage

__all__ = ["WSD", "stage_schedule"]


@dataclass(frozen=True, kw_only=True)
class WSD:
    """Multipliers of the peak learning rate by step; several phases may overlap, the lowest counts."""

    warmup_steps: int
    """Steps of linear warm-up from step 0; 0 starts at the peak."""
    decay_start: int | None = None
    """First step of the decay; None for a trunk, which never decays."""
    decay_steps: int = 0
    """Length of the linear decay to zero."""
    rewarm_start: int | None = None
    """First step after a decayed checkpoint (CPT); None when there is none."""
    rewarm_steps: int = 0
    """Length of the linear warm-up from `rewarm_start`; 0 returns to the peak at once."""

    def __post_init__(self) -> None:
        """Refuse lengths below zero and a decay without steps."""
        if min(self.warmup_steps, self.decay_steps, self.rewarm_steps) < 0:
            raise ValueError(f"phases of a schedule cannot be shorter than 0 steps: {self}")
        if self.decay_start is not None and self.decay_steps == 0:
            raise ValueError(f"a decay needs at least one step: {self}")

    def __call__(self, step: int) -> float:
        """Return the multiplier, 0 to 1, of the update that `step` (counted from 0) makes.

        Raises:
            ValueError: a negative step, or one after the end of the decay.
        """
        end = None if self.decay_start is None else self.decay_start + self.decay_steps
        if step < 0 or (end is not None and step >= end):
            raise ValueError(f"step {step} is outside the schedule [0, {end})")
        value = 1.0
        if step < self.warmup_steps:
            value = (step + 1) / self.warmup_steps
        if self.rewarm_start is not None and 0 <= step - self.rewarm_start < self.rewarm_steps:
            value = min(value, (step - self.rewarm_start + 1) / self.rewarm_steps)
        if self.decay_start is not None and step >= self.decay_start:
            value = min(value, 1.0 - (step - self.decay_start + 1) / self.decay_steps)
        return value


def stage_schedule(model: Model, stage: Stage, *, warmup_steps: int, rewarm_steps: int) -> WSD:
    """Return the schedule of one stage of the model.

    A second stage or a decay that continues an undecayed trunk stays on the trunk's plateau; only what follows
    a decayed checkpoint is warmed up again, over `rewarm_steps` (the paper does not say how).
    """
    continued = model.kind == "continued" and model.switch is not None and stage.start >= model.switch
    decays = stage.phase == "decay"
    return WSD(
        warmup_steps=warmup_steps,
        decay_start=stage.start if decays else None,
        decay_steps=stage.steps if decays else 0,
        rewarm_start=model.switch if continued else None,
        rewarm_steps=rewarm_steps if continued else 0,
    )
