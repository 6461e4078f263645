"""A run store as `benchmarks run` sees it: its runs, the kept weights, and who works on what. Light: no torch.

A run is done when its results.json parses, is complete, agrees with itself, and all files are what its manifest says.
A cell is one model on one dataset: its runs differ in learning rate and seed.

    results/<model>/<task>/<dataset>/lr1e-04_sd0/       a run
    encoders/<model>/<task>/<dataset>/lr1e-04_sd0/      the weights of a cell's best run: config.json, README.md, ...
    asked/<model>/<dataset>.json                        which runs were asked for
    locks/                                              leases
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.protocol import DATASETS, PAPER, Dataset, format_lr
from benchmarks.results_json import ResultsError, counted_scores, read_results
from benchmarks.runs import (
    DETAILS,
    RERUN,
    RESULTS,
    RUN,
    NotItselfError,
    RunKey,
    found_keys,
    read_run,
    record_of,
)
from benchmarks.sweep.kept import REMEDY, kept_files
from common.description import description_hash
from common.errors import UserError
from common.files import write_text
from common.manifest import FILES, MANIFEST, check_files, read_manifest, strangers
from common.plain_text import first_of
from common.reading import read_bounded, strict_json

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class RunState:
    """What a look into a run's folder found."""

    scores: tuple[float, float] | None = None
    """Validation and test score of a run that is done."""
    fault: str | None = None
    """Why the results that are there cannot be used."""
    reason: str | None = None
    """Why the run failed; None: it did not fail."""
    description: Mapping[str, Any] | None = None
    """What the run was made from, where its manifest says it; the release has no manifests."""
    source: str = ""
    """The model as the run's command named it."""

    @property
    def done(self) -> bool:
        """Whether the results are there and can be believed."""
        return self.scores is not None


@dataclass(frozen=True)
class RunStore:
    """A folder of runs, and the datasets that they may be of."""

    path: Path
    """Its folder, with `results` in it."""
    known: Mapping[str, Dataset] = field(default_factory=lambda: DATASETS, repr=False)
    """The datasets by name."""

    def folder(self, key: RunKey) -> Path:
        """Return the folder of a run."""
        return self.path / "results" / key.folder

    def kept_folder(self, key: RunKey) -> Path:
        """Return where the weights of a run are while it is the best of its cell."""
        return self.path / "encoders" / key.folder

    def claim(self, key: RunKey) -> Path:
        """Return the file whose lock a process holds while it works on a run's fine-tuning."""
        trained_on = self.known[key.dataset].trained_on
        name = f"{key.model}__{trained_on}__lr{format_lr(key.lr)}_sd{key.seed}.lock"
        return self.path / "locks" / name

    def state(self, key: RunKey) -> RunState:
        """Return the state of a run; a folder is read again only when its files look different."""
        folder = self.folder(key)
        stamps = (_stamp(folder / name) for name in (RESULTS, RUN, DETAILS))
        return _look(folder, *stamps)

    def found(self, model: str, dataset: str) -> list[RunKey]:
        """Return the runs of a cell that have a folder, whatever their learning rates and seeds."""
        return found_keys(self.path, model, self.known[dataset])

    def scores(self, key: RunKey) -> tuple[float, float] | None:
        """Return the validation and test score by which the analysis counts a run; None if the run is not done."""
        scores, dataset = self.state(key).scores, self.known[key.dataset]
        # On the paper's datasets these are the scores of results.json (`counted_scores`).
        if scores is None or not dataset.is_own:
            return scores
        # A run that does not record this metric is counted with the scores of results.json.
        with contextlib.suppress(ResultsError):
            return counted_scores(record_of(self.folder(key)), dataset, PAPER, scores)
        return scores

    def best(self, model: str, dataset: str) -> RunKey | None:
        """Return the run of a cell with the best validation score; None if none is done.

        Of runs with equal scores it is the one with the lowest learning rate, then the lowest seed.
        """
        ranks = {}
        for key in self.found(model, dataset):
            scores = self.scores(key)
            if scores is not None:
                validation, _ = scores
                ranks[key] = (validation, -key.lr, -key.seed)
        return max(ranks, key=lambda key: ranks[key], default=None)

    def is_kept(self, key: RunKey) -> bool:
        """Return whether the weights of a done run are kept, undamaged, and made from what the run's description says.

        Raises:
            UserError: they are not, and files that this package did not write are in their place.
        """
        folder = self.kept_folder(key)
        try:
            record = read_manifest(folder / MANIFEST, REMEDY)
            check_files(folder, record[FILES], REMEDY)
            made_from = description_hash(self.state(key).description or {})
            # What was kept may be of a run that was made from something else; then it is made again.
            if record.get("description_sha256") == made_from:
                return True
        except FileNotFoundError:
            pass  # nothing was kept
        except UserError as error:
            log.warning("%s; it will be made again", error)

        # A damaged file of ours may be replaced; a file of any other name is not ours to remove. So names are compared,
        # without the hashes of the files.
        others = strangers(folder, dict.fromkeys(kept_files(folder), ""))
        if others:
            raise UserError(
                f"{folder} holds {first_of(others)}, which --keep did not write; move it elsewhere, for the best "
                "run's weights go there"
            )

        return False

    def is_lost(self, key: RunKey) -> bool:
        """Return whether a run is the best of its cell, so that its weights should be kept, and they are not."""
        return self.best(key.model, key.dataset) == key and not self.is_kept(key)

    def _asked_path(self, model: str, dataset: str) -> Path:
        """Return the file with the runs of a cell that were asked for."""
        return self.path / "asked" / model / f"{dataset}.json"

    def asked(self, model: str, dataset: str) -> set[tuple[float, int]]:
        """Return learning rate and seed of each run of a cell that was asked for; none where the file is damaged."""
        # The file only says which runs to count: without it, all runs that are there are counted.
        try:
            asked = strict_json(read_bounded(self._asked_path(model, dataset)))
            return {(float(lr), int(seed)) for lr, seed in asked}
        except (OSError, ValueError, TypeError, OverflowError, UserError):
            return set()

    def note(self, model: str, dataset: str, pairs: set[tuple[float, int]]) -> None:
        """Add the learning rates and seeds that this call asks for to those of other calls, in the store."""
        # Calls with other rates and seeds share the store, and `status` counts the runs that any of them wants.
        asked = self.asked(model, dataset)
        path = self._asked_path(model, dataset)
        # A file of this command has one run at least, so it is damaged or somebody else's: not to be overwritten.
        if path.exists() and not asked:
            raise UserError(
                f"{path} is not a list of runs, as this command writes it; move it elsewhere, or choose another --out"
            )
        if not pairs <= asked:
            write_text(path, json.dumps(sorted(pairs | asked)) + "\n")

    def touched(self, model: str, dataset: str) -> bool:
        """Return whether a cell was asked for, or has runs."""
        was_asked = self._asked_path(model, dataset).is_file()
        return was_asked or bool(self.found(model, dataset))


def _stamp(path: Path) -> tuple[int, ...] | None:
    """Return numbers that differ once a file has changed; None where there is no file."""
    try:
        stat = path.stat()
    except OSError:
        return None
    # The inode and the change time as well: a copy may keep the size and time of the file that it replaces.
    return stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


@functools.lru_cache(maxsize=100_000)
def _look(folder: Path, *stamps: object) -> RunState:
    """Return the state of the run in a folder.

    Args:
        folder: the run's folder.
        stamps: `_stamp` of the run's files. They are not read here, but part of the cache's key: once a file changes,
            the folder is read again.
    """
    # `lexists` also counts a link to a missing file as results, which then cannot be used.
    has_results = os.path.lexists(folder / RESULTS)
    try:
        record = read_run(folder)
    except NotItselfError as error:
        # A folder without results holds no run, so it has no fault.
        return RunState(fault=error.reason if has_results else None)

    recorded: dict[str, Any] = {
        "description": record.get("description"),
        "source": str(record.get("model_source")),
    }
    reason = None
    if record.get("status") == "failed":
        reason = str(record.get("reason", "unknown"))
    if not has_results:
        return RunState(reason=reason, **recorded)

    # The manifest's hashes by file: that of results.json is compared while its scores are read, the others after it.
    # No file has the hash "": results that a manifest does not list count as changed since it was written.
    files = dict(record.get(FILES, {}))
    recorded_hash = files.pop(RESULTS, "")
    try:
        # Runs of the release have no manifest, and so no hash to compare with.
        validation, test = read_results(
            folder / RESULTS, recorded_hash if record else None
        )
        check_files(folder, files, RERUN)
    except (ResultsError, UserError, OSError) as error:
        return RunState(fault=str(error), reason=reason, **recorded)

    return RunState(scores=(validation.score, test.score), **recorded)
