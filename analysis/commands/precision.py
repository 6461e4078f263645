"""`clm-or-mlm design`: how many runs are enough."""

from __future__ import annotations

import math
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from analysis.options import OutFile, SourceOptions
from analysis.precision.design import MOST_SEEDS, PlannedStudy, design_document
from common.tables import PRINTED, write

__all__ = ["design"]

_COUNT = Parameter(validator=Number(gte=1, lte=MOST_SEEDS))
_POINTS = Parameter(metavar="POINTS", validator=Number(gte=0, lt=math.inf))


def design(
    *,
    effect: Annotated[float, Parameter(metavar="POINTS", validator=Number(gt=0, lt=math.inf))],
    source: SourceOptions = SourceOptions(),
    seeds: Annotated[int, _COUNT] = PlannedStudy.seeds,
    pretrainings: Annotated[int, _COUNT] = PlannedStudy.pretrainings,
    pretraining_sd: Annotated[float, _POINTS] = PlannedStudy.pretraining_sd,
    tests: Annotated[int, _COUNT] = PlannedStudy.tests,
    power: Annotated[float, Parameter(validator=Number(gt=0.05, lt=1))] = PlannedStudy.power,
    format: Annotated[str, Parameter(choices=PRINTED)] = "text",
    out: OutFile = None,
) -> None:
    """Print how many seeds or pretrainings it takes to detect a difference.

    The numbers are for the test that `compare` will run on your results, and assume the spreads of the source's cells.
    The command also prints the power of the study that the options describe. docs/intervals.md explains each number.

    examples:
      clm-or-mlm design --effect 0.5
      clm-or-mlm design --effect 0.5 --pretrainings 3 --pretraining-sd 0.2 --tests 12

    Args:
        effect: the difference to detect, in points
        seeds: fine-tuning seeds per pretraining
        pretrainings: pretrainings per arm; if several, they are the units of the test
        pretraining_sd: spread (sd) between pretrainings, in points; 0: these alone
        tests: number of tests that Holm's adjustment covers
        power: target power
        format: output format
    """
    study = PlannedStudy(
        effect=effect, seeds=seeds, pretrainings=pretrainings, pretraining_sd=pretraining_sd, tests=tests, power=power,
    )  # fmt: skip
    write(design_document(source.open(), study), format, out)
