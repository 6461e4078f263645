"""`clm-or-mlm check`: what of a folder is whole, damaged or missing, and what to do about it.

torch is imported for checkpoints and for encoders alone.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from cyclopts import Parameter

from benchmarks.own_datasets.definitions import known_datasets, stored_definitions
from benchmarks.runs import store_of
from common.errors import UserError, path_hint
from common.manifest import (
    FILES,
    MANIFEST,
    check_files,
    read_manifest,
    strangers,
)
from common.plain_text import first_of
from pretraining.data import shard_manifest
from pretraining.training.log import LOG, read_log

Verdict = tuple[str, object, str]
"""`whole`, `damaged` or `missing`; what is; a sentence, with the remedy."""
_TRAINED = ("stages", "models")
_KEPT = "description_sha256"
_TRAIN_AGAIN = "run the same train or adapt command again"
_KEEP_AGAIN = "`clm-or-mlm benchmarks run` with --keep best makes it again"


def check(folder: Annotated[Path, Parameter(metavar="FOLDER")], /) -> int:
    """Check what is in a folder: an encoder, shards, a run store, or a training's output.

    Every file is compared with its hash. Of an encoder, also that it sees both sides in plain transformers, and its
    stored vector. Each line says what is whole, damaged or missing; the exit code is 1 if anything is damaged.

    examples:
      clm-or-mlm check encoder/models/smollm2-mlm30-3815
      clm-or-mlm check pretrained/
      clm-or-mlm check results/

    Args:
        folder: an encoder, shards, a run store, or what --out of train and adapt named
    """
    damaged = False
    is_known = False
    for verdicts in _parts(folder):
        is_known = True
        for kind, what, sentence in verdicts:
            damaged |= kind == "damaged"
            sys.stdout.write(f"{kind}: {what}: {sentence}\n")
    if not is_known:
        if not (folder / "config.json").is_file():
            what = (
                "has nothing that is checked"
                if folder.exists()
                else f"is not there{path_hint(folder, '*')}"
            )
            raise UserError(
                f"{folder} {what}; give an encoder (config.json), shards (train or validation), a run store (results), "
                "or the --out of train or adapt (stages or models); "
                "of datasets `clm-or-mlm datasets verify` is the check"
            )
        from pretraining.model.encoder_folder import checked_encoder

        sys.stdout.writelines(f"{line}\n" for line in checked_encoder(folder))
    return int(damaged)


def _parts(folder: Path) -> Iterator[Iterator[Verdict]]:
    """Yield the verdicts on each kind of thing that a folder holds; none of an encoder's, or of what is unknown."""
    if any(
        (folder / name).is_dir()
        for name in (*shard_manifest.SHARD_SPLITS, shard_manifest.UNFINISHED)
    ):
        yield _shards(folder)
    if any((folder / name).exists() for name in _TRAINED):
        yield _training(folder)
    if store_of(folder) != folder or (folder / "results").is_dir():
        yield _store(store_of(folder))
    if _is_kept(folder):
        yield _check_one(folder, partial(_check_kept, folder))


def _check_one(what: object, check_it: Callable[[], str]) -> Iterator[Verdict]:
    """Yield that a thing is whole and what `check_it` says of it, or that it is damaged and why."""
    try:
        yield "whole", what, check_it()
    except UserError as error:
        yield (
            "damaged",
            what,
            str(error).removeprefix(f"{what}: ").removeprefix(f"{what} "),
        )


def _shards(folder: Path) -> Iterator[Verdict]:
    """Yield every problem of a shard folder, or that it is whole."""
    problems = shard_manifest.verify(folder)
    for problem in problems:
        yield "damaged", folder, problem
    if not problems:
        yield "whole", folder, "all files match the manifest"


def _training(out: Path) -> Iterator[Verdict]:
    """Yield what is wrong or right with the stages, models and starts of a training."""
    for stage in sorted((out / "stages").glob("[!.]*")):
        yield from _stage(stage)
    for part in ("models", "starts"):
        for model in sorted((out / part).glob("[!.]*")):
            yield from _check_one(model, partial(_check_model, model))


def _stage(folder: Path) -> Iterator[Verdict]:
    """Yield what is wrong or right with the checkpoints of a stage, and with its log."""
    from pretraining.training import checkpoints

    complete = checkpoints.checkpoint_steps(folder)
    state: dict[str, Any] = {}
    for item in complete:
        try:
            state = checkpoints.load_state(item)
            checkpoints.check(item)
            yield (
                "whole",
                item.path,
                f"weights, optimizer and state of step {item.step:,}",
            )
        except UserError as error:
            yield "damaged", item.path, str(error)
    complete_paths = {item.path for item in complete}
    unfinished = [
        path for path in sorted(folder.glob("step-*")) if path not in complete_paths
    ]
    for path in unfinished:
        yield "damaged", path, f"it has no state.json; remove it and {_TRAIN_AGAIN}"
    if complete:
        yield from _stage_log(folder, state, complete[-1].step)
    elif not unfinished:
        yield "missing", folder, f"no checkpoint; {_TRAIN_AGAIN}"


def _stage_log(
    folder: Path, state: Mapping[str, Any], last_step: int
) -> Iterator[Verdict]:
    """Yield what is wrong or right with the log of a stage up to its last checkpoint; no state: it is damaged."""
    from pretraining.training import checkpoints

    faults: list[str] = []
    rows = [
        row["step"] for row in read_log(folder / LOG, faults) if row["split"] == "train"
    ]
    for fault in faults[:1]:
        kind = "damaged" if (folder / LOG).exists() else "missing"
        yield kind, folder / LOG, f"{fault}; a model is exported with what is there"
    first = state["stages"][-1]["start"] if state else min(rows, default=1) - 1
    lacking = _steps_without_row(sorted(set(rows)), first, last_step)
    if lacking and not faults:
        which = f"{len(lacking)} rows of the steps {lacking[0]} to {lacking[-1]}"
        yield (
            "missing",
            folder / LOG,
            f"{which}; the manifest of a model that is exported names them",
        )
    elif not faults and checkpoints.is_log_changed(folder, last_step):
        yield (
            "damaged",
            folder / LOG,
            "rows have changed since they were written; a model's manifest says so",
        )
    elif not faults:
        yield "whole", folder / LOG, f"{len(rows):,} rows of training"


def _steps_without_row(steps: Sequence[int], start: int, end: int) -> list[int]:
    """Return the steps up to a checkpoint that have no row, by the distance of most rows."""
    distances = Counter(
        later - earlier for earlier, later in pairwise(steps)
    ).most_common(1)
    every = distances[0][0] if distances else end + 1
    with_row = set(steps)
    return [
        step
        for step in range(every * (start // every + 1), end + 1, every)
        if step not in with_row
    ]


def _check_model(folder: Path) -> str:
    """Return what holds of an exported model: its files and records; of an encoder, also what it computes."""
    from pretraining.model.encoder_folder import SELF_TEST, check_model, checked_encoder

    manifest = check_model(folder, f"remove it and {_TRAIN_AGAIN}")
    if manifest is None:
        raise UserError(f"it has no {MANIFEST}; remove it and {_TRAIN_AGAIN}")
    check_files(
        folder, manifest.get("records", {}), f"remove that file and {_TRAIN_AGAIN}"
    )
    if (folder / SELF_TEST).is_file():
        return "; ".join(checked_encoder(folder))
    return f"{len(manifest[FILES])} files match the manifest"


def _store(store: Path) -> Iterator[Verdict]:
    """Yield what is wrong with the runs of a store, and with the encoders that it keeps."""
    from analysis.store.ingest import RefusedStoreError, ingest
    from analysis.store.scan import scan_store
    from benchmarks.sweep.run_store import RunStore

    datasets = known_datasets(stored_definitions(store))
    scan = scan_store(store, ["*"], datasets=datasets)
    with TemporaryDirectory() as folder:
        try:
            read = ingest(store, Path(folder, "runs.parquet"), add_models=["*"])
            problems, runs = read.problems, len(read.runs)
        except RefusedStoreError as error:
            problems, runs = tuple(error.problems), 0
    reported = {problem.path.removesuffix("/") for problem in problems}
    for problem in problems:
        yield (
            "missing" if problem.harmless else "damaged",
            problem.path,
            problem.sentence,
        )
    for cell in scan.cells:
        for key in cell.runs.values():
            path = scan.results / key.folder
            fault = RunStore(store, datasets).state(key).fault
            # A problem of the run's file, or of a folder around it, says it already.
            if fault and not any(
                str(path).startswith(name) or name.startswith(str(path))
                for name in reported
            ):
                yield "damaged", path, fault
    if runs:
        yield "whole", scan.results, f"{runs:,} runs"
    for kept in sorted((store / "encoders").glob("*/*/*/[!.]*")):
        yield from _check_one(kept, partial(_check_kept, kept))


def _is_kept(folder: Path) -> bool:
    """Return whether a folder is an encoder that `--keep` kept, by a field of its manifest."""
    path = folder / MANIFEST
    try:
        return path.is_file() and _KEPT in path.read_text("utf-8", "replace")
    except OSError:
        return False


def _check_kept(folder: Path) -> str:
    """Return what holds of the encoder that is kept of a run."""
    from benchmarks.sweep.kept import written

    try:
        files = read_manifest(
            folder / MANIFEST, f"move it elsewhere, and {_KEEP_AGAIN}"
        )[FILES]
    except FileNotFoundError:
        raise UserError(f"it has no {MANIFEST}; {_KEEP_AGAIN}") from None
    check_files(folder, files, _KEEP_AGAIN)
    others = strangers(folder, written(folder))
    more = f"; changed or not of --keep: {first_of(others)}" if others else ""
    return f"{len(files)} files match the manifest{more}"
