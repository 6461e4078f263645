"""`python -m pretraining settings`: every setting of `train`."""

from __future__ import annotations

import sys

from clm_or_mlm.commands.pretraining.options import ConfigOptions
from common.settings import describe_settings

__all__ = ["settings"]


def settings(*, study: ConfigOptions = ConfigOptions()) -> None:
    """Print every setting of `train`, its value and its meaning."""
    sys.stdout.write(describe_settings(study.config(study.load())))
