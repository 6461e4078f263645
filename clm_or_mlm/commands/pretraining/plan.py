"""`python -m pretraining plan`: what has to be trained."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from clm_or_mlm.commands.pretraining.options import StudyOptions
from common.cli import MANY
from common.errors import UserError
from pretraining.plan.plan import plan_of
from pretraining.plan.report import FORMATS, render
from pretraining.plan.study_file import Study
from pretraining.study import FIGURES, Model

__all__ = ["plan"]


def plan(
    *,
    model: Annotated[tuple[str, ...], MANY, Parameter(metavar="NAME")] = (),
    figure: Annotated[int | None, Parameter(metavar="N")] = None,
    format: Annotated[str, Parameter(choices=tuple(FORMATS))] = "tree",  # the option's name
    device: str = "H100",
    mfu: float = 0.4,
    study: StudyOptions = StudyOptions(),
) -> None:
    """Print what has to be trained for the study, a figure or a model: stages, steps, tokens, FLOPs, hours, disk.

    Args:
        model: this model (may be given again)
        figure: the models of one figure of the paper
        format: form of the plan
        device: device that hours are counted for
        mfu: share of its peak rate that is reached
    """
    chosen = study.load()
    models = _models(chosen, model, figure)
    sys.stdout.write(render(plan_of(models, chosen), format, device=device, utilisation=mfu))


def _models(study: Study, names: tuple[str, ...], figure: int | None) -> list[Model]:
    if figure is not None:
        if figure not in FIGURES:
            raise UserError(f"the paper has no figure {figure}; it has 1 to {max(FIGURES)}")
        return [study.model(name) for name in FIGURES[figure]]
    if names:
        return [study.model(name) for name in names]
    if not study.models:
        raise UserError(
            f"the study {study.name!r} lists no models; add `models = [...]` to its file or use --model"
        )
    return list(study.models.values())
