"""`python -m analysis coverage` and `power`: how far intervals can be trusted, and how many seeds are enough."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from analysis.precision import coverage_report, shapes_report
from analysis.precision import power as seed_plans
from analysis.precision.clusters import clusters_document, simulate_clusters
from analysis.precision.coverage import COVERAGE_RESAMPLES, COVERAGE_TRIALS, simulate
from analysis.precision.shapes import SHAPE_TRIALS, simulate_shapes
from analysis.statistics.settings import DEFAULT_SEED
from clm_or_mlm.options import OutFile, SourceOptions
from common.errors import UserError
from common.tables import PRINTED, write

__all__ = ["coverage", "power"]


def coverage(
    *,
    source: SourceOptions = SourceOptions(),
    shapes: bool = False,
    clusters: bool = False,
    trials: Annotated[int | None, Parameter(show_default=False)] = None,
    format: Annotated[str, Parameter(choices=PRINTED)] = "text",
    out: OutFile = None,
) -> None:
    """Simulate cells and count how often each nominal 95 % interval holds the truth.

    Five-seed cells have the variances observed in runs (or in the published cells); the truth is the mean over seeds on
    these test instances, and on any. With --shapes cells of 2 to 20 seeds have other shapes than the normal one: heavy
    tails, a seed in ten that collapses, few queries. With --clusters answers are right or wrong: test sets whose
    instances come in clusters, as questions of one passage do, and few instances near 100 %. What the intervals are and
    which to use: docs/intervals.md. The figure: python -m paper_figures coverage.

    example: python -m analysis coverage --trials 2000 --format csv

    Args:
        shapes: by shape and number of seeds instead of by dataset; needs no source
        clusters: by test set instead; needs no source
        trials: simulated cells a dataset or test set (2,000), or a shape and number of seeds (2,300)
        format: how it is written
    """
    trials = (SHAPE_TRIALS if shapes else COVERAGE_TRIALS) if trials is None else trials
    if shapes and clusters:
        raise UserError("--shapes and --clusters are two simulations; give one of them")
    if trials < 100:
        raise UserError("a coverage needs 100 trials or more; leave --trials out")
    if clusters:
        by_test_set = simulate_clusters(trials=trials, seed=DEFAULT_SEED)
        write(clusters_document(by_test_set, trials), format, out)
        return
    if shapes:
        by_shape = simulate_shapes(trials=trials, resamples=COVERAGE_RESAMPLES, seed=DEFAULT_SEED)
        report_of_shapes = shapes_report.ShapesReport(frame=by_shape, trials=trials)
        write(shapes_report.shapes_document(report_of_shapes), format, out)
        return
    opened = source.open(need_instances=True)
    frame = simulate(opened, trials=trials, resamples=COVERAGE_RESAMPLES, seed=DEFAULT_SEED)
    report = coverage_report.CoverageReport(
        frame=frame, source=opened.label, trials=trials, datasets=opened.datasets
    )
    write(coverage_report.coverage_document(report), format, out)


def power(
    *,
    effect: Annotated[float, Parameter(metavar="POINTS")],
    source: SourceOptions = SourceOptions(),
    format: Annotated[str, Parameter(choices=PRINTED)] = "text",
    out: OutFile = None,
) -> None:
    """Print how many fine-tuning seeds each model needs for a difference between two models to be found.

    It is found in 80 of 100 cases by a two-sided t test at the 5 % level, with the variances of the runs or, without
    runs, of the published cells.

    example: python -m analysis power --effect 0.5

    Args:
        effect: the difference, in points
        format: how it is written
    """
    if not effect > 0:
        raise UserError(f"--effect {effect:g}: a difference to look for is a positive number of points")
    opened = source.open()
    table = seed_plans.power_table(opened, effect)
    plan = seed_plans.SeedPlan(table=table, source=opened.label, effect=effect, datasets=opened.datasets)
    write(seed_plans.plan_document(plan), format, out)
