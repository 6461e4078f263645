"""Tables 1-17 of the paper, each cell with the published and, where runs exist, the recomputed value.

From Table 2 on, the paper has four layouts (`_LAYOUTS`), each with a table for each of its four tasks. A task that was
added has a table in each layout as well, numbered from 18 on.

A table is data; `analysis.tables.render` prints it as Markdown, LaTeX or CSV.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pandas as pd

from analysis.evidence.evidence import SCORE_COLUMNS
from analysis.evidence.intervals import caption_of
from analysis.published_cells import published_cells
from analysis.records import records
from analysis.sources import PUBLISHED, Source
from benchmarks.protocol import AVERAGE, DATASETS, TASKS, datasets_of
from common.errors import UserError
from pretraining.models import Model, format_steps, own_model
from pretraining.paper_models import MODELS, TABLES, find_model, parse
from pretraining.paper_settings import SHAPES, TRAINING, Shape

_PAPERS_MODELS = frozenset(itertools.chain(*TABLES.values()))
"""The models that have a row in one of the paper's tables."""


@dataclass(frozen=True, kw_only=True)
class TableEntry:
    """One score of a table, in percent."""

    model: str
    dataset: str
    """A dataset's name, or `average`."""
    published: tuple[float, float] | None = None
    """Mean and half-width as the paper prints them; None where the paper has no such cell."""
    recomputed: tuple[float, float, float] | None = None
    """Mean, low and high from the runs; None without runs."""
    n_seeds: int = 0
    """Seeds behind the recomputed value."""
    alone: bool = False
    """Whether the paper's number is left out, because the model or the metric is not the paper's."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of the paper, rows and columns in its order."""

    number: int
    caption: str
    stubs: tuple[str, ...]
    """Headings of the columns that name a row."""
    labels: tuple[tuple[str, ...], ...]
    """For each row, its entries under `stubs`."""
    columns: tuple[str, ...]
    """Headings of the other columns."""
    cells: tuple[tuple[TableEntry, ...], ...] = ()
    """For each row, one cell a column; empty in Table 1."""
    texts: tuple[tuple[str, ...], ...] = ()
    """Table 1's entries, row by row."""
    models: tuple[str, ...] = ()
    """For each row, its model."""
    source: str = field(default="published")
    """Where the recomputed values come from."""
    interval: str = field(default="")
    """Kinds of interval of the recomputed values."""
    interval_words: str = field(default="")
    """The same kinds in words, with how often they hold the mean."""
    alone: bool = False
    """Whether its models are stand-ins or its metrics not the paper's, so that the paper's numbers are left out."""


def build_table(
    number: int, scores: pd.DataFrame | None = None, *, source: Source = PUBLISHED
) -> Table:
    """Return a table of the paper, or of a task that it does not have.

    Args:
        number: 1-17, or one of another task's tables (`models_of_tables`), which have no published cells.
        scores: recomputed scores (`analysis.evidence.evidence.scores_of`); None for only the published cells. Models
            that the paper does not have become rows below its own, in the table that their kind belongs to.
        source: where the scores come from; beside scores of another network or metric, no published cell is shown.

    Raises:
        UserError: no such table.
    """
    if number == 1:
        return _settings_table()
    # Which models and which task the table is about.
    contents = _contents()
    if number not in contents:
        known = f"the paper has Tables 1 to {max(TABLES)}"
        if max(contents) not in TABLES:
            known = f"{known}, other families Tables 18 to {max(contents)}"
        raise UserError(f"there is no Table {number}; {known}")

    layout, task_name = contents[number]
    task = TASKS[task_name]
    # The published scores. Beside scores of another network or metric they are left out, since these would
    # look like a failed replication. A task that was added has none.
    alone = not source.comparable or number not in TABLES
    published = {} if alone else _printed_in(number)
    of_runs = pd.DataFrame(columns=SCORE_COLUMNS)

    # The recomputed scores. Those of the source `published` are the printed numbers themselves.
    if scores is not None:
        of_runs = scores.query("source != 'published'")
    of_runs = of_runs[of_runs["task"] == task.name]
    recomputed: dict[tuple[str, str], tuple[float, float, float]] = {}
    seeds: dict[tuple[str, str], int] = {}
    columns = ("model", "dataset", "mean", "low", "high", "n_seeds")
    for model, dataset, mean, low, high, count in records(of_runs, *columns):
        recomputed[model, dataset] = (mean, low, high)
        seeds[model, dataset] = count

    # The columns: the datasets of the task, and their average.
    names = datasets_of(task.name)
    if source.stand_ins is not None:
        names = source.stand_ins.families.get(task.name, ())
    datasets = [*names, AVERAGE]

    # The rows. `measured` are the models with a recomputed score in one of the columns, in the order of the
    # scores (a dict whose values are None is a set that keeps the order).
    measured: dict[str, None] = {}
    for model, dataset in recomputed:
        if dataset in datasets:
            measured[model] = None

    models = _models_with_rows(layout, list(measured), source, alone=alone)
    # The cells.
    cells = []
    for model in models:
        is_alone = alone or model not in _PAPERS_MODELS
        row = []
        for name in datasets:
            entry = TableEntry(
                model=model,
                dataset=name,
                published=published.get((model, name)),
                recomputed=recomputed.get((model, name)),
                n_seeds=seeds.get((model, name), 0),
                alone=is_alone,
            )
            row.append(entry)

        cells.append(tuple(row))

    # What the caption says, and where the numbers come from.
    metric = source.metric_of(task.name, AVERAGE)
    # A floor is the score of a model that does not read its input.
    remark = source.floors_in_words(names)
    if not models:
        remark = f"{source.label} has no scores for this table."
    caption = (
        f"{source.kind.words} {task.title} ({metric}, %): {layout.title}. {remark}"
    )
    titles = [DATASETS[name].title for name in names]
    labels = [layout.label_of(name, source) for name in models]
    kinds = dict.fromkeys(of_runs["interval"])
    origin = "published"
    # All rows have the same source (`scores_of`), so that any row names it.
    if scores is not None and not scores.empty:
        origin = str(scores["source"].iloc[0])
    interval_words = ""
    if len(of_runs):
        interval_words = caption_of(records(of_runs, "n_seeds", "interval"))
    return Table(
        number=number,
        caption=caption.strip(),
        stubs=layout.stubs,
        labels=tuple(labels),
        columns=(*titles, AVERAGE.title()),
        cells=tuple(cells),
        models=tuple(models),
        alone=alone,
        source=origin,
        interval=", ".join(kinds),
        interval_words=interval_words,
    )


def _printed_in(table_number: int) -> dict[tuple[str, str], tuple[float, float]]:
    """Return the mean and half-width that a table of the paper prints, by model and dataset."""
    cells = published_cells()
    of_table = cells[cells["table"] == table_number]
    printed = {}
    for model, name, mean, half in records(
        of_table, "model", "dataset", "mean", "ci95"
    ):
        printed[model, name] = (mean, half)
    return printed


def _models_with_rows(
    layout: _Layout, measured: Sequence[str], source: Source, *, alone: bool
) -> list[str]:
    """Return the models that have rows in a table, in their order.

    Args:
        layout: the table's.
        measured: the models with recomputed scores, in the order of the scores.
        source: where these come from.
        alone: whether the paper's numbers are left out.
    """
    # Beside the paper's numbers, all of its models have rows; without these, only those that were measured.
    models = [name for name in layout.models if name in measured or not alone]
    # Models of one's own come below the paper's, in the table that their kind belongs to.
    for name in measured:
        if name not in _PAPERS_MODELS and layout.has(_model(name, source)):
            models.append(name)
    return models


@dataclass(frozen=True, kw_only=True)
class _Layout:
    """What the tables of four tasks have in common: which models have rows there, and how a row is named."""

    title: str
    models: tuple[str, ...]
    """The paper's models that have their rows here."""
    stubs: tuple[str, ...]
    label: Callable[[Model], tuple[str, ...]]
    """Returns the entries of a model under `stubs`."""
    kinds: tuple[str, ...]
    """The kinds of other models that have their rows here (`pretraining.models.Model.kind`)."""
    takes_foreign: bool = False
    """Whether models whose names are outside the study's scheme have their rows here."""

    def label_of(self, name: str, source: Source) -> tuple[str, ...]:
        """Return the entries of a model under `stubs`; of one outside the naming scheme, the name comes first."""
        model = _model(name, source)
        if model is None:
            # A name with another size or prefix than the paper's still says what the model is (`find_model`), which
            # gives the last entry; those between are empty.
            known = find_model(name, source.study_models)
            last = "" if known is None else self.label(known)[-1]
            return (name, *[""] * (len(self.stubs) - 2), last)
        *first, last = self.label(model)
        if model.seed:
            last = f"{last}, pretraining seed {model.seed}"
        return (*first, last)

    def has(self, model: Model | None) -> bool:
        """Whether a model that the paper does not have has its row here; None is a model outside the naming scheme."""
        return self.takes_foreign if model is None else model.kind in self.kinds


def _model(name: str, source: Source) -> Model | None:
    """Return the model that a name in the paper's scheme describes, or a study's own; None for other names."""
    known = MODELS.get(name) or own_model(name, source.study_models)
    if known is not None:
        return known
    try:
        return parse(name)
    except UserError:
        return None


def _thousands(steps: int) -> str:
    return format_steps(steps).replace("k", "K")


def _size_label(model: Model) -> tuple[str, ...]:
    budget = "" if model.steps == 42_000 else f" ({_thousands(model.steps)} steps)"
    return model.size.upper(), f"{model.label()}{budget}"


def _step_label(model: Model) -> tuple[str, ...]:
    return _own_size(model, model.label()), f"{model.steps:,}"


def _mix_label(model: Model) -> tuple[str, ...]:
    clm = model.clm_steps
    mlm = model.steps - clm
    mix = f"{_thousands(clm)}+{_thousands(mlm)}"
    # All rows of the paper mask 40 %, so that they give only the steps: 3K+9K.
    if model.label() not in ("CLM", "MLM 40 %", "CLM + MLM 40 %"):
        mix = f"{mix} ({model.label()})"
    return _own_size(model, _thousands(model.steps)), mix


def _cpt_label(model: Model) -> tuple[str, ...]:
    # Training began from another model's weights, which give the row its name.
    if model.start:
        return f"{model.origin} ({model.label()})", _thousands(model.steps)
    # The paper prints a dash for the base model, which was not continued.
    added = "-"
    if model.switch is not None:
        added = _thousands(model.steps - model.switch)
    return _own_size(model, model.objectives[0].label()), added


def _own_size(model: Model, text: str) -> str:
    """Put the size before a label of a model that is not 610M, the size of all of the paper's rows here."""
    return text if model.size == "610m" else f"{model.size.upper()} {text}"


_LAYOUTS = (
    _Layout(title="model size and pretraining objective, 42K steps", stubs=("Size", "Objective"),
            models=TABLES[2], label=_size_label, kinds=("base",), takes_foreign=True),
    _Layout(title="checkpoints during pretraining, 610M", stubs=("Objective", "Step"),
            models=TABLES[6], label=_step_label, kinds=("intermediate",)),
    _Layout(title="training budget and its split into CLM and MLM steps, 610M", stubs=("Budget", "CLM+MLM"),
            models=TABLES[10], label=_mix_label, kinds=("two-stage", "multi-stage")),
    _Layout(title="continued pretraining with MLM after CLM or MLM, 610M", stubs=("Start", "CPT steps"),
            models=TABLES[14], label=_cpt_label, kinds=("continued", "adapted")),
)  # fmt: skip
"""The layouts, in the order of the paper's tables."""
_TASKS = ("SC", "TC", "QA", "IR")
"""The paper's tasks, in the order of its tables of one layout."""


def _contents() -> dict[int, tuple[_Layout, str]]:
    """Return the layout and the task of each table from 2 on: the paper's, then those of each task that was added."""
    # Tables 2 to 5 have the first layout and one task each, Tables 6 to 9 the second, and so on.
    contents = list(itertools.product(_LAYOUTS, _TASKS))
    for task in TASKS:
        if task not in _TASKS:
            contents += [(layout, task) for layout in _LAYOUTS]
    return dict(enumerate(contents, start=2))


def models_of_tables() -> dict[int, tuple[str, ...]]:
    """Return the paper's models in each table, by its number: Tables 1 to 17, and those of tasks that were added."""
    models: dict[int, tuple[str, ...]] = {1: ()}
    for number, (layout, _) in _contents().items():
        models[number] = layout.models
    return models


def _settings_table() -> Table:
    """Return Table 1 from the study plan: architectures and training settings."""
    columns: dict[str, dict[str, str]] = {}
    for size, shape in SHAPES.items():
        columns[size.upper()] = _settings_of(size, shape)

    # All sizes have the same settings.
    any_column = next(iter(columns.values()))
    names = list(any_column)
    rows = []
    for name in names:
        rows.append(tuple(settings[name] for settings in columns.values()))
    return Table(
        number=1,
        caption="Model architectures and pretraining settings, from the study plan.",
        stubs=("Setting",),
        labels=tuple((name,) for name in names),
        columns=tuple(columns),
        texts=tuple(rows),
        source="study plan",
    )


def _settings_of(size: str, shape: Shape) -> dict[str, str]:
    """Return the column of a size in Table 1: by setting, its value as text."""
    encoder = f"{shape.encoder_parameters / 1e6:,.1f}M"
    trained = f"{shape.trained_parameters / 1e6:,.1f}M"
    positions = f"RoPE, theta {shape.rope_theta:,.0f}"
    architecture = {
        "Parameters (embedding + body)": encoder,
        "Parameters trained (with the untied head)": trained,
        "Layers": str(shape.layers),
        "Embedding dimension": f"{shape.hidden:,}",
        "FFN dimension": f"{shape.mlp:,}",
        "Attention heads": str(shape.heads),
        "Key/value heads": str(shape.kv_heads),
        "Head dimension": str(shape.head_dim),
        "Layer normalisation": "RMSNorm",
        "RMSNorm epsilon": f"{shape.norm_eps:g}",
        "Activation function": "SwiGLU",
        "Positional embedding": positions,
        "Maximum context length": f"{shape.max_length:,}",
        "Vocabulary size": f"{shape.vocab:,}",
        # The released code does not draw with the variance of 0.2 that the paper's text gives.
        "Weight initialisation (standard deviation)": f"{shape.init_std:g}",
    }
    first_beta, second_beta = TRAINING.betas
    betas = f"{first_beta:g}, {second_beta:g}"
    optimiser = {
        "Optimiser": "AdamW",
        "Peak learning rate": f"{TRAINING.peak_lr:g}",
        "Betas": betas,
        "Epsilon": f"{TRAINING.eps:g}",
        "Weight decay": f"{TRAINING.weight_decay:g}",
        "Gradient clipping": f"{TRAINING.clip_norm:g}",
    }

    # Only at 610M was the budget varied.
    steps = "42,000"
    if size == "610m":
        steps = "12,000 / 22,000 / 42,000"
    schedule = {
        "Schedule": "WSD",
        "Warm-up steps": f"{TRAINING.warmup_steps:,}",
        # 2,000 in the text; the 5 % of Table 1 would be 2,100.
        "Decay steps": f"{TRAINING.decay_steps:,}",
        "Steps": steps,
        "Sequences per GPU and step": str(TRAINING.device_batch),
        "GPUs": str(TRAINING.devices),
        # As in the text, 192 x 12 x 1,030; Table 1 leaves out the shortest sequence of 12 tokens.
        "Tokens per step (expected)": f"{TRAINING.tokens_per_step:,}",
    }
    return architecture | optimiser | schedule
