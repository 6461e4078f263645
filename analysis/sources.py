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
    """How the runs of a small study are shown in the places of the paper's models; None where the runs are shown under
    their own names."""
    protocol: str = PAPER
    """Whose metrics the scores are: the paper's, `standard`, the field's, or the one of that name in run.json."""
    unsealed: int = 0
    """How many runs could be changed without anyone noticing, such as those without a run.json (which has hashes)."""
    differences: str = ""
    """A sentence on what differs between the settings or data of runs that are compared; empty for nothing."""

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
        """Whether its models are arms: several pretrainings of one model under one name, each of which is a seed.

        `analysis.comparisons.comparison.with_arms` makes them from runs, and adds the column `MEMBERS`.
        """
        return self.runs is not None and MEMBERS in self.runs

    @property
    def is_replicated(self) -> bool:
        """Whether any model has runs of several pretrainings (NAME, NAME-s1), each under its own name."""
        return self.runs is not None and bool(arms_of(self.runs))

    @property
    def crosses(self) -> bool:
        """Whether the usual interval is `crossed`, which is about other seeds and about other test instances.

        It is for runs of the user's own retrieval sets alone. Such a set has few queries, so that an interval over
        seeds only was a third of what other queries would give. A model without training has one run on a dataset; any
        other needs three seeds or more (`_have_crossed_runs`).
        """
        # `crossed` needs the scores of single instances, which are by the paper's metrics only. The seeds of arms are
        # pretrainings, so that a source with arms keeps the usual interval of runs.
        if self.runs is None or self.protocol != PAPER or self.has_arms:
            return False
        return _have_crossed_runs(self.runs)

    def own_queries(self) -> dict[str, int]:
        """Return the number of test queries of each retrieval set of one's own."""
        if self.runs is None or "n_test" not in self.runs:
            return {}
        own = self.runs[_of_own_retrieval(self.runs)]
        by_dataset = own.dropna(subset="n_test").groupby("dataset", observed=True)
        # `n_test` is the number of test queries, the same in all runs of a dataset.
        sizes = by_dataset["n_test"].max()
        return {str(name): int(size) for name, size in sizes.items()}

    def with_interval(self, settings: Settings) -> Settings:
        """Return the settings with the usual interval of this source where they name none (docs/claims.md).

        Raises:
            UserError: another selection rule than the paper's for the published cells, whose learning rates the paper
                has already chosen.
        """
        if self.is_published and settings.selection != SEED.name:
            raise UserError(
                f"in the published cells, the learning rate was chosen for each seed; {settings.selection!r} needs "
                "individual runs: give them with --source"
            )
        if settings.interval:
            return settings
        usual = DEFAULT_OF_CELLS if self.is_published else DEFAULT_OF_RUNS
        if self.instances is not None and self.crosses:
            usual = CROSSED
        return replace(settings, interval=usual.name)

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
        """Return the source's scores as evidence, which answers contrasts (`analysis.evidence.evidence`).

        Args:
            settings: selection rule and interval; if they name no interval, it is the source's usual one.
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
        # The label is a name or path and what `_label` adds to it, such as " (standard protocol)".
        addition = _label("", self.protocol)
        path = self.label.removesuffix(addition)
        source = f"{STANDARD}:{path}" if self.protocol == STANDARD else path
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
            # The protocol is then the name of a metric in run.json.
            return self.protocol
        # None for `average`, which has no definition.
        definition = self.datasets.get(dataset)
        # The paper names no metric for a dataset of the user's own: the definition names its main one.
        if definition is not None and definition.is_own:
            return definition.headline
        if self.protocol == PAPER:
            return TASKS[task].metric
        return TASKS[task].standard_metric

    def own_metrics(self, names: Iterable[str]) -> str:
        """Return a sentence with the metric of each of these datasets that is the user's own; empty without any.

        It is a metric of the standard protocol, since the paper has none for such a dataset.
        """
        titles_of: dict[str, list[str]] = {}  # by metric
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
        """The floor of each dataset, where it is known: the percent that a model scores without reading its input.

        It is known for the paper's metrics only.
        """
        if self.protocol != PAPER:
            return {}
        floors = {name: dataset.floor for name, dataset in self.datasets.items()}
        # A small study is tested on samples of the paper's test sets, which have floors of their own.
        if self.stand_ins is not None:
            floors = {name: self.stand_ins.floors.get(name) for name in floors}
        return {name: floor for name, floor in floors.items() if floor is not None}

    def floors_in_words(self, names: Iterable[str]) -> str:
        """Return a sentence with the floor of each of these datasets, or that it is not known.

        Datasets are listed by the rule that a model without its input answers by, such as "the most frequent class".
        The sentence is empty where no dataset has such a rule.
        """
        # The floors of other metrics than the paper's have not been computed.
        if self.protocol != PAPER:
            return ""
        floors = self.floors
        texts_of: dict[str, list[str]] = {}  # by rule
        for name in names:
            dataset = self.datasets[name]
            floor = floors.get(name)
            percent = "not known" if floor is None else f"{floor:.2f}"
            # A dataset's floor is a number; `floor` of its task is the rule, in words.
            rule = TASKS[dataset.task].floor
            # A family of tasks that was added may have no rule for a floor.
            if rule:
                texts_of.setdefault(rule, []).append(f"{dataset.title} {percent}")

        parts = [f"{rule}: {', '.join(texts)}" for rule, texts in texts_of.items()]
        if not parts:
            return ""
        test_sets = ""

        # Where runs have test sets of other sizes than the paper's, these floors may not be theirs. Stand-ins bring
        # floors of their own test sets.
        if self.runs is not None and self.stand_ins is None and other_sizes(self.runs):
            test_sets = ", of the paper's test sets"
        return f"Scores without a look at the input{test_sets} ({'; '.join(parts)})."

    @property
    def average_needs(self) -> str:
        """What a task average needs, for the sentence about a source without one: `SC: sst2; IR: nq`."""
        if self.stand_ins is None:
            return "all three datasets of a task"
        datasets_by_task = self.stand_ins.families.items()
        return "; ".join(
            f"{task}: {', '.join(names)}" for task, names in datasets_by_task
        )

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
        need_instances: whether to read the scores of single test instances of a run store as well, which takes longer.
        add_models: names or shell patterns of models outside the released naming scheme.
        models: only for `released`: the models that are needed, which are fetched if they are not in the cache; None:
            those that are in the cache. The other sources are read whole.
        protocol: whose metrics the scores are: `paper`, `standard` or the name of a metric in run.json. A table must
            hold the scores of that protocol. None: the paper's, or those that a table holds.

    Raises:
        UserError: the source does not exist, has no usable runs, or has no scores of that protocol.
    """
    if source == PUBLISHED.label:
        _need_paper_protocol("the paper's tables", protocol)
        return PUBLISHED

    if source == RELEASED:
        _need_paper_protocol("the authors' result files", protocol)
        return _open_released(models, need_instances)

    path = EXAMPLES.get(source, Path(source))
    # An empty word is refused by itself: as a path it would be the current folder.
    if not source or not path.exists():
        what = source or "an empty --source"
        hint = nearest(source, NAMES)
        # If no name is near, a file that exists may be; an empty word is equally near to every file.
        if source and not hint:
            hint = path_hint(path, "*")
        raise UserError(
            f"{what}: no such source; give {', '.join(NAMES)}, or a path to a run store or runs table{hint}"
        )

    # Which models are accepted. A small study's runs have a file next to them that says which of the paper's
    # models each of its models stands for.
    stand_ins = read_stand_ins(path)
    accepted = tuple(add_models)  # models outside the released naming scheme
    if stand_ins is not None:
        # The caption of stand-ins names no metric (`Source.kind`): it must be the paper's.
        _need_paper_protocol("stand-ins", protocol)
        # The runs table still has the small study's own names. They are the keys of `stand_ins.models`, and the names
        # in `stand_ins.others`, of models that stand for none of the paper's.
        accepted += (*stand_ins.models, *stand_ins.others)

    # A folder is a run store, anything else a runs table. `metrics_of` is the protocol of its scores.
    if path.is_dir():
        from analysis.store.release import is_release

        # The path of the cache's clone opens as `released` does, since its files have no run.json.
        if is_release(path.resolve()):
            _need_paper_protocol("the authors' result files", protocol)
            return _open_released(models, need_instances, path.resolve().parent)

        metrics_of = protocol or PAPER
        table, instances = _read_store(path, accepted, metrics_of, need_instances)
    else:
        table, instances = _read_table(source, path, accepted, protocol)
        # `_read_table` always fills in a protocol; the type of the field allows None.
        metrics_of = table.protocol or PAPER

    # What is said of the runs once they are read.
    runs = table.runs
    # For a small study no count of unsealed runs is logged; `Source.long_label` still says it.
    unsealed = 0 if stand_ins else table.unsealed
    log_doubts(source, len(runs), unsealed, table.differences)
    if stand_ins is None:
        warn_of_other_sizes(source, runs)
    else:
        runs = stand_ins.in_place(runs)  # under the names of the paper's models

    return Source(
        label=_label(source, metrics_of),
        runs=runs,
        instances=instances,
        store=path if path.is_dir() else None,
        datasets=table.datasets,
        added_models=tuple(add_models),
        stand_ins=stand_ins,
        protocol=metrics_of,
        unsealed=table.unsealed,
        differences=table.differences,
    )


def _need_paper_protocol(what: str, protocol: str | None) -> None:
    """Raise a `UserError` if `what`, which has scores by the paper's metrics only, is wanted by another protocol."""
    if protocol not in (None, PAPER):
        raise UserError(
            f"{what} have no {protocol} scores, only those of the paper's own protocol; other metrics are in the "
            "run.json files that `clm-or-mlm benchmarks run` writes, so give --source a store of such runs"
        )


def _open_released(
    models: Sequence[str] | None, need_instances: bool, cache: Path | None = None
) -> Source:
    """Open the authors' released runs.

    Args:
        models: the models that are needed, which are fetched if the cache lacks them; None: those in the cache.
        need_instances: whether to read the scores of single test instances as well.
        cache: the folder with the clone of the authors' files; None: the user's cache.
    """
    from analysis.store.ingest import open_store
    from analysis.store.release import cached_release, released_store

    wanted = cached_release(cache) if models is None else models
    if not wanted:
        raise UserError(
            "the released runs are not in the cache: fetch them once with `clm-or-mlm fetch-released` (or only those "
            "of, say, Table 10 with `clm-or-mlm fetch-released table10`), or use --source published"
        )

    # `released_store` is called for models that are all in the cache as well: it then fetches nothing, but compares
    # their files with the commit. The release has no run.json; git's own hashes say that its files are the authors'.
    opened, instances = open_store(
        released_store(wanted, cache=cache),
        instances=need_instances,
        models=wanted,
        verified=True,
    )
    # Without a run.json these runs still count as sealed (`unsealed` is 0), since git would notice a change.
    return Source(label=RELEASED, runs=opened.runs, instances=instances)


def _read_store(
    path: Path, add_models: tuple[str, ...], protocol: str, need_instances: bool
) -> tuple[RunsTable, Path | None]:
    """Return the runs of the store at `path`, and the folder with their scores of single test instances.

    The folder is None unless it was asked for (`need_instances`) or the runs' usual interval needs it.
    """
    # Imported here: opening a table does not need it.
    from analysis.store.ingest import open_store

    read = partial(open_store, path, add_models=add_models, protocol=protocol)
    # The scores of single instances in a store are always those of the paper's protocol.
    are_papers = protocol == PAPER
    wanted = need_instances and are_papers
    table, instances = read(instances=wanted)

    # The usual interval may be `crossed`, which needs the instances. Only the runs, once read, say so; stores of this
    # kind are small enough to read a second time.
    if are_papers and not wanted and _have_crossed_runs(table.runs):
        table, instances = read(instances=True)
    return table, instances


def _read_table(
    source: str, path: Path, add_models: tuple[str, ...], protocol: str | None
) -> tuple[RunsTable, Path | None]:
    """Return the runs table at `path`, and where its scores of single test instances are (None: nowhere).

    The table returned says its protocol: the one that the file records or, where it records none, the one asked for.
    """
    table = read_table(path, add_models=add_models)
    # A CSV cannot record its protocol; then the one asked for is believed.
    recorded = table.protocol or protocol or PAPER
    if protocol not in (None, recorded):
        raise UserError(
            f"{source} has scores of the {recorded} protocol, not the {protocol} protocol"
        )

    instances = None
    # Instances are scored by the paper's metrics only.
    if recorded == PAPER and path.suffix == ".parquet":
        beside = [path.with_name(name) for name in ("instances", "instances.parquet")]
        existing = [place for place in beside if place.exists()]
        # Of the two, the folder counts before the one file with all cells.
        if existing:
            instances = existing[0]

    return replace(table, protocol=recorded), instances


def arms_of(runs: pd.DataFrame) -> dict[str, list[str]]:
    """Return the models that were pretrained more than once, each with the names of its pretrainings.

    NAME, NAME-s1 and NAME-s2 are pretrainings of the model NAME.
    """
    names_of: dict[str, list[str]] = {}
    for name in dict.fromkeys(runs["model"]):
        model, _ = arm_of(name)
        names_of.setdefault(model, []).append(name)
    return {model: names for model, names in names_of.items() if len(names) > 1}


def _have_crossed_runs(runs: pd.DataFrame) -> bool:
    """Return whether all runs are of the user's own retrieval sets, and no model has exactly two seeds on a set."""
    if not _of_own_retrieval(runs).all():
        return False
    seeds = runs.groupby(["model", "dataset"], observed=True)["seed"].nunique()
    # One seed is a model that is not trained. Two seeds leave one degree of freedom, and their crossed interval is too
    # wide to say anything.
    return 2 not in set(seeds)


def _of_own_retrieval(runs: pd.DataFrame) -> pd.Series[bool]:
    """Return a mask of the runs that are of the user's own retrieval sets."""
    return (runs["task"] == "IR") & ~runs["dataset"].isin(DATASETS)


def _label(source: str, protocol: str) -> str:
    """Return the source as given, and in brackets whose metrics its scores are, where not the paper's."""
    kind = "protocol" if protocol == STANDARD else "metric"
    return source if protocol == PAPER else f"{source} ({protocol} {kind})"
