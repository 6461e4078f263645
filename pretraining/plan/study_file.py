"""A study as data: its shapes, its models and its settings. The paper's is built in, others are TOML files.

prefix = "mini-"                 # before every name, so that no model can be taken for one of the paper's
decay_steps = 20
models = ["mini-s-clm-200", "mini-s-clm-50-mlm40-200"]

[sizes.s]                        # fields of pretraining.paper_settings.Shape
hidden = 64
layers = 2
heads = 4
kv_heads = 2
mlp = 192

[settings]                       # fields of pretraining.plan.config.TrainingConfig
global_batch = 16
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common.errors import UserError, nearest
from common.settings import need_table, read_settings, read_toml
from pretraining.model_names import MODELS, PAPER, Design, Model
from pretraining.paper_settings import SHAPES, Shape
from pretraining.plan.config import TrainingConfig

__all__ = ["PAPER_STUDY", "Study", "load_study"]


@dataclass(frozen=True, kw_only=True)
class Study:
    """What is pretrained and how."""

    name: str
    """`paper`, or the stem of the study file."""
    design: Design
    """Names: sizes, prefix, length of the decay."""
    shapes: dict[str, Shape]
    """Architectures by size, prefix included (`Model.size`)."""
    models: dict[str, Model]
    """The study's models by name."""
    config: TrainingConfig = field(default_factory=TrainingConfig)
    """Settings of every run."""

    def model(self, name: str) -> Model:
        """Return the model of that name, one of the study's or another in its scheme.

        Raises:
            UserError: the name is not in the scheme; the nearest of the study's names is given.
        """
        if name in self.models:
            return self.models[name]
        try:
            return self.design.parse(name)
        except UserError as error:
            near = nearest(name, self.models)
            raise UserError(str(error) if near in str(error) else f"{error}{near}") from None


PAPER_STUDY = Study(name="paper", design=PAPER, shapes=SHAPES, models=MODELS)
"""The paper's 51 models in its three sizes, with its settings."""


@dataclass(frozen=True, kw_only=True)
class _File:
    """A study file."""

    prefix: str = ""
    """Put before every name."""
    decay_steps: int = PAPER.decay_steps
    """Length of the decay that closes every budget."""
    models: tuple[str, ...] = ()
    """Names of the study's models."""
    sizes: dict[str, Any] = field(default_factory=dict)
    """A table for each size."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings that differ from the paper's."""

    def __post_init__(self) -> None:
        """Refuse names that could lead out of a folder, and what no study can be."""
        if self.prefix and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}", self.prefix):
            raise UserError(
                f"prefix is made of at most 60 letters, digits, points, hyphens and underscores and begins with a "
                f"letter or digit, not {self.prefix!r:.60}"
            )
        if not 1 <= self.decay_steps < 2**31:
            raise UserError(f"decay_steps must be at least 1 and below 2^31, not {self.decay_steps}")


def load_study(path: Path | None) -> Study:
    """Return the study that a TOML file describes, the paper's when there is none.

    Raises:
        UserError: the file cannot be read, a key is unknown, a name is not in the file's own scheme.
    """
    if path is None:
        return PAPER_STUDY
    file = read_settings(_File, read_toml(path), str(path), base=_File())
    if not file.sizes:
        raise UserError(f"{path}: a study needs at least one [sizes.NAME] table")
    shapes = {}
    for size, fields in file.sizes.items():
        where = f"sizes.{size}"
        table = need_table(path, where, fields)
        if not re.fullmatch(r"[a-z0-9][a-z0-9.]{0,39}", size):
            raise UserError(
                f"{path}: a size is called {size!r:.60}; its name is made of at most 40 small letters, digits and "
                f"points, as in the names of models"
            )
        shapes[f"{file.prefix}{size}"] = read_settings(Shape, table, f"{path} [{where}]")
    design = Design(sizes=tuple(file.sizes), prefix=file.prefix, decay_steps=file.decay_steps)
    try:
        models = {name: design.parse(name) for name in file.models}
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    settings = file.settings
    if "microbatch" in settings:  # before there were groups, it decided the gradient, too
        settings = {"loss_group": settings["microbatch"], **settings}
    config = read_settings(TrainingConfig, settings, f"{path} [settings]")
    return Study(name=path.stem, design=design, shapes=shapes, models=models, config=config)
