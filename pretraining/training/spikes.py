"""Spikes of the loss (`on_spike=skip`): what one is, and which batches are left out after it.

A spike is a loss that is no number, or above the median of the stage's last 64 by more than 6 robust standard
deviations (1.4826 times the median absolute deviation). Of the 2,144 steps of the packaged miniature's logs that have
64 before them, the highest is 2.6 above.

Training then continues from a checkpoint before the ten batches that end with the spike's, without them. So the model
is the one that `skip=FIRST:10` would have given from the start, whichever checkpoint that was.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterable, Sequence

from common.errors import UserError

__all__ = ["BATCHES", "LossSpike", "Losses", "with_spike"]

BATCHES = 10
"""Batches that are left out: the spike's and those before it, whose updates may have caused it."""
_WINDOW, _DEVIATIONS, _MOST = 64, 6.0, 5

Skips = Sequence[tuple[int, int]]
"""Steps, and the number of batches left out there."""


class LossSpike(Exception):  # noqa: N818  # not an error of the user's
    """The loss of an update spiked."""

    def __init__(self, update: int, loss: float) -> None:
        """Of an update, counted from 0."""
        super().__init__(f"the loss of step {update + 1} is {loss:.4g}")
        self.update = update


class Losses:
    """The last losses of a stage."""

    def __init__(self, last: Iterable[float] = ()) -> None:
        """Begin with those that a checkpoint has kept."""
        self.last = deque(last, _WINDOW)

    def add(self, update: int, loss: float, norm: float) -> None:
        """Take the loss and the gradient's norm of an update.

        Raises:
            LossSpike: it is a spike.
        """
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise LossSpike(update, loss)
        if len(self.last) == _WINDOW:
            middle = statistics.median(self.last)
            spread = 1.4826 * statistics.median(abs(value - middle) for value in self.last)
            if loss - middle > _DEVIATIONS * spread > 0:
                raise LossSpike(update, loss)
        self.last.append(loss)


def with_spike(skips: Skips, spike: LossSpike, first: int) -> list[tuple[int, int]]:
    """Return what is left out after one more spike.

    Args:
        skips: what was left out so far.
        spike: the spike.
        first: the first update whose batch may be left out: those before it have a checkpoint that stays.

    Raises:
        UserError: leaving out has not helped often enough.
    """
    at = max(spike.update + 1 - BATCHES, first)
    near = next((skip for skip in skips if max(at - BATCHES + 1, first) <= skip[0] <= spike.update), None)
    if near is None:
        return sorted([*skips, (at, BATCHES)])
    if near[1] >= _MOST * BATCHES:
        raise UserError(
            f"{spike}, and leaving out {near[1]} batches from step {near[0]} on has not helped; lower peak_lr or look "
            "at the data, and choose another --out"
        )
    return sorted([*(skip for skip in skips if skip != near), (near[0], near[1] + BATCHES)])
