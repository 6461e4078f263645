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

A stage lasts a number of steps (`32000`, `"32k"`), or a share of the budget. `mlm40-15` lets the masking ratio fall
linearly from 40 % at the stage's first step to 15 % at its last. `data` names other shards for this stage; all other
stages use those of the option `--data`. `decay` ends a stage: `linear:` or `sqrt:` (1-sqrt), then steps or a share of
the stage, or `none`. Without `decay`, the last stage ends in a linear decay of the study's `decay_steps`. The learning
rate is warmed up again after a decay. Stages that models have in common are trained once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

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
"""A valid name: at most 80 letters, digits, dots, hyphens and underscores, the first one a letter or digit."""
_MOST_STAGES = 20
"""Most stages of a model."""
_MOST_STEPS = 2**31
"""Above every number of steps."""


@dataclass(frozen=True, kw_only=True)
class _ModelTable(FileSettings):
    """The fields of a model's table.

    The words in backquotes are other names of a field. A user who writes one of them is told the field's name.
    """

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
    """The fields of a stage's table; words in backquotes are other names, as above."""

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
        design: sizes, prefix and decay of the file's study.
        tables: each model's table by the model's name; empty for a name that says all itself.
        path: the file, for messages.

    Raises:
        UserError: a table or a name is not as it should be; the message names its place in the file.
    """
    models: dict[str, Model] = {}
    for name, value in tables.items():
        # In messages, a name that could not be one (with line breaks, or of any length) is quoted and cut.
        is_plain = _NAME.fullmatch(name) is not None
        shown = name if is_plain else repr(name[:80])
        where = f"{path} [models.{shown}]"

        # An empty table: the name itself says size, stages and steps.
        if value == {}:
            try:
                models[name] = design.parse(name)
            except UserError as error:
                hint = "; a name of your own needs `stages`" if is_plain else ""
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
    """Refuse the name of a model with a table if it is not a valid name, or means another model already.

    A name means another model if it ends in a seed (`mine-s1`), or says size, stages and steps itself.
    """
    if not _NAME.fullmatch(name):
        raise UserError(
            "a model's name has at most 80 letters, digits, dots, hyphens and underscores, and starts with a letter or "
            "digit"
        )

    name_without_seed, seed = arm_of(name)
    if seed:
        raise UserError(
            f"the end of the name means another pretraining of {name_without_seed}; choose another end than -s and a "
            "number"
        )

    try:
        design.parse(name)
    except UserError:
        return  # as it should be: the scheme of names does not have it

    raise UserError(
        "this name already says size, stages and steps; leave the table empty, or choose another name"
    )


def _size(design: Design, table: _ModelTable) -> str:
    """Return what the names of a model's stages begin with: its size, or `from_` with the short name of its start."""
    if table.start:
        if table.size:
            raise UserError(
                "size and start contradict each other, since the start has a size; leave size out"
            )
        return f"{design.prefix}from_{short_name(table.start)}"

    sizes = ", ".join(design.sizes)
    if not table.size and len(design.sizes) > 1:
        raise UserError(f"size is missing; use one of {sizes}")

    # There is at least one size: without any, a study has only models with a start (`read_study`).
    size = table.size or design.sizes[0]
    if size not in design.sizes:
        raise UserError(
            f"unknown size {size!r:.60}; use one of {sizes}{nearest(size, design.sizes)}"
        )

    return f"{design.prefix}{size}"


def _specs(design: Design, table: _ModelTable) -> list[StageSpec]:
    """Return the stages of a model's table, with the step at which each ends.

    Stages may last a share of the budget. All lengths are added up exactly, and each stage ends at the sum so far,
    rounded.
    """
    if not 1 <= len(table.stages) <= _MOST_STAGES:
        raise UserError(
            f'stages must be a list of 1 to {_MOST_STAGES} stages such as ["clm:10k", "mlm40:32k"], not '
            f"{len(table.stages)}"
        )

    # Without a budget (`steps` is left out, so 0), stages cannot take shares.
    budget = _steps("steps", table.steps, None) if table.steps else None
    # Fractions, since shares of a budget that are rounded one by one would not add up to the budget.
    exact_end = Fraction(0)
    begin = 0
    specs: list[StageSpec] = []
    for number, entry in enumerate(table.stages, 1):
        is_last = number == len(table.stages)
        try:
            stage = _stage_table(entry)
            exact_end += _steps("steps", stage.steps, budget)
            end = _rounded(exact_end)
            if not begin < end < _MOST_STEPS:
                raise UserError(
                    f"steps={stage.steps!r:.60} must be at least 1 and below 2^31 in all"
                )

            decay = _decay(design, stage.decay, end - begin, last=is_last)
            objective = parse_objective(stage.train)
        except UserError as error:
            raise UserError(f"stage {number}: {error}") from None

        spec = StageSpec(
            objective=objective,
            end=end,
            decay_steps=decay.steps,
            curve=decay.curve,
            data=stage.data,
        )
        specs.append(spec)
        begin = end

    if budget is not None and begin != budget:
        raise UserError(
            f"its stages take {begin:,} steps together, but steps says {_rounded(budget):,}; make them equal"
        )

    return specs


def _stage_table(entry: object) -> _StageTable:
    """Return an entry of a model's `stages` as a table: the entry is one, or a text such as `mlm40:32k`."""
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


class _StageDecay(NamedTuple):
    """The decay at the end of a stage."""

    steps: int
    """Its length; 0 for none."""
    curve: str
    """One of `DECAYS`."""


def _decay(design: Design, text: str, length: int, *, last: bool) -> _StageDecay:
    """Return the decay at the end of a stage.

    A stage without a `decay` in its table has none, unless it is the model's last one, which has the study's decay.

    Args:
        design: the study's design, which says how long its decay is.
        text: the table's `decay`, such as `sqrt:10 %` or `none`; empty where the table has none.
        length: number of the stage's steps.
        last: whether the stage is the model's last one.
    """
    if text == "none" or (not text and not last):
        return _StageDecay(0, LINEAR)
    decay_text = text or f"{LINEAR}:{design.decay_steps}"
    curve, colon, steps_text = decay_text.partition(":")
    if curve not in DECAYS or not colon:
        forms = " or ".join(f"{name}:STEPS" for name in DECAYS)
        raise UserError(
            f"decay reads {forms}, such as sqrt:10 %, or none, not {text!r:.60}{nearest(curve, (*DECAYS, 'none'))}"
        )

    steps = _rounded(_steps("decay", steps_text.strip(), Fraction(length)))
    if not 1 <= steps <= length:
        origin = ""
        if not text:
            origin = ", the study's decay_steps, where its table says nothing"
        raise UserError(
            f"a decay of {steps:,} steps{origin} must be at least 1 and at most the stage's {length:,}; give it "
            'another decay, or decay = "none"'
        )

    return _StageDecay(steps, curve)


def _steps(key: str, value: object, whole: Fraction | None) -> Fraction:
    """Return a number of steps, which a share of something else makes a fraction.

    Args:
        key: name of the field, for messages.
        value: a number, with `k` for thousands (`32000`, `32k`), or a share in percent (`25 %`).
        whole: the number of steps that a share is taken of; None where shares are refused.
    """
    fault = UserError(
        f"{key} takes steps such as 32000 or 32k, or a share up to 100 such as 25 %, not {value!r:.60}"
    )

    # In Python, True is also an int.
    if not isinstance(value, int | str) or isinstance(value, bool):
        raise fault
    text = str(value).strip()

    # A number, perhaps with decimals, then perhaps a unit: `32000`, `0.5k` or `12.5 %`.
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)\s*(k|%)?", text)
    if match is None:
        raise fault
    number, unit = Fraction(match[1]), match[2]
    if unit == "%":
        if whole is None:
            raise UserError(
                f"{key}={text!r} is a share, but of what? Give the model its whole `steps`, too"
            )
        if number > 100:
            raise fault
        return whole * number / 100

    if unit == "k":
        number *= 1000
    # Thousands may have decimals (`0.5k`), but there is no half step.
    if number.denominator != 1:
        raise fault
    return number


def _rounded(steps: Fraction) -> int:
    """Return the nearest whole number, and of two equally near ones the larger."""
    return int(steps + Fraction(1, 2))


class Shapes(dict[str, Shape]):
    """Shapes by size; the shape of a start is only read from its folder when it is needed.

    A study can therefore be listed and its other models planned if the start of one model is not on this machine.
    """

    def __init__(
        self, shapes: Mapping[str, Shape], models: Mapping[str, Model]
    ) -> None:
        """Take the shapes of a study's sizes, and the starts of its models, whose shapes are read later."""
        super().__init__(shapes)
        with_start = [model for model in models.values() if model.start]
        self._starts = {model.size: model.start for model in with_start}

    def __missing__(self, size: str) -> Shape:
        """Read and remember the shape of a start; `size` is the start's short name (`Model.size`).

        Raises:
            UserError: the start cannot be read.
        """
        return self.setdefault(size, _shape_of_start(self._starts[size]))


def _shape_of_start(text: str) -> Shape:
    """Return the shape of a start: of a stage's checkpoint or of a model, by its folder or hub id."""
    from pretraining.starts import is_checkpoint, start_to_plan

    if is_checkpoint(text):
        state = read_json(Path(text).expanduser() / "state.json", "give another start")
        return read_settings(Shape, state["shape"], text)
    return start_to_plan(text).shape
