"""What is in a run store: its cells, the runs of each, and everything that is not where it belongs.

Only names and file times are looked at here; `analysis.store.cell` opens the files.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from analysis.store.foreign_models import model_error
from analysis.store.problems import Problem
from benchmarks.own_datasets.definitions import register_stored
from benchmarks.protocol import DATASETS, EXTRA_DATASETS, TASKS
from benchmarks.runs import DETAILS, RESULTS, RUN, parse_run_folder
from common.errors import UserError, nearest
from common.plain_text import name_fault, visible

__all__ = ["Cell", "RunFiles", "Scan", "Stamp", "results_folder", "scan_store"]

_OS_LITTER = re.compile(r"\.DS_Store|\._.*|\.nfs.*|Thumbs\.db|desktop\.ini")
"""What file systems and desktops drop anywhere; nobody needs to hear of it."""
_TEMPORARY = re.compile(r"\..*\.tmp(\..*)?|.*\.(tmp|part|swp)|.*~")


@dataclass(frozen=True, kw_only=True)
class Stamp:
    """What a file looks like from outside: the same stamp means the same content."""

    size: int
    """In bytes."""
    modified: int
    """Modification time in ns."""
    changed: int
    """Change time in ns, which nobody can set."""

    @classmethod
    def of(cls, stat: os.stat_result) -> Stamp:
        """Return the stamp of a file."""
        return cls(size=stat.st_size, modified=stat.st_mtime_ns, changed=stat.st_ctime_ns)

    def is_of(self, stat: os.stat_result) -> bool:
        """Whether size and modification time are still these; a file of our own can be copied and moved."""
        return (self.size, self.modified) == (stat.st_size, stat.st_mtime_ns)


@dataclass(frozen=True, kw_only=True)
class RunFiles:
    """A run's files, unread."""

    folder: str
    """Name of its folder."""
    lr: float
    """Learning rate, from the folder's name."""
    seed: int
    """Seed, from the folder's name."""
    results: Stamp
    """Of its `results.json`."""
    record: Stamp | None = None
    """Of its `run.json`, which has the hashes of the others; None when there is none."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The runs of one model on one dataset."""

    model: str
    """Name of the model's folder."""
    dataset: str
    """One of the twelve."""
    runs: tuple[RunFiles, ...] = field(repr=False)
    """By folder name."""

    @property
    def task(self) -> str:
        """The dataset's task."""
        return DATASETS[self.dataset].task

    @property
    def name(self) -> str:
        """`model/task/dataset`, its folder below `results`."""
        return f"{self.model}/{self.task}/{self.dataset}"


@dataclass(frozen=True, kw_only=True)
class Scan:
    """A store's content."""

    results: Path
    """The folder that holds the models' folders."""
    cells: tuple[Cell, ...]
    """Every cell with at least one result file, by name."""
    problems: tuple[Problem, ...]
    """What is out of place."""
    added_models: tuple[str, ...]
    """Models outside the released naming scheme that were wanted and are there."""


def results_folder(store: Path) -> Path:
    """Return the folder with the models: `store/results` where there is one, else `store` itself.

    Raises:
        UserError: `store` is absent or no folder.
    """
    if not store.is_dir():
        what = "is no folder" if store.exists() else "does not exist"
        raise UserError(
            f"{store}: {what}; a run store is a folder with results/<model>/<task>/<dataset>/<run>"
        )
    return store / "results" if (store / "results").is_dir() else store


def scan_store(store: Path, add_models: Sequence[str] = ()) -> Scan:
    """Look through a store.

    Args:
        store: the store, or its `results` folder.
        add_models: names or shell patterns of models that are taken although their names say nothing.

    Raises:
        UserError: there is no store, it holds no model's folder at all, or it is a model's own folder.
    """
    results = results_folder(store)
    register_stored(results.parent if results.name == "results" else store)
    return _Scanner(results, add_models).scan()


class _Scanner:
    def __init__(self, results: Path, add_models: Sequence[str]) -> None:
        self.results = results
        self.add_models = add_models
        self.problems: list[Problem] = []
        self.cells: list[Cell] = []
        self.added: set[str] = set()
        self.left_out: defaultdict[str, list[int]] = defaultdict(list)

    def scan(self) -> Scan:
        models = list(self.folders(self.results))
        if any(entry.name in TASKS for entry in models):
            raise UserError(
                f"{self.results}: this is one model's folder; name the store above it, "
                "which holds results/<model>/<task>/<dataset>/<run>"
            )
        for model in models:
            if (fault := name_fault(model.name)) is not None:
                self.report(model.path, "unknown", f"{fault}, so it names no model; its runs are left out")
                continue
            if (error := model_error(model.name, self.add_models)) is not None:
                self.report(model.path, "unknown", f"{error}; its runs are left out")
                continue
            if model_error(model.name) is not None:
                self.added.add(model.name)
            self.scan_model(model)
        for dataset, counts in sorted(self.left_out.items()):
            self.report(
                self.results,
                "left out",
                f"{sum(counts):,} runs of {dataset} in {len(counts)} models are left out: "
                f"{dataset} is not one of the paper's twelve datasets",
            )
        return Scan(
            results=self.results,
            cells=tuple(sorted(self.cells, key=lambda cell: cell.name)),
            problems=tuple(self.problems),
            added_models=tuple(sorted(self.added)),
        )

    def scan_model(self, model: os.DirEntry[str]) -> None:
        empty = True
        for task in self.folders(model.path):
            empty = False
            if task.name not in TASKS:
                self.report(
                    task.path,
                    "unknown",
                    f"is no task{nearest(task.name, TASKS)}; tasks are {', '.join(TASKS)}",
                )
                continue
            datasets = list(self.folders(task.path))
            if not datasets:
                self.report(task.path, "unfinished", "holds no runs")
            for dataset in datasets:
                self.scan_dataset(model.name, task.name, dataset)
        if empty:
            self.report(model.path, "unfinished", "holds no runs")

    def scan_dataset(self, model: str, task: str, entry: os.DirEntry[str]) -> None:
        name = entry.name
        if name in EXTRA_DATASETS:
            self.left_out[name].append(
                sum(1 for run in self.folders(entry.path) if _is_file(f"{run.path}/{RESULTS}"))
            )
            return
        if name not in DATASETS or DATASETS[name].task != task:
            known = [dataset.name for dataset in DATASETS.values() if dataset.task == task]
            hint = f"; it belongs under {DATASETS[name].task}" if name in DATASETS else nearest(name, known)
            self.report(entry.path, "unknown", f"is no dataset of {task}{hint}; they are {', '.join(known)}")
            return
        runs, problems = [], len(self.problems)
        for folder in self.folders(entry.path):
            if (run := self.scan_run(name, folder)) is not None:
                runs.append(run)
        if runs:
            cell = Cell(model=model, dataset=name, runs=tuple(sorted(runs, key=lambda run: run.folder)))
            self.cells.append(cell)
        elif len(self.problems) == problems:
            self.report(entry.path, "unfinished", "holds no runs")

    def scan_run(self, dataset: str, folder: os.DirEntry[str]) -> RunFiles | None:
        parsed = parse_run_folder(folder.name)
        expected = DATASETS[dataset].run_prefix
        if parsed is None or parsed[0] != expected or not 0 < parsed[1] < 1:
            self.report(
                folder.path, "unknown", f"is no run of {dataset}; a run's folder reads {expected}lr1e-04_sd0"
            )
            return None
        results = record = None
        for entry in self.entries(folder.path):
            if entry.name == RESULTS:
                try:
                    results = Stamp.of(entry.stat())
                except OSError as error:
                    self.report(entry.path, "unreadable", f"cannot be read ({error.strerror})")
                    return None
                if not entry.is_file():
                    self.report(entry.path, "unreadable", "is no file; the run is left out")
                    return None
            elif entry.name == RUN:
                with contextlib.suppress(OSError):
                    record = Stamp.of(entry.stat())
            elif _TEMPORARY.fullmatch(entry.name):
                sentence = "is being written, or was broken off; delete it if no process is writing it"
                self.report(entry.path, "unfinished", sentence)
            elif entry.name != DETAILS and not _OS_LITTER.fullmatch(entry.name):
                self.report(
                    entry.path, "stray", f"is ignored; a run's folder holds {RESULTS}, {DETAILS} and {RUN}"
                )
        if results is None:
            self.report(folder.path, "unfinished", f"holds no {RESULTS} yet; the run is unfinished")
            return None
        return RunFiles(folder=folder.name, lr=parsed[1], seed=parsed[2], results=results, record=record)

    def entries(self, path: str | Path) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(path) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            self.report(path, "unreadable", f"cannot be read ({error.strerror}); what is below is left out")
            return []

    def folders(self, path: str | Path) -> Iterator[os.DirEntry[str]]:
        """Yield the folders in `path`, links followed; whatever else is there is reported as a problem."""
        for entry in self.entries(path):
            try:
                is_folder = entry.is_dir()
            except OSError as error:  # a loop of links
                self.report(entry.path, "unreadable", f"cannot be read ({error.strerror})")
                continue
            if is_folder:
                yield entry
            elif entry.is_symlink() and not Path(entry.path).exists():
                self.report(entry.path, "unreadable", "is a link that leads nowhere")
            elif not _OS_LITTER.fullmatch(entry.name):
                self.report(
                    entry.path, "stray", "is ignored; a store holds results/<model>/<task>/<dataset>/<run>"
                )

    def report(self, path: str | Path, kind: str, sentence: str) -> None:
        self.problems.append(Problem(path=visible(str(path)), kind=kind, sentence=visible(sentence)))


def _is_file(path: str) -> bool:
    try:
        return Path(path).is_file()
    except OSError:
        return False
