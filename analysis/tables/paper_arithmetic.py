"""The paper's statements, checked against its own numbers, its code and its release.

Each check gives what the paper says, what follows from its other numbers (or from the study plan) or what its code or
release has, and whether the two agree. A check that does not agree is a fact about the paper, not an error of this
package.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd

from analysis.published_cells import published_cells
from benchmarks.protocol import AVERAGE, DATASETS, LEARNING_RATES, SEEDS
from pretraining.models import Stage
from pretraining.paper_models import MODELS, PAPER_DESIGN
from pretraining.paper_settings import GPU_HOURS, TRAINING

_RELEASED = [name for name in MODELS if name != "1b-clm-10k-mlm40-42k"]
"""The 50 checkpoints of the release; Figure 11's 1B two-stage model is not among them."""

RELEASED_FILES = 18_483
"""Result files in the authors' release."""


class Reference(StrEnum):
    """The evidence that a statement of the paper is compared with."""

    ITSELF = "itself"
    CODE = "its code"
    RELEASE = "its release"

    @property
    def heading(self) -> str:
        """Heading of the statements that are compared with it."""
        return f"The paper against {self.value}"

    @property
    def named(self) -> str:
        """Its name in a sentence whose subject is not the paper."""
        return "the paper itself" if self is Reference.ITSELF else self.value

    @property
    def words(self) -> tuple[str, str]:
        """The words before the stated number in a sentence, and those before the number that it is compared with."""
        return {
            "itself": ("the paper says", "the rest of the paper gives"),
            "its code": ("the paper implies", "its code uses"),
            "its release": ("the release has", "a full grid would have"),
        }[self.value]


@dataclass(frozen=True, kw_only=True)
class ArithmeticCheck:
    """One statement of the paper against its recomputation."""

    id: str
    """Short name."""
    statement: str
    """The paper's statement, and where it stands."""
    stated: str
    """The stated value."""
    recomputed: str
    """The value that it is compared with: from the paper's other numbers, the study plan, the code or the release."""
    status: str
    """`agrees` or `differs`."""
    note: str
    """A sentence on how the two values come about."""
    against: Reference = Reference.ITSELF


def check_arithmetic() -> list[ArithmeticCheck]:
    """Return every check, the most consequential first.

    A reader who trusts the statement gets wrong, in this order: the network, the cost of the study, what was counted,
    the last digits, the settings, a reference.
    """
    return [*_code(), *_steps(), *_counts(), *_cells(), *_settings(), *_references()]


def _compare(
    stated: float,
    recomputed: float,
    *,
    against: Reference = Reference.ITSELF,
    **texts: str,
) -> ArithmeticCheck:
    """Return the check of one number.

    Args:
        stated: the number that the paper gives.
        recomputed: the number that it is compared with.
        against: where that number comes from.
        texts: the check's `id`, `statement` and `note`.
    """
    # Equal but for the rounding of binary fractions.
    is_close = np.isclose(stated, recomputed, rtol=1e-9, atol=0)
    return ArithmeticCheck(
        stated=_number(stated),
        recomputed=_number(recomputed),
        status="agrees" if is_close else "differs",
        against=against,
        **texts,
    )


def _number(value: float) -> str:
    """Return a number as text: a whole one in full, another with three digits."""
    return f"{value:,.10g}" if value == int(value) else f"{value:.3g}"


def _code() -> Iterator[ArithmeticCheck]:
    """Yield the check of the initial weights, against the released code."""
    # A variance of 0.2 is a standard deviation of 0.45, 22 times the code's.
    yield _compare(
        0.2**0.5,
        0.02,
        against=Reference.CODE,
        id="initial-weights",
        statement="standard deviation of the initial weights, drawn from N(0, sigma^2 = 0.2) (text)",
        note="The released code draws with a standard deviation of 0.02; the plan follows the code.",
    )


def _steps() -> Iterator[ArithmeticCheck]:
    """Yield the checks of how many steps of training the paper says that two of its experiments need."""
    # `existing` are the models that were trained for other experiments already. `further` are the two-stage
    # models and the endpoints of their budgets: the models with as many steps of only CLM or only MLM.
    existing = set()
    further = []
    steps_of_endpoint_decays = 0
    for model in MODELS.values():
        # Models of all sizes are taken: those of other sizes share no stage with the `further` ones, which are 610M, so
        # that they change nothing.
        if model.kind == "base" and model.steps == 42_000:
            existing.add(model.name)
        elif model.size == "610m" and model.kind == "two-stage":
            further.append(model.name)
        elif model.size == "610m" and model.kind == "base":
            # These models of 12K and 22K steps are what the two-stage models of equal budgets are compared
            # with. Their stable steps are those of a 42K model, so that only their decays are further steps.
            further.append(model.name)
            steps_of_endpoint_decays += PAPER_DESIGN.decay_steps

    steps = _shared_steps(further, existing)
    yield _compare(
        120_000,
        steps,
        id="two-stage-steps",
        statement="the 17 two-stage models (endpoints at 12K and 22K included) need 120K further steps (text)",
        note=f"Training each trunk once, from existing checkpoints: {steps:,} steps, or "
        f"{steps - steps_of_endpoint_decays:,} without the decays of the four one-stage endpoints.",
    )
    continued = [name for name, model in MODELS.items() if model.kind == "continued"]
    steps = _shared_steps(continued, {"610m-clm-42k", "610m-mlm40-42k"})
    yield _compare(
        26_000,
        steps,
        id="cpt-steps",
        statement="continued pretraining needs 26K steps in all (text)",
        note="20,000 shared stable steps and three decays of 2,000 are 26,000 for each of the two starts.",
    )


def _counts() -> Iterator[ArithmeticCheck]:
    """Yield the checks of how many runs, models and result files there are."""
    checkpoints, datasets = len(_RELEASED), len(DATASETS)
    rates, seeds = len(LEARNING_RATES), len(SEEDS)
    grid = rates * seeds

    # NQ and MLDR are scored by what was trained on MS MARCO.
    trained_datasets = len({dataset.trained_on for dataset in DATASETS.values()})
    trainings = checkpoints * trained_datasets * grid
    counted = f"{checkpoints} checkpoints x {datasets} datasets x {rates} rates x {seeds} seeds"
    trained = f"{checkpoints} x {trained_datasets} x {grid} = {trainings:,}"
    yield _compare(
        15_120,
        checkpoints * datasets * grid,
        id="evaluation-runs",
        statement="15,120 fine-tuning and evaluation runs (text)",
        note=f"{counted}; NQ and MLDR reuse the MS MARCO training, so the trainings are {trained}.",
    )
    yield _compare(
        38,
        len(MODELS),
        id="models",
        statement="38 models (abstract)",
        note=f"{checkpoints} checkpoints are evaluated in the tables and one more, the 1B two-stage model, in "
        "Figure 11; 38 is what the tables have without the 12 intermediate checkpoints.",
    )

    # The code reads a 13th dataset, QED.
    expected = checkpoints * (datasets + 1) * grid
    absent = expected - RELEASED_FILES
    yield _compare(
        RELEASED_FILES,
        expected,
        against=Reference.RELEASE,
        id="released-files",
        statement="result files in the authors' release",
        note=f"A full grid with the release's 13th dataset (QED, in none of the tables) has {expected:,}: {absent:,} "
        "runs are absent; those examined are at a learning rate of 5e-04.",
    )


def _cells() -> Iterator[ArithmeticCheck]:
    """Yield the checks of printed cells against each other: averages against datasets, and repeated cells."""
    cells = published_cells()
    key = ["table", "model"]
    is_average = cells["dataset"] == AVERAGE
    of_datasets = cells[~is_average].set_index(key)
    of_averages = cells[is_average].set_index(key)
    yield _mean_check(of_datasets["mean"], of_averages["mean"])
    yield _interval_check(of_datasets["ci95"], of_averages["ci95"])
    groups = cells.groupby(["model", "task", "dataset"])
    is_repeated = groups["table"].count() > 1
    is_alike = (groups["mean"].nunique() == 1) & (groups["ci95"].nunique() == 1)
    repeated = int(is_repeated.sum())
    alike = int((is_repeated & is_alike).sum())
    yield ArithmeticCheck(
        id="repeated-cells",
        statement="cells that appear in several tables are printed alike",
        stated=f"{repeated} repeated cells",
        recomputed=f"{alike} agree",
        status="agrees" if alike == repeated else "differs",
        note="The 42K rows of Tables 10-17 repeat those of Tables 2-5.",
    )


def _mean_check(means: pd.Series, averages: pd.Series) -> ArithmeticCheck:
    """Return the check of printed averages against the means of their datasets, by table and model."""
    recomputed = means.groupby(level=["table", "model"]).mean()
    gap = (recomputed - averages).abs()
    # Rounding moves each printed mean, and so the mean of three, by up to 0.005, and the printed average by as much
    # again. The rest is room for binary fractions.
    wrong = int((gap > 0.01 + 1e-9).sum())
    right = len(averages) - wrong
    return ArithmeticCheck(
        id="averages",
        statement="every Average is the mean of its three datasets (Tables 2-17)",
        stated=f"{len(averages)} averages",
        recomputed=f"{right} agree; largest gap {gap.max():.4f}",
        status="agrees" if wrong == 0 else "differs",
        note="Up to the rounding of the printed digits (0.01).",
    )


def _interval_check(halves: pd.Series, of_averages: pd.Series) -> ArithmeticCheck:
    """Return the check of printed half-widths of averages against those of their datasets, by table and model."""
    of_models = halves.groupby(level=["table", "model"])
    # The standard deviation of a sum is largest where the scores of all three datasets move together over seeds: it is
    # then the sum of their standard deviations.
    widest = of_models.sum() / 3
    of_averages = of_averages.loc[widest.index]  # rows in the same order

    # Rounding moves both by up to 0.005, as in `_mean_check`.
    impossible = int((of_averages > widest + 0.01 + 1e-9).sum())
    # For independent datasets, the squares add up.
    independent = of_models.agg(_root_sum_of_squares) / 3
    # Those that are narrower by more than the same rounding can explain.
    narrower = int((of_averages < independent - 0.01).sum())
    possible = len(of_averages) - impossible
    return ArithmeticCheck(
        id="average-intervals",
        statement="the interval of every Average is one of per-seed averages (Tables 2-17)",
        stated=f"{len(of_averages)} intervals",
        recomputed=f"{possible} possible; {narrower} narrower than for independent datasets",
        status="agrees" if impossible == 0 else "differs",
        note="The spread of a per-seed average over three datasets is at most the mean of their spreads; it is "
        "narrower than for independent datasets where errors cancel within seeds.",
    )


def _root_sum_of_squares(values: pd.Series) -> float:
    return float(np.sqrt((values**2).sum()))


def _settings() -> Iterator[ArithmeticCheck]:
    """Yield the checks of training settings that the paper gives twice, in its text and in Table 1, or in two forms."""
    yield _compare(
        0.05 * 42_000,
        TRAINING.decay_steps,
        id="decay-share",
        statement="decay over 5 % of 42,000 steps (Table 1)",
        note=f"The text says 2,000 steps, which are {TRAINING.decay_steps / 42_000:.2%} of 42,000.",
    )
    yield _compare(
        2_373_120,
        TRAINING.tokens_per_step,
        id="tokens-per-step-text",
        statement="2,373,120 tokens per step (text)",
        note="192 GPUs x 12 sequences x (12 + 2,048) / 2 tokens: the expected batch of uniform lengths.",
    )
    yield _compare(
        2_359_296,
        TRAINING.tokens_per_step,
        id="tokens-per-step-table",
        statement="2,359,296 tokens per step (Table 1)",
        note="192 x 12 x 1,024 leaves out the minimum of 12 tokens per sequence; the text's number includes it.",
    )
    billions = 42_000 * TRAINING.tokens_per_step / 1e9

    # "About 100B" agrees with what is 100 to three digits.
    is_about = abs(billions - 100) < 0.5
    yield ArithmeticCheck(
        id="tokens-total",
        statement="about 100B tokens in 42,000 steps (text)",
        stated="100B",
        recomputed=f"{billions:.2f}B",
        status="agrees" if is_about else "differs",
        note=f"42,000 steps x {TRAINING.tokens_per_step:,} expected tokens.",
    )
    parts = [f"{hours // 1000}k {name}" for name, hours in GPU_HOURS.items()]
    total = sum(GPU_HOURS.values())
    yield _compare(
        110_000,
        total,
        id="gpu-hours",
        statement="110K GPU hours in all (text)",
        note=f"{' + '.join(parts)}.",
    )


def _references() -> Iterator[ArithmeticCheck]:
    """Yield the check of a reference to a table."""
    yield ArithmeticCheck(
        id="table-reference",
        statement="Appendix C.3 refers to Table 13",
        stated="Table 13 (IR)",
        recomputed="Table 10 (SC)",
        status="differs",
        note="The results it discusses are those of Table 10 (found by reading, not computed).",
    )


def _shared_steps(names: list[str], existing: set[str]) -> int:
    """Return how many steps the models `names` need if a stage that several share is trained once.

    The stages of the `existing` models are there already. Stages that begin alike share their steps up to the end of
    the shorter one, so that only the longest of them counts.
    """
    # By what begins alike, the last step that is there already. No two of the existing models share a stage.
    existing_end: dict[tuple[str, str, int], int] = {}
    for name in existing:
        for stage in MODELS[name].stages:
            existing_end[_identity(stage)] = stage.end

    # By the same, the last step that is needed.
    needed_end: dict[tuple[str, str, int], int] = {}
    for name in names:
        for stage in MODELS[name].stages:
            key = _identity(stage)
            needed_end[key] = max(needed_end.get(key, stage.first_step), stage.end)

    steps = 0
    for key, end in needed_end.items():
        # Only steps after those that exist count; where none exist, all steps of the stage. An existing stage
        # may be longer than what is needed.
        _, _, start = key
        steps += max(0, end - existing_end.get(key, start))

    return steps


def _identity(stage: Stage) -> tuple[str, str, int]:
    """Return what stages that share their steps have in common, their beginning; they may end at different steps."""
    return stage.name, stage.phase, stage.first_step
