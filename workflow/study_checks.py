"""What is looked at before a study starts: its settings, its image, what Slurm would say; a line for each problem.

The start refuses the first that fails, the dry run lists all of them.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from string import Template

from common.cli import check_words
from common.errors import UserError
from common.files import sha256_file, written
from common.provenance import git_commit
from container.check_lines import CheckLine, fail, ok, refuse, warn
from container.machine import Machine
from container.runtime import check_name, identity_of, program_of, stream
from pretraining.plan.devices import DEVICES, training_gb
from workflow.engine import Profile
from workflow.jobs import Command, Job, Workflow
from workflow.slurm_request import check_requests
from workflow.study import models_of, study_of
from workflow.study_settings import StudySettings

_SAMPLES = {"sample-10BT": 10e9, "sample-100BT": 100e9, "sample-350BT": 350e9}
"""FineWeb-Edu's samples and their tokens, by GPT-2's tokenizer, as its page gives them."""
_SPARE = 1.1
"""Room for another tokenizer, and for the documents that validation takes."""

_PACKED = (".parquet", ".gz", ".zst", ".bz2", ".xz")
_EXPANDS = 6.0
"""Bytes of text in a byte of such a file, on the high side: 3.6 for a hundred English novels (zstd)."""
_TOKEN_BYTES = 3.0
"""Bytes of text in a token of a large vocabulary, on the low side: 4.3 to 4.9 in English prose by OLMo's 100,278."""

_FEW_IDS = 0.75
"""A tokenizer with fewer than this share of a size's rows is hardly the one that the size was made for."""

_START_MINUTES = 15
"""Shorter jobs than those of the smallest toy study mostly start and save."""


def check_start(
    settings: StudySettings,
    workflow: Workflow,
    folder: Path,
    profile: Profile,
    *,
    dry_run: bool = False,
) -> tuple[Workflow, list[CheckLine]]:
    """Return the workflow, with its image's hash and commit, and a line for all that was looked at.

    Args:
        settings: the study's.
        workflow: its jobs.
        folder: where they work.
        profile: where they run.
        dry_run: go on after what fails.

    Raises:
        UserError: the first that fails; what comes after it is not looked at.
    """
    take = list if dry_run else refuse
    lines = take(check_settings(settings, workflow, folder, profile))
    if profile == "slurm":
        lines += take(check_requests(workflow))
    workflow, image = check_image(workflow, folder, key=settings.image_key)
    return workflow, lines + take(image)


def check_settings(
    settings: StudySettings, workflow: Workflow, folder: Path, profile: Profile
) -> Iterator[CheckLine]:
    """Yield what the first jobs of a study would fail for, and what may be wrong; arguments as of `check_start`."""
    sharded = all(job.is_complete(folder) for job in workflow.of_kind("shards"))
    # Shards do without what they were made of, which a scratch may have purged.
    if not sharded:
        yield from _text(settings, profile)
        yield from _tokenizer(settings, workflow)
    if settings.image_key and not Path(settings.image_key).exists():
        yield fail(
            "image",
            f"{settings.image_key} does not exist; correct `image_key` in the settings",
        )
    if not workflow.image and find_spec("torch") is None:
        yield fail(
            "torch",
            "jobs need torch, which this environment lacks; give --image build/full.sif (make image-full), or start "
            "the study with .venv/full/bin/clm-or-mlm workflow (make full-env)",
        )
    yield from _datasets(settings)
    if settings.modules:  # as jobs load them
        code, text = Machine().output(
            ["bash", "-c", f"module load {shlex.join(settings.modules)}"]
        )
        if code:
            why = text.splitlines()[-1] if text else f"exit code {code}"
            yield fail(
                "modules",
                f"module load {shlex.join(settings.modules)} fails here ({why}); correct `modules`",
            )
    there = (
        Machine().gpus()
        if profile == "local" and settings.runtime != "none"
        else settings.gpus_per_node
    )
    if there < settings.gpus_per_node:
        yield fail(
            "GPUs",
            f"the study asks for {settings.gpus_per_node} GPUs, but this machine has {there}, and with --profile local "
            "jobs run here; use --profile slurm, or set gpus_per_node (0: compute on CPUs)",
        )
    for job in (
        {job.kind.name: job for job in workflow.jobs.values()}.values()
        if settings.text
        else ()
    ):
        yield from filter(None, map(_misunderstood, job.commands))
    for job in workflow.of_kind("shards"):
        if short := job.shortage(folder) if sharded else _short_files(job, settings):
            yield fail("text", short)
    yield from _resources(settings, workflow)


def _text(settings: StudySettings, profile: Profile) -> Iterator[CheckLine]:
    """Yield what is wrong with the names of the text."""
    if not settings.text:
        yield fail(
            "text",
            "no text to pretrain on; set text = [...] in the settings (docs/hpc.md)",
        )
    for word in settings.text:
        if not word.startswith("hf:"):
            if not _files(word):
                yield fail(
                    "text", f"{word} matches no file; correct `text` in the settings"
                )
        elif os.environ.get("HF_HUB_OFFLINE"):
            said = f"{word} needs network access, but HF_HUB_OFFLINE is set; list files on disk in `text`"
            yield fail("text", said)
        elif profile == "slurm" and settings.offline:
            yield fail(
                "text",
                f"{word} needs network access, which compute nodes lack (offline = true); download the "
                "files on a login node and list them in `text`",
            )


def _files(word: str) -> list[Path]:
    """Return what a path or pattern names: files, those in a folder as well."""
    matches = list(Path(Path(word).anchor).glob(word.removeprefix(Path(word).anchor)))
    return [
        path
        for match in matches
        for path in (match.rglob("*") if match.is_dir() else [match])
    ]


def _tokenizer(settings: StudySettings, workflow: Workflow) -> Iterator[CheckLine]:
    """Yield what is wrong with the tokenizer: none, two, not there, or not of the size's number of rows."""
    if bool(settings.tokenizer) == bool(settings.train_tokenizer):
        found = (
            "two tokenizers; set either" if settings.tokenizer else "no tokenizer; set"
        )
        said = f"{found} tokenizer = ... or train_tokenizer = ... in the settings (docs/hpc.md)"
        yield fail("tokenizer", said)
    if settings.tokenizer and not Path(settings.tokenizer).exists():
        yield fail(
            "tokenizer",
            f"{settings.tokenizer} does not exist; correct `tokenizer` in the settings",
        )
        return
    try:
        ids = _ids(settings)
    except UserError as error:
        yield fail("tokenizer", f"tokenizer: {error}")
        return
    rows = {size: shape.vocab for size, shape in study_of(settings).shapes.items()}
    size = min(rows, key=rows.__getitem__, default="")
    if rows and ids > rows[size]:
        said = f"the tokenizer has {ids:,} ids, but {size} has rows for {rows[size]:,}"
        yield fail("tokenizer", f"{said}; use the study's, or correct `vocab`")
    for size in _sizes(settings, workflow) if ids else ():
        if ids < _FEW_IDS * (count := study_of(settings).shapes[size].vocab):
            said = f"the tokenizer has {ids:,} ids, but {size} has rows for {count:,}"
            yield warn("tokenizer", f"{said}; is it the study's tokenizer?")


def _sizes(settings: StudySettings, workflow: Workflow) -> dict[str, None]:
    return dict.fromkeys(
        model.size for model in models_of(workflow.target, study_of(settings))
    )


def _ids(settings: StudySettings) -> int:
    """Return how many ids the study's tokenizer has; 0 where that cannot be seen; a `UserError` where it is none."""
    if settings.train_tokenizer or not settings.tokenizer:
        return settings.train_tokenizer
    # A login node's environment need not have the library
    with contextlib.suppress(ImportError):
        from pretraining.data.tokenizer import load_tokenizer

        return load_tokenizer(settings.tokenizer).vocab_size
    return 0


def _datasets(settings: StudySettings) -> Iterator[CheckLine]:
    """Yield which datasets are not there."""
    place = Path(settings.data) if settings.data else None
    wanted = () if settings.make_datasets else settings.needed_datasets
    if lacks := [
        name
        for name in wanted
        if not (place and (place / name / "manifest.json").is_file())
    ]:
        where = (
            f"{place} lacks"
            if place
            else "the settings name no folder (data = ...) with"
        )
        yield fail(
            "datasets", f"{where} {', '.join(lacks)}; download them: clm-or-mlm fetch"
        )


def _misunderstood(words: Command) -> CheckLine | None:
    """Return why a job's command would not take its words; its module may be out of reach on a login node."""
    with contextlib.suppress(ImportError):
        try:
            if words[0] == "shards":
                from pretraining.commands import shards

                check_words(shards, words[1:], "shards")
            elif words[:2] == ("benchmarks", "run"):
                from benchmarks.commands.grid import run

                check_words(run, words[2:], "benchmarks run")
        except UserError as error:
            key = "shard_options" if words[0] == "shards" else "tuning_options"
            return fail(key, f"{key}: {error}")
    return None


def _short_files(job: Job, settings: StudySettings) -> str | None:
    """Return a sentence where even a high estimate by the files' sizes is too little text; none where it is unknown."""
    if not job.tokens or any(word.startswith("hf:") for word in settings.text):
        return None
    files = [path for word in settings.text for path in _files(word) if path.is_file()]
    text = sum(
        path.stat().st_size * (_EXPANDS if path.suffix in _PACKED else 1.0)
        for path in files
    )
    most = text / (1.0 if settings.train_tokenizer else _TOKEN_BYTES)
    if not files or most >= job.tokens:
        return None
    return (
        f"`text` names {len(files):,} files with at most {most:,.0f} tokens, but the study needs "
        f"{job.tokens:,.0f}; name more text (of FineWeb-Edu {sample_of(job.tokens)}), or set repeat_text = true"
    )


def sample_of(tokens: float) -> str:
    """Return the smallest sample of FineWeb-Edu that has so many tokens, with some to spare."""
    return next(
        (name for name, size in _SAMPLES.items() if size >= _SPARE * tokens),
        "the whole of it",
    )


def _resources(settings: StudySettings, workflow: Workflow) -> Iterator[CheckLine]:
    """Yield what may not suffice: cores, memory, time, folders that are not there."""
    workers = dict(itertools.pairwise(settings.tuning_options)).get("--workers", "")
    cores = settings.cpus * settings.tuning_gpus
    if workers.isdecimal() and int(workers) > cores:
        fault = f"tuning_options: {workers} workers share {cores} cores, but each keeps one busy"
        yield warn("cores", f"{fault}; leave --workers out")
    study = study_of(settings)
    memory_gb = DEVICES[settings.device].memory_gb
    several = settings.nodes * settings.gpus_per_node > 1
    # Where it is not set, training makes the pass fit
    microbatch = study.config.batches.microbatch or 1
    for size in (
        _sizes(settings, workflow) if settings.gpus_per_node and memory_gb else ()
    ):
        needs = training_gb(
            study.shapes[size],
            microbatch * study.config.batches.max_length,
            several=several,
        )
        if needs > (memory_gb or 0):
            yield warn(
                "memory",
                f"{size} takes about {needs:.0f} GB of each GPU at microbatch={microbatch}, but {settings.device} has "
                f"{memory_gb}; remove microbatch from pretraining_settings, or choose a smaller size or a larger GPU",
            )
    too_short = {
        job.queue: job for job in workflow.jobs.values() if job.minutes < _START_MINUTES
    }
    for queue, job in too_short.items():
        fault = f"{queue} jobs end after {job.minutes} min, about as long as they take to start and save"
        yield warn("time", f"{fault}; raise limit_hours or [jobs.{queue}] hours")
    for key, value in settings.environment.items():
        names = {
            match["named"] or match["braced"]
            for match in Template.pattern.finditer(value)
        }
        unset = [
            name
            for name in names
            if name and not name.startswith("SLURM_") and name not in os.environ
        ]
        for name in unset:
            fault = f"[environment] {key} is {value}, but {name} is not set here"
            yield warn("environment", f"{fault}; where a node lacks it too, jobs end")
    for bind in settings.binds:
        path = Template(bind).safe_substitute(os.environ)
        if not Path(path).exists():
            fault = f"binds: {path} does not exist here"
            yield warn("binds", f"{fault}; where a node lacks it too, it is left out")


def check_image(
    workflow: Workflow, folder: Path, *, key: str = ""
) -> tuple[Workflow, list[CheckLine]]:
    """Start the image that jobs run in; return the workflow with its hash and commit, and what was seen.

    Args:
        workflow: the jobs; without an image nothing is done.
        folder: where they will work.
        key: public key that the image must be signed with; empty: any image will do.
    """
    if not workflow.image:
        return workflow, []
    here = Machine()
    image = Path(workflow.image)
    try:
        workflow = replace(
            workflow, image_sha256=_image_hash(image, key), image_written=written(image)
        )
        if program_of(here) is None:
            said = f"apptainer is not on PATH here, so {image} was not tried; the first job will try it"
            return workflow, [warn("image", said)]
        # A job works in the study's folder and so sees it; this call is made from elsewhere.
        own = [str(folder.resolve())] if folder.is_dir() else []
        name, commit = identity_of(
            image, [*own, *workflow.places(folder, here.environ)], here
        )
        if name != "full":
            raise UserError(
                f"{image} is the {name} image; jobs need the full one: make image-full"
            )
    except UserError as error:
        return workflow, [fail("image", str(error))]
    line = ok("image", f"{image} starts here; commit {commit[:12]}")
    if commit != (checkout := git_commit()):
        line = warn(
            "image",
            f"jobs run the image's commit {commit}, not this checkout's {checkout}",
        )
    return replace(workflow, image_commit=commit), [line]


def _image_hash(image: Path, key: str) -> str:
    """Return the SHA-256 of an image file that is one by its first bytes and, with a key, by its signature."""
    if not image.is_file():
        raise UserError(
            f"{image} does not exist; build it (make image-full) or leave --image out"
        )
    check_name(image)
    with image.open("rb") as file:
        if file.read(41)[32:] != b"SIF_MAGIC":
            raise UserError(
                f"{image} is not a valid image file; copy it here again, or build it: make image-full"
            )
    if key:
        try:
            list(stream(["verify", "--key", key, str(image)]))
        except UserError:
            raise UserError(
                f"{image} is not signed with the key {key}; use the signed image or remove image_key"
            ) from None
    return sha256_file(image)
