"""The run store: where a run's files are, and what is in them. Light: the analysis imports this module.

    results/<model>/<task>/<dataset>/lr1e-04_sd0/results.json      (msmarco_pairs_lr1e-04_sd0 for retrieval)

`results.json` has the release's shape and indent, `{"validation": {"score", "scores_i"}, "test": {...}}`;
`details.json` next to it has what the release left out: standard metrics instance by instance, losses, and which
instances are of one cluster (one passage, premise or document), where the data say so.
`run.json` is the run's manifest: what it was made from, how and when, standard metrics, and the hashes of the others.
A folder without a complete `results.json` is an unfinished run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.protocol import (
    LEARNING_RATES,
    SEEDS,
    TASKS,
    Dataset,
    format_lr,
    get_dataset,
)
from common.errors import UserError
from common.files import sha256_bytes
from common.manifest import DamagedError, parse_manifest
from common.reading import UnreadableError, read_bounded

RESULTS = "results.json"
DETAILS = "details.json"
RUN = "run.json"
CLUSTERS = "clusters"
"""In details.json: the cluster of each instance, by split. In run.json: the hash of these clusters. It is the same in
all runs on the same data, so a reader of many runs reads the clusters once."""
SCORED_SPLITS = ("validation", "test")
"""The splits of a dataset that every run is scored on."""

RERUN = "run this evaluation again with `clm-or-mlm benchmarks run`"
"""What to do about a file that cannot be used."""

RESULTS_VERSION = 2
"""Version of the code that decides a run's scores. Raise it with every change that gives a model other scores on the
same data under the same settings, and make tests/golden/benchmarks.json again, which carries it."""

_RUN_FOLDER = re.compile(
    r"lr(?P<lr>\d{1,20}(?:\.\d{1,20})?(?:e-?\d{1,3})?)_sd(?P<seed>\d{1,9})", re.ASCII
)
"""Name of a run's folder behind its prefix: `lr1e-04_sd0`, and other spellings of the rate, `lr0.0001_sd0`."""


@dataclass(frozen=True, kw_only=True, order=True, slots=True)
class RunKey:
    """One fine-tuning: model, dataset, learning rate, seed."""

    model: str
    dataset: str
    lr: float
    seed: int
    task: str = ""
    """The dataset's task; not named for one of the paper's twelve."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "task", self.task or get_dataset(self.dataset).task)

    @property
    def folder(self) -> Path:
        """The run's folder, relative to the `results` folder of a store."""
        name = f"{TASKS[self.task].run_prefix}lr{format_lr(self.lr)}_sd{self.seed}"
        return Path(self.model, self.task, self.dataset, name)


def store_of(given: Path) -> Path:
    """Return the store that a user means by a folder: the folder itself, or its parent.

    A store may itself be called `results`, the default of `--out`. A folder of that name is taken for the `results`
    inside of a store where models' runs lie in it (`results/<model>/<task>`), or where its parent has a record of runs
    that were asked for (`asked/<model>/<dataset>.json`) and the folder has none.
    """
    if given.name != "results":
        return given
    has_runs = any(path.name in TASKS for path in given.glob("*/*"))
    is_store = any(given.glob("asked/*/*.json"))
    is_in_store = not is_store and any(given.parent.glob("asked/*/*.json"))
    return given.parent if has_runs or is_in_store else given


def cell_keys(
    model: str,
    dataset: Dataset | str,
    lrs: Sequence[float] = LEARNING_RATES,
    seeds: Sequence[int] = SEEDS,
) -> list[RunKey]:
    """Return the runs of a cell, learning rates outermost."""
    known = get_dataset(dataset)
    return [
        RunKey(model=model, dataset=known.name, lr=lr, seed=seed, task=known.task)
        for lr in lrs
        for seed in seeds
    ]


def found_keys(store: Path, model: str, dataset: Dataset | str) -> list[RunKey]:
    """Return the runs of a cell that have a folder in the store, whatever their learning rates and seeds."""
    known = get_dataset(dataset)
    cell = store / "results" / model / known.task / known.name
    if not cell.is_dir():
        return []
    keys = []
    for name in sorted(folder.name for folder in cell.iterdir()):
        key = key_of(name, model, known)
        # A folder that spells the same rate in another way was not written by this package.
        if key is not None and key.folder.name == name:
            keys.append(key)
    return keys


def key_of(folder: str, model: str, dataset: Dataset) -> RunKey | None:
    """Return the run of a dataset whose folder has this name, or None when it names none.

    Other spellings of a rate than the release's `1e-04` are also understood: `1e-4`, `0.0001`.
    """
    match = _RUN_FOLDER.fullmatch(folder.removeprefix(dataset.run_prefix))
    # `removeprefix` leaves a name without the prefix as it is.
    if match is None or not folder.startswith(dataset.run_prefix):
        return None
    lr = float(match["lr"])

    # No learning rate, though it has the form of one: `lr5_sd0`.
    if not 0 < lr < 1:
        return None
    return RunKey(
        model=model,
        dataset=dataset.name,
        lr=lr,
        seed=int(match["seed"]),
        task=dataset.task,
    )


def results_text(scores: Mapping[str, Sequence[float]]) -> str:
    """Return the text of `results.json` for the per-instance scores of each split, in the release's form.

    Args:
        scores: for `validation` and `test`, one score in [0, 1] an instance, in dataset order.
    """
    content = {}
    for split in SCORED_SPLITS:
        values = list(scores[split])
        mean = float(sum(values) / len(values))
        content[split] = {"score": mean, "scores_i": values}
    return json.dumps(content, indent=4)


def clusters_hash(clusters: Mapping[str, Sequence[int]]) -> str:
    """Return the SHA-256 of the clusters of both splits, as run.json records it."""
    text = json.dumps(clusters, sort_keys=True, separators=(",", ":"))
    return sha256_bytes(text.encode())


class NotItselfError(UserError):
    """A run that is not what its folder says."""

    def __init__(self, folder: Path, reason: str) -> None:
        super().__init__(f"{folder} {reason}")
        self.reason = reason
        """The sentence without the folder."""


def read_run(folder: Path) -> dict[str, Any]:
    """Return the manifest of a run; empty where there is none, as in the release.

    Its model, task, dataset, rate and seed are compared with the folder's path.

    Raises:
        NotItselfError: the manifest cannot be read, is not as it was written, is of another run, or is gone while the
            files that were written with it are there.
    """
    try:
        record = parse_manifest(read_bounded(folder / RUN))
    except FileNotFoundError:
        # Results are written last: a folder with results but without this file is not being written, it lost the file.
        if (folder / DETAILS).exists() and (folder / RESULTS).exists():
            raise NotItselfError(
                folder, f"lacks the {RUN} that was written with its {DETAILS}; {RERUN}"
            ) from None
        return {}
    except UnreadableError as error:
        raise NotItselfError(
            folder, f"has a {RUN} that {error.reason}; {RERUN}"
        ) from None
    except DamagedError as error:
        raise NotItselfError(
            folder, f"has a {RUN} that was changed or damaged ({error}); {RERUN}"
        ) from None

    for name, expected in _named(folder).items():
        recorded = record.get(name)
        # People copy folders by hand, so a folder's content need not be what its name says.
        if recorded != expected:
            raise NotItselfError(
                folder,
                f"has the {RUN} of another run: its {name} is {str(recorded)[:60]}, not {expected}; "
                f"move it to its own folder, or {RERUN}",
            )

    return record


def _named(folder: Path) -> dict[str, Any]:
    """Return the fields of a run that its folder's path gives; nothing if it is not the path of a run."""
    # Three empty parts first: a shorter path then has an empty task, which is none.
    *_, model, task, dataset, name = ("", "", "", *folder.parts)
    if task not in TASKS:
        return {}
    match = _RUN_FOLDER.fullmatch(name.removeprefix(TASKS[task].run_prefix))
    if match is None:
        return {}
    return {
        "model": model,
        "task": task,
        "dataset": dataset,
        "lr": float(match["lr"]),
        "seed": int(match["seed"]),
    }


def record_of(folder: Path) -> dict[str, Any]:
    """Return the manifest of a run; empty where there is none, or where `read_run` refuses it."""
    try:
        return read_run(folder)
    except UserError:
        return {}
