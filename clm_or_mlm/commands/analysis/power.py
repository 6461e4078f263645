"""`python -m analysis power`: how many seeds a difference needs."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from analysis.precision.power import FORMATS, SeedPlan, power_table
from clm_or_mlm.options import Selection, SourceOptions
from clm_or_mlm.output import OutFile, write_or_print
from common.errors import UserError

__all__ = ["power"]


def power(
    *,
    effect: Annotated[float, Parameter(metavar="POINTS")],
    source: SourceOptions = SourceOptions(),
    power: float = 0.8,
    alpha: float = 0.05,
    selection: Selection = "seed",
    format: Annotated[str, Parameter(choices=tuple(FORMATS))] = "text",
    out: OutFile = None,
) -> int:
    """Print how many fine-tuning seeds each model needs for a difference between two models to be found.

    The test is a two-sided t test, with the variances of the runs or, without runs, of the published cells.

    Args:
        effect: the difference, in points
        power: wanted chance to find it
        alpha: level of the test
        selection: rule for the learning rate
        format: how it is written
        out: write there instead of to standard output
    """
    if not effect > 0:
        raise UserError(f"--effect {effect:g}: a difference to look for is a positive number of points")
    for name, share in (("power", power), ("alpha", alpha)):
        if not 0 < share < 1:
            raise UserError(f"--{name} {share:g} is no share between 0 and 1")
    opened = source.open()
    table = power_table(opened, effect, power=power, alpha=alpha, selection=selection)
    plan = SeedPlan(table=table, source=opened.label, effect=effect, power=power, alpha=alpha)
    write_or_print(FORMATS[format].show(plan), out)
    return 0
