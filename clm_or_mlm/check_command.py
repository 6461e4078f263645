"""`clm-or-mlm check`: what of a folder is whole, damaged or missing, and what to do about it.

torch is imported for checkpoints and for encoders alone.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from cyclopts import Parameter

from benchmarks.own_datasets.definitions import known_datasets, stored_definitions
from benchmarks.runs import DETAILS, RESULTS, RUN, store_of
from common.errors import UserError, path_hint
from common.files import is_marked, is_temporary
from common.manifest import (
    FILES,
    MANIFEST,
    SEAL,
    another_shape,
    check_files,
    read_manifest,
    strangers,
)
from common.plain_text import counted, first_of
from common.provenance import PROVENANCE
from common.reading import read_bounded
from pretraining.data import shard_manifest
from pretraining.data.shard_manifest import INDEX
from pretraining.training.log import LOG, read_log

Verdict = tuple[str, object, str]
"""`whole`, `damaged` or `missing`; what is; a sentence, with the remedy."""
_TRAINED = ("stages", "models", "starts")
_SHARDS = (*shard_manifest.SHARD_SPLITS, "tokenizer", shard_manifest.UNFINISHED)
_STORED = ("results", "encoders", "datasets", "locks")
_MANIFESTS = (MANIFEST, PROVENANCE)
"""How the names of files end that may list others with their hashes."""
_DEEPEST = 3
"""Folders down to which things are looked for: STUDY/analysis/table10/instances."""
_KEPT = "description_sha256"
_TRAIN_AGAIN = "run the same train or adapt command again"
_KEEP_AGAIN = "`clm-or-mlm benchmarks run` with --keep best makes it again"


def check(folder: Annotated[Path, Parameter(metavar="FOLDER")], /) -> int:
    """Check what is in a folder: an encoder, shards, a run store, a training's output, or a study.

    Every file that has a hash is compared with it. Of an encoder, also that it sees both sides in plain transformers,
    and its stored vector. Each line says what is whole, damaged or missing, and what to do; the last one names files
    without a hash. The exit code is 1 if anything is damaged.

    examples:
      clm-or-mlm check encoder/models/smollm2-mlm30-3815
      clm-or-mlm check pretrained/
      clm-or-mlm check results/

    Args:
        folder: an encoder, shards, a run store, a study, or what --out of any command named
    """
    damaged = False
    read = set[Path]()
    for kind, what, sentence in _verdicts(folder, read):
        damaged |= kind == "damaged"
        sys.stdout.write(f"{kind}: {what}: {sentence}\n")
    if not read and not damaged:
        if not (folder / "config.json").is_file():
            what = (
                "has nothing that is checked"
                if folder.exists()
                else f"is not there{path_hint(folder, '*')}"
            )
            raise UserError(
                f"{folder} {what}; give an encoder (config.json), shards (train or validation), a run store (results), "
                "or the --out of train or adapt (stages or models)"
            )
        from pretraining.model.encoder_folder import checked_encoder

        sys.stdout.writelines(f"{line}\n" for line in checked_encoder(folder))
    elif names := unsealed(folder, read):
        sys.stdout.write(
            f"not compared: {folder}: {counted(len(names), 'file')} without a hash: {first_of(names)}\n"
        )
    return int(damaged)


def unsealed(folder: Path, read: Set[Path]) -> list[str]:
    """Return the files below a folder that were not compared with a hash, by path."""
    return sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path not in read and not is_temporary(path.name)
    )


def _verdicts(folder: Path, read: set[Path], depth: int = 0) -> Iterator[Verdict]:
    """Yield the verdicts on all that a folder and the folders in it hold.

    Args:
        folder: the folder.
        read: gets the files that were compared with a hash, or refused.
        depth: how many folders there are between the one that the user named and this one.
    """
    known = set[str]()
    if _has_shards(folder):
        known.update(_SHARDS)
        yield from _shards(folder, read)
    if any((folder / name).is_dir() for name in _TRAINED):
        known.update(_TRAINED)
        yield from _training(folder, read)
    if store_of(folder) != folder or (folder / "results").is_dir():
        known.update(_STORED)
        yield from _guarded(folder, _store(store_of(folder), read))
    if _is_kept(folder):
        yield from _check_one(folder, partial(_check_kept, folder, read))
        return
    if (folder / "config.json").is_file() and not depth:
        return  # an encoder, of whoever made it
    if _is_model(folder):
        yield from _check_one(folder, partial(_check_model, folder, read))
        return
    yield from _sealed(folder, read)
    if depth < _DEEPEST and folder.is_dir():
        for inner in sorted(folder.iterdir()):
            is_hidden = inner.name.startswith(".")
            if inner.is_dir() and inner.name not in known and not is_hidden:
                yield from _verdicts(inner, read, depth + 1)


def _guarded(what: object, verdicts: Iterator[Verdict]) -> Iterator[Verdict]:
    """Yield verdicts, and what ends them early as damage: other parts are still checked."""
    try:
        yield from verdicts
    except UserError as error:
        yield "damaged", what, str(error)


def _sealed(folder: Path, read: set[Path]) -> Iterator[Verdict]:
    """Yield what is wrong or right with the files that manifests beside them list, as of tables, figures and pages."""
    for path in sorted(folder.glob("*.json")):
        if path in read or not path.name.endswith(_MANIFESTS):
            continue
        remedy = f"make it again with the command that {path.name} names"
        try:
            if SEAL.encode() not in read_bounded(path):
                continue
            record = read_manifest(path, remedy)
        except (UserError, OSError) as error:
            read.add(path)
            yield "damaged", path, str(error).removeprefix(f"{path} ")
            continue
        files = dict(record.get(FILES, {}))
        if "tables" in record:  # a dataset's
            remedy = "fetch, import or make the dataset again with --replace"
            with another_shape(path, remedy):
                tables = record["tables"].items()
                files = {f"{name}.parquet": info["sha256"] for name, info in tables}
        elif "command" not in record:
            remedy = "run the command again that made it, such as `ingest`"
        read |= {path, *(folder / name for name in files)}
        yield from _check_one(path, partial(_check_listed, folder, files, remedy))


def _check_listed(folder: Path, files: Mapping[str, str], remedy: str) -> str:
    """Return that the files of a manifest are as it says."""
    check_files(folder, files, remedy)
    return f"{counted(len(files), 'file')} as it says"


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


def _has_shards(folder: Path) -> bool:
    """Return whether finished or unfinished shards of this package are in a folder, or what is left of them."""
    is_split = any(
        (folder / split / INDEX).is_file() for split in shard_manifest.SHARD_SPLITS
    )
    return (
        is_split
        or is_marked(folder / shard_manifest.UNFINISHED)
        or _has_field(folder / MANIFEST, "tokenizer_files")
    )


def _shards(folder: Path, read: set[Path]) -> Iterator[Verdict]:
    """Yield every problem of a shard folder, or that it is whole."""
    if not (folder / MANIFEST).is_file():
        is_unfinished = (folder / shard_manifest.UNFINISHED).is_dir()
        what = "the shards are unfinished" if is_unfinished else f"it has no {MANIFEST}"
        remedy = "run the same `shards` command again"
        if not is_unfinished:
            remedy = "write the shards into another folder"
        yield "missing", folder, f"{what}; {remedy}"
        read.add(folder / MANIFEST)
        return
    problems = shard_manifest.verify(folder)
    for problem in problems:
        yield "damaged", folder, problem
    if not problems:
        yield "whole", folder, "all files match the manifest"
    read |= {folder / MANIFEST, folder / PROVENANCE}
    with suppress(UserError):  # which `verify` has said
        listed = shard_manifest.files_of(folder, shard_manifest.load_manifest(folder))
        read |= {file.path for file in listed.values()}


def _training(out: Path, read: set[Path]) -> Iterator[Verdict]:
    """Yield what is wrong or right with the stages, models and starts of a training."""
    for stage in sorted((out / "stages").glob("[!.]*")):
        yield from _stage(stage, read)
    for part in ("models", "starts"):
        for model in sorted((out / part).glob("[!.]*")):
            yield from _check_one(model, partial(_check_model, model, read))


def _stage(folder: Path, read: set[Path]) -> Iterator[Verdict]:
    """Yield what is wrong or right with the checkpoints of a stage, and with its log."""
    from pretraining.training import checkpoints

    complete = checkpoints.checkpoint_steps(folder)
    state: dict[str, Any] = {}
    for item in complete:
        try:
            read |= {item.path / name for name in checkpoints.FILES_OF}
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
        read.add(folder / LOG)
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


def _check_model(folder: Path, read: set[Path]) -> str:
    """Return what holds of an exported model: its files and records; of an encoder, also what it computes."""
    from pretraining.model.encoder_folder import (
        SELF_TEST,
        check_model,
        checked_encoder,
        checked_files,
    )

    remedy = f"remove it and {_TRAIN_AGAIN}"
    read |= {path for path in folder.rglob("*") if path.is_file()}
    manifest = check_model(folder, remedy)
    if manifest is None:
        raise UserError(f"it has no {MANIFEST}; {remedy}")
    if (folder / SELF_TEST).is_file():
        return "; ".join(checked_encoder(folder, remedy))
    return "; ".join(checked_files(folder, manifest, remedy))


def _store(store: Path, read: set[Path]) -> Iterator[Verdict]:
    """Yield what is wrong with the runs of a store, and with the encoders that it keeps."""
    from analysis.store.ingest import RefusedStoreError, ingest
    from analysis.store.scan import scan_store
    from benchmarks.sweep.run_store import RunStore

    datasets = known_datasets(stored_definitions(store))
    scan = scan_store(store, ["*"], datasets=datasets)
    with TemporaryDirectory() as folder:
        try:
            table = ingest(store, Path(folder, "runs.parquet"), add_models=["*"])
            problems, runs = table.problems, len(table.runs)
        except RefusedStoreError as error:
            problems, runs = tuple(error.problems), 0
    reported = {problem.path.removesuffix("/") for problem in problems}
    for problem in problems:
        yield (
            "missing" if problem.harmless else "damaged",
            problem.path,
            problem.sentence,
        )
    unsealed_runs = 0
    run_store = RunStore(store, datasets)
    for cell in scan.cells:
        for key in cell.runs.values():
            path = scan.results / key.folder
            state = run_store.state(key)
            fault = state.fault
            if fault or (path / RUN).is_file():
                read |= {path / name for name in (RESULTS, RUN, DETAILS)}
            elif state.done:
                unsealed_runs += 1
            # A problem of the run's file, or of a folder around it, says it already.
            if fault and not any(
                str(path).startswith(name) or name.startswith(str(path))
                for name in reported
            ):
                yield "damaged", path, fault
    if runs:
        read.add(scan.results)
        form = ""
        if unsealed_runs:
            form = f"; of {unsealed_runs:,} only the form was checked: they have no {RUN} with hashes"
        yield "whole", scan.results, f"{runs:,} runs{form}"
    for kept in sorted((store / "encoders").glob("*/*/*/[!.]*")):
        yield from _check_one(kept, partial(_check_kept, kept, read))


def _is_kept(folder: Path) -> bool:
    """Return whether a folder is an encoder that `--keep` kept, by a field of its manifest."""
    return _has_field(folder / MANIFEST, _KEPT)


def _is_model(folder: Path) -> bool:
    """Return whether a folder is a model that this package exported."""
    is_ours = _has_field(folder / MANIFEST, SEAL)
    return is_ours and (folder / "config.json").is_file()


def _has_field(path: Path, field: str) -> bool:
    try:
        return path.is_file() and field.encode() in read_bounded(path)
    except (OSError, UserError):
        return False


def _check_kept(folder: Path, read: set[Path]) -> str:
    """Return what holds of the encoder that is kept of a run."""
    from benchmarks.sweep.kept import written

    read |= {path for path in folder.rglob("*") if path.is_file()}
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
