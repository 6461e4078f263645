"""What is in a run store: its cells, the runs of each, and everything that is not where it belongs.

A cell is all runs of one model on one dataset. Only names are looked at here; of a model that is not in the released
naming scheme, also whether a manifest of its runs names it. `analysis.store.cell` opens the other files.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from analysis.store.runs_table import model_error
from benchmarks.protocol import DATASETS, EXTRA_DATASETS, TASKS, Dataset
from benchmarks.runs import DETAILS, RESULTS, RUN, RunKey, key_of, record_of
from common.errors import UserError, nearest
from common.plain_text import name_fault

PROBLEM_KINDS = (
    "unreadable",
    "broken",
    "incomplete",
    "value",
    "mean",
    "changed",
    "copied",
    "weights",
    "standard",
    "count",
    "duplicate",
    "unknown",
    "stray",
    "unfinished",
    "missing",
    "left out",
)
"""The kinds of problems; docs/run-store.md says what each means and what to do."""
HARMLESS = frozenset({"unfinished", "missing", "left out"})
"""Kinds that are reported but leave the exit status at 0: every run that is there is used."""
DOUBTFUL = frozenset({"changed", "copied", "weights"})
"""Kinds of runs that are not what they say they are: only `ingest` takes the others in spite of them."""

_OS_LITTER = re.compile(r"\.DS_Store|\._.*|\.nfs.*|Thumbs\.db|desktop\.ini")
"""Files that file systems and desktops drop anywhere; they are not reported."""
_TEMPORARY = re.compile(r"\..*\.tmp(\..*)?|.*\.(tmp|part|swp)|.*~")
"""Files that a program is still writing, such as `.run.json.tmp`, `results.json.part` or an editor's `run.json~`."""


@dataclass(frozen=True, kw_only=True, order=True)
class Problem:
    """One thing that is wrong with a store, and what was done about it."""

    path: str
    """The file or folder, below the store as the user named it, so that it can be copied into a command."""
    kind: str
    """A key of `PROBLEM_KINDS`."""
    sentence: str
    """What is wrong, and what to do; does not repeat the path."""

    def __str__(self) -> str:
        return f"{self.path}: {self.sentence}"

    @property
    def harmless(self) -> bool:
        """Whether every run that is there is used in spite of it."""
        return self.kind in HARMLESS


@dataclass(frozen=True, kw_only=True)
class CellFolder:
    """The runs of one model on one dataset."""

    model: str
    """Name of the model's folder."""
    dataset: Dataset
    runs: Mapping[str, RunKey] = field(repr=False)
    """By the names of their folders, in the order of these names."""

    @property
    def name(self) -> str:
        """`model/task/dataset`, its folder below `results`."""
        return f"{self.model}/{self.dataset.task}/{self.dataset.name}"


@dataclass(frozen=True, kw_only=True)
class Scan:
    """A store's content."""

    results: Path
    """The folder that holds the models' folders."""
    cells: tuple[CellFolder, ...]
    """Every cell with at least one result file, by name."""
    problems: tuple[Problem, ...]
    """Everything that is out of place."""


def summary(problems: Sequence[Problem]) -> str:
    """Return `3 problems (2 broken, 1 stray)`, or `no problems`; harmless ones are not counted."""
    kinds = Counter(problem.kind for problem in problems if not problem.harmless)
    if not kinds:
        return "no problems"
    total = sum(kinds.values())
    parts = ", ".join(f"{kinds[kind]} {kind}" for kind in PROBLEM_KINDS if kinds[kind])
    return f"{total} problem{'s' if total > 1 else ''} ({parts})"


def results_folder(store: Path) -> Path:
    """Return the folder with the models: `store/results` where there is one, else `store` itself.

    Raises:
        UserError: `store` is absent or no folder.
    """
    if not store.is_dir():
        what = "is not a folder" if store.exists() else "does not exist"
        raise UserError(
            f"{store}: {what}; a run store is a folder with results/<model>/<task>/<dataset>/<run>"
        )
    return store / "results" if (store / "results").is_dir() else store


def scan_store(
    store: Path,
    add_models: Sequence[str] = (),
    *,
    datasets: Mapping[str, Dataset] = DATASETS,
    models: Collection[str] | None = None,
) -> Scan:
    """Look through a store.

    Args:
        store: the store, or its `results` folder.
        add_models: names or shell patterns of models that are accepted although their names are outside the released
            scheme and none of their runs has a manifest.
        datasets: the known datasets, by name.
        models: only these; None: all that are there.

    Raises:
        UserError: there is no store, or it is a model's own folder.
    """
    results = results_folder(store)
    scanner = _Scanner(add_models, datasets)
    folders = [
        entry
        for entry in scanner.folders(results)
        if models is None or entry.name in models
    ]

    # A folder of models has no folder that is called as a task, but a model's folder has nothing else.
    if any(entry.name in TASKS for entry in folders):
        raise UserError(
            f"{results}: this is one model's folder; give the store above it, "
            "which contains results/<model>/<task>/<dataset>/<run>"
        )

    for model in folders:
        scanner.scan_model(model)
    cells = sorted(scanner.cells, key=lambda cell: cell.name)
    return Scan(results=results, cells=tuple(cells), problems=tuple(scanner.problems))


def _is_sealed(model: os.DirEntry[str]) -> bool:
    """Return whether a run of a model's folder has a manifest that names this model."""
    if name_fault(model.name) is not None:
        return False
    manifests = Path(model.path).glob(f"*/*/*/{RUN}")  # <task>/<dataset>/<run>/run.json
    return any(record_of(path.parent) for path in manifests)


class _Scanner:
    """Goes through a store and collects its cells and problems."""

    def __init__(
        self, add_models: Sequence[str], datasets: Mapping[str, Dataset]
    ) -> None:
        self.add_models = add_models
        self.datasets = datasets
        self.problems: list[Problem] = []
        self.cells: list[CellFolder] = []

    def scan_model(self, model: os.DirEntry[str]) -> None:
        """Collect the cells of a model's folder, and report what is out of place in it."""
        error = model_error(model.name, self.add_models)
        # A manifest that names the model is as good as a name in the released scheme.
        if error is not None and not _is_sealed(model):
            self.report(model.path, "unknown", f"{error}; its runs are left out")
            return

        tasks = list(self.folders(model.path))
        for task in tasks:
            if task.name not in TASKS:
                hint = nearest(task.name, TASKS)
                self.report(
                    task.path,
                    "unknown",
                    f"is not a task{hint}; the tasks are {', '.join(TASKS)}",
                )
                continue

            datasets = list(self.folders(task.path))
            for dataset in datasets:
                self.scan_dataset(model.name, task.name, dataset)
            if not datasets:
                self.report(task.path, "unfinished", "has no runs")

        if not tasks:
            self.report(model.path, "unfinished", "has no runs")

    def scan_dataset(self, model: str, task: str, entry: os.DirEntry[str]) -> None:
        """Collect the cell in a dataset's folder; where there is none, report why."""
        if entry.name in EXTRA_DATASETS:
            self.report(
                entry.path,
                "left out",
                "is not one of the paper's twelve datasets, and is left out",
            )
            return

        dataset = self.datasets.get(entry.name)
        if dataset is None or dataset.task != task:
            known = self.datasets.values()
            names = [other.name for other in known if other.task == task]
            hint = nearest(entry.name, names)
            if dataset is not None:
                hint = f"; it belongs under {dataset.task}"
            sentence = (
                f"is not a dataset of {task}{hint}; its datasets are {', '.join(names)}"
            )
            self.report(entry.path, "unknown", sentence)
            return

        problems_before = len(self.problems)
        runs = {}
        for folder in self.folders(entry.path):
            key = self.scan_run(model, dataset, folder)
            if key is not None:
                runs[folder.name] = key

        if runs:
            self.cells.append(CellFolder(model=model, dataset=dataset, runs=runs))
        elif len(self.problems) == problems_before:  # nothing says yet why
            self.report(entry.path, "unfinished", "has no runs")

    def scan_run(
        self, model: str, dataset: Dataset, folder: os.DirEntry[str]
    ) -> RunKey | None:
        """Return which run a folder holds; None where it holds no finished run, which is reported."""
        key = key_of(folder.name, model, dataset)
        if key is None:
            sentence = f"is not a run of {dataset.name}; a run's folder is named {dataset.run_prefix}lr1e-04_sd0"
            self.report(folder.path, "unknown", sentence)
            return None

        files = set()
        for entry in self.entries(folder.path):
            files.add(entry.name)
            if _TEMPORARY.fullmatch(entry.name):
                sentence = (
                    "is unfinished; delete it unless a process is still writing it"
                )
                self.report(entry.path, "unfinished", sentence)
                continue

            is_litter = _OS_LITTER.fullmatch(entry.name) is not None
            if entry.name not in (RESULTS, DETAILS, RUN) and not is_litter:
                sentence = f"is ignored; a run's folder contains {RESULTS}, {DETAILS} and {RUN}"
                self.report(entry.path, "stray", sentence)

        if RESULTS not in files:
            self.report(
                folder.path,
                "unfinished",
                f"has no {RESULTS} yet; the run is unfinished",
            )
            return None

        return key

    def entries(self, path: str | Path) -> list[os.DirEntry[str]]:
        """Return the entries of a folder, by name; a folder that cannot be read is reported, and has none."""
        try:
            with os.scandir(path) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            self.report(
                path,
                "unreadable",
                f"cannot be read ({error.strerror}); its contents are left out",
            )
            return []

    def folders(self, path: str | Path) -> Iterator[os.DirEntry[str]]:
        """Yield the folders in `path`, links followed; whatever else is there is reported as a problem."""
        for entry in self.entries(path):
            try:
                is_folder = entry.is_dir()
            except OSError as error:  # a loop of links
                self.report(
                    entry.path, "unreadable", f"cannot be read ({error.strerror})"
                )
                continue

            if is_folder:
                yield entry
            elif entry.is_symlink() and not Path(entry.path).exists():
                self.report(entry.path, "unreadable", "is a broken link")
            elif not _OS_LITTER.fullmatch(entry.name):
                sentence = "is ignored; a store contains results/<model>/<task>/<dataset>/<run>"
                self.report(entry.path, "stray", sentence)

    def report(self, path: str | Path, kind: str, sentence: str) -> None:
        """Add a problem."""
        self.problems.append(Problem(path=str(path), kind=kind, sentence=sentence))
