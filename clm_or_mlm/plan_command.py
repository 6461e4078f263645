"""`clm-or-mlm plan`: what a study takes and can show, or what an adaptation takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from clm_or_mlm.smallest_difference import PlannedComparison, study_document
from common.cli import shared_options
from common.errors import UserError
from common.tables import write
from pretraining.commands import StudyOptions, warn_of_a_slip
from pretraining.models import Model
from pretraining.names import ModelNames
from pretraining.paper_models import FIGURE_MODELS
from pretraining.plan.devices import Device, find_device
from pretraining.plan.plan_report import PLAN_FORMATS, plan_document
from pretraining.plan.study_plan import Plan, Study, load_study, plan_of

_PAPER = StudyOptions()
_USUAL = PlannedComparison()
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


@shared_options("what one adaptation takes")
@dataclass(frozen=True, kw_only=True)
class AdaptationOptions:
    """One model to be adapted."""

    start: Annotated[str, Parameter(metavar="START", show_default=False)] = ""
    """folder or hub id of the model that `adapt` starts from; with --tokens"""
    tokens: Annotated[float | None, _ABOVE_0] = None
    """tokens to train it on"""


def plan(
    model: Annotated[ModelNames, Parameter(metavar="NAME")] = (),
    *,
    figure: Annotated[int | None, Parameter(metavar="N")] = None,
    format: Annotated[str, Parameter(choices=PLAN_FORMATS)] = "tree",
    device: DeviceOptions = DeviceOptions(),
    comparison: PlannedComparison = _USUAL,
    adaptation: AdaptationOptions = AdaptationOptions(),
    study: StudyOptions = _PAPER,
) -> None:
    """Print the training that the study, a figure, a model or an adaptation needs.

    A plan has stages, steps, tokens, FLOPs, hours, memory and disk space. With --study it also has the hours of
    fine-tuning and the smallest difference that the study can show.

    examples:
      clm-or-mlm plan --figure 3
      clm-or-mlm plan 610m-clm-10k-mlm40-42k --device A100 --price 1.5
      clm-or-mlm plan --study pretraining/plan/studies/objectives.toml --rates 3 --seeds 3 --price 2.95
      clm-or-mlm plan --start smollm2/ --tokens 2e9 --device "RTX 4090" --price 0.6

    Args:
        model: one or more models (default: all models of the study)
        figure: plan the models in this figure of the paper
        format: output format
    """
    # The options of `comparison` say how the models of one's own study will be compared.
    if study.study is None and comparison != _USUAL:
        raise UserError(
            "--seeds, --rates, --datasets and --pretraining-sd are for a study of your own; give its file as --study"
        )

    if adaptation.start or adaptation.tokens is not None:
        if model or figure is not None or study.study is not None:
            raise UserError(
                "--start and --tokens plan one adaptation; leave out models, --figure and --study"
            )
        planned = _adaptation(adaptation, device.gpu)
        document = plan_document(planned, device=device.gpu, price=device.price)
    else:
        chosen = load_study(study.study)
        planned = plan_of(_models(chosen, model, figure), chosen)
        if study.study is None:
            document = plan_document(planned, device=device.gpu, price=device.price)
        else:
            document = study_document(
                planned, comparison, device=device.gpu, price=device.price
            )

    write(document, format, out=None)  # to standard output


def _adaptation(options: AdaptationOptions, gpu: Device) -> Plan:
    """Return the plan of one adaptation on a GPU."""
    # Imported here: only the plan of an adaptation reads the folder of a model.
    from pretraining.adapt import Adaptation
    from pretraining.starts import start_to_plan

    if not options.start:
        raise UserError("give --start, the model to adapt, with --tokens")
    if options.tokens is None:
        raise UserError("give --tokens with --start: how long the model is adapted")
    # A plan needs only config.json, neither transformers nor weights.
    start = start_to_plan(options.start)
    return Adaptation(start=start, tokens=options.tokens).plan_on(gpu)


def _models(study: Study, names: tuple[str, ...], figure: int | None) -> list[Model]:
    """Return the models to plan: those of a figure of the paper, else those named, else all models of the study."""
    if figure is not None:
        if figure not in FIGURE_MODELS:
            raise UserError(
                f"the paper has no figure {figure}; its figures are 1 to {max(FIGURE_MODELS)}"
            )
        return [study.model(name) for name in FIGURE_MODELS[figure]]

    if names:
        models = [study.model(name) for name in names]
        # A misspelt name may still follow the grammar of names and so say what to train: it is planned, with a warning.
        for model in models:
            warn_of_a_slip(study, model)
        return models

    if not study.models:
        raise UserError(
            f"the study {study.name!r} lists no models; add `models = [...]` to its file, or name a model: plan NAME"
        )

    return list(study.models.values())
