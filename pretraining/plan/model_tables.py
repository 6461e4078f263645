"""Models that have a table in a study file: what they start from, and their stages in full.

    [models.mine]
    start = ""                           # a folder or hub id of a model to start from; left out: random weights
    size = "s"                           # a [sizes.NAME] table; not with a start, and not where there is only one
    steps = "42k"                        # the budget, of which stages may take shares
    stages = [
        "clm:25 %",                      # OBJECTIVE:STEPS
        {train = "mlm40-15", steps = "75 %", data = "other-shards", decay = "sqrt:10 %"},
    ]

    [models."mini-s-clm-200"]            # a name in the scheme needs nothing else

A stage lasts so many steps (`32000`, `"32k"`), or a share of the budget. `mlm40-15` lets the masking ratio fall
linearly from 40 % at the stage's first step to 15 % at its last. `data` are other shards for this stage, as `--data`
gives those of all others. `decay` ends a stage: `linear:` or `sqrt:` (1-sqrt), then steps or a share of the stage, or
`none`; the last stage ends in the study's linear `decay_steps` where it says nothing. What follows a decay is warmed up
again. Stages that models have in common are trained once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from common.errors import UserError, nearest
from common.reading import read_json
from common.settings import FileSettings, read_settings
from pretraining.models import (
    DECAYS,
    LINEAR,
    Design,
    Model,
    StageSpec,
    arm_of,
    make_stages,
    parse_objective,
    short_name,
)
from pretraining.paper_settings import Shape

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_MOST_STAGES = 20
_MOST_STEPS = 2**31


@dataclass(frozen=True, kw_only=True)
class _ModelTable(FileSettings):
    """A model's table."""

    start: str = ""
    """Folder or hub id of what it starts from; empty: random weights."""
    size: str = ""
    """Name of a size (`shape`)."""
    steps: Any = 0
    """The budget of which stages take shares (`budget`, `total`)."""
    stages: tuple[Any, ...] = ()
    """Stages in order, each a text or a table."""


@dataclass(frozen=True, kw_only=True)
class _StageTable(FileSettings):
    """A stage's table."""

    train: str
    """What it is trained on (`objective`)."""
    steps: Any
    """How long, in steps or as a share of the budget (`share`)."""
    data: str = ""
    """Other shards (`shards`)."""
    decay: str = ""
    """How it ends (`schedule`)."""


def models_of_tables(
    design: Design, tables: Mapping[str, object], path: Path
) -> dict[str, Model]:
    """Return a study file's models by name.

    Args:
        design: the file's scheme of names.
        tables: a table by name; an empty one for a name in the scheme.
        path: the file, for messages.

    Raises:
        UserError: what is wrong, in one sentence with its place in the file.
    """
    models: dict[str, Model] = {}
    for name, value in tables.items():
        where = f"{path} [models.{name if _NAME.fullmatch(name) else repr(name[:80])}]"
        if value == {}:
            try:
                models[name] = design.parse(name)
            except UserError as error:
                hint = (
                    "; a name of your own needs `stages`"
                    if _NAME.fullmatch(name)
                    else ""
                )
                raise UserError(f"{path}: {error}{hint}") from None
            continue
        table = read_settings(_ModelTable, value, where)
        try:
            _check_name(design, name)
            size = _size(design, table)
            specs = _specs(design, table)
        except UserError as error:
            raise UserError(f"{where}: {error}") from None
        stages = make_stages(size, specs, usual_decay=design.decay_steps)
        models[name] = Model(name=name, size=size, stages=stages, start=table.start)
    return models


def _check_name(design: Design, name: str) -> None:
    """Refuse a name of a table that is none, or that says something by itself: the scheme's, or another seed's."""
    if not _NAME.fullmatch(name):
        raise UserError(
            "a model's name has at most 80 letters, digits, dots, hyphens and underscores, and starts with a letter or "
            "digit"
        )
    if arm_of(name)[1]:
        raise UserError(
            f"the end of the name means another pretraining of {arm_of(name)[0]}; choose another end than -s and a "
            "number"
        )
    try:
        design.parse(name)
    except UserError:
        return
    raise UserError(
        "this name already says size, stages and steps; leave the table empty, or choose another name"
    )


def _size(design: Design, table: _ModelTable) -> str:
    """Return what the names of a model's stages begin with: its size, or the short name of its start."""
    if table.start:
        if table.size:
            raise UserError(
                "size and start contradict each other, since the start has a size; leave size out"
            )
        return f"{design.prefix}from_{short_name(table.start)}"
    sizes = ", ".join(design.sizes)
    if not table.size and len(design.sizes) > 1:
        raise UserError(f"size is missing; use one of {sizes}")
    size = table.size or design.sizes[0]
    if size not in design.sizes:
        raise UserError(
            f"unknown size {size!r:.60}; use one of {sizes}{nearest(size, design.sizes)}"
        )
    return f"{design.prefix}{size}"


def _specs(design: Design, table: _ModelTable) -> list[StageSpec]:
    """Return a table's stages, whose shares of steps are added up exactly and rounded where a stage ends."""
    if not 1 <= len(table.stages) <= _MOST_STAGES:
        raise UserError(
            f'stages must be a list of 1 to {_MOST_STAGES} stages such as ["clm:10k", "mlm40:32k"], not '
            f"{len(table.stages)}"
        )
    budget = _steps("steps", table.steps, None) if table.steps else None
    done = Fraction(0)
    specs: list[StageSpec] = []
    for number, entry in enumerate(table.stages, 1):
        try:
            stage = _stage_table(entry)
            begin = _rounded(done)
            done += _steps("steps", stage.steps, budget)
            end = _rounded(done)
            if not begin < end < _MOST_STEPS:
                raise UserError(
                    f"steps={stage.steps!r:.60} must be at least 1 and below 2^31 in all"
                )
            decay, curve = _decay(
                design, stage.decay, end - begin, last=number == len(table.stages)
            )
            specs.append(
                StageSpec(
                    objective=parse_objective(stage.train),
                    end=end,
                    decay_steps=decay,
                    curve=curve,
                    data=stage.data,
                )
            )
        except UserError as error:
            raise UserError(f"stage {number}: {error}") from None
    if budget is not None and _rounded(done) != budget:
        raise UserError(
            f"its stages take {_rounded(done):,} steps together, but steps says {_rounded(budget):,}; make them equal"
        )
    return specs


def _stage_table(entry: object) -> _StageTable:
    """Return a stage of a model's table, which is a text such as `mlm40:32k` or a table."""
    if isinstance(entry, str):
        train, colon, steps = entry.partition(":")
        if not colon:
            raise UserError(
                f"a stage reads OBJECTIVE:STEPS such as mlm40:32k, not {entry!r:.60}"
            )
        return _StageTable(train=train.strip(), steps=steps.strip())
    if isinstance(entry, dict):
        stage = read_settings(_StageTable, entry)
        if len(stage.data) > 1_000 or not stage.data.isprintable():
            raise UserError(
                f"data must be one line of printable text, not {stage.data!r:.60}"
            )
        return stage
    raise UserError(
        f'a stage is a text such as "mlm40:32k" or a table with train and steps, not {entry!r:.60}'
    )


def _decay(design: Design, text: str, length: int, *, last: bool) -> tuple[int, str]:
    """Return the steps of a stage's decay and its curve."""
    if text == "none" or (not text and not last):
        return 0, LINEAR
    curve, colon, steps_text = (text or f"{LINEAR}:{design.decay_steps}").partition(":")
    if curve not in DECAYS or not colon:
        raise UserError(
            f"decay reads {' or '.join(f'{name}:STEPS' for name in DECAYS)}, such as sqrt:10 %, or none, not "
            f"{text!r:.60}{nearest(curve, (*DECAYS, 'none'))}"
        )
    steps = _rounded(_steps("decay", steps_text.strip(), Fraction(length)))
    if not 1 <= steps <= length:
        said = "" if text else ", the study's decay_steps, where its table says nothing"
        raise UserError(
            f"a decay of {steps:,} steps{said} must be at least 1 and at most the stage's {length:,}; give it another "
            'decay, or decay = "none"'
        )
    return steps, curve


def _steps(key: str, value: object, whole: Fraction | None) -> Fraction:
    """Return a number of steps: whole, with k for thousands, or a share of something in percent."""
    text = (
        str(value).strip()
        if isinstance(value, int | str) and not isinstance(value, bool)
        else ""
    )
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)\s*(k|%)?", text)
    number = Fraction(match[1]) if match else Fraction(0)
    if match and match[2] == "%":
        if whole is None:
            raise UserError(
                f"{key}={text!r} is a share, but of what? Give the model its whole `steps`, too"
            )
        if number <= 100:
            return whole * number / 100
    elif match and (number * (1000 if match[2] else 1)).denominator == 1:
        return number * (1000 if match[2] else 1)
    raise UserError(
        f"{key} takes steps such as 32000 or 32k, or a share up to 100 such as 25 %, not {value!r:.60}"
    )


def _rounded(steps: Fraction) -> int:
    return int(steps + Fraction(1, 2))


class Shapes(dict[str, Shape]):
    """Shapes by size; that of a start is read from its folder once it is asked for.

    So models can be named, drawn and planned next to one whose start is not on this machine.
    """

    def __init__(
        self, shapes: Mapping[str, Shape], models: Mapping[str, Model]
    ) -> None:
        """Know the shapes of sizes, and which models have a start."""
        super().__init__(shapes)
        self._starts = {
            model.size: model.start for model in models.values() if model.start
        }

    def __missing__(self, size: str) -> Shape:
        """Look at a start; a `UserError` says what is wrong with it."""
        return self.setdefault(size, _shape_of_start(self._starts[size]))


def _shape_of_start(text: str) -> Shape:
    from pretraining.starts import is_checkpoint, start_to_plan

    if is_checkpoint(text):
        state = read_json(Path(text).expanduser() / "state.json", "give another start")
        return read_settings(Shape, state["shape"], text)
    return start_to_plan(text).shape
