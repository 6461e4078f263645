"""Apptainer: whether it can start here, and a command in an image with nothing of the user's leaking in."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from common.errors import UserError
from container.machine import Machine
from container.start import SCRATCH, scratch_of

__all__ = ["command", "launch", "passed_on", "stream", "version_of"]

SECONDS = 300.0
"""Time that `apptainer --version` has to answer: where no user namespace can be made, as in a chroot, it or a site's
wrapper around it may wait for ever; and a wrapper may set itself up at its first start."""


def version_of(machine: Machine, seconds: float = SECONDS) -> tuple[str, str]:
    """Return the path of the Apptainer (or Singularity) command and what it says of its version.

    Raises:
        UserError: it is not on PATH, does not answer in time, or fails.
    """
    program = machine.which("apptainer", "singularity")
    if program is None:
        raise UserError(
            "apptainer is not on PATH; load your site's module (often `module load apptainer`) or install it"
        )
    code, text = machine.output([program, "--version"], seconds)
    if code or not re.search(r"\d+\.\d+", text):
        last = (text or "no message").splitlines()[-1]
        raise UserError(
            f"`{program} --version` ended with code {code}: {last}, so nothing can run in an image here; ask the site "
            "for user namespaces or a setuid Apptainer"
        )
    return program, text.splitlines()[-1]


def stream(words: Sequence[str]) -> Iterator[str]:
    """Run an Apptainer command and yield the lines of its output and errors as they come.

    Raises:
        UserError: it ended with an error.
    """
    with subprocess.Popen(
        [version_of(Machine())[0], *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        yield from process.stdout
    if process.returncode:
        raise UserError(f"apptainer {words[0]} ended with code {process.returncode}")


_PASS = re.compile(
    r"(SLURM|NCCL|RCCL|FI|UCX|GLOO|TORCH|PYTORCH|CUDA|HIP|ROCR|HSA|MIOPEN|AMD|GPU|NVIDIA|HF|WANDB|CLM_OR_MLM|OMP|MKL)_.*"
    r"|(OPENBLAS|TORCHELASTIC|TRITON)_.*"
    r"|MASTER_(ADDR|PORT)|RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|NODE_RANK|TMPDIR|NO_COLOR|COLUMNS|TERM"
    r"|(HTTPS?|NO)_PROXY|(https?|no)_proxy|SOURCE_DATE_EPOCH"
)
_GPU = {"nvidia": ["--nv"], "rocm": ["--rocm"], "none": []}


def passed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a command in an image gets from outside: devices, jobs, networks, caches."""
    return {key: value for key, value in environ.items() if _PASS.fullmatch(key)}


def command(image: Path, words: Sequence[str], machine: Machine, binds: Sequence[str] = ()) -> list[str]:
    """Return the command line for a command in an image, without the name of the program.

    The current folder is bound and stays current; no home is mounted.

    Args:
        image: the image file.
        words: a room or shortcut and its arguments.
        machine: for its GPU and the caller's variables.
        binds: more folders, as Apptainer's --bind takes them.

    Raises:
        UserError: no scratch can be written, or CLM_OR_MLM_GPU is unknown.
    """
    runtime = machine.environ.get("CLM_OR_MLM_GPU", "auto")
    if runtime == "auto":
        devices = {"/dev/nvidiactl": "nvidia", "/dev/kfd": "rocm"}
        runtime = next((name for path, name in devices.items() if machine.path(path).exists()), "none")
    if runtime not in _GPU:
        raise UserError(f"CLM_OR_MLM_GPU must be auto, nvidia, rocm or none, not {runtime!r}")
    places = dict.fromkeys([str(Path.cwd()), str(scratch_of(machine.environ).parent), *binds])
    shown = [word for place in places for word in ("--bind", place)]
    line = ["run", "--no-home", "--cleanenv", "--pwd", str(Path.cwd()), *_GPU[runtime], *shown]
    return [*line, str(image), *words]


def launch(image: Path, words: Sequence[str], binds: Sequence[str] = ()) -> None:
    """Become a command in an image, so that signals reach it; returns only by an error.

    Raises:
        UserError: no image, no Apptainer, no scratch folder.
    """
    if not image.is_file():
        raise UserError(f"{image} does not exist; build it first: python -m container build {image.stem}")
    program, _ = version_of(Machine())
    line = command(image, words, Machine(), binds)
    inside = passed_on(os.environ) | {SCRATCH: str(scratch_of(os.environ).parent)}
    # Apptainer's --env splits values at commas, as in CUDA_VISIBLE_DEVICES=0,1.
    os.execve(program, [program, *line], os.environ | {f"APPTAINERENV_{k}": v for k, v in inside.items()})
