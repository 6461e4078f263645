"""What comparing the arms of a study takes, and the smallest difference that it can show.

An arm is a model with its repeated pretrainings, which differ in their seed: NAME, NAME-s1, NAME-s2. Hours are planned
without scipy, which is imported only where a difference is computed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from benchmarks.costs import runs_at_a_time, tuning_hours
from benchmarks.protocol import DATASETS, LEARNING_RATES, SEEDS
from common.cli import MANY, shared_options
from common.plain_text import counted
from common.tables import TableDocument, plain_table
from pretraining.models import arm_of
from pretraining.plan.devices import Device
from pretraining.plan.plan_report import plan_document
from pretraining.plan.study_plan import Plan

if TYPE_CHECKING:
    from analysis.claims.pretraining_spread import MeasuredSpread

_CORES = 8
"""CPU cores next to each GPU; every fine-tuning keeps one busy."""
_SPARE = 0.05
"""Share of the hours for starts, compilation and validation."""
_ESTIMATED = (
    "Once you have trained 20 steps there, give the MFU that `train` logs as --mfu."
)
_NO_SCIPY = (
    "The smallest difference is counted with scipy, which is not installed here."
)
_ONE_EACH = (
    "Each arm is pretrained once, so no difference between arms can be told from one between pretrainings; with "
    "`pretrainings = 5` the study file repeats them."
)
_ADAPTED = "Pretrainings from one start should differ less; nobody measured it."
_COUNT = Parameter(validator=Number(gte=1, lte=1000))


@shared_options("what the models of --study can show")
@dataclass(frozen=True, kw_only=True)
class PlannedComparison:
    """How the models of a study are going to be compared; also options of `plan`."""

    seeds: Annotated[int, _COUNT] = len(SEEDS)
    """fine-tuning seeds of each model"""
    rates: Annotated[int, _COUNT] = len(LEARNING_RATES)
    """learning rates that fine-tuning tries"""
    datasets: Annotated[
        tuple[str, ...],
        MANY,
        Parameter(metavar="NAME", choices=tuple(DATASETS), show_choices=False),
    ] = ("sst2", "uner_en", "squad", "nq")
    """what they are compared on (default: one dataset of each family)"""
    pretraining_sd: Annotated[
        float | None, Parameter(metavar="POINTS", validator=Number(gte=0, lt=100))
    ] = None
    """spread (sd) between pretrainings (default: what others measured at the nearest scale)"""

    @property
    def unique_datasets(self) -> tuple[str, ...]:
        """Its datasets, each once."""
        return tuple(dict.fromkeys(self.datasets))


@dataclass(frozen=True, kw_only=True)
class Smallest:
    """The smallest differences between two arms that `compare` calls ahead in 80 of 100 studies."""

    points: dict[str, float]
    """The smallest difference on each dataset, in points."""
    pretraining_sd: float
    """Assumed spread (standard deviation) between pretrainings, in points."""
    measured_on: str
    """Where that spread was measured, in words; `--pretraining-sd` for a spread that the user gave."""


def study_document(
    plan: Plan,
    comparison: PlannedComparison,
    *,
    device: Device,
    price: float | None = None,
) -> TableDocument:
    """Return the plan of a study; of one with several arms, also what comparing them takes and can show.

    Args:
        plan: the work of the study's models.
        comparison: how the models are compared.
        device: the device that hours are of.
        price: price of an hour of the device; None: no money is counted.
    """
    document = plan_document(plan, device=device, price=price)
    # How many pretrainings each arm has, by the name of the arm. `arm_of` returns this name and the
    # pretraining's seed.
    arms = Counter(arm_of(model.name)[0] for model in plan.models)

    # One arm: nothing is compared.
    if len(arms) < 2:
        return document

    # Arms may differ in their number of pretrainings: planned with the fewest, no comparison is promised too much.
    fewest = min(arms.values())

    # What the study takes, and the smallest difference.
    tuning = hours_of_tuning(plan, comparison, device)
    # The reserve is a share of all hours, itself included: the hours of the work are the rest, 1 - _SPARE of
    # all.
    total = (plan.costs(device=device).gpu_hours + tuning) / (1 - _SPARE)
    smallest = None

    # Without scipy the plan is still printed, and says what it lacks.
    if fewest > 1 and find_spec("scipy"):
        smallest = smallest_differences(plan, comparison, fewest)

    # What was computed above, as data and as lines of text.
    data: dict[str, Any] = {
        **asdict(comparison),
        "arms": [*arms],
        "pretrainings": fewest,
        "tuning_hours": tuning,
        "total_hours": total,
    }
    money = ""
    if price is not None:
        data["money"] = price * total
        money = f", money {price * total:,.2f}"

    datasets = counted(len(comparison.unique_datasets), "dataset")
    rates = counted(comparison.rates, "rate")
    grid = f"{datasets}, {rates}, {counted(comparison.seeds, 'seed')}"
    lines = [
        f"fine-tuning    {tuning:,.1f} {device.name} hours of {len(plan.models)} models on {grid}",
        f"in all         {total:,.1f} {device.name} hours with {_SPARE:.0%} in reserve{money}",
    ]

    # The words on the speed say whether it is estimated; a measured or a given speed needs no advice.
    if "estimated" in device.basis(plan.shapes):
        lines.append(_ESTIMATED)
    lines.append("")
    if smallest is not None:
        data["smallest"] = asdict(smallest)
        lines += _lines(smallest, fewest)
        # The assumed spread was measured between pretrainings from random weights.
        if any(model.start for model in plan.models):
            lines.append(_ADAPTED)
    else:
        lines.append(_ONE_EACH if fewest == 1 else _NO_SCIPY)

    # The data of a plan are a dict, which the type `object` of that field does not say.
    assert isinstance(document.data, dict)
    # The comparison becomes a field of the plan's JSON, and lines below the plan that a terminal shows.
    # A page is a function that returns its text.
    tree = document.pages["tree"]
    return replace(
        document,
        data={**document.data, "comparison": data},
        pages={"tree": lambda: tree() + "".join(f"{line}\n" for line in lines)},
    )


def hours_of_tuning(plan: Plan, comparison: PlannedComparison, device: Device) -> float:
    """Return the hours that fine-tuning all compared models takes, in hours of one GPU."""
    models_of_size = Counter(model.size for model in plan.models)
    # A model that others start from has their size. It is compared with them, so it is fine-tuned once as
    # well: `update` adds one to the count of each size in the set.
    sizes_of_starts = {model.size for model in plan.models if model.start}
    models_of_size.update(sizes_of_starts)
    hours = 0.0
    for size, models in models_of_size.items():
        shape = plan.study.shapes[size]
        # How many fine-tunings of this size run on the GPU at the same time.
        sharing = runs_at_a_time(shape, device, _CORES)
        names = comparison.unique_datasets
        # Hours of one learning rate and one seed.
        hours += models * tuning_hours(shape, names, device, sharing)

    return comparison.rates * comparison.seeds * hours


def smallest_differences(
    plan: Plan, comparison: PlannedComparison, pretrainings: int
) -> Smallest:
    """Return by how much two arms must differ on each dataset, after Holm's adjustment over the datasets.

    Args:
        plan: the study; the sizes of its networks decide which measured spread between pretrainings is assumed.
        comparison: how the study's models are compared.
        pretrainings: how many each arm has, at least 2: they are the units of the test.
    """
    from analysis.precision.design import PlannedStudy, planned_test, seed_spreads
    from analysis.sources import PUBLISHED

    names = comparison.unique_datasets
    sd = comparison.pretraining_sd
    measured_on = "--pretraining-sd"
    if sd is None:
        sizes = sorted({model.size for model in plan.models})
        shapes = [plan.study.shapes[size] for size in sizes]
        # Each size has a nearest spread. The largest is assumed, so that no size is promised too small a difference.
        nearest = [nearest_spread(shape.encoder_parameters) for shape in shapes]
        largest = max(nearest, key=lambda spread: spread.sd)
        sd = largest.sd
        measured_on = f"{largest.network}, {largest.score}, {largest.pretrainings} pretrainings, {largest.where}"

    # Each dataset is one test of those that are adjusted together.
    study = PlannedStudy(
        seeds=comparison.seeds,
        pretrainings=pretrainings,
        pretraining_sd=sd,
        tests=len(names),
    )

    # By task and dataset, the spread between fine-tuning seeds in the paper's cells.
    fine_tuning_spreads = dict(seed_spreads(PUBLISHED))
    points = {}
    for name in names:
        spread = fine_tuning_spreads[DATASETS[name].task, name]
        # Without an argument, `detectable` means a power of 0.8: the 80 of 100 studies of `Smallest`.
        points[name] = planned_test(study, spread).detectable()

    return Smallest(points=points, pretraining_sd=sd, measured_on=measured_on)


def nearest_spread(parameters: float) -> MeasuredSpread:
    """Return the spread between pretrainings that was measured on the network whose size is nearest.

    Of several that are equally near, such as those of several scores of one network, the largest.

    Args:
        parameters: number of parameters of the network to plan for.
    """
    from analysis.claims.pretraining_spread import measured_spreads

    # Coreference on a few hundred sentences is not like the tasks here.
    spreads = [
        spread for spread in measured_spreads() if "coreference" not in spread.score
    ]

    def ratio(spread: MeasuredSpread) -> float:
        """Return how many times larger the larger of the two networks is."""
        measured_parameters = spread.parameters * 1e6  # given in millions
        times = measured_parameters / parameters
        return max(times, 1 / times)

    least = min(ratio(spread) for spread in spreads)
    nearest = [spread for spread in spreads if ratio(spread) == least]
    return max(nearest, key=lambda spread: spread.sd)


def _lines(smallest: Smallest, pretrainings: int) -> list[str]:
    """Return lines of text: what the smallest differences are, a table of them, and what they assume."""
    names = [DATASETS[name].title for name in smallest.points]
    points = [f"{value:.2f}" for value in smallest.points.values()]
    lines = [
        f"Smallest difference, in points, of two arms of {pretrainings} pretrainings that `compare --replicates` calls",
        f"ahead in about 80 of 100 studies, after Holm's adjustment over {counted(len(names), 'dataset')}:",
    ]

    # All columns are numbers, so that all are aligned on the right.
    lines += plain_table([names, points], range(len(names)))
    sd = f"{smallest.pretraining_sd:g}"
    lines.append(
        f"at the paper's spread of fine-tunings and {sd} points between pretrainings"
    )
    lines.append(f"({smallest.measured_on}).")
    return lines
