"""Runs and training logs made up for tests: small, seeded, with every value known."""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from analysis.evidence.settings import Settings
from analysis.sources import Source
from paper_figures.figure import FIGURES, FigureInputs, FigureSpec
from pretraining.paper_models import FIGURE_MODELS, MODELS
from pretraining.training.log import LOG, write_log
from tests.analysis.made_up import random_runs

ALL_MODELS = tuple(
    dict.fromkeys(name for names in FIGURE_MODELS.values() for name in names)
)

# Training FLOPs of one step at 610M by Hoffmann et al., Appendix F, with 1,365.7 tokens of context and 2,373,120
# tokens a step: embedding and head 128,256 x 1,152, 26 blocks of 1,152 with 18 heads of 64 (6 for keys and values)
# and three matrices of 1,152 x 4,096; backward is twice forward.
CONTEXT = sum(n * n for n in range(12, 2049)) / sum(range(12, 2049))
BLOCK = (
    2 * 1152 * (1152 + 2 * 384)
    + 2 * CONTEXT * 1152
    + 3 * 18 * CONTEXT
    + 2 * CONTEXT * 1152
    + 2 * 1152 * 1152
    + 3 * 2 * 1152 * 4096
)
STEP_FLOPS = 3 * (2 * 2 * 128_256 * 1152 + 26 * BLOCK) * 2_373_120


def made_up_runs(models: Iterable[str] = ALL_MODELS, seed: int = 0) -> pd.DataFrame:
    """Return a complete grid of runs with scores drawn uniformly from [0.4, 0.9]."""
    runs = random_runs(seed, models)
    return runs.assign(
        **{name: 0.4 + runs[name] / 2 for name in ("validation_score", "test_score")}
    )


def from_runs(runs: pd.DataFrame, **settings: object) -> FigureInputs:
    return FigureInputs(
        source=Source(label="runs.parquet", runs=runs), settings=Settings(**settings)
    )  # type: ignore[arg-type]


def write_logs(
    folder: Path, *, every: int = 50, leave_out: Iterable[str] = ()
) -> dict[str, dict[int, float]]:
    """Write a log for every run of Figure 12; return its losses by step."""
    ends: dict[str, list[tuple[int, int, str]]] = {}
    for name in FIGURE_MODELS[12]:
        for stage in MODELS[name].stages:
            ends.setdefault(stage.name, []).append(
                (stage.first_step, stage.end, stage.objective)
            )
    losses: dict[str, dict[int, float]] = {}
    for run, spans in ends.items():
        if run in leave_out:
            continue
        start, end, objective = (
            min(spans)[0],
            max(span[1] for span in spans),
            spans[0][2],
        )
        first, ratio = {"clm": (3.0, None), "mlm": (2.0, 40)}[objective]
        losses[run] = {
            step: first + 100 / step for step in range(start + every, end + 1, every)
        }
        rows = [
            {
                "step": step,
                "split": "train",
                "objective": objective,
                "ratio": ratio,
                "stage": run,
                "loss": loss,
            }
            for step, loss in losses[run].items()
        ]
        write_log(folder / "stages" / run / LOG, rows)
    return losses


def paper_figure(number: int) -> FigureSpec:
    """Return a figure of the paper."""
    return FIGURES[str(number)].load()
