"""Options of `plan`: the GPU that hours are of, and the budget that studies are chosen for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from common.cli import shared_options
from pretraining.plan.devices import find_device
from pretraining.plan.speed import Speed

__all__ = ["BudgetOptions", "DeviceOptions"]

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
    def speed(self) -> Speed:
        """The device and what it reaches."""
        return Speed(device=find_device(self.device, self.tflops), mfu=self.mfu)


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
    """spread (sd) between pretrainings (default: measured at the nearest scale)"""
    choose: Annotated[int, Parameter(metavar="N", validator=Number(gte=1, lte=3))] = 1
    """the study that --out writes"""
    out: Annotated[Path | None, Parameter(metavar="FILE")] = None
    """write the study file, with the commands that run it"""
    divide: Annotated[int, Parameter(metavar="N", validator=Number(gte=1, lt=2**31))] = 1
    """divide sizes and steps in the written study, to try the commands on a CPU"""
