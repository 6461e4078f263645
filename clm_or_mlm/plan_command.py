"""`clm-or-mlm plan`: what a study takes, or which studies a budget pays for."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from common.cli import shared_options
from common.errors import UserError
from common.files import write_text
from common.reading import read_bounded
from common.tables import write
from pretraining.commands import StudyOptions, warn_of_a_slip
from pretraining.models import FIGURE_MODELS, Model
from pretraining.names import ModelNames
from pretraining.plan.devices import Device, find_device
from pretraining.plan.plan_report import PLAN_FORMATS, plan_document
from pretraining.plan.study_plan import Study, load_study, plan_of

_PAPER = StudyOptions()
_ABOVE_0 = Parameter(validator=Number(gt=0, lt=1e18))


@shared_options("the GPU")
@dataclass(frozen=True, kw_only=True)
class DeviceOptions:
    """The GPU that hours are of, and what they cost."""

    device: str = "H100"
    """the GPU, such as H100 or RTX 4090 (an unknown name lists them), or any with --tflops"""
    tflops: Annotated[float | None, _ABOVE_0] = None
    """its dense bf16 TFLOP/s, if not those of its data sheet"""
    mfu: Annotated[float | None, Parameter(validator=Number(gt=0, lte=1))] = None
    """share of its peak rate that pretraining reaches, as the log shows (default: counted)"""
    price: Annotated[float | None, Parameter(validator=Number(gte=0, lt=1e9))] = None
    """of an hour, to print money too"""

    @property
    def gpu(self) -> Device:
        """The device and what it reaches."""
        return replace(find_device(self.device, self.tflops), mfu=self.mfu)


@shared_options("which studies a budget pays for")
@dataclass(frozen=True, kw_only=True)
class BudgetOptions:
    """Studies for a number of hours."""

    hours: Annotated[float | None, _ABOVE_0] = None
    """hours of one GPU: print three studies that they pay for, and what these could not see"""
    tokens: Annotated[float | None, _ABOVE_0] = None
    """tokens that each model is trained on, in place of as many as the hours allow"""
    start: Annotated[str, Parameter(metavar="START", show_default=False)] = ""
    """folder or hub id of the model that the third study adapts (default: SmolLM2-135M)"""
    pretraining_sd: Annotated[float | None, Parameter(metavar="POINTS", validator=Number(gte=0, lt=100))] = (
        None
    )
    """spread (sd) between pretrainings (default: what others measured at the nearest scale)"""
    choose: Annotated[int, Parameter(metavar="N", validator=Number(gte=1, lte=3))] = 1
    """the study that --out writes"""
    out: Annotated[Path | None, Parameter(metavar="FILE")] = None
    """write the study file, with the commands that run it"""


def plan(
    model: Annotated[ModelNames, Parameter(metavar="NAME")] = (),
    *,
    figure: Annotated[int | None, Parameter(metavar="N")] = None,
    format: Annotated[str, Parameter(choices=PLAN_FORMATS)] = "tree",
    device: DeviceOptions = DeviceOptions(),
    budget: BudgetOptions = BudgetOptions(),
    study: StudyOptions = _PAPER,
) -> None:
    """Print the training that the study, a figure or a model needs, or which studies a number of GPU hours pays for.

    A plan has stages, steps, tokens, FLOPs, hours, memory and disk space. With --hours or --tokens, three studies are
    printed instead, after the smallest difference that each can find; with --start and --tokens alone, what one
    adaptation takes.

    examples:
      clm-or-mlm plan --figure 3
      clm-or-mlm plan 610m-clm-10k-mlm40-42k --device A100 --price 1.5
      clm-or-mlm plan --hours 24 --device "RTX 4090"
      clm-or-mlm plan --hours 24 --choose 3 --out study.toml
      clm-or-mlm plan --start smollm2/ --tokens 2e9 --device "RTX 4090" --price 0.6

    Args:
        model: one or more models (default: all models of the study)
        figure: plan the models in this figure of the paper
        format: output format
    """
    if budget.start and budget.tokens is not None and budget.hours is None and budget.out is None:
        # pandas and transformers, which a plan need not have
        from pretraining.adapt import Adaptation
        from pretraining.starts import start_of

        made = Adaptation(start=start_of(budget.start), tokens=budget.tokens).plan_on(device.gpu)
        write(plan_document(made, device=device.gpu, price=device.price), format, None)
        return
    if budget.hours is not None or budget.tokens is not None:
        if model or figure is not None or study.study is not None:
            raise UserError(
                "--hours and --tokens choose studies themselves; leave out models, --figure and --study"
            )
        _print_studies_of_budget(budget, device, format)
        return
    if budget.out is not None:
        raise UserError("--out writes a study for a budget; give --hours or --tokens")
    chosen = load_study(study.study)
    made = plan_of(_models(chosen, model, figure), chosen)
    write(plan_document(made, device=device.gpu, price=device.price), format, None)


def _print_studies_of_budget(options: BudgetOptions, device: DeviceOptions, format: str) -> None:
    """Print the studies that a budget pays for, and write the chosen one to `--out`.

    A choice that is a string is the sentence why the budget does not pay for that study: the table is printed first,
    then the sentence is the error.
    """
    # pandas, which a plan need not have
    from clm_or_mlm.budget_plan import budget_document, choices_of, chosen_study

    choices = choices_of(
        device.gpu, hours=options.hours, tokens=options.tokens, pretraining_sd=options.pretraining_sd,
        start=options.start,
    )  # fmt: skip
    document = budget_document(device.gpu, options.hours, choices, device.price)
    out, choice = options.out, choices[options.choose - 1]
    text = ""
    if out is not None and not isinstance(choice, str):
        text = chosen_study(choice)
        if out.is_file() and read_bounded(out) != text.encode():
            raise UserError(
                f"{out} is there and is another study, or was edited; give another --out, or remove it"
            )
    write(document, "text" if format == "tree" else format, None)
    if out is not None:
        if isinstance(choice, str):
            raise UserError(choice)
        write_text(out, text)
        sys.stderr.write(f"{out}: study {options.choose}\n")


def _models(study: Study, names: tuple[str, ...], figure: int | None) -> list[Model]:
    if figure is not None:
        if figure not in FIGURE_MODELS:
            raise UserError(f"the paper has no figure {figure}; its figures are 1 to {max(FIGURE_MODELS)}")
        return [study.model(name) for name in FIGURE_MODELS[figure]]
    if names:
        models = [study.model(name) for name in names]
        for model in models:
            warn_of_a_slip(study, model)
        return models
    if not study.models:
        raise UserError(
            f"the study {study.name!r} lists no models; add `models = [...]` to its file, or name a model: plan NAME"
        )
    return list(study.models.values())
