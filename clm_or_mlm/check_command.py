"""`clm-or-mlm check`: what of a folder is whole, damaged or missing, and what to do about it.

A folder is compared with each kind in `_KINDS`, at the end of this module; the kind's function yields a `Verdict` for
each thing that it checks. These functions fill a set, `compared`, with the files that were compared with a hash or
refused: `check` names the others at the end. torch is imported only for checkpoints and for encoders.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NamedTuple

from cyclopts import Parameter

from benchmarks.own_datasets.definitions import known_datasets, stored_definitions
from benchmarks.runs import DETAILS, RESULTS, RUN, store_of
from common.errors import UserError, path_hint
from common.files import is_marked, is_temporary
from common.manifest import (
    FILES,
    MANIFEST,
    SEAL,
    DamagedError,
    another_shape,
    check_files,
    parse_manifest,
    read_manifest,
    strangers,
)
from common.plain_text import counted, first_of
from common.provenance import PROVENANCE
from common.reading import read_bounded
from pretraining.data import shard_manifest
from pretraining.data.shard_manifest import INDEX, SHARD_SPLITS, UNFINISHED
from pretraining.training.log import LOG, read_log
from workflow.jobs import WORKFLOW

_TRAINED = ("stages", "models", "starts")
"""Folders that `train` and `adapt` write into their --out: each stage's checkpoints, the exported models, and
checkpoints that were exported because another training starts from them."""
_RECORDS = (MANIFEST, PROVENANCE, ".sif.json")
"""How the names of files end that may list others with their hashes."""
_DEEPEST = 3
"""Levels of subfolders in which things are looked for: STUDY/analysis/table10/instances has three."""
_DATASET_AGAIN = "fetch, import or make the dataset again with --replace"
_TRAIN_AGAIN = "run the same train, adapt or workflow command again"
_MODEL_AGAIN = "remove it and run the command again that wrote it (train, adapt or pretraining export)"
_KEEP_AGAIN = "`clm-or-mlm benchmarks run` with --keep best makes it again"
_STUDY_PARTS = {"analysis": 2, "data": 2, "shards": 1, "results": 5}
"""Folders of a study that its `workflow` command makes again once a job needs them: how many names each has."""


class Verdict(NamedTuple):
    """A line of `check`."""

    kind: str
    """`whole`, `damaged` or `missing`."""
    what: object
    """The file or folder."""
    sentence: str
    """What holds of it; if it is not whole, with the remedy."""


class _Place(NamedTuple):
    """A folder that is looked into."""

    folder: Path
    manifest: bytes
    """Content of its manifest; empty where none can be read."""
    is_named: bool
    """Whether the user named it, not a folder around it."""


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """A kind of folder. One folder can be of several kinds: a study's holds shards and a run store."""

    is_here: Callable[[_Place], bool]
    """Whether a folder is of this kind."""
    check: Callable[[Path, set[Path]], Iterator[Verdict]]
    """Yields the verdicts on a folder of this kind, and adds to the set what `compared` holds."""
    parts: tuple[str, ...] = ()
    """Subfolders that `check` reads itself."""
    is_all: bool = False
    """Whether a folder of this kind is compared with no further kind, and its subfolders are not looked into."""


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
    compared = set[Path]()
    for verdict in _verdicts(folder, compared):
        sentence = verdict.sentence
        if verdict.kind == "damaged":
            damaged = True
            # `what` is a path, or the text of one.
            sentence += _study_remedy(Path(str(verdict.what)))
        sys.stdout.write(f"{verdict.kind}: {verdict.what}: {sentence}\n")

    # Nothing of this package was found: the folder is an encoder that others made, or is refused.
    if not compared and not damaged:
        _check_encoder_of_others(folder)
        return 0

    names = unsealed(folder, compared)
    if names:
        count = counted(len(names), "file")
        sys.stdout.write(
            f"not compared: {folder}: {count} without a hash: {first_of(names)}\n"
        )

    return int(damaged)


def _study_remedy(damaged: Path) -> str:
    """Return how a study makes a damaged file or folder again; empty text where the verdict says all."""
    # The folder of a study, known by its record of the workflow, may be the damaged one itself or any around
    # it.
    for study in (damaged, *damaged.parents):
        if not (study / WORKFLOW).is_file():
            continue
        names = damaged.relative_to(study).parts
        # How many of these names lead to what is removed: two for analysis/table10, one for shards; 0 for
        # what the workflow does not make.
        length = _STUDY_PARTS.get(names[0], 0) if names else 0

        # A path that is shorter, such as that of all results, gets no such remedy: most of what is in it is
        # undamaged.
        if 0 < length <= len(names):
            part = study.joinpath(*names[:length])
            return (
                f"; or, in this study, remove {part} and run the same `workflow` command again, which makes "
                "what it needs"
            )
    return ""


def _check_encoder_of_others(folder: Path) -> None:
    """Print what an encoder without a hash passes; refuse a folder that is not an encoder."""
    if not (folder / "config.json").is_file():
        what = "has nothing that is checked"
        # Folders of many kinds can be checked, so that any folder which is not empty ("*") may have been
        # meant.
        if not folder.exists():
            what = f"is not there{path_hint(folder, '*')}"
        raise UserError(
            f"{folder} {what}; give an encoder (config.json), shards (train or validation), a run store (results), "
            "or the --out of train or adapt (stages or models)"
        )

    from pretraining.model.encoder_folder import checked_encoder

    for sentence in checked_encoder(folder):
        sys.stdout.write(f"{sentence}\n")


def unsealed(folder: Path, compared: Set[Path]) -> list[str]:
    """Return the paths, below a folder, of the files in it that are not in `compared`, sorted."""
    names = []
    for path in folder.rglob("*"):
        # A temporary file is what a killed process left of a write: it is no result, and the next write removes it.
        is_left_over = is_temporary(path.name)
        if path.is_file() and path not in compared and not is_left_over:
            names.append(path.relative_to(folder).as_posix())
    return sorted(names)


def _verdicts(folder: Path, compared: set[Path], depth: int = 0) -> Iterator[Verdict]:
    """Yield the verdicts on all that a folder and the folders in it hold.

    Args:
        folder: the folder.
        compared: gets the files that were compared with a hash, or refused.
        depth: how many levels this folder is below the one that the user named; 0 for that folder itself.
    """
    already_checked = set[str]()
    place = _Place(folder, _content_of(folder / MANIFEST), is_named=depth == 0)
    for kind in _KINDS:
        if kind.is_here(place):
            already_checked.update(kind.parts)
            yield from kind.check(folder, compared)
            if kind.is_all:
                return

    if depth < _DEEPEST and folder.is_dir():
        for inner in sorted(folder.iterdir()):
            # Hidden folders hold unfinished work of this package, or files of other programs such as git.
            is_hidden = inner.name.startswith(".")
            if inner.is_dir() and inner.name not in already_checked and not is_hidden:
                yield from _verdicts(inner, compared, depth + 1)


def _listed(folder: Path, compared: set[Path]) -> Iterator[Verdict]:
    """Yield a verdict on each record of a folder: a JSON file that lists the files next to it with their hashes.

    Tables, figures and pages have such a record.
    """
    for path in sorted(folder.glob("*.json")):
        # A record that is in `compared` was checked with the kind of folder that it belongs to.
        if path in compared or not path.name.endswith(_RECORDS):
            continue
        try:
            content = read_bounded(path)
            # Every record of this package has a seal: without it, the file is another program's.
            if SEAL.encode() not in content:
                continue
            record = parse_manifest(content)
        except DamagedError as error:
            compared.add(path)
            sentence = f"is damaged or from an earlier version ({error}); {_record_remedy(path)}"
            yield Verdict("damaged", path, sentence)
        except (UserError, OSError) as error:
            compared.add(path)
            # A verdict has the path already, with which this error begins.
            yield Verdict("damaged", path, str(error).removeprefix(f"{path} "))
        else:
            yield from _check_one(path, partial(_check_listed, path, record, compared))


def _record_remedy(path: Path) -> str:
    """Return what to do about a damaged record, by its name: its content is not believed."""
    if path.name.endswith(PROVENANCE):
        return f"make it again with the command that {path.name} names"
    if path.name == MANIFEST:
        return _DATASET_AGAIN
    # `ingest` refuses a folder without its record as somebody else's, so that the folder has to go first.
    return "remove it and what it lists, and run the command again that made it, such as `ingest`"


def _check_listed(path: Path, record: Mapping[str, Any], compared: set[Path]) -> str:
    """Return words on how many files are as a record says; raise a `UserError` if one is not.

    What a record describes, and so the remedy, is known by a key that only records of its kind have.

    Args:
        path: the record's file.
        record: the record's content.
        compared: gets the record and the files that it lists.
    """
    files = dict(record.get(FILES, {}))
    # The manifest of a dataset lists its tables, not files.
    if "tables" in record:
        remedy = _DATASET_AGAIN
        # A table that is listed in another form is refused as damage (`another_shape`), with the remedy.
        with another_shape(path, remedy):
            tables = record["tables"].items()
            files = {f"{name}.parquet": info["sha256"] for name, info in tables}
    elif "command" in record:
        # A provenance. Commands do not write over a file that was changed since they wrote it.
        remedy = f"remove it and make it again with the command that {path.name} names"
    elif "image" in record:
        # The record of an image's build.
        remedy = "build the image again"
    else:
        # Of a runs table, or of anything else.
        remedy = "run the command again that made it, such as `ingest`"

    compared.add(path)
    compared.update(path.parent / name for name in files)
    check_files(path.parent, files, remedy)
    return f"{counted(len(files), 'file')} as it says"


def _check_one(what: object, check_it: Callable[[], str]) -> Iterator[Verdict]:
    """Yield the verdict on a file or folder: whole, with the words that `check_it` returns, or damaged.

    Args:
        what: the file or folder.
        check_it: checks it; raises a `UserError` if it is damaged, whose sentence the verdict gets.
    """
    try:
        yield Verdict("whole", what, check_it())
    except UserError as error:
        # A verdict has the path already, with which some errors begin.
        sentence = str(error).removeprefix(f"{what}: ").removeprefix(f"{what} ")
        yield Verdict("damaged", what, sentence)


def _shards(folder: Path, compared: set[Path]) -> Iterator[Verdict]:
    """Yield every problem of a shard folder, or that it is whole."""
    if not (folder / MANIFEST).is_file():
        fault = "the shards are unfinished"
        remedy = "run the same `shards` command again"
        # `UNFINISHED` is the subfolder in which shards are written until they are complete.
        if not (folder / UNFINISHED).is_dir():
            fault = f"it has no {MANIFEST}"
            # `shards` refuses a folder with shards that may be another program's.
            remedy = "write the shards into another folder"

        yield Verdict("missing", folder, f"{fault}; {remedy}")
        # With an empty set, `check` would take the folder for an encoder.
        compared.add(folder / MANIFEST)
        return

    problems = shard_manifest.verify_shards(folder)
    for problem in problems:
        yield Verdict("damaged", folder, problem)
    if not problems:
        yield Verdict("whole", folder, "all files match the manifest")
    # `verify_shards` looks at these two as well, besides the files that the manifest lists.
    compared |= {folder / MANIFEST, folder / PROVENANCE}

    # A damaged manifest lists no files; `verify_shards` has named this error already.
    with suppress(UserError):
        listed = shard_manifest.files_of(folder, shard_manifest.load_manifest(folder))
        compared |= {file.path for file in listed.values()}


def _training(out: Path, compared: set[Path]) -> Iterator[Verdict]:
    """Yield the verdicts on the stages, models and starts in a training's --out."""
    # `[!.]*` leaves out names that begin with a dot: unfinished writes, and leases.
    for stage in sorted((out / "stages").glob("[!.]*")):
        yield from _stage(stage, compared)
    for part in ("models", "starts"):
        for model in sorted((out / part).glob("[!.]*")):
            yield from _check_one(model, partial(_check_model, model, compared))


def _stage(folder: Path, compared: set[Path]) -> Iterator[Verdict]:
    """Yield the verdicts on the checkpoints of a stage, and on its log."""
    from pretraining.training import checkpoints

    # Folders with a state.json, by rising step.
    complete = checkpoints.checkpoint_steps(folder)
    again = _train_again(folder)
    state: dict[str, Any] = {}
    for checkpoint in complete:
        # `FILES_OF` has the names of a checkpoint's files: weights, optimizer and state.
        compared |= {checkpoint.path / name for name in checkpoints.FILES_OF}
        try:
            # The last state that can be read stays, for the log.
            state = checkpoints.load_state(checkpoint)
            checkpoints.check_checkpoint(checkpoint)
            sentence = f"weights, optimizer and state of step {checkpoint.step:,}"
            yield Verdict("whole", checkpoint.path, sentence)
        except UserError as error:
            # The error says to remove the checkpoint's folder.
            yield Verdict("damaged", checkpoint.path, f"{error}; then {again}")

    complete_paths = {checkpoint.path for checkpoint in complete}
    all_paths = sorted(folder.glob("step-*"))
    incomplete = [path for path in all_paths if path not in complete_paths]
    for path in incomplete:
        sentence = f"it has no state.json; remove it, then {again}"
        yield Verdict("damaged", path, sentence)

    if complete:
        compared.add(folder / LOG)
        yield from _stage_log(folder, state, complete[-1].step)
    elif not incomplete:
        yield Verdict("missing", folder, f"no checkpoint; to have one, {again}")


def _train_again(stage: Path) -> str:
    """Return how to have the lost files of a stage written again, as words that end a sentence.

    `train` and `adapt` train nothing for a model that is finished, so models that were made from the stage must be
    removed first.
    """
    words = [_TRAIN_AGAIN]
    # The folder of a stage is OUT/stages/NAME.
    out = stage.parent.parent
    for model in sorted((out / "models").glob("[!.]*")):
        # A manifest that is damaged or another program's does not say from which stages its model was made.
        with suppress(DamagedError, KeyError, TypeError):
            stages = parse_manifest(_content_of(model / MANIFEST))["stages"]
            if stage.name in [item["name"] for item in stages]:
                words.insert(0, f"remove {model}")
    return " and ".join(words)


def _stage_log(
    folder: Path, state: Mapping[str, Any], last_step: int
) -> Iterator[Verdict]:
    """Yield the verdict on the log of a stage, up to the stage's last checkpoint.

    Args:
        folder: the stage's folder.
        state: the state of the last checkpoint whose state can be read; empty where there is none.
        last_step: the step of the last checkpoint.
    """
    from pretraining.training import checkpoints

    log = folder / LOG
    # `read_log` adds a sentence on each fault to this list, and leaves the faulty lines out.
    faults: list[str] = []
    rows = read_log(log, faults)
    steps = [row["step"] for row in rows if row["split"] == "train"]

    # Rows are written only while a stage is trained, so that lost rows need the stage to be trained again.
    remedy = f"to have all rows, remove its folder, then {_train_again(folder)}"
    if faults:
        # One fault is printed, since the remedy is the same for all.
        kind = "damaged" if log.exists() else "missing"
        sentence = f"{faults[0]}; a model is exported with what is there; {remedy}"
        yield Verdict(kind, log, sentence)
        return

    # Where the stage began, as a state counts: from 0, while logs count steps from 1. So a stage that began
    # at 100 has no row before step 101. Without a state to say where it began, the stage is taken to have
    # begun just before the log's first row; without rows, at the very beginning.
    start = min(steps, default=1) - 1
    if state:
        # A state lists all stages that led to its checkpoint, this one last.
        start = state["stages"][-1]["start"]

    lacking = _steps_without_row(sorted(set(steps)), start, last_step)
    if lacking:
        which = f"{len(lacking)} rows of the steps {lacking[0]} to {lacking[-1]}"
        sentence = (
            f"{which}; the manifest of a model that is exported names them; {remedy}"
        )
        yield Verdict("missing", log, sentence)
    elif checkpoints.is_log_changed(folder, last_step):
        # A checkpoint records the hash of the log at its time. The manifest of a model has such changes in
        # words.
        sentence = f"rows have changed since they were written, as a model's manifest says; {remedy}"
        yield Verdict("damaged", log, sentence)
    else:
        yield Verdict("whole", log, f"{len(steps):,} rows of training")


def _steps_without_row(steps: Sequence[int], start: int, end: int) -> list[int]:
    """Return the steps of a stage up to a checkpoint at which its log should have a row of training and has none.

    Training logs each step that is a multiple of some number, which the log does not state: the most frequent distance
    of its rows is taken for it.

    Args:
        steps: the steps that have a row, by rising step.
        start: the step after which the stage begins.
        end: the step of the checkpoint.
    """
    distances = Counter(later - earlier for earlier, later in pairwise(steps))
    # Fewer than two rows tell no distance: one beyond the end makes the range below empty.
    every = end + 1
    if distances:
        [(every, _)] = distances.most_common(1)
    # The smallest multiple that is above `start`.
    first_multiple = every * (start // every + 1)
    expected = range(first_multiple, end + 1, every)
    with_row = set(steps)
    return [step for step in expected if step not in with_row]


def _check_model(folder: Path, compared: set[Path]) -> str:
    """Return sentences on what was checked of an exported model; raise a `UserError` for what is wrong.

    Checked are its files and records; of an encoder also its stored vector, and that it sees both sides.
    """
    from pretraining.model.encoder_folder import (
        SELF_TEST,
        check_model,
        checked_encoder,
        checked_files,
    )

    remedy = _MODEL_AGAIN
    # Files that have no hash are named in the sentences, so `check` need not name them again.
    compared |= {path for path in folder.rglob("*") if path.is_file()}
    manifest = check_model(folder, remedy)
    if manifest is None:
        raise UserError(f"it has no {MANIFEST}; {remedy}")

    # Only encoders are exported with a self-test, a text and its vector; causal models are not.
    if (folder / SELF_TEST).is_file():
        return "; ".join(checked_encoder(folder, remedy))
    return "; ".join(checked_files(folder, manifest, remedy))


def _store(folder: Path, compared: set[Path]) -> Iterator[Verdict]:
    """Yield the verdicts on a run store. An error that ends its check early is a verdict too: `check` goes on."""
    try:
        yield from _runs(store_of(folder), compared)
    except UserError as error:
        yield Verdict("damaged", folder, str(error))


def _runs(store: Path, compared: set[Path]) -> Iterator[Verdict]:
    """Yield the verdicts on the runs of a store, and on the encoders that it keeps."""
    from analysis.store.ingest import RefusedStoreError, ingest
    from analysis.store.scan import scan_store
    from benchmarks.sweep.run_store import RunStore

    # The runs as a whole, by the check that `ingest` makes.
    datasets = known_datasets(stored_definitions(store))
    # "*" accepts models of any name, since a store that is checked need not hold the study's.
    scan = scan_store(store, ["*"], datasets=datasets)

    # `ingest` finds what is wrong with the runs; the table that it writes is not used.
    with TemporaryDirectory() as folder:
        try:
            table = ingest(store, Path(folder, "runs.parquet"), add_models=["*"])
            problems, runs = table.problems, len(table.runs)
        except RefusedStoreError as error:
            problems, runs = tuple(error.problems), 0

    damaged_paths = []
    for problem in problems:
        kind = "missing"
        # Harmless problems are runs that are unfinished or not there: what is there is used.
        if not problem.harmless:
            kind = "damaged"
            damaged_paths.append(Path(problem.path))
        yield Verdict(kind, problem.path, problem.sentence)

    # Each run for itself: for its state, every file of the run is compared with its hash. Runs of the
    # authors' release have no hashes.
    unsealed_runs = 0
    run_store = RunStore(store, datasets)
    # A cell holds the runs of one model on one dataset; `key` names a run, with its learning rate and seed.
    for cell in scan.cells:
        for key in cell.runs.values():
            path = scan.results / key.folder
            state = run_store.state(key)
            fault = state.fault
            # Refused, or compared: `RUN` is the run's manifest, with the hashes of the other two files.
            if fault or (path / RUN).is_file():
                compared |= {path / name for name in (RESULTS, RUN, DETAILS)}
            elif state.done:
                unsealed_runs += 1

            # A run is not named again if a problem names the run's folder, a folder around that, or a file in
            # it.
            is_named = any(
                path.is_relative_to(damaged) or damaged.is_relative_to(path)
                for damaged in damaged_paths
            )
            if fault and not is_named:
                yield Verdict("damaged", path, fault)

    if runs:
        # Where no run has hashes, nothing may have been added to the set. With an empty set, `check` would
        # take the store for an encoder that others made.
        compared.add(scan.results)
        form = ""
        if unsealed_runs:
            form = f"; of {unsealed_runs:,} only the form was checked: they have no {RUN} with hashes"
        yield Verdict("whole", scan.results, f"{runs:,} runs{form}")

    # The encoders that --keep kept: encoders/MODEL/TASK/DATASET/RUN, such as lr1e-04_sd0. Names that begin
    # with a dot are unfinished writes.
    for kept in sorted((store / "encoders").glob("*/*/*/[!.]*")):
        yield from _check_one(kept, partial(_check_kept, kept, compared))


def _check_kept(folder: Path, compared: set[Path]) -> str:
    """Return words on an encoder that `benchmarks run --keep` kept of a run; raise a `UserError` if it is damaged."""
    from benchmarks.sweep.kept import kept_files

    # Files that are not in the manifest are named in the verdict, so `check` need not name them again.
    compared |= {path for path in folder.rglob("*") if path.is_file()}
    # Without an undamaged manifest, --keep takes the folder's files for somebody else's and writes
    # nothing there. Where only another file is damaged, --keep writes the folder again.
    remedy = f"move it elsewhere, and {_KEEP_AGAIN}"
    try:
        files = read_manifest(folder / MANIFEST, remedy)[FILES]
    except FileNotFoundError:
        raise UserError(f"it has no {MANIFEST}; {remedy}") from None

    check_files(folder, files, _KEEP_AGAIN)
    sentence = f"{len(files)} files match the manifest"
    # `kept_files` are these `files`, the manifest itself, and the card as long as nobody has changed it.
    others = strangers(folder, kept_files(folder))
    if others:
        sentence += f"; changed or not of --keep: {first_of(others)}"
    return sentence


def _has_shards(place: _Place) -> bool:
    """Return whether finished or unfinished shards of this package are in a folder, or what is left of them."""
    folder = place.folder
    # Only the manifest of shards has this key. The text is searched, so that a damaged manifest is recognised as well.
    has_manifest = b"tokenizer_files" in place.manifest
    if has_manifest or is_marked(folder / UNFINISHED):
        return True
    return any((folder / split / INDEX).is_file() for split in SHARD_SPLITS)


def _has_training(place: _Place) -> bool:
    return any((place.folder / name).is_dir() for name in _TRAINED)


def _has_runs(place: _Place) -> bool:
    """Return whether a folder is a run store, or the `results` folder of one.

    A store itself may be called `results`; the folder around that store is not one.
    """
    results = place.folder / "results"
    # `store_of` returns the store of a store's `results` folder, and any other folder as it is. So a folder
    # that it does not return as it is, is the `results` folder of a store. If that holds for results/results
    # in this folder, the store is `results` in this folder, and this folder is only around it.
    inner_results = results / "results"
    is_around_store = store_of(inner_results) != inner_results
    if is_around_store:
        return False
    is_results = store_of(place.folder) != place.folder
    return results.is_dir() or is_results


def _is_kept(place: _Place) -> bool:
    """Return whether a folder is an encoder that `--keep` kept, by a field of its manifest."""
    return b"description_sha256" in place.manifest


def _is_named_encoder(place: _Place) -> bool:
    """Return whether the user named a model's folder, of whoever made it: `check` loads it."""
    return place.is_named and (place.folder / "config.json").is_file()


def _is_model(place: _Place) -> bool:
    """Return whether a folder is a model that this package exported."""
    is_ours = SEAL.encode() in place.manifest
    return is_ours and (place.folder / "config.json").is_file()


def _content_of(path: Path) -> bytes:
    try:
        return read_bounded(path) if path.is_file() else b""
    except (OSError, UserError):
        return b""


def _kept(folder: Path, compared: set[Path]) -> Iterator[Verdict]:
    return _check_one(folder, partial(_check_kept, folder, compared))


def _model(folder: Path, compared: set[Path]) -> Iterator[Verdict]:
    return _check_one(folder, partial(_check_model, folder, compared))


def _left_to_check(folder: Path, compared: set[Path]) -> Iterator[Verdict]:
    """Yield nothing: `check` finds that nothing was compared, and checks the folder as an encoder of others."""
    del folder, compared
    return iter(())


_KINDS = (
    _Kind(
        is_here=_has_shards,
        check=_shards,
        parts=(*SHARD_SPLITS, "tokenizer", UNFINISHED),
    ),
    _Kind(is_here=_has_training, check=_training, parts=_TRAINED),
    _Kind(
        is_here=_has_runs,
        check=_store,
        parts=("results", "encoders", "datasets", "locks"),
    ),
    _Kind(is_here=_is_kept, check=_kept, is_all=True),
    _Kind(is_here=_is_named_encoder, check=_left_to_check, is_all=True),
    _Kind(is_here=_is_model, check=_model, is_all=True),
    # Any folder may hold records.
    _Kind(is_here=lambda _: True, check=_listed),
)
"""Kinds of folder, in the order in which a folder is compared with them."""
