"""A study as data: its shapes, its models and its recipe. The paper's is built in, others are TOML files.

    prefix = "mini-"                 # before every name, so that no model can be taken for one of the paper's
    decay_steps = 20
    models = ["mini-s-clm-200", "mini-s-clm-50-mlm40-200"]

    [sizes.s]                        # fields of pretraining.paper_settings.Shape
    hidden = 64
    layers = 2
    heads = 4
    kv_heads = 2
    mlp = 192

    [settings]                       # fields of pretraining.plan.config.Recipe
    global_batch = 16

Standard library only.
"""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from common.errors import UserError, nearest
from pretraining.paper_settings import SHAPES, Shape
from pretraining.plan.config import Recipe
from pretraining.study import MODELS, PAPER, Design, Model

__all__ = ["PAPER_STUDY", "Study", "load_study"]


@dataclass(frozen=True, kw_only=True)
class Study:
    """What is pretrained and how."""

    name: str
    """`paper`, or the stem of the design file."""
    design: Design
    """Names: sizes, prefix, length of the decay."""
    shapes: dict[str, Shape]
    """Architectures by size, prefix included (`Model.size`)."""
    models: dict[str, Model]
    """The study's models by name."""
    recipe: Recipe = field(default_factory=Recipe)
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


def load_study(path: Path | None) -> Study:
    """Return the study that a TOML file describes, the paper's when there is none.

    Raises:
        UserError: the file cannot be read, a key is unknown, a name is not in the file's own scheme.
    """
    if path is None:
        return PAPER_STUDY
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not a TOML file: {error}") from None
    known = ("prefix", "decay_steps", "models", "sizes", "settings")
    for key in content:
        if key not in known:
            raise UserError(f"{path}: unknown key {key!r}{nearest(key, known)}")
    sizes = content.get("sizes", {})
    if not sizes:
        raise UserError(f"{path}: a study needs at least one [sizes.NAME] table")
    prefix = content.get("prefix", "")
    shapes = {f"{prefix}{size}": _shape(path, size, fields) for size, fields in sizes.items()}
    design = Design(
        sizes=tuple(sizes), prefix=prefix, decay_steps=int(content.get("decay_steps", PAPER.decay_steps))
    )
    try:
        recipe = Recipe().replaced(content.get("settings", {}))
        models = {name: design.parse(name) for name in content.get("models", [])}
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return Study(name=path.stem, design=design, shapes=shapes, models=models, recipe=recipe)


def _shape(path: Path, size: str, fields: dict[str, object]) -> Shape:
    names = [item.name for item in dataclasses.fields(Shape)]
    for key in fields:
        if key not in names:
            raise UserError(f"{path}: unknown key {key!r} in [sizes.{size}]{nearest(key, names)}")
    try:
        return Shape(**fields)  # type: ignore[arg-type]
    except TypeError as error:
        raise UserError(f"{path}: [sizes.{size}] is incomplete: {error}") from None
