"""The paper's models: the 51 names, and which of them its figures and tables show. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pretraining.models import Design, Model, own_model, parse_any
from pretraining.paper_settings import SHAPES

RATIOS = (20, 30, 40, 50)
"""Masking ratios in percent."""
STEPS = (1_000, 2_000, 5_000, 10_000, 20_000, 40_000)
"""Steps at which undecayed trunks were evaluated."""
# The paper calls 5, 11 and 17 of 22 thousand steps 25, 50 and 75 % of CLM; they are 22.7, 50 and 77.3 %.
BUDGET_SPLITS = {12: (3, 6, 9), 22: (5, 11, 17), 42: (10, 21, 32)}
"""Budgets in thousands of steps, and the CLM steps of their 25-75, 50-50 and 75-25 splits."""
CPT_TOTALS = (44, 54, 64)
"""Ends of continued pretraining in thousands of steps, from the decayed models of 42 on."""

_OBJECTIVES = (*(f"mlm{ratio}" for ratio in RATIOS), "clm")
_SIZES_AND_RATIOS = tuple(
    f"{size}-{objective}-42k" for size in SHAPES for objective in _OBJECTIVES
)
_TRUNK_STEPS = tuple(
    f"610m-{objective}-42k-{step}" for objective in ("mlm40", "clm") for step in STEPS
)
# For each budget: MLM only, the splits from little to much CLM, CLM only.
_BY_BUDGET = {
    budget: (
        f"610m-mlm40-{budget}k",
        *(f"610m-clm-{clm_steps}k-mlm40-{budget}k" for clm_steps in splits),
        f"610m-clm-{budget}k",
    )
    for budget, splits in BUDGET_SPLITS.items()
}
_BUDGETS = tuple(name for names in _BY_BUDGET.values() for name in names)
# The decayed models that continued pretraining (CPT) begins from, and for each of them the models that continue it.
_STARTS = ("610m-mlm40-42k", "610m-clm-42k")
_CPT_BY_START = tuple(
    tuple(f"610m-{objective}-dec42k-mlm40-{total}k" for total in CPT_TOTALS)
    for objective in ("mlm40", "clm")
)
_CONTINUED = tuple(name for names in _CPT_BY_START for name in names)
# The switch at step 40,000, where the decay begins, leaves MLM only the decay.
_LATE_SWITCH = tuple(f"610m-clm-40k-mlm{ratio}-42k" for ratio in RATIOS)

FIGURE_MODELS: dict[int, tuple[str, ...]] = {
    1: (*_BY_BUDGET[42], "610m-mlm40-dec42k-mlm40-64k", "610m-clm-dec42k-mlm40-64k"),
    2: tuple(f"{s}-{o}-42k" for s in SHAPES for o in ("mlm40", "clm")),
    3: tuple(f"{s}-mlm{r}-42k" for s in SHAPES for r in RATIOS),
    4: _TRUNK_STEPS,
    5: _STARTS,
    6: _BUDGETS,
    7: (*(f"610m-mlm{r}-42k" for r in RATIOS), *_LATE_SWITCH),
    8: (*_STARTS, "610m-mlm40-dec42k-mlm40-64k", "610m-clm-dec42k-mlm40-64k"),
    9: (*_STARTS, *_CONTINUED),
    10: _TRUNK_STEPS,
    # The two-stage model at 1B is the 51st model, which no table holds and the release lacks.
    11: ("1b-mlm40-42k", "1b-clm-10k-mlm40-42k", "1b-clm-42k"),
    12: _CONTINUED,
}
"""The models that each figure of the paper shows."""

# In the table each start stands above the models that continue it.
_CPT_ROWS = (_STARTS[0], *_CPT_BY_START[0], _STARTS[1], *_CPT_BY_START[1])

TABLES: dict[int, tuple[str, ...]] = {
    1: (),
    **dict.fromkeys(range(2, 6), _SIZES_AND_RATIOS),
    **dict.fromkeys(range(6, 10), _TRUNK_STEPS),
    **dict.fromkeys(range(10, 14), _BUDGETS),
    **dict.fromkeys(range(14, 18), _CPT_ROWS),
}
"""The models whose scores each table of the paper holds, in the order of its rows (Table 1 holds settings)."""

_NAMES = dict.fromkeys(
    (
        *_SIZES_AND_RATIOS,
        *_BUDGETS,
        *_LATE_SWITCH,
        *_CONTINUED,
        *_TRUNK_STEPS,
        *FIGURE_MODELS[11],
    )
)

PAPER_DESIGN = Design(sizes=tuple(SHAPES), known=tuple(_NAMES))
"""The paper's design: three sizes, decays of 2,000 steps."""

# The abstract counts 38 models and the tables 50; `clm-or-mlm audit` lists how such totals of the paper differ.
MODELS: dict[str, Model] = {name: PAPER_DESIGN.parse(name) for name in _NAMES}
"""All 51 models of the paper by name: 15 base, 17 two-stage and their endpoints, 6 CPT, 12 intermediate, 1 at 1B."""


parse = PAPER_DESIGN.parse
"""The model that a name stands for in the paper's scheme."""


def figures_of(name: str) -> tuple[int, ...]:
    """Return the numbers of the paper's figures that show a model."""
    return tuple(number for number, names in FIGURE_MODELS.items() if name in names)


def find_model(
    name: str, study: Mapping[str, Model] = MappingProxyType({})
) -> Model | None:
    """Return the model that a name stands for.

    It is one of the paper's, one of `study`, or any whose name follows the paper's scheme, such as `toy-s` or `2b` as
    its size.

    Args:
        name: the model's; it may end as a repeated pretraining's does, `mine-s1`.
        study: models whose names do not say how they are trained, by name.

    Returns:
        The model; None if the name is unknown.
    """
    return MODELS.get(name) or own_model(name, study) or parse_any(name)
