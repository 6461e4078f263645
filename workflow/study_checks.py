"""What the start of a study refuses, and what it warns of: the dry run lists all of it."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from string import Template

from common.cli import check_words
from common.errors import UserError
from container.machine import Machine
from pretraining.plan.devices import DEVICES, training_gb
from workflow.engine import Profile
from workflow.jobs import Command, Job, Workflow
from workflow.study import study_of, training_config
from workflow.study_settings import StudySettings

__all__ = ["cautions", "missing", "sample_of"]

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
"""Shorter jobs than those of the tiny study mostly start and save."""


def missing(settings: StudySettings, workflow: Workflow, folder: Path, profile: Profile) -> Iterator[str]:
    """Yield what the start of a study refuses, a sentence each: what the first jobs would fail for.

    Args:
        settings: the study's.
        workflow: its jobs.
        folder: where they work.
        profile: where they run.
    """
    if not settings.text:
        yield "no text to pretrain on; set text = [...] in the settings (docs/hpc.md)"
    if bool(settings.tokenizer) == bool(settings.train_tokenizer):
        found = "two tokenizers; set either" if settings.tokenizer else "no tokenizer; set"
        yield f"{found} tokenizer = ... or train_tokenizer = ... in the settings (docs/hpc.md)"
    for word in settings.text:
        if not word.startswith("hf:"):
            if not _files(word):
                yield f"{word} matches no file; correct `text` in the settings"
        elif os.environ.get("HF_HUB_OFFLINE"):
            yield f"{word} needs network access, but HF_HUB_OFFLINE is set; list files on disk in `text`"
        elif profile == "slurm" and settings.offline:
            yield (
                f"{word} needs network access, which compute nodes of {Path(settings.site).stem} lack; download the "
                "files on a login node and list them in `text`"
            )
    for path, key in ((settings.tokenizer, "tokenizer"), (settings.image_key, "image_key")):
        if path and not Path(path).exists():
            yield f"{path} does not exist; correct `{key}` in the settings"
    if not settings.tokenizer or Path(settings.tokenizer).exists():
        yield from filter(None, [_tokenizer_problem(settings)])
    if not workflow.image and find_spec("torch") is None:
        yield (
            "jobs need torch, which this environment lacks; give --image build/full.sif (make image-full), or start "
            "the study with .venv/full/bin/clm-or-mlm workflow (make full-env)"
        )
    if not settings.make_datasets:
        place = Path(settings.data) if settings.data else None
        wanted = settings.needed_datasets
        lacks = [name for name in wanted if not (place and (place / name / "manifest.json").is_file())]
        if lacks:
            where = f"{place} lacks" if place else "the settings name no folder (data = ...) with"
            yield f"{where} {', '.join(lacks)}; download them: clm-or-mlm fetch"
    if (
        profile == "local"
        and settings.runtime != "none"
        and (seen := Machine().gpus()) < settings.gpus_per_node
    ):
        yield (
            f"the study asks for {settings.gpus_per_node} GPUs, but this machine has {seen}, and with --profile local "
            "jobs run here; use --profile slurm, or set gpus_per_node (0: compute on CPUs)"
        )
    if profile == "slurm" and shutil.which("sbatch") is None:
        yield "sbatch is not on PATH, so this is not a Slurm login node; use --profile local"
    for job in {job.kind.name: job for job in workflow.jobs.values()}.values() if settings.text else ():
        yield from filter(None, map(_misunderstood, job.commands))
    for job in workflow.of_kind("shards"):
        yield from filter(None, [job.shortage(folder) or _short_files(job, settings)])


def _files(word: str) -> list[Path]:
    """Return what a path or pattern names: files, those in a folder as well."""
    found = list(Path(Path(word).anchor).glob(word.removeprefix(Path(word).anchor)))
    return [path for one in found for path in (one.rglob("*") if one.is_dir() else [one])]


def _misunderstood(words: Command) -> str | None:
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
            return f"{key}: {error}"
    return None


def _short_files(job: Job, settings: StudySettings) -> str | None:
    """Return a sentence where even a high estimate by the files' sizes is too little text; none where it is unknown."""
    if not job.tokens or any(word.startswith("hf:") for word in settings.text):
        return None
    files = [path for word in settings.text for path in _files(word) if path.is_file()]
    text = sum(path.stat().st_size * (_EXPANDS if path.suffix in _PACKED else 1.0) for path in files)
    most = text / (1.0 if settings.train_tokenizer else _TOKEN_BYTES)
    if not files or most >= job.tokens:
        return None
    return (
        f"`text` names {len(files):,} files with at most {most:,.0f} tokens, but the study needs "
        f"{job.tokens:,.0f}; name more text (of FineWeb-Edu {sample_of(job.tokens)}), or set repeat_text = true"
    )


def _ids(settings: StudySettings) -> int:
    """Return how many ids the study's tokenizer has; 0 where that cannot be seen; a `UserError` where it is none."""
    if settings.train_tokenizer or not settings.tokenizer:
        return settings.train_tokenizer
    with contextlib.suppress(ImportError):  # a login node's environment need not have the library
        from pretraining.data.tokenizer import load_tokenizer

        return load_tokenizer(settings.tokenizer).vocab_size
    return 0


def _tokenizer_problem(settings: StudySettings) -> str | None:
    """Return why the tokenizer cannot be used: it is none, or it has more ids than a size has rows."""
    try:
        ids = _ids(settings)
    except UserError as error:
        return f"tokenizer: {error}"
    rows = {size: shape.vocab for size, shape in study_of(settings).shapes.items()}
    if not rows or ids <= rows[size := min(rows, key=rows.__getitem__)]:
        return None
    return f"the tokenizer has {ids:,} ids, but {size} has rows for {rows[size]:,}; use the study's, or correct `vocab`"


def sample_of(tokens: float) -> str:
    """Return the smallest sample of FineWeb-Edu that has so many tokens, with some to spare."""
    return next((name for name, size in _SAMPLES.items() if size >= _SPARE * tokens), "the whole of it")


def cautions(settings: StudySettings, workflow: Workflow, sizes: Sequence[str]) -> Iterator[str]:
    """Yield what may be wrong, a sentence each: memory, limits, folders that are not there.

    Args:
        settings: the study's.
        workflow: its jobs.
        sizes: the sizes of its models.
    """
    config, shapes, ids = training_config(settings), study_of(settings).shapes, 0
    with contextlib.suppress(UserError):  # the start refuses it
        ids = _ids(settings)
    for size in sizes if ids else ():
        if ids < _FEW_IDS * (rows := shapes[size].vocab):
            yield f"the tokenizer has {ids:,} ids, but {size} has rows for {rows:,}; is it the study's tokenizer?"
    own = dict(itertools.pairwise(settings.tuning_options)).get("--workers", "")
    cores = settings.cpus * settings.tuning_gpus
    if own.isdecimal() and int(own) > cores:
        yield f"tuning_options: {own} workers share {cores} cores, but each keeps one busy; leave --workers out"
    has, several = DEVICES[settings.device].memory_gb, settings.nodes * settings.gpus_per_node > 1
    microbatch = config.batches.microbatch or 1  # where it is not set, training makes the pass fit
    for size in sizes if settings.gpus_per_node and has else ():
        needs = training_gb(shapes[size], microbatch * config.batches.max_length, several=several)
        if needs > (has or 0):
            yield (
                f"{size} takes about {needs:.0f} GB of each GPU at microbatch={microbatch}, but {settings.device} has "
                f"{has}; remove microbatch from pretraining_settings, or choose a smaller size or a larger GPU"
            )
    short = {job.queue: job for job in workflow.jobs.values() if job.minutes < _START_MINUTES}
    for queue, job in short.items():
        yield (
            f"{queue} jobs end after {job.minutes} min, about as long as they take to start and save; raise "
            f"limit_hours or [jobs.{queue}] hours"
        )
    for place in settings.binds:
        here = Template(place).safe_substitute(os.environ)
        if not Path(here).exists():
            yield f"binds: {here} does not exist here; where a node lacks it too, it is left out"
