"""`python -m workflow TARGET`: run a study's jobs here or on a cluster; the same call goes on where one stopped."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from common.cli import run
from common.errors import UserError, nearest
from common.old_parser import Parser
from common.provenance import ROOT
from workflow.jobs import workflow_of
from workflow.settings import Settings, describe, load_settings
from workflow.state import forget_interrupted, reconcile
from workflow.step import save
from workflow.summary import summary

PROFILES = ("local", "slurm")


def main(argv: Sequence[str]) -> int:
    parser = Parser(
        prog="python -m workflow",
        description="Run a study: shards, pretraining, cells, tables and figures, each job once.",
        epilog="examples:\n  python -m workflow figure3 --dry-run\n"
        "  python -m workflow figure3 --profile slurm --dir /scratch/me/study --settings mine.toml\n"
        "  python -m workflow tiny --profile slurm        a made-up study of minutes\n"
        "  python -m workflow settings                    every setting, its default and its meaning\n"
        "words after -- go to snakemake",
    )
    own, extra = (list(argv), []) if "--" not in argv else _split(argv)
    parser.add_argument("target", help="figureN, tableN, all, a model, tiny, or the word settings")
    parser.add_argument("--profile", default="local", help="local (default) or slurm")
    parser.add_argument(
        "--dir", type=Path, default=Path("build/study"), help="the study's folder (build/study)"
    )
    parser.add_argument("--settings", type=Path, metavar="FILE", help="settings (TOML); the paper's without")
    parser.add_argument(
        "--image", type=Path, metavar="FILE", help="image the jobs run in; none: this environment"
    )
    parser.add_argument("--dry-run", action="store_true", help="print jobs, GPU hours and disk, and stop")
    parser.add_argument(
        "--retry-failed", action="store_true", help="do runs again that are recorded as failed"
    )
    arguments = parser.parse_args(own)
    if arguments.target == "settings":
        sys.stdout.write(describe())
        return 0
    if arguments.profile not in PROFILES:
        known = nearest(arguments.profile, PROFILES)
        raise UserError(f"unknown profile {arguments.profile!r}{known}; profiles are {', '.join(PROFILES)}")
    folder = arguments.dir.resolve()
    settings, target = _settings(arguments.target, arguments.settings, folder)
    if arguments.retry_failed:
        settings = _replaced(settings, "--retry-failed")
    image = "" if arguments.image is None else str(arguments.image.resolve())
    workflow = workflow_of(target, settings)
    if not arguments.dry_run:
        _check(settings, image, arguments.profile)
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        todo, _ = reconcile(workflow, settings, folder)
        sys.stdout.write(summary(workflow, todo, settings, folder))
        sys.stdout.flush()
        if arguments.dry_run:
            return 0
        forget_interrupted(folder)
        save(folder, settings, target, image)
        for job in workflow.jobs.values():
            # A new call counts anew, and tries again what a user's mistake stopped.
            for name in (job.refused, job.saved):
                (folder / name).unlink(missing_ok=True)
        prefix = f"clm-{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"
        if arguments.profile == "slurm":
            _wait_for_earlier_jobs(prefix)
        if arguments.target == "tiny" and arguments.profile == "slurm":
            # Its jobs last seconds: ask after them as often.
            extra = [
                "--slurm-init-seconds-before-status-checks",
                "5",
                "--seconds-between-status-checks",
                "5",
                *extra,
            ]
        return _snakemake(folder, arguments.profile, settings, prefix, extra)


def _split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    at = list(argv).index("--")
    return list(argv[:at]), list(argv[at + 1 :])


def _settings(target: str, path: Path | None, folder: Path) -> tuple[Settings, str]:
    if target != "tiny":
        return load_settings(path), target
    if path is not None:
        raise UserError("the tiny study brings its own settings; leave --settings out")
    from workflow.tiny import write_tiny_study

    return load_settings(write_tiny_study(folder)), "all"


def _replaced(settings: Settings, option: str) -> Settings:
    import dataclasses

    return dataclasses.replace(settings, tuning_options=(*settings.tuning_options, option))


def _check(settings: Settings, image: str, profile: str) -> None:
    """Refuse what the first job would stumble over."""
    if not settings.text:
        raise UserError("no text to pretrain on: name it in the settings, text = [...]; see docs/hpc.md")
    if not settings.tokenizer and not settings.train_tokenizer:
        raise UserError("no tokenizer: name it in the settings, tokenizer = ...; see docs/hpc.md")
    for word in settings.text:
        if word.startswith("hf:") and os.environ.get("HF_HUB_OFFLINE"):
            raise UserError(f"{word} needs network and HF_HUB_OFFLINE is set; name files on disk in `text`")
    if image and not Path(image).is_file():
        raise UserError(f"{image} does not exist; build it (make image-full) or leave --image out")
    if not settings.make_datasets:
        folder = Path(settings.data) if settings.data else None
        missing = [
            d
            for d in settings.needed_datasets
            if folder is None or not (folder / d / "manifest.json").is_file()
        ]
        if missing:
            where = folder or "the settings (data = ...)"
            raise UserError(f"{where} lacks {', '.join(missing)}; bring them: python -m benchmarks fetch")
    if profile == "slurm" and shutil.which("sbatch") is None:
        raise UserError("sbatch is not on PATH: this is no Slurm login node; take --profile local")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"another call is at work in {folder}; wait for it or choose another --dir"
            ) from None
        yield


def _wait_for_earlier_jobs(prefix: str) -> None:
    """Cancel what a killed call left waiting in the queue, and wait for what it left running."""
    told = False
    while True:
        command = ["squeue", "--me", "--noheader", "--format=%A %T %j"]
        answer = subprocess.run(command, capture_output=True, text=True)
        rows = [line.split() for line in answer.stdout.splitlines() if f" {prefix}" in line]
        waiting = [row[0] for row in rows if row[1] == "PENDING"]
        if waiting:
            subprocess.run(["scancel", "--state=PENDING", *dict.fromkeys(waiting)], check=False)
        running = [row[0] for row in rows if row[1] not in ("PENDING", "COMPLETED", "CANCELLED")]
        if not running:
            return
        if not told:
            sys.stderr.write(
                f"jobs of an earlier call still run and are waited for: {' '.join(running)} "
                "(end them with scancel if you do not want that)\n"
            )
            told = True
        time.sleep(5)


def _status_command() -> str:
    """Return what can tell how a job ended: sacct where there is accounting, else squeue."""
    answer = subprocess.run(["scontrol", "show", "config"], capture_output=True, text=True)
    match = re.search(r"AccountingStorageType\s*=\s*(\S+)", answer.stdout)
    none = match is not None and match[1] in ("accounting_storage/none", "(null)")
    return "squeue" if none or shutil.which("sacct") is None else "sacct"


def _snakemake(folder: Path, profile: str, settings: Settings, prefix: str, extra: Sequence[str]) -> int:
    here = ROOT / "workflow"
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(here / "Snakefile")]
    command += ["--workflow-profile", str(here / "profiles" / profile), "--directory", str(folder)]
    if profile == "slurm":
        command += ["--slurm-jobname-prefix", prefix, "--slurm-status-command", _status_command()]
        if not settings.account:
            command += ["--slurm-no-account"]
    elif settings.gpus_per_node:
        command += ["--resources", f"gpus_here={settings.gpus_per_node}"]
    environ = dict(os.environ) | {"PYTHONPATH": str(ROOT), "PYTHONNOUSERSITE": "1"}
    # Snakemake keeps copies of rule files there; a home that cannot be written must not stop a study.
    environ.setdefault("XDG_CACHE_HOME", str(folder / ".cache"))
    process = subprocess.Popen([*command, *extra], env=environ, cwd=folder)
    try:
        code = process.wait()
    except KeyboardInterrupt:
        process.wait()
        raise
    if code:
        sys.stderr.write(
            f"error: not everything was done; logs lie in {folder / 'logs'}, the same call does what is missing\n"
        )
        return 3
    sys.stdout.write(f"all done; tables and figures lie in {folder / 'analysis'}\n")
    return 0


if __name__ == "__main__":
    run(main)
