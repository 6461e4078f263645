"""The paper's figures of task averages, and where each draws a model: 2, 3, 4, 6, 8, 9, 10 and 11.

The functions that return an `AxisPosition` are the figures' rules. They place the paper's models and, by the same
properties, own models: models of a user, which may have other sizes, budgets (steps) and ratios than the paper's.
CPT is continued pretraining.
"""

from __future__ import annotations

from functools import partial

import pandas as pd

from common.errors import NotApplicableError
from paper_figures.comparisons import (
    above_mlm_alone,
    best_points,
    count_ahead,
    last_differences,
)
from paper_figures.drawing.style import CLM, MLM, RAMP_BLUE, RAMP_PURPLE
from paper_figures.figure import FigureInputs
from paper_figures.figures.task_figures import (
    AxisPosition,
    TaskFigure,
    size_rank,
)
from pretraining.models import Model, format_steps
from pretraining.paper_models import FIGURE_MODELS, parse
from pretraining.paper_settings import SHAPES, TRAINING
from pretraining.plan.flops import hoffmann_flops_per_token

BUDGET = 42_000
"""Steps of the paper's full budget."""
BASE_AND_CPT = ("Base", "CPT")
"""The groups of Figures 1 and 8: base models, and the same models after continued pretraining."""
OBJECTIVE_LOOKS = {"MLM": MLM, "CLM": CLM}
STARTS = {"MLM start": MLM, "CLM start": CLM}
"""The series of figures about continued pretraining, by what the base model was trained on."""
_CPT = 22_000
"""Steps of continued pretraining in Figures 1 and 8."""
_SPLITS = frozenset(FIGURE_MODELS[6] + FIGURE_MODELS[11])
_SHARE = "CLM share of the budget (%): 0 is MLM only, 100 CLM only"


def objective_series(model: Model) -> str:
    """Return a series' name: the model's first objective, such as `MLM`, `CLM`, `MLM 30 %` or `1B MLM`.

    A masking ratio of 40 % and the size 610M, which the paper's models have, are not in the name.
    """
    objective = model.objectives[0]
    name = objective.label()
    if objective.ratio in (None, 40):
        name = objective.name.upper()
    if model.size == "610m":
        return name
    return f"{model.size.upper()} {name}"


def start_series(model: Model) -> str:
    """Return `MLM start` or `CLM start` for the base of a continued pretraining and for what continues it."""
    return f"{objective_series(model)} start"


def clm_share(model: Model) -> float | None:
    """Return the share of CLM steps in percent: 0 for MLM, 100 for CLM; None for other mixes.

    The paper's splits are whole thousands of steps (22.7 to 77.3 %) and are drawn at their nominal 25, 50 and 75 %.
    """
    if model.kind not in ("base", "two-stage", "multi-stage"):
        return None
    is_mlm_alone = model.objective == "mlm"
    names = {objective.name for objective in model.objectives}

    # Not on this axis: other objectives, and MLM that changes its ratio or data (its objective is `mlm+mlm`).
    if not is_mlm_alone and names not in ({"clm"}, {"clm", "mlm"}):
        return None
    # The model's own `clm_share` is a fraction of its steps.
    share = 100 * model.clm_share

    # Only the paper's splits are rounded: an own model with 23 % of CLM stands at 23 %.
    if model.name in _SPLITS:
        return float(25 * round(share / 25))
    return share


def _cpt_steps(model: Model) -> int | None:
    """Return how many steps of MLM at 40 % continue a base model that has the full budget.

    Returns:
        0 for such a base model itself; None for a model that is neither.
    """
    if model.kind == "base" and model.steps == BUDGET:
        return 0
    # `switch` is the step at which continued pretraining begins.
    if model.kind != "continued" or model.switch != BUDGET:
        return None
    added = [str(objective) for objective in model.objectives[1:]]
    return model.steps - BUDGET if added == ["mlm40"] else None


def training_flops(model: Model) -> float:
    """Return the FLOPs of all steps of `model` by Hoffmann et al., which charges MLM like CLM."""
    # 4.77e20 at 40K steps of 610M, though the paper's axis ends at 4e20 (docs/deviations.md).
    per_token = hoffmann_flops_per_token(SHAPES[model.size])
    return per_token * TRAINING.tokens_per_step * model.steps


def by_size(model: Model) -> AxisPosition | None:
    """Return the point of a model in the group of its size; None for a checkpoint before its decay."""
    if model.kind == "intermediate":
        return None
    # The paper compares two series, MLM at 40 % and CLM of the full budget. Any other model is a series of its own.
    series = model.name
    is_full = model.kind == "base" and model.steps == BUDGET
    if is_full and model.label() in ("MLM 40 %", "CLM"):
        series = model.objective.upper()
    # A model adapted from another one is in a group that has the name of that one, in place of a size.
    return AxisPosition(series=series, x=model.origin or model.size.upper())


def by_ratio(model: Model) -> AxisPosition | None:
    """Return the point of an MLM base model, whatever its ratio, on the line of its size and budget."""
    if model.kind != "base" or model.objective != "mlm" or model.ratio is None:
        return None
    # A ratio that changes during training has no place on the axis.
    if any(objective.last_ratio for objective in model.objectives):
        return None
    series = _series(model, model.size.upper(), steps=BUDGET)
    return AxisPosition(series=series, x=float(model.ratio))


def _series(model: Model, *words: str, steps: int = 0, ratio: int | None = None) -> str:
    """Return a series' name: some words, then what the model has other than the paper's models of the figure.

    Such as `1B`, or for own models `1B, MLM 30 %, 12K steps`.

    Args:
        model: the model.
        words: how the name begins; empty words are left out.
        steps: the budget of all the paper's models of the figure; 0: they differ, and every name has its budget.
        ratio: the masking ratio of all the paper's models of the figure, for figures with the share of CLM on the x
            axis: objectives other than CLM and then MLM at this ratio are in the name. None: no name has the
            objectives, since the rule takes only MLM.
    """
    own_mix = ""
    if ratio:
        mix = model.label()
        if model.objective in ("clm", "mlm", "clm+mlm"):
            # The x axis says that there is CLM, and with these objectives it comes first.
            mix = mix.removeprefix("CLM + ")
        if mix not in (f"MLM {ratio} %", "CLM"):
            own_mix = mix

    own_steps = ""
    if model.steps != steps:
        own_steps = f"{format_steps(model.steps).upper()} steps"
    return ", ".join(filter(None, (*words, own_mix, own_steps)))


def by_steps(model: Model) -> AxisPosition | None:
    """Return the point of an undecayed checkpoint on the line of its only objective; x in thousands of steps."""
    # A model with a `switch` changes its objective at that step.
    if model.kind != "intermediate" or model.switch is not None:
        return None
    return AxisPosition(series=objective_series(model), x=model.steps / 1000)


def by_flops(model: Model) -> AxisPosition | None:
    """Return the point of an undecayed checkpoint, x in 1e20 FLOPs, on the line of its objective."""
    # The models are those that `by_steps` places. The shape of a size that is not the paper's, and with it
    # the FLOPs, is not known.
    if by_steps(model) is None or model.size not in SHAPES:
        return None
    return AxisPosition(series=objective_series(model), x=training_flops(model) / 1e20)


def _round_flops(flops: set[float]) -> list[float]:
    """Return the ticks of a logarithmic axis that shows these FLOPs (in 1e20): 1, 2 and 5 times powers of ten."""
    # A tick may be up to a factor of 1.3 beyond the points; `draw_lines` widens the axis to its ticks.
    low, high = min(flops) / 1.3, max(flops) * 1.3
    ticks = []
    # From 1e16 to 5e25 FLOPs.
    for power in range(-4, 6):
        for mantissa in (1, 2, 5):
            tick = mantissa * 10.0**power
            if low <= tick <= high:
                ticks.append(tick)
    return ticks


def at_610m(model: Model) -> AxisPosition | None:
    """Return the point of a model at its share of CLM, on the line of its budget; the paper's models have 610M."""
    share = clm_share(model)
    if share is None:
        return None
    # All the paper's models of this figure have 610M, which the legend does not repeat.
    size = "" if model.size == "610m" else model.size.upper()
    return AxisPosition(series=_series(model, size, ratio=40), x=share)


def at_1b(model: Model) -> AxisPosition | None:
    """Return the point of a model at its share of CLM, on the line of its size; the paper's models have 1B."""
    share = clm_share(model)
    if share is None:
        return None
    series = _series(model, model.size.upper(), steps=BUDGET, ratio=40)
    return AxisPosition(series=series, x=share)


def before_and_after(model: Model) -> AxisPosition | None:
    """Return the point of a base model of 42K steps, or of such a model after 22K more steps of MLM at 40 %."""
    steps = _cpt_steps(model)
    if steps not in (0, _CPT):
        return None
    base_group, cpt_group = BASE_AND_CPT
    group = base_group if steps == 0 else cpt_group
    return AxisPosition(series=start_series(model), x=group)


def by_length(model: Model) -> AxisPosition | None:
    """Return the point of a base model of 42K steps, at x = 0, or of a model that continues it.

    x are the further steps, in thousands.
    """
    steps = _cpt_steps(model)
    if steps is None:
        return None
    return AxisPosition(series=start_series(model), x=steps / 1000)


class _OneBillion(TaskFigure):
    """Figure 11, which needs a 1B model of CLM then MLM."""

    def collect(self, inputs: FigureInputs) -> pd.DataFrame:
        """Return the data of the figure.

        Raises:
            NotApplicableError: the source has no model of CLM then MLM, whose share of CLM is between 0 and 100 %.
        """
        data = super().collect(inputs)
        if data["x"].between(0, 100, inclusive="neither").any():
            return data
        # The figure has one such model.
        [needs] = [name for name in self.models if parse(name).kind == "two-stage"]
        raise NotApplicableError(
            f"Figure 11 needs scores of {needs}, which {inputs.source.label} does not have (no table of the paper "
            "has them): use --source PATH with a run store or runs table of your own"
        )


def _same_x(
    series: str, x: float | str, *, pair: tuple[str, str]
) -> tuple[str, float | str] | None:
    """Return the point of the pair's second series at the same x, for a point of the pair's first series; else None."""
    return (pair[1], x) if series == pair[0] else None


def _mlm_alone(series: str, x: float | str) -> tuple[str, float] | None:
    """Return the point of MLM alone (0 % CLM) in the same series, for a point that mixes CLM and MLM; else None."""
    is_mix = not isinstance(x, str) and 0 < x < 100
    return (series, 0.0) if is_mix else None


FIGURES = (
    TaskFigure(
        name="2",
        models=FIGURE_MODELS[2],
        title="MLM and CLM by model size",
        tables="Tables 2\u20135",
        position=by_size,
        looks=OBJECTIVE_LOOKS,
        x_label="Model size",
        groups=lambda sizes: sorted(sizes, key=size_rank),
        unknown_group="Others",
        compared_with=partial(_same_x, pair=("MLM", "CLM")),
        said=partial(count_ahead, pair=("MLM", "CLM"), what="sizes"),
        note="42K steps, masking ratio 40 %.",
    ),
    TaskFigure(
        name="3",
        models=FIGURE_MODELS[3],
        title="MLM masking ratio by model size",
        tables="Tables 2\u20135",
        position=by_ratio,
        looks=dict(zip(("210M", "610M", "1B"), RAMP_BLUE, strict=True)),
        x_label="Masking ratio (%)",
        x_text="{:g} % masking",
        said=partial(best_points, x_text="Best ratio in %, or not clearly worse"),
        base=20.0,
        second="Difference to 20 % (points)",
        note="42K steps. Clearly worse: Holm over all pairs.",
    ),
    TaskFigure(
        name="4",
        models=FIGURE_MODELS[4],
        title="MLM and CLM during pretraining",
        tables="Tables 6\u20139",
        position=by_steps,
        looks=OBJECTIVE_LOOKS,
        x_label="Pretraining steps (thousands, logarithmic)",
        x_text="{:g}K steps",
        log_x=True,
        compared_with=partial(_same_x, pair=("CLM", "MLM")),
        said=partial(count_ahead, pair=("CLM", "MLM"), what="steps"),
        note="610M before any decay, masking ratio 40 %.",
    ),
    TaskFigure(
        name="6",
        models=FIGURE_MODELS[6],
        title="CLM, then MLM, within one budget",
        tables="Tables 10\u201313",
        position=at_610m,
        looks=dict(
            zip(("12K steps", "22K steps", "42K steps"), RAMP_PURPLE, strict=True)
        ),
        x_label=_SHARE,
        x_text="{:g} % CLM",
        ticks=lambda shares: sorted(shares | {0.0, 100.0}),
        compared_with=_mlm_alone,
        said=above_mlm_alone,
        base=0.0,
        second="Difference to MLM alone (points)",
        note="610M, masking ratio 40 %.",
    ),
    TaskFigure(
        name="8",
        models=FIGURE_MODELS[8],
        title="Continued pretraining with MLM after CLM or MLM",
        tables="Tables 14\u201317",
        position=before_and_after,
        looks=STARTS,
        groups=lambda _: BASE_AND_CPT,
        said=partial(
            last_differences, pair=("CLM start", "MLM start"), when="After CPT"
        ),
        note="610M; CPT: 22K more steps of MLM at 40 %.",
        continued=True,
    ),
    TaskFigure(
        name="9",
        models=FIGURE_MODELS[9],
        title="Length of continued pretraining after CLM or MLM",
        tables="Tables 14\u201317",
        position=by_length,
        looks=STARTS,
        x_label="Steps of continued pretraining with MLM (thousands)",
        x_text="{:g}K steps",
        compared_with=partial(_same_x, pair=("CLM start", "MLM start")),
        said=partial(count_ahead, pair=("CLM start", "MLM start"), what="lengths"),
        note="610M, masking ratio 40 %; 0: the decayed 42K model.",
        continued=True,
    ),
    TaskFigure(
        name="10",
        models=FIGURE_MODELS[10],
        title="MLM and CLM over training compute",
        tables="Tables 6\u20139",
        position=by_flops,
        looks=OBJECTIVE_LOOKS,
        x_label="Training FLOPs (10\u00b2\u2070, logarithmic)",
        x_text="{:.2f}e20 FLOPs",
        log_x=True,
        ticks=_round_flops,
        compared_with=partial(_same_x, pair=("CLM", "MLM")),
        said=partial(count_ahead, pair=("CLM", "MLM"), what="points"),
        note="610M before decay; FLOPs by Hoffmann et al. (2022).",
    ),
    _OneBillion(
        name="11",
        models=FIGURE_MODELS[11],
        title="CLM and MLM at 1B",
        tables="Tables 2\u20135",
        position=at_1b,
        looks={"1B": RAMP_PURPLE[-1]},
        x_label=_SHARE,
        x_text="{:g} % CLM",
        ticks=lambda shares: sorted(shares | {0.0, 25.0, 100.0}),
        compared_with=_mlm_alone,
        said=above_mlm_alone,
        note="42K steps, masking ratio 40 %.",
    ),
)
"""In the paper's order."""
