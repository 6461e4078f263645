"""`clm-or-mlm coverage`, `design`, `variance`: how far intervals can be trusted, how many runs are enough."""

from __future__ import annotations

import math
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from analysis.evidence.evidence import DEFAULT_SEED
from analysis.evidence.intervals import INTERVALS
from analysis.options import OutFile, SourceOptions
from analysis.precision.clusters import clusters_document, simulate_clusters
from analysis.precision.components import components_document
from analysis.precision.coverage import COVERAGE_RESAMPLES, COVERAGE_TRIALS, coverage_document, simulate
from analysis.precision.design import PLANNED, Study, design_document
from analysis.precision.power import MOST_SEEDS
from analysis.precision.shapes import SHAPE_TRIALS, shapes_document, simulate_shapes
from common.errors import UserError
from common.tables import PRINTED, write

__all__ = ["coverage", "design", "variance"]

_COUNT = Parameter(validator=Number(gte=1, lte=MOST_SEEDS))
_POINTS = Parameter(metavar="POINTS", validator=Number(gte=0, lt=math.inf))


def coverage(
    *,
    source: SourceOptions = SourceOptions(),
    shapes: bool = False,
    clusters: bool = False,
    trials: Annotated[int | None, Parameter(show_default=False)] = None,
    format: Annotated[str, Parameter(choices=PRINTED)] = "text",
    out: OutFile = None,
) -> None:
    """Simulate cells and count how often each nominal 95 % interval contains the true value.

    By default, the simulated cells have five seeds and the variances observed in the source. Coverage is counted twice:
    for the mean over seeds with these test instances, and for the mean over seeds and test instances. --shapes draws 2
    to 20 seeds from distributions of several shapes: normal, heavy-tailed, that of the released SST-2 runs, one in
    which one seed in ten collapses, and one with few queries. --clusters simulates test sets whose instances come in
    clusters, such as questions about one passage, and small test sets with scores near 100 %. docs/intervals.md says
    which interval to use; `clm-or-mlm figure coverage` draws the result.

    example: clm-or-mlm coverage --trials 2000 --format csv

    Args:
        shapes: simulate by shape of the distribution and number of seeds instead of by dataset; uses no source
        clusters: simulate clustered and small test sets instead; uses no source
        trials: simulated cells per dataset or test set (default: 2,000), or per shape and number of seeds (2,300)
        format: output format
    """
    trials = (SHAPE_TRIALS if shapes else COVERAGE_TRIALS) if trials is None else trials
    if shapes and clusters:
        raise UserError("--shapes and --clusters are different simulations; give only one")
    if trials < 100:
        raise UserError("coverage needs at least 100 trials; leave --trials out for the default")
    if clusters:
        by_test_set = simulate_clusters(trials=trials, seed=DEFAULT_SEED)
        write(clusters_document(by_test_set, trials), format, out)
        return
    if shapes:
        by_shape = simulate_shapes(trials=trials, resamples=COVERAGE_RESAMPLES, seed=DEFAULT_SEED)
        write(shapes_document(by_shape, trials), format, out)
        return
    opened = source.open(need_instances=True)
    frame = simulate(opened, trials=trials, resamples=COVERAGE_RESAMPLES, seed=DEFAULT_SEED)
    write(coverage_document(frame, trials, opened.label, opened.datasets), format, out)


def design(
    *,
    effect: Annotated[float, Parameter(metavar="POINTS", validator=Number(gt=0, lt=math.inf))],
    source: SourceOptions = SourceOptions(),
    interval: Annotated[str, Parameter(choices=PLANNED)] = Study.interval,
    seeds: Annotated[int, _COUNT] = Study.seeds,
    pretrainings: Annotated[int, _COUNT] = Study.pretrainings,
    pretraining_sd: Annotated[float, _POINTS] = Study.pretraining_sd,
    dataset_sd: Annotated[float, _POINTS] = Study.dataset_sd,
    tests: Annotated[int, _COUNT] = Study.tests,
    power: Annotated[float, Parameter(validator=Number(gt=0.05, lt=1))] = Study.power,
    format: Annotated[str, Parameter(choices=PRINTED)] = "text",
    out: OutFile = None,
) -> None:
    """Print how many seeds, pretrainings, datasets and test instances it takes to detect a difference.

    The numbers are for the test that `compare` will run on your results, and assume the spreads of the source's cells.
    The command also prints the power of the study that the options describe. docs/intervals.md explains each number.

    examples:
      clm-or-mlm design --effect 0.5
      clm-or-mlm design --effect 0.5 --pretrainings 3 --pretraining-sd 0.2 --tests 12

    Args:
        effect: the difference to detect, in points
        interval: the interval whose test is planned: pooled (the default for runs), t (paired by seed) or crossed (over
            test instances, too)
        seeds: fine-tuning seeds per pretraining
        pretrainings: pretrainings per arm; if several, they are the units of the test
        pretraining_sd: standard deviation of a score between pretrainings, in points; with 0, the conclusion holds only
            for these pretrainings
        dataset_sd: standard deviation of the difference between models across datasets, in points; with 0, the
            conclusion holds only for these datasets
        tests: number of tests that Holm's adjustment covers
        power: target power
        format: output format
    """
    study = Study(
        effect=effect, seeds=seeds, pretrainings=pretrainings, pretraining_sd=pretraining_sd, dataset_sd=dataset_sd,
        tests=tests, power=power, interval=interval,
    )  # fmt: skip
    opened = source.open(need_instances=INTERVALS[interval].needs_instances)
    write(design_document(opened, study), format, out)


def variance(
    *,
    source: SourceOptions = SourceOptions(),
    format: Annotated[str, Parameter(choices=PRINTED)] = "text",
    out: OutFile = None,
) -> None:
    """Print how much a score varies with the pretraining, fine-tuning seed, test set and dataset.

    It needs runs of models that were pretrained more than once: NAME, NAME-s1, NAME-s2. It also prints what the
    standard error of a difference between two models would be with more pretrainings or seeds.

    example: clm-or-mlm variance --source miniature

    Args:
        format: output format
    """
    write(components_document(source.open()), format, out)
