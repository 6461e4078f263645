"""Checks of a study's settings before it starts. Each yields a line for each problem that it finds.

A line is made by `fail` (the study's start is refused) or `warn`, with what was looked at, and a sentence: what was
seen and, after a semicolon, what to do.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from string import Template

from common.cli import check_words
from common.errors import UserError
from common.provenance import git_commit
from container.check_lines import CheckLine, fail, ok, warn
from container.runtime import check_name, program_of, stream
from pretraining.plan.devices import DEVICES, training_gb
from workflow.engine import reconcile
from workflow.jobs import Command
from workflow.start import Check, Start
from workflow.study_progress import StudyProgress, shortages
from workflow.study_settings import StudySettings

_SAMPLES = {"sample-10BT": 10e9, "sample-100BT": 100e9, "sample-350BT": 350e9}
"""FineWeb-Edu's samples and their tokens, by GPT-2's tokenizer, as its page gives them."""
_SPARE = 1.1
"""A sample needs so many times a study's tokens: another tokenizer may find fewer, and validation takes documents."""

_PACKED = (".parquet", ".gz", ".zst", ".bz2", ".xz")
"""Endings of compressed files."""
_EXPANDS = 6.0
"""Bytes of text in a byte of a compressed file, on the high side: 3.6 for a hundred English novels (zstd)."""
_TOKEN_BYTES = 3.0
"""Bytes of text in a token of a large vocabulary, on the low side: 4.3 to 4.9 in English prose by OLMo's 100,278."""

_FEW_IDS = 0.75
"""A tokenizer with fewer ids than this share of a model's embedding rows is hardly the one that the model is meant for.
"""

_SLICE = re.compile(r"\dg\.\d+gb")
"""How Slurm and NVIDIA name a slice of a GPU, as in `gpu:1g.10gb`."""

_START_MINUTES = 15
"""Minutes of a job; a shorter one than those of the smallest toy study spends them on starting and saving."""


def _has_shards(start: Start) -> bool:
    """Return whether the shards are there. Then text and tokenizer are not needed; a scratch may have purged them."""
    jobs = start.workflow.of_kind("shards")
    return all(job.is_complete(start.folder) for job in jobs)


def text(start: Start) -> Iterator[CheckLine]:
    """Whether the text to pretrain on is there."""
    settings = start.settings
    if _has_shards(start):
        return
    if not settings.text:
        said = "no text to pretrain on; set text = [...] in the settings (docs/hpc.md)"
        yield fail("text", said)

    for word in settings.text:
        needs_network = f"{word} needs network access"
        if not word.startswith("hf:"):
            if not _files(word):
                said = f"{word} matches no file; correct `text` in the settings"
                yield fail("text", said)
        elif os.environ.get("HF_HUB_OFFLINE"):
            said = f"{needs_network}, but HF_HUB_OFFLINE is set; list files on disk in `text`"
            yield fail("text", said)
        elif start.profile == "slurm" and settings.offline:
            advice = "download the files on a login node and list them in `text`"
            seen = f"{needs_network}, which compute nodes lack (offline = true)"
            said = f"{seen}; {advice}"
            yield fail("text", said)


def _files(word: str) -> list[Path]:
    """Return what a path or pattern matches, with all that is in a folder in place of the folder."""
    # `glob` takes relative patterns only, so a full path is matched from `/`.
    root = Path(word).anchor
    found: list[Path] = []
    for match in Path(root).glob(word.removeprefix(root)):
        found += match.rglob("*") if match.is_dir() else [match]
    return found


def tokenizer(start: Start) -> Iterator[CheckLine]:
    """Whether there is one tokenizer, with about as many ids as the models' embeddings have rows."""
    settings = start.settings
    if _has_shards(start):
        return

    # Is there one? Exactly one of the two settings is needed; a tokenizer is given or trained.
    if bool(settings.tokenizer) == bool(settings.train_tokenizer):
        fault = "no tokenizer; set"
        if settings.tokenizer:
            fault = "two tokenizers; set either"
        keys = "tokenizer = ... or train_tokenizer = ... in the settings (docs/hpc.md)"
        yield fail("tokenizer", f"{fault} {keys}")

    if settings.tokenizer and not Path(settings.tokenizer).exists():
        said = (
            f"{settings.tokenizer} does not exist; correct `tokenizer` in the settings"
        )
        yield fail("tokenizer", said)
        # What does not exist has no ids to compare.
        return

    # Does it fit the models?
    try:
        ids = _ids(settings)
    except UserError as error:
        yield fail("tokenizer", f"tokenizer: {error}")
        return

    if not ids:
        return
    # How many rows the embeddings of each size have. Every size of the study has to hold the tokenizer's ids, also one
    # that the target does not need: then the start is refused. More rows than ids are usual, far more are a mistake, of
    # which only the target's sizes are warned. The study may have no sizes: models with a start have the start's.
    rows = {size: shape.vocab for size, shape in start.study.shapes.items()}
    smallest = min(rows, key=rows.__getitem__, default="")
    if rows and ids > rows[smallest]:
        said = f"the tokenizer has {ids:,} ids, but {smallest} has rows for {rows[smallest]:,}"
        yield fail("tokenizer", f"{said}; use the study's, or correct `vocab`")

    for size in start.sizes:
        # `shapes` reads a start's shape from its folder, which `rows` lacks.
        vocab = start.study.shapes[size].vocab
        if ids < _FEW_IDS * vocab:
            said = f"the tokenizer has {ids:,} ids, but {size} has rows for {vocab:,}"
            yield warn("tokenizer", f"{said}; is it the study's tokenizer?")


def _ids(settings: StudySettings) -> int:
    """Return how many ids the study's tokenizer has, or will have once it is trained; 0 where that cannot be seen.

    Raises:
        UserError: the setting names something else than a tokenizer.
    """
    # A tokenizer that is to be trained will have as many ids as its setting says; without any tokenizer this is 0.
    if settings.train_tokenizer or not settings.tokenizer:
        return settings.train_tokenizer
    # A login node's environment may lack the tokenizers library.
    with contextlib.suppress(ImportError):
        from pretraining.data.tokenizer import load_tokenizer

        return load_tokenizer(settings.tokenizer).vocab_size
    return 0


def environment(start: Start) -> Iterator[CheckLine]:
    """Whether this environment has torch, where jobs run without an image."""
    # `find_spec` only looks for torch: importing it takes seconds.
    if not start.workflow.image and find_spec("torch") is None:
        yield fail(
            "torch",
            "jobs need torch, which this environment lacks; give --image build/full.sif (make image-full), or start "
            "the study with .venv/full/bin/clm-or-mlm workflow (make full-env)",
        )


def datasets(start: Start) -> Iterator[CheckLine]:
    """Whether the datasets are there."""
    settings = start.settings
    if settings.make_datasets:
        return

    # Without a folder of datasets, all of them are missing.
    missing = settings.needed_datasets
    where = "the settings name no folder (data = ...) with"
    if settings.data:
        place = Path(settings.data)
        where = f"{place} lacks"
        manifests = {name: place / name / "manifest.json" for name in missing}
        missing = tuple(name for name in missing if not manifests[name].is_file())

    if missing:
        said = f"{where} {', '.join(missing)}; download them: clm-or-mlm fetch"
        yield fail("datasets", said)


def modules(start: Start) -> Iterator[CheckLine]:
    """Whether the site's environment modules can be loaded, as jobs load them."""
    words = f"module load {shlex.join(start.settings.modules)}"
    if not start.settings.modules:
        return
    code, output = start.machine.output(["bash", "-c", words])
    if code:
        why = output.splitlines()[-1] if output else f"exit code {code}"
        yield fail("modules", f"{words} fails here ({why}); correct `modules`")


def gpus(start: Start) -> Iterator[CheckLine]:
    """Whether the GPUs that jobs ask for are whole ones, and are here where jobs run here."""
    settings = start.settings
    asked = settings.gpus_per_node
    if settings.nodes * asked > 1 and _SLICE.search(settings.gres):
        said = f"gres {settings.gres} is a slice of a GPU (MIG), and slices cannot use NCCL; set gpus_per_node = 1"
        yield fail("GPUs", said)

    if start.profile == "slurm" or settings.runtime == "none":
        return
    # Jobs run on this machine: are there as many GPUs as the settings ask for?
    found = start.machine.gpus() if asked else 0
    if found < asked:
        fault = f"the study asks for {asked} GPUs, but this machine has {found}, and with --profile local jobs run here"
        advice = "use --profile slurm, or set gpus_per_node (0: compute on CPUs)"
        yield fail("GPUs", f"{fault}; {advice}")


def options(start: Start) -> Iterator[CheckLine]:
    """Whether the commands of jobs understand their words."""
    settings = start.settings
    # Without text or tokenizer the commands are incomplete; other checks name what is missing.
    if not settings.text or not (settings.tokenizer or settings.train_tokenizer):
        return
    # Jobs of one kind have the same options, so one job of each kind is looked at.
    jobs = {job.kind.name: job for job in start.workflow.jobs.values()}
    # Relative paths in the words start from the study's folder.
    with contextlib.chdir(start.place):
        for job in jobs.values():
            for words in job.commands:
                yield from _misunderstood(words)


def _misunderstood(words: Command) -> Iterator[CheckLine]:
    """Yield a line where a job's command would not understand its words.

    Only commands that the user's settings `shard_options` and `tuning_options` add words to are looked at.
    """
    # The setting that the line below names.
    key = "tuning_options"
    # A login node may lack a library that the command's module imports: then the words are not checked.
    with contextlib.suppress(ImportError):
        try:
            if words[0] == "shards":
                from pretraining.commands import shards

                key = "shard_options"
                check_words(shards, words[1:], "shards")
            elif words[:2] == ("benchmarks", "run"):
                from benchmarks.commands.grid import run

                check_words(run, words[2:], "benchmarks run")
        except UserError as error:
            yield fail(key, f"{key}: {error}")


def tokens(start: Start) -> Iterator[CheckLine]:
    """Whether the shards, or the text before shards are made, have as many tokens as training takes."""
    for job in start.workflow.of_kind("shards"):
        # A sentence where there are too few, else None.
        short = job.shortage(start.folder)
        if not _has_shards(start):
            short = _short_files(job.tokens, start.settings)
        if short:
            yield fail("text", short)


def _short_files(needed: float, settings: StudySettings) -> str | None:
    """Return a sentence if the text has too few tokens even by a high estimate from its files' sizes; else None.

    None as well where any number of tokens will do (`needed` is 0), or where sizes are unknown, as of texts on a hub.
    """
    if not needed or any(word.startswith("hf:") for word in settings.text):
        return None
    files = [path for word in settings.text for path in _files(word) if path.is_file()]
    size = 0.0
    for path in files:
        expands = _EXPANDS if path.suffix in _PACKED else 1.0
        size += expands * path.stat().st_size

    # A tokenizer that is trained here is byte-level, with a vocabulary of any size: at most every byte is a token.
    most = size if settings.train_tokenizer else size / _TOKEN_BYTES
    if not files or most >= needed:
        return None
    return (
        f"`text` names {len(files):,} files with at most {most:,.0f} tokens, but the study needs "
        f"{needed:,.0f}; name more text (of FineWeb-Edu {sample_of(needed)}), or set repeat_text = true"
    )


def sample_of(tokens: float) -> str:
    """Return the smallest sample of FineWeb-Edu that has so many tokens, with some to spare."""
    for name, size in _SAMPLES.items():
        if size >= _SPARE * tokens:
            return name
    return "the whole of it"


def cores(start: Start) -> Iterator[CheckLine]:
    """Whether each worker of fine-tuning has a core."""
    settings = start.settings
    # The options are words such as ("--workers", "8"): each is looked up by the word before it.
    workers = dict(itertools.pairwise(settings.tuning_options)).get("--workers", "")
    # All cores of a job: `cpus` is the number for each of its GPUs.
    shared = settings.cpus * settings.tuning_gpus
    if workers.isdecimal() and int(workers) > shared:
        fault = f"tuning_options: {workers} workers share {shared} cores, but each keeps one busy"
        yield warn("cores", f"{fault}; leave --workers out")


def memory(start: Start) -> Iterator[CheckLine]:
    """Whether a GPU's memory holds a pass, the sequences that training computes at a time (`microbatch`)."""
    settings = start.settings
    memory_gb = DEVICES[settings.device].memory_gb
    # Pretraining on CPUs, or a GPU whose memory is not known.
    if not settings.gpus_per_node or not memory_gb:
        return
    batches = start.study.config.batches

    # Without the setting, training chooses a pass that fits. One sequence has to.
    microbatch = batches.microbatch or 1
    pass_tokens = microbatch * batches.max_length
    # GPUs that train together take more memory each, as they sum their gradients.
    several = settings.nodes * settings.gpus_per_node > 1
    for size in start.sizes:
        needs = training_gb(start.study.shapes[size], pass_tokens, several=several)
        if needs > memory_gb:
            fault = f"{size} takes about {needs:.0f} GB of each GPU at microbatch={microbatch}"
            advice = "remove microbatch from pretraining_settings, or choose a smaller size or a larger GPU"
            said = f"{fault}, but {settings.device} has {memory_gb}; {advice}"
            yield warn("memory", said)


def space(start: Start) -> Iterator[CheckLine]:
    """Whether disk and time limits suffice for the jobs that are not done yet (`shortages`)."""
    todo = tuple(reconcile(start.workflow, start.folder, change=False))
    found = StudyProgress(workflow=start.workflow, folder=start.folder, todo=todo)
    for sentence in shortages(found):
        yield warn("space", sentence)


def time_limits(start: Start) -> Iterator[CheckLine]:
    """Whether jobs have more time than they take to start and to save."""
    jobs = start.workflow.jobs.values()
    # One line for each kind of jobs, since the kind's setting is wrong for all.
    too_short = {job.queue: job for job in jobs if job.minutes < _START_MINUTES}
    for queue, job in too_short.items():
        fault = f"{queue} jobs end after {job.minutes} min, about as long as they take to start and save"
        yield warn("time", f"{fault}; raise limit_hours or [jobs.{queue}] hours")


def variables(start: Start) -> Iterator[CheckLine]:
    """Whether variables are set here that the values of the site's variables name, as `$SCRATCH/tmp` names SCRATCH."""
    for key, value in start.workflow.environ.items():
        for name in sorted(set(Template(value).get_identifiers())):
            # Slurm sets its own variables only in jobs.
            if not name.startswith("SLURM_") and name not in os.environ:
                fault = f"[environment] {key} is {value}, but {name} is not set here"
                advice = "where a node lacks it too, jobs end"
                yield warn("environment", f"{fault}; {advice}")


def binds(start: Start) -> Iterator[CheckLine]:
    """Whether the folders exist that the settings have images show."""
    for bind in start.settings.binds:
        path = Template(bind).safe_substitute(os.environ)
        if not Path(path).exists():
            said = f"binds: {path} does not exist here; where a node lacks it too, it is left out"
            yield warn("binds", said)


def image(start: Start) -> Iterator[CheckLine]:
    """Whether the jobs' image is an image file, signed if asked for, starts here, and has this checkout's code."""
    key = start.settings.image_key
    path = Path(start.workflow.image)
    if key and not Path(key).exists():
        said = f"{key} does not exist; correct `image_key` in the settings"
        yield fail("image", said)
        return

    if not start.workflow.image:
        return
    try:
        _refuse_no_image(path, key)
        if program_of(start.machine) is None:
            said = f"apptainer is not on PATH here, so {path} was not tried; the first job will try it"
            yield warn("image", said)
            return
        name, commit = start.identity
    except UserError as error:
        yield fail("image", str(error))
        return

    checkout = git_commit()
    if name != "full":
        said = f"{path} is the {name} image; jobs need the full one: make image-full"
        yield fail("image", said)
    elif commit != checkout:
        said = f"jobs run the image's commit {commit}, not this checkout's {checkout}"
        yield warn("image", said)
    else:
        yield ok("image", f"{path} starts here; commit {commit[:12]}")


def _refuse_no_image(path: Path, key: str) -> None:
    """Raise a `UserError` for a file that is not an image, or that is not signed with the key, if one is given."""
    if not path.is_file():
        advice = "build it (make image-full) or leave --image out"
        raise UserError(f"{path} does not exist; {advice}")

    check_name(path)  # refuses a name that does not end in .sif
    with path.open("rb") as file:
        # An image file begins with a launcher line of 32 bytes, then the format's name of 9.
        is_image = file.read(41)[32:] == b"SIF_MAGIC"

    if not is_image:
        advice = "copy it here again, or build it: make image-full"
        raise UserError(f"{path} is not a valid image file; {advice}")

    if key:
        try:
            # `list` runs the command to its end; its lines are not shown.
            list(stream(["verify", "--key", key, str(path)]))
        except UserError:
            advice = "use the signed image or remove image_key"
            said = f"{path} is not signed with the key {key}; {advice}"
            raise UserError(said) from None


STUDY_CHECKS: tuple[Check, ...] = (
    text,
    tokenizer,
    environment,
    datasets,
    modules,
    gpus,
    options,
    tokens,
    cores,
    memory,
    space,
    time_limits,
    variables,
    binds,
    image,
)
"""The checks before a study starts. The first of them that fails refuses the start."""
