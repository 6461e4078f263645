"""Where scores come from: the published cells, the authors' released runs, or runs of one's own.

`--source published | released | miniature | curves | PATH`; PATH is a run store (a folder) or a runs table (Parquet or
CSV). `miniature` and `curves` are the examples in `analysis/examples`.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

import pandas as pd

from analysis.evidence.evidence import Evidence, scores_of
from analysis.evidence.intervals import CROSSED, DEFAULT_OF_CELLS, DEFAULT_OF_RUNS
from analysis.evidence.settings import Settings
from analysis.statistics.learning_rate_selection import MEMBERS, SEED
from analysis.store.runs_table import (
    RunsTable,
    fingerprint,
    log_doubts,
    other_sizes,
    read_table,
    unsealed_words,
    warn_of_other_sizes,
)
from analysis.store.stand_ins import StandIns, averaged_datasets, read_stand_ins
from benchmarks.protocol import DATASETS, PAPER, STANDARD, TASKS, Dataset
from common.errors import NotApplicableError, UserError, nearest, path_hint
from common.plain_text import counted
from pretraining.models import Model, arm_of

EXAMPLES = {
    name: Path(__file__).parent / "examples" / name / "runs.parquet"
    for name in ("miniature", "curves")
}
"""The runs at toy scale that come with the package, by name (docs/miniature.md)."""

_STANDARD_NOTE = (
    "not the paper's metrics but the field's, on the same predictions "
    f"({', '.join(f'{task.name} {task.standard_metric}' for task in TASKS.values())})."
)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Whose models or metrics scores are of, where they are not the paper's."""

    title: str = ""
    """What every heading begins with; empty for the paper's own."""
    note: str = ""
    """A sentence about it."""

    @property
    def words(self) -> str:
        """What a caption has to say first; empty for the paper's own."""
        return f"{self.title}: {self.note}" if self.title else ""


@dataclass(frozen=True, kw_only=True, repr=False)
class Source:
    """An opened source of scores."""

    label: str
    """`published`, `released` or the path as given: the `source` column and every caption say it."""
    runs: pd.DataFrame | None = None
    """The runs table; None for the published cells."""
    instances: Path | None = None
    """The per-instance scores, where they are known."""
    store: Path | None = None
    """The run store that was read, if it was one."""
    datasets: Mapping[str, Dataset] = field(default_factory=lambda: DATASETS)
    """Known datasets by name: the paper's, and after them those that the source defines."""
    added_models: tuple[str, ...] = ()
    """Names or patterns of the models outside the released naming scheme that were read, those of `study` aside."""
    study: Path | None = None
    """The study file that names its models, if one does."""
    study_models: Mapping[str, Model] = field(default_factory=dict)
    """The models of a study file whose names say nothing, by name (`pretraining.paper_models.find_model`)."""
    stand_ins: StandIns | None = None
    """How the runs of a small study stand in the places of the paper's models; None for the paper's own."""
    protocol: str = PAPER
    """Whose metrics the scores are: the paper's, `standard`, the field's, or the one of that name in run.json."""
    unsealed: int = 0
    """How many runs could be changed without anyone noticing, such as those without a run.json."""
    differences: str = ""
    """A sentence on what differs between the settings or data of runs that stand side by side; empty for nothing."""

    def __repr__(self) -> str:
        """Return what it is and how much it holds."""
        return f"<source {self.label}: {self._holds}>"

    def _repr_html_(self) -> str:
        """Return the same for a notebook."""
        lines = filter(None, (self.label, self._holds, self.kind.words))
        return "<br>".join(map(html.escape, lines))

    @property
    def _holds(self) -> str:
        if self.runs is None:
            return "the paper's 800 printed cells, no runs"
        models = counted(self.runs["model"].nunique(), "model")
        datasets = counted(self.runs["dataset"].nunique(), "dataset")
        return f"{counted(len(self.runs), 'run')} of {models} on {datasets}"

    @property
    def is_published(self) -> bool:
        """Whether the source has only the paper's printed cells."""
        return self.runs is None

    @property
    def has_arms(self) -> bool:
        """Whether its models are arms, whose seeds are pretrainings (`analysis.comparisons.comparison.with_arms`)."""
        return self.runs is not None and MEMBERS in self.runs

    @property
    def is_replicated(self) -> bool:
        """Whether any model has runs of several pretrainings (NAME, NAME-s1), each under its own name."""
        return self.runs is not None and bool(arms_of(self.runs))

    @property
    def crosses(self) -> bool:
        """Whether seeds and test instances are both sampled unless an interval is named: of own retrieval sets.

        Their test sets are small, and who asks means other queries as well. Of a model that is not trained there is one
        run, of others there must be three.
        """
        if self.runs is None or self.protocol != PAPER or self.has_arms:
            return False
        return _have_crossed_runs(self.runs)

    def own_queries(self) -> dict[str, int]:
        """Return the number of test queries of each retrieval set of one's own."""
        if self.runs is None or "n_test" not in self.runs:
            return {}
        own = self.runs[_of_own_retrieval(self.runs)]
        sizes = own.dropna(subset="n_test").groupby("dataset", observed=True)
        return {str(name): int(count) for name, count in sizes["n_test"].max().items()}

    def with_interval(self, settings: Settings) -> Settings:
        """Return the settings with the usual interval of this source where they name none (docs/claims.md).

        Raises:
            UserError: a rule that chooses learning rates where these were chosen already.
        """
        if self.is_published and settings.selection != SEED.name:
            raise UserError(
                f"in the published cells, the learning rate was chosen for each seed; {settings.selection!r} needs "
                "individual runs: give them with --source"
            )
        usual = DEFAULT_OF_CELLS if self.is_published else DEFAULT_OF_RUNS
        if self.instances is not None and self.crosses:
            usual = CROSSED
        return settings if settings.interval else replace(settings, interval=usual.name)

    @cached_property
    def name(self) -> str:
        """The source by its content, not its path: `published`, `released`, or the first digits of the runs' hash."""
        if self.runs is None or self.label == RELEASED:
            return self.label
        return f"{self.kind.title} {fingerprint(self.runs)}".lstrip()

    def scores(self, settings: Settings) -> pd.DataFrame:
        """Return the source's scores (see `analysis.evidence.evidence`)."""
        return scores_of(self.evidence(settings), source=self.label)

    def evidence(self, settings: Settings, *, printed: bool = False) -> Evidence:
        """Return the source as what results are made from.

        Args:
            settings: selection rule and interval; none: the source's default.
            printed: whether the paper's printed cells stand in for models without runs.

        Raises:
            UserError: a selection rule or interval that the source cannot give.
        """
        settings = self.with_interval(settings)
        return Evidence(
            settings,
            runs=self.runs,
            instances=self.instances,
            printed=printed or self.is_published,
        )

    @property
    def kind(self) -> Kind:
        """Whose models or metrics the scores are of."""
        if self.stand_ins is not None:
            note = f"{self.stand_ins.note} Steps and FLOPs shown are those of the paper's models."
            return Kind(title=self.stand_ins.title, note=note)
        if self.protocol == PAPER:
            return Kind()
        if self.protocol == STANDARD:
            return Kind(title="STANDARD PROTOCOL", note=_STANDARD_NOTE)
        note = "not the paper's metric, on the same predictions."
        return Kind(title=f"METRIC {self.protocol}", note=note)

    @property
    def comparable(self) -> bool:
        """Whether the scores are of the kind that the paper prints, so that its numbers may stand next to them."""
        return not self.kind.title

    @property
    def options(self) -> tuple[str, ...]:
        """The command-line options that open this source again, instances aside."""
        # The label is the name, then " (... protocol)" or " (... metric)" where that is not the paper's.
        name = self.label.removesuffix(_label("", self.protocol))
        source = f"{STANDARD}:{name}" if self.protocol == STANDARD else name
        words = ["--source", source]
        if self.protocol not in (PAPER, STANDARD):
            words += ["--metric", self.protocol]
        if self.study is not None:
            words += ["--study", str(self.study)]
        for model in self.added_models:
            words += ["--add-model", model]
        return tuple(words)

    def metric_of(self, task: str, dataset: str) -> str:
        """Return the name of the metric of a dataset's scores, or of a task's average."""
        if self.protocol not in (PAPER, STANDARD):
            return self.protocol
        definition = self.datasets.get(dataset)
        # The paper names no metric for a dataset of one's own.
        if definition is not None and definition.is_own:
            return definition.headline
        if self.protocol == PAPER:
            return TASKS[task].metric
        return TASKS[task].standard_metric

    def own_metrics(self, names: Iterable[str]) -> str:
        """Return a sentence with the metric of each dataset of one's own, which is the standard protocol's."""
        titles_of: dict[str, list[str]] = {}
        for name in names:
            dataset = self.datasets[name]
            if dataset.is_own:
                metric = self.metric_of(dataset.task, name)
                titles_of.setdefault(metric, []).append(dataset.title)
        parts = []
        for metric, titles in titles_of.items():
            parts.append(f"{metric} of {', '.join(titles)}")
        return f"Metric ({STANDARD} protocol): {'; '.join(parts)}." if parts else ""

    def datasets_of(self, task: str) -> tuple[str, ...]:
        """Return the datasets whose mean is the task's average."""
        return averaged_datasets(self.runs, task)

    @property
    def floors(self) -> dict[str, float]:
        """By dataset, where it is known, the percent that a model scores by the paper's metric without its input."""
        if self.protocol != PAPER:
            return {}
        floors = {name: dataset.floor for name, dataset in self.datasets.items()}
        if self.stand_ins is not None:
            floors = {name: self.stand_ins.floors.get(name) for name in floors}
        return {name: floor for name, floor in floors.items() if floor is not None}

    def floors_in_words(self, names: Iterable[str]) -> str:
        """Return a sentence with the floor of each dataset, or that its floor is not known."""
        # The floors of other metrics than the paper's have not been computed.
        if self.protocol != PAPER:
            return ""
        floors = self.floors
        by_rule: dict[str, list[str]] = {}
        for name in names:
            dataset = self.datasets[name]
            floor = floors.get(name)
            percent = "not known" if floor is None else f"{floor:.2f}"
            rule = TASKS[dataset.task].floor
            # A family of tasks that was added may have no rule for a floor.
            if rule:
                by_rule.setdefault(rule, []).append(f"{dataset.title} {percent}")
        parts = [f"{rule}: {', '.join(texts)}" for rule, texts in by_rule.items()]
        if not parts:
            return ""
        of_which = ""
        if self.runs is not None and self.stand_ins is None and other_sizes(self.runs):
            of_which = ", of the paper's test sets"
        return f"Scores without a look at the input{of_which} ({'; '.join(parts)})."

    @property
    def average_needs(self) -> str:
        """The datasets of each task average, for the sentence about a source that has none."""
        if self.stand_ins is None:
            return "all three datasets of a task"
        families = self.stand_ins.families.items()
        return "; ".join(f"{task}: {', '.join(names)}" for task, names in families)

    @property
    def long_label(self) -> str:
        """The label for records, which says of how many runs no change of the scores would be noticed."""
        if self.runs is None:
            return self.label
        unsealed = unsealed_words(self.unsealed, len(self.runs))
        return f"{self.label} ({unsealed})" if unsealed else self.label

    @property
    def words(self) -> str:
        """The label for documents, which also says what kind of scores these are."""
        if self.comparable:
            return self.long_label
        return f"{self.long_label} ({self.kind.words.rstrip('.')})"

    def need_runs(self, what: str) -> pd.DataFrame:
        """Return the runs table; without one, raise a `UserError` that says how to get the runs that `what` needs."""
        if self.runs is None:
            raise NotApplicableError(
                f"{what} needs individual runs, which the published tables do not have: use --source released "
                "(the authors' result files, fetched once with `clm-or-mlm fetch-released`) or "
                "--source PATH with a run store or runs table of your own"
            )
        return self.runs


PUBLISHED = Source(label="published")
"""The paper's printed cells."""
RELEASED = "released"
"""Label of the authors' result files."""
NAMES = (PUBLISHED.label, RELEASED, *EXAMPLES)
"""The sources with a name; everything else is a path."""


def open_source(
    source: str,
    *,
    need_instances: bool = False,
    add_models: Sequence[str] = (),
    models: Sequence[str] | None = None,
    protocol: str | None = None,
) -> Source:
    """Open a source by its name or path.

    Args:
        source: one of `NAMES`, or a path to a run store, a Parquet or a CSV runs table. The per-instance scores of a
            Parquet table are in the folder `instances` next to it.
        need_instances: the instances of a run store too, which takes longer.
        add_models: names or shell patterns of models outside the released naming scheme.
        models: of `released`, the models that are needed, which are fetched if they are not here; None: those that are
            here. The other sources are read whole.
        protocol: of a store, the scores to read (None: `paper`); a table must hold that protocol's scores.

    Raises:
        UserError: nothing usable there, or not of that protocol.
    """
    if source == PUBLISHED.label:
        _need_paper_protocol("the paper's tables", protocol)
        return PUBLISHED
    if source == RELEASED:
        _need_paper_protocol("the authors' result files", protocol)
        return _open_released(models, need_instances)
    path = EXAMPLES.get(source, Path(source))
    if not source or not path.exists():
        what = source or "an empty --source"
        hint = nearest(source, NAMES)
        # Every path is equally near to an empty word, so that there is no hint for it.
        if source and not hint:
            hint = path_hint(path, "*")
        raise UserError(
            f"{what}: no such source; give {', '.join(NAMES)}, or a path to a run store or runs table{hint}"
        )
    stand_ins = read_stand_ins(path)
    accepted = tuple(add_models)  # outside the released naming scheme
    if stand_ins is not None:
        _need_paper_protocol("stand-ins", protocol)
        accepted += (*stand_ins.models, *stand_ins.others)
    if path.is_dir():
        from analysis.store.release import is_release

        if is_release(path.resolve()):
            _need_paper_protocol("the authors' result files", protocol)
            return _open_released(models, need_instances, path.resolve().parent)
        kind = protocol or PAPER
        table, instances = _read_store(path, accepted, kind, need_instances)
    else:
        table, instances = _read_table(source, path, accepted, protocol)
        kind = table.protocol or PAPER
    runs = table.runs
    unsealed = 0 if stand_ins else table.unsealed
    log_doubts(source, len(runs), unsealed, table.differences)
    if stand_ins is None:
        warn_of_other_sizes(source, runs)
    else:
        runs = stand_ins.in_place(runs)
    return Source(
        label=_label(source, kind),
        runs=runs,
        instances=instances,
        store=path if path.is_dir() else None,
        datasets=table.datasets,
        added_models=tuple(add_models),
        stand_ins=stand_ins,
        protocol=kind,
        unsealed=table.unsealed,
        differences=table.differences,
    )


def _need_paper_protocol(what: str, protocol: str | None) -> None:
    """Raise a `UserError` when other scores are wanted of something that has the paper's metrics alone."""
    if protocol not in (None, PAPER):
        raise UserError(
            f"{what} have no {protocol} scores, only those of the paper's own protocol; other metrics are in the "
            "run.json files that `clm-or-mlm benchmarks run` writes, so give --source a store of such runs"
        )


def _open_released(
    models: Sequence[str] | None, need_instances: bool, cache: Path | None = None
) -> Source:
    """Open the authors' released runs: of the models wanted, fetched if need be, or of those in the cache."""
    from analysis.store.ingest import open_store
    from analysis.store.release import cached_release, released_store

    wanted = cached_release(cache) if models is None else models
    if not wanted:
        raise UserError(
            "the released runs are not in the cache: fetch them once with `clm-or-mlm fetch-released` (or only those "
            "of, say, Table 10 with `clm-or-mlm fetch-released table10`), or use --source published"
        )
    # The release has no run.json; git's own hashes say that its files are the authors'.
    opened, instances = open_store(
        released_store(wanted, cache=cache),
        instances=need_instances,
        models=wanted,
        verified=True,
    )
    return Source(label=RELEASED, runs=opened.runs, instances=instances)


def _read_store(
    path: Path, add_models: tuple[str, ...], protocol: str, need_instances: bool
) -> tuple[RunsTable, Path | None]:
    """Return the runs of the store at `path`, and where their instances are if these are needed."""
    # Imported here: opening a table does not need it.
    from analysis.store.ingest import open_store

    read = partial(open_store, path, add_models=add_models, protocol=protocol)
    # The scores of single instances in a store are always those of the paper's protocol.
    are_papers = protocol == PAPER
    wanted = need_instances and are_papers
    table, instances = read(instances=wanted)
    # Only the runs say whether crossed is their usual interval. Such stores are small enough to read twice.
    if are_papers and not wanted and _have_crossed_runs(table.runs):
        table, instances = read(instances=True)
    return table, instances


def _read_table(
    source: str, path: Path, add_models: tuple[str, ...], protocol: str | None
) -> tuple[RunsTable, Path | None]:
    """Return the runs table at `path`, with the protocol that it names or that is asked for, and its instances."""
    table = read_table(path, add_models=add_models)
    recorded = table.protocol or protocol or PAPER
    if protocol not in (None, recorded):
        raise UserError(
            f"{source} has scores of the {recorded} protocol, not the {protocol} protocol"
        )
    instances = None
    if recorded == PAPER and path.suffix == ".parquet":
        places = (path.with_name(name) for name in ("instances", "instances.parquet"))
        instances = next((place for place in places if place.exists()), None)
    return replace(table, protocol=recorded), instances


def arms_of(runs: pd.DataFrame) -> dict[str, list[str]]:
    """Return the models that were pretrained more than once, each with the names of its pretrainings."""
    arms: dict[str, list[str]] = {}
    for name in dict.fromkeys(runs["model"]):
        arm, _ = arm_of(name)
        arms.setdefault(arm, []).append(name)
    return {arm: names for arm, names in arms.items() if len(names) > 1}


def _have_crossed_runs(runs: pd.DataFrame) -> bool:
    """Return whether all runs are of one's own retrieval sets, and no model has two seeds on one."""
    if not _of_own_retrieval(runs).all():
        return False
    seeds = runs.groupby(["model", "dataset"], observed=True)["seed"].nunique()
    # Two seeds have one degree of freedom: their crossed interval would say nothing.
    return 2 not in set(seeds)


def _of_own_retrieval(runs: pd.DataFrame) -> pd.Series[bool]:
    """Return which runs are of retrieval sets of one's own."""
    return (runs["task"] == "IR") & ~runs["dataset"].isin(DATASETS)


def _label(source: str, protocol: str) -> str:
    """Return the source as given, and in brackets whose metrics its scores are, where not the paper's."""
    kind = "protocol" if protocol == STANDARD else "metric"
    return source if protocol == PAPER else f"{source} ({protocol} {kind})"
