"""The package in Python: sources and frames in, frames and pictures out.

    import clm_or_mlm as cm
    runs = cm.load("results/")                      # or "published", "released", "miniature", "curves", a frame
    cm.scores(runs)                                 # a frame: mean and interval of each model and dataset
    cm.figure("3", runs)                            # a matplotlib figure
    cm.figure("3", runs, task="SC", ax=ax)          # one panel, on axes of your own

Every function takes a source as `load` does, by its name, path or frame, or opened already.
"""

from __future__ import annotations

import fnmatch
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.claims.assessment import assess
from analysis.claims.catalogue import SHOWN
from analysis.claims.pages.explain import explanations
from analysis.claims.pages.finding_records import as_record, parts_frame
from analysis.comparisons.comparison import compare as compare_models
from analysis.comparisons.comparison_report import records_of
from analysis.comparisons.scores_in_python import compare_scores
from analysis.evidence.settings import Settings
from analysis.sensitivity.sensitivity_page import sensitivity_of
from analysis.sources import Source, open_source
from analysis.store.runs_table import read_runs
from analysis.tables.audit import audit as audit_source
from analysis.tables.build import build_table
from benchmarks.protocol import DATASETS, TASKS
from common.errors import UserError, nearest
from pretraining.paper_models import MODELS
from pretraining.plan.devices import find_device
from pretraining.plan.study_plan import load_study, plan_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "Source",
    "UserError",
    "audit",
    "claims",
    "compare",
    "compare_scores",
    "datasets",
    "explain",
    "figure",
    "findings",
    "load",
    "models",
    "plan",
    "runs",
    "scores",
    "sensitivity",
    "table",
]

SourceLike = str | Path | pd.DataFrame | Source
"""What every function takes for a source."""


def load(
    source: SourceLike = "published", *, add_models: Sequence[str] = (), **options: Any
) -> Source:
    """Open a source of scores.

    Args:
        source: `published` (the paper's printed cells), `released` (the authors' runs, fetched once), `miniature`,
            `curves`, the path of a run store or runs table, or a frame with a runs table's columns (`runs` shows them).
        add_models: names or shell patterns of models outside the study's naming scheme.
        options: `need_instances`, `models`, `protocol` of `analysis.sources.open_source`; only for a name or
            a path.

    Raises:
        UserError: there is no such source, a row of it cannot be used, or options that it does not take.

    >>> import clm_or_mlm as cm
    >>> cm.load("miniature")
    <source miniature: 1,520 runs of 38 models on 4 datasets>
    """
    if isinstance(source, Source):
        # These options choose what is read; an open source was read already.
        given = [*options]
        if add_models:
            given.append("add_models")
        _refuse_options("a source that is open", given)
        return source

    if not isinstance(source, pd.DataFrame):
        return open_source(str(source), add_models=add_models, **options)
    _refuse_options("a frame of runs", options)
    with tempfile.TemporaryDirectory() as folder:
        # One reader checks every runs table, wherever it comes from.
        path = Path(folder) / "frame.parquet"
        source.to_parquet(path, index=False)
        return Source(
            label="frame",
            runs=read_runs(path, add_models=add_models),
            added_models=tuple(add_models),
        )


def runs(source: SourceLike) -> pd.DataFrame:
    """Return a source's runs, one row per fine-tuning run.

    Columns: model, task, dataset, lr, seed, scores in [0, 1], counts.

    Raises:
        UserError: the source is the published cells, which hold no runs.

    >>> import clm_or_mlm as cm
    >>> cm.runs("miniature")[["model", "dataset", "seed"]].head(2)
                      model dataset  seed
    0  1b-clm-10k-mlm40-42k    sst2     0
    1  1b-clm-10k-mlm40-42k    sst2     1
    """
    # A copy: what a caller changes must not reach the scores of the same source.
    return load(source).need_runs("runs()").copy()


def scores(
    source: SourceLike = "published",
    *,
    models: str | Sequence[str] = (),
    interval: str = "",
    selection: str = "seed",
) -> pd.DataFrame:
    """Return each model's mean and 95 % interval, in percent, on each dataset and for each task average.

    Args:
        source: as in `load`.
        models: names or shell patterns, such as `610m-*-42k`; by default all.
        interval: `pooled`, `t`, `bootstrap`, `crossed` or `paper`; by default pooled for runs, t for printed cells.
        selection: what a learning rate is chosen for: `seed`, or `mean` (model and dataset).

    Raises:
        UserError: a name or pattern that no model of the source has.

    >>> import clm_or_mlm as cm
    >>> found = cm.scores(models="610m-mlm40-42k").query("dataset == 'average'")
    >>> found[["task", "mean", "low", "high"]].round(2)
       task   mean    low   high
    3    SC  87.00  86.75  87.25
    7    TC  92.21  91.84  92.58
    11   QA  62.77  60.14  65.40
    15   IR  79.55  79.05  80.05
    """
    opened = load(source)
    frame = opened.scores(_settings(opened, interval, selection))
    # A name without wildcards is a pattern that matches only itself.
    patterns = [models] if isinstance(models, str) else list(models)
    scored = list(frame["model"].unique())
    for pattern in patterns:
        if not fnmatch.filter(scored, pattern):
            raise UserError(
                f"{opened.label} has no scores of {pattern!r}{nearest(pattern, scored)}"
            )

    if not patterns:
        return frame
    shown: set[str] = set()
    for pattern in patterns:
        shown.update(fnmatch.filter(scored, pattern))
    return frame[frame["model"].isin(shown)].reset_index(drop=True)


def table(
    number: int | str, source: SourceLike = "published", *, interval: str = ""
) -> pd.DataFrame:
    """Return one of the paper's Tables 2 to 17: one row per cell, with the published score and, if the source has runs,
    the recomputed one.

    Columns: model, dataset (or `average`), published, ci95 (its half-width), mean, low, high, n_seeds; scores in
    percent.

    Raises:
        UserError: there is no such table, or it holds no scores (Table 1).

    >>> import clm_or_mlm as cm
    >>> cm.table(10)[["model", "dataset", "published", "ci95"]].head(3)
                model dataset  published  ci95
    0  610m-mlm40-12k    sst2      89.33  0.68
    1  610m-mlm40-12k     qqp      84.62  0.18
    2  610m-mlm40-12k  mnli_m      75.17  0.33
    """
    if not str(number).isdecimal():
        raise UserError(f"there is no table {number!r}; give a number from 2 to 17")
    number, opened = int(number), load(source)
    recomputed = None if opened.is_published else scores(opened, interval=interval)
    built = build_table(number, recomputed, source=opened)
    if not built.cells:
        raise UserError(
            f"Table {number} has no scores; `clm-or-mlm table {number}` prints it"
        )

    nan = float("nan")
    rows = []
    for row_of_table in built.cells:
        for cell in row_of_table:
            # A cell that the paper does not print has no published value; one without runs has no recomputed
            # one.
            published, ci95 = cell.published or (nan, nan)
            mean, low, high = cell.recomputed or (nan, nan, nan)
            scores_of_cell = (published, ci95, mean, low, high)
            rows.append((cell.model, cell.dataset, *scores_of_cell, cell.n_seeds))

    columns = "model dataset published ci95 mean low high n_seeds"
    return pd.DataFrame(rows, columns=columns.split())


def claims(
    source: SourceLike = "published",
    *,
    interval: str = "",
    selection: str = "seed",
    full: bool = False,
) -> pd.DataFrame:
    """Return the verdict on each finding of the paper, one row per finding, indexed by its id (`F8`).

    Columns: short, verdict, typical_effect, typical_low, typical_high, p_holm; with `full` the statement, the most
    adverse contrast with its effect, low and high, the p-values both ways, and more.

    Args:
        source: as in `load`.
        interval: as in `scores`.
        selection: as in `scores`.
        full: all columns.

    >>> import clm_or_mlm as cm
    >>> cm.claims().at["F8", "verdict"]
    'holds in 6 of 12'
    """
    # Users of the command try a finding here, since it takes one in this place: `clm-or-mlm claims F8`.
    finding = _finding(source) if isinstance(source, str) else ""
    if finding:
        raise UserError(
            f"{source} is a finding, not a source: cm.claims().loc[{finding!r}] is its verdict, "
            f"cm.findings({finding!r}) has its parts, cm.explain({finding!r}) every number in words"
        )

    opened = load(source)
    assessment = assess(opened, _settings(opened, interval, selection))
    # `SHOWN`: the answer to the paper's question, then every finding.
    records = [as_record(assessment.judged[name]) for name in SHOWN]
    frame = pd.DataFrame(records).set_index("id")
    short = [
        "short",
        "verdict",
        "typical_effect",
        "typical_low",
        "typical_high",
        "p_holm",
    ]
    return frame if full else frame[short]


def findings(
    finding: str,
    source: SourceLike = "published",
    *,
    interval: str = "",
    by_dataset: bool = False,
) -> pd.DataFrame:
    """Return the parts of a finding (`F8`), one row for each statement and comparison in it and for their mean.

    Columns: role (`finding`, `verdict`, `reported` outside the verdict, `mean`), label, claimed, task, dataset, first,
    second (models), effect, low, high, unit, p_for, p_for_holm, p_against, p_against_holm, outcome (on its own),
    counted (as what the verdict counts it).

    Args:
        finding: as `claims` lists them.
        source: as in `load`.
        interval: as in `scores`.
        by_dataset: with a part for each dataset in place of a part for a task.

    Raises:
        UserError: there is no such finding.

    >>> import clm_or_mlm as cm
    >>> found = cm.findings("F8").query("role == 'mean'")
    >>> found[["effect", "low", "high"]].round(2)
        effect   low  high
    27    1.58  1.27   1.9
    """
    name, opened = _known_finding(finding), load(source)
    assessment = assess(opened, _settings(opened, interval, "seed"))
    judged = assessment.judged_by_dataset if by_dataset else assessment.judged
    return parts_frame(judged[name])


def explain(
    finding: str, source: SourceLike = "published", *, interval: str = ""
) -> str:
    """Return every number behind the verdict on a finding (`F8`), as text.

    Raises:
        UserError: there is no such finding.

    >>> import clm_or_mlm as cm
    >>> print(cm.explain("F8").splitlines()[0])
    F8: At equal budget, CLM then MLM (25 % CLM, 75 % MLM) beats MLM alone at 12k, 22k and 42k on each task.
    """
    name, opened = _known_finding(finding), load(source)
    return explanations(assess(opened, _settings(opened, interval, "seed")), [name])


def audit(source: SourceLike = "published", *, selection: str = "seed") -> pd.DataFrame:
    """Return one row per published cell, with the value that the source's runs give and whether the two agree.

    Raises:
        UserError: the source's networks or metrics are not the paper's.

    >>> import clm_or_mlm as cm
    >>> len(cm.audit("published"))
    800
    """
    return pd.DataFrame(
        [asdict(cell) for cell in audit_source(load(source), selection=selection).cells]
    )


def compare(
    *names: str,
    source: SourceLike = "published",
    interval: str = "",
    margin: float | None = None,
    full: bool = False,
) -> pd.DataFrame:
    """Return the differences of two models, or of the best of many and each of the others.

    One row per pair and dataset, one per task and one for all tasks together.

    Columns: first, second, task, dataset (or `average`), effect, low, high (first minus second, in points), p_holm,
    outcome; with `full` the margin, the effect in standard deviations, seeds, and more. `attrs` name the source, the
    interval and the correction.

    Args:
        names: two models or more, or shell patterns.
        source: as in `load`; a model without runs there takes its printed cells.
        interval: as in `scores`.
        margin: of practical equivalence in points; by default the findings' margins by task.
        full: all columns.

    Raises:
        UserError: an unknown model, fewer than two, or nothing in common.

    >>> import clm_or_mlm as cm
    >>> found = cm.compare("610m-clm-10k-mlm40-42k", "610m-mlm40-42k")
    >>> found.query("dataset == 'average'")[["task", "effect", "low", "high", "outcome"]].round(2)
       task  effect   low  high outcome
    3    SC    0.85  0.58  1.12   ahead
    7    TC    0.86  0.49  1.23   ahead
    11   QA    5.00  2.40  7.60   ahead
    15   IR    0.33 -0.88  1.54    open
    16  all    1.76  1.11  2.41   ahead
    """
    opened = load(source)
    result = compare_models(
        opened, names, _settings(opened, interval, "seed"), margin=margin
    )
    frame = pd.DataFrame(records_of(result))
    short = [
        "first",
        "second",
        "task",
        "dataset",
        "effect",
        "low",
        "high",
        "p_holm",
        "outcome",
    ]
    shown = frame if full else frame[short]
    shown.attrs = {
        "source": result.source,
        "interval": result.settings.interval,
        "correction": "Holm",
    }
    return shown


def sensitivity(
    source: SourceLike = "published", *, interval: str = ""
) -> pd.DataFrame:
    """Return the spread between pretrainings that would overturn each verdict, one row per finding and sharing.

    Columns: id, verdict, p_holm, sharing (which scores a pretraining moves together: those of a model, of a trunk, of a
    trunk on all tasks), pretraining_sd (points; nan where no spread overturns the verdict, or there is none).

    Args:
        source: as in `load`.
        interval: as in `scores`.

    >>> import clm_or_mlm as cm
    >>> found = cm.sensitivity().query("id == 'F1'")
    >>> found[["sharing", "pretraining_sd"]]
                sharing  pretraining_sd
    3            models           0.633
    4            trunks           0.633
    5  trunks and tasks           0.633
    """
    opened = load(source)
    return sensitivity_of(opened, _settings(opened, interval, "seed")).table


def plan(
    *names: str, study: str | Path | None = None, device: str = "H100"
) -> pd.DataFrame:
    """Return the stages that train the models, each once, one row per stage, indexed by its name.

    Columns: objective, start and end (optimiser steps), tokens, gpu_hours (of `device`).

    Args:
        names: models of the study; by default all.
        study: a study file (TOML); by default the paper's study.
        device: a device that `clm-or-mlm plan` knows.

    Raises:
        UserError: an unknown model or device, or a study file that cannot be read.

    >>> import clm_or_mlm as cm
    >>> cm.plan("610m-mlm40-42k", device="H100")[["objective", "end"]]
                   objective    end
    stage
    610m-mlm40      MLM 40 %  40000
    610m-mlm40-42k  MLM 40 %  42000
    """
    opened = load_study(None if study is None else Path(study))
    wanted = [opened.model(name) for name in names]
    planned = plan_of(wanted or [*opened.models.values()], opened)
    gpu = find_device(device)
    rows = []
    for stage in planned.stages:
        costs = planned.costs([stage], device=gpu)
        objective = stage.trained_on.label()
        steps = (stage.first_step, stage.end)
        rows.append((stage.name, objective, *steps, costs.tokens, costs.gpu_hours))

    # The column `start` holds `first_step`, the first step of the stage, and `end` the step after its last
    # one. Callers read the columns by these names.
    columns = ["stage", "objective", "start", "end", "tokens", "gpu_hours"]
    return pd.DataFrame(rows, columns=columns).set_index("stage")


def figure(
    name: str | int,
    source: SourceLike = "published",
    *,
    task: str = "",
    ax: Axes | None = None,
    interval: str = "",
    logs: str | Path | None = None,
) -> Figure | Axes:
    """Draw one of the figures that `clm-or-mlm figure` draws.

    Args:
        name: `3`, or a word such as `claims`.
        source: as in `load`.
        task: SC, TC, QA or IR: draw this panel alone.
        ax: the axes to draw it on; by default new ones. Needs `task`.
        interval: as in `scores`; by default the source's.
        logs: folder of training logs, for Figure 12.

    Returns:
        The matplotlib figure, or with `task` the axes.

    Raises:
        UserError: the source does not allow the figure, or the figure has no such panel.

    >>> import clm_or_mlm as cm
    >>> figure = cm.figure("3")
    >>> len(figure.axes)
    8
    """
    # Only drawing needs matplotlib.
    from paper_figures.figure import FigureInputs, figures_named
    from paper_figures.save import DrawnFigure

    # A word such as `all` names several figures.
    entry, *more = figures_named([str(name)])
    if more:
        raise UserError(
            f"{name} names {1 + len(more)} figures; name one, or draw all of them with `clm-or-mlm figure {name}`"
        )
    spec = entry.load()  # imports the figure's module
    opened = load(source)

    # Without an interval, `FigureInputs` takes the usual one of the source, as `_settings` does for other
    # functions.
    inputs = FigureInputs(
        source=opened,
        settings=Settings(interval=interval),
        logs=None if logs is None else Path(logs),
    )
    if not task and ax is None:
        return DrawnFigure.of(spec, inputs).drawing
    if ax is None:
        # matplotlib's figure without pyplot, which keeps every figure and opens windows.
        from matplotlib.figure import Figure as NewFigure

        ax = NewFigure(figsize=(3.2, 2.4), layout="constrained").subplots()

    # Axes without a task are refused here: no panel has an empty name.
    spec.draw_panel(spec.collect(inputs), task, ax)
    return ax


def models() -> pd.DataFrame:
    """Return the study's 51 models, one row each, indexed by name, with the properties encoded in the name.

    Columns: size, kind, objective, ratio (of the last stage, %) and, in optimizer steps, switch (where the second stage
    begins) and steps (in total).

    >>> import clm_or_mlm as cm
    >>> cm.models()[["size", "objective", "steps"]].head(2)
                    size objective  steps
    model
    210m-mlm20-42k  210m       mlm  42000
    210m-mlm30-42k  210m       mlm  42000
    """
    columns = ["size", "kind", "objective", "ratio", "switch", "steps"]
    rows = []
    # A model has an attribute for each column.
    for name, model in MODELS.items():
        rows.append([name, *(getattr(model, column) for column in columns)])
    return pd.DataFrame(rows, columns=["model", *columns]).set_index("model")


def datasets() -> pd.DataFrame:
    """Return the paper's twelve datasets, one row each, indexed by name: title, task, the task's metric.

    >>> import clm_or_mlm as cm
    >>> cm.datasets().head(2)
             title task    metric
    dataset
    sst2     SST-2   SC  Accuracy
    qqp        QQP   SC  Accuracy
    """
    rows = [
        {
            "dataset": item.name,
            "title": item.title,
            "task": item.task,
            "metric": TASKS[item.task].metric,
        }
        for item in DATASETS.values()
    ]
    return pd.DataFrame(rows).set_index("dataset")


def _finding(name: str) -> str:
    """Return the finding of a name in any case; empty for another name."""
    for finding in SHOWN:
        if finding.lower() == name.lower():
            return finding
    return ""


def _known_finding(name: str) -> str:
    """Return the finding of a name in any case; `UserError` for another name."""
    finding = _finding(name)
    if not finding:
        raise UserError(
            f"there is no finding {name!r}; the findings are {', '.join(SHOWN)}{nearest(name, SHOWN)}"
        )
    return finding


def _refuse_options(what: str, options: Iterable[str]) -> None:
    """Raise a `UserError` if there are any options: `what`, the kind of source, takes none."""
    names = ", ".join(options)
    if names:
        raise UserError(
            f"{what} takes no {names}: pass them to load() with the name or path of a source"
        )


def _settings(source: Source, interval: str, selection: str) -> Settings:
    """Return the settings that options name, with the usual interval of the source where they name none."""
    return source.with_interval(Settings(selection=selection, interval=interval))
