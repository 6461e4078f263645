"""Options that several commands of this room share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from common.cli import MANY, shared_options
from common.settings import assignments, read_settings
from pretraining.plan.config import TrainingConfig
from pretraining.plan.study_file import Study, load_study

__all__ = ["ConfigOptions", "StudyOptions"]

_STUDY = "the study and its settings"


@shared_options(_STUDY)
@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """The study that a command is about."""

    study: Annotated[Path | None, Parameter(metavar="FILE")] = None
    """a study of your own (TOML); the paper's without"""

    def load(self) -> Study:
        """Return the study."""
        return load_study(self.study)


@shared_options(_STUDY)
@dataclass(frozen=True, kw_only=True)
class ConfigOptions(StudyOptions):
    """The study, and settings of its own for one command."""

    set_: Annotated[tuple[str, ...], MANY, Parameter(name="--set", metavar="KEY=VALUE")] = ()
    """a setting; `python -m pretraining settings` lists all"""

    def config(self, study: Study) -> TrainingConfig:
        """Return the study's settings with those of `--set` in their place."""
        return read_settings(TrainingConfig, assignments(self.set_), "--set", base=study.config)
