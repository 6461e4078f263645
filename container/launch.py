"""`python -m container run`: a command in an image with nothing of the user's leaking in.

No home is mounted and the environment is clean but for what names devices, jobs, networks and caches; the
current folder is bound and stays current. Signals reach the command: this process becomes Apptainer.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from common.errors import UserError
from container.apptainer import apptainer
from container.start import SCRATCH, scratch_of

__all__ = ["command", "launch", "passed_on"]

_PASS = re.compile(
    r"(SLURM|NCCL|RCCL|FI|UCX|GLOO|TORCH|PYTORCH|CUDA|HIP|ROCR|HSA|MIOPEN|AMD|GPU|NVIDIA|HF|WANDB|CLM_OR_MLM|OMP|MKL)_.*"
    r"|(OPENBLAS|TORCHELASTIC|TRITON)_.*"
    r"|MASTER_(ADDR|PORT)|RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|NODE_RANK|TMPDIR|NO_COLOR|COLUMNS|TERM"
    r"|(HTTPS?|NO)_PROXY|(https?|no)_proxy|SOURCE_DATE_EPOCH"
)


def passed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a command in an image gets from outside."""
    return {key: value for key, value in environ.items() if _PASS.fullmatch(key)}


def _gpu_options(environ: Mapping[str, str], devices: Path) -> list[str]:
    wish = environ.get("CLM_OR_MLM_GPU", "auto")
    options = {"nvidia": ["--nv"], "rocm": ["--rocm"], "none": []}
    if wish in options:
        return options[wish]
    if wish != "auto":
        raise UserError(f"CLM_OR_MLM_GPU must be auto, nvidia, rocm or none, not {wish!r}")
    if (devices / "nvidiactl").exists():
        return ["--nv"]
    return ["--rocm"] if (devices / "kfd").exists() else []


def command(
    image: Path,
    words: Sequence[str],
    *,
    environ: Mapping[str, str],
    binds: Sequence[str] = (),
    cwd: Path | None = None,
    devices: Path = Path("/dev"),
) -> list[str]:
    """Return the Apptainer command line, without the name of the program.

    Args:
        image: the image file.
        words: a room or shortcut and its arguments.
        environ: variables of the caller; see `passed_on`.
        binds: more folders, as Apptainer's --bind takes them.
        cwd: the folder to work in, bound at the same place; the current one when left out.
        devices: where devices are.
    """
    cwd = cwd or Path.cwd()
    scratch = scratch_of(environ)
    places = dict.fromkeys([str(cwd), str(scratch.parent), *binds])
    line = ["run", "--no-home", "--cleanenv", "--pwd", str(cwd), *_gpu_options(environ, devices)]
    for place in places:
        line += ["--bind", place]
    return [*line, str(image), *words]


def launch(image: Path, words: Sequence[str], binds: Sequence[str] = ()) -> None:
    """Become the command in the image; returns only by an error.

    Raises:
        UserError: no image, no Apptainer, no scratch folder.
    """
    if not image.is_file():
        raise UserError(f"{image} does not exist; build it first: python -m container build {image.stem}")
    program = apptainer()
    line = command(image, words, environ=os.environ, binds=binds)
    inside = passed_on(os.environ) | {SCRATCH: str(scratch_of(os.environ).parent)}
    # Apptainer's --env splits values at commas, as in CUDA_VISIBLE_DEVICES=0,1.
    os.execve(program, [program, *line], os.environ | {f"APPTAINERENV_{k}": v for k, v in inside.items()})
