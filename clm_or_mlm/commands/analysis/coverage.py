"""`python -m analysis coverage`: the true coverage of each nominal 95 % interval."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from analysis.precision.coverage import COVERAGE_RESAMPLES, COVERAGE_TRIALS, simulate
from analysis.precision.coverage_report import FORMATS, CoverageReport
from analysis.statistics.intervals import DEFAULT_SEED
from clm_or_mlm.options import Selection, SourceOptions
from clm_or_mlm.output import OutFile, write_or_print
from common.errors import UserError

__all__ = ["coverage"]


def coverage(
    *,
    source: SourceOptions = SourceOptions(),
    selection: Selection = "seed",
    trials: int = COVERAGE_TRIALS,
    resamples: int = COVERAGE_RESAMPLES,
    seed: int = DEFAULT_SEED,
    format: Annotated[str, Parameter(choices=tuple(FORMATS))] = "text",
    out: OutFile = None,
) -> int:
    """Simulate five-seed cells and count how often each nominal 95 % interval holds the truth.

    The variances are those observed in runs (or in the published cells); the truth is the mean over seeds on these
    test instances, and on any. What the intervals are and which to use: docs/intervals.md. The figure:
    python -m paper_figures coverage.

    Args:
        selection: rule for the learning rate
        trials: simulated cells a dataset
        resamples: of each bootstrap
        seed: of the simulation
        format: how it is written
        out: write there instead of to standard output
    """
    if trials < 100 or resamples < 100:
        raise UserError(
            "a coverage needs 100 trials of 100 resamples or more; leave --trials and --resamples out"
        )
    opened = source.open(need_instances=True)
    frame = simulate(opened, trials=trials, resamples=resamples, seed=seed, selection=selection)
    write_or_print(FORMATS[format].show(CoverageReport(frame=frame, source=opened.label, trials=trials)), out)
    return 0
