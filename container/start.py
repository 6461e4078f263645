"""What an image runs: caches sent to a scratch that can be written, then a command of `clm-or-mlm`.

`python -m container.start COMMAND ARGS...` works the same inside an image and outside of one, so a workflow has
one form of command.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from common.cli import run
from common.errors import UserError
from common.provenance import git_commit
from container.machine import Machine

__all__ = ["IDENTITY", "cache_environment", "command_of", "driver_problem", "scratch_of"]

SCRATCH = "CLM_OR_MLM_SCRATCH"
"""Environment variable that names the scratch folder."""

IDENTITY = "identity"
"""The word that an image answers with its name and its code's commit."""

_NEED_MB = 64
_CACHES = {
    "XDG_CACHE_HOME": "cache",
    "MPLCONFIGDIR": "matplotlib",
    "HF_HOME": "huggingface",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "triton",
    "TORCH_EXTENSIONS_DIR": "extensions",
    "WANDB_CACHE_DIR": "wandb",
}


def scratch_of(environ: Mapping[str, str]) -> Path:
    """Return this user's folder for caches, made when absent, in the first place that can be written.

    Places are $CLM_OR_MLM_SCRATCH (then no other is tried), $SLURM_TMPDIR, $TMPDIR and /tmp.

    Raises:
        UserError: none can be written or has 64 MB free; the sentence names each and why.
    """
    usual = [environ.get("SLURM_TMPDIR"), environ.get("TMPDIR"), "/tmp"]
    places = [place for place in ([environ[SCRATCH]] if environ.get(SCRATCH) else usual) if place]
    problems = []
    for place in dict.fromkeys(places):
        folder = Path(place) / f"clm-or-mlm-{os.getuid()}"
        problem = _problem(folder)
        if problem is None:
            return folder
        problems.append(f"{place} ({problem})")
    raise UserError(
        f"no usable scratch folder: {', '.join(problems)}; set {SCRATCH} to a folder you can write to, and bind "
        "it into the image if it is not visible there"
    )


def _problem(folder: Path) -> str | None:
    """Return why the folder cannot hold caches, or None."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        return os.strerror(error.errno or 0).lower()
    # In a shared /tmp another user could have laid a link or a folder of this name.
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        return "its folder belongs to another user"
    if problem := Machine().write_problem(folder):
        return problem
    free = 1000 * Machine().free_gb(folder)
    return f"{free:.0f} MB free" if free < _NEED_MB else None


def cache_environment(scratch: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that send every library's caches to `scratch`; those already set are kept.

    HOME is changed only when it cannot be written, as in an image that is run without a home.
    """
    chosen = {key: str(scratch / name) for key, name in _CACHES.items() if not environ.get(key)}
    home = environ.get("HOME")
    if not home or not os.access(home, os.W_OK):
        chosen["HOME"] = str(scratch / "home")
        (scratch / "home").mkdir(exist_ok=True)
    chosen["PYTHONNOUSERSITE"] = "1"
    chosen["TOKENIZERS_PARALLELISM"] = environ.get("TOKENIZERS_PARALLELISM", "false")
    return chosen


def command_of(words: Sequence[str]) -> list[str]:
    """Return the words after `python -m` for a command of `clm-or-mlm`, Figure 3 by its short name, or torchrun."""
    if words[:1] == ["torch.distributed.run"]:
        return list(words)
    if words[:1] == ["reproduce-figure3"]:
        words = ["figure", "3", "--source", "published", "--out", "build/figures", *words[1:]]
    return ["clm_or_mlm", *words]


def driver_problem(environ: Mapping[str, str], devices: Path = Path("/dev/nvidiactl")) -> str | None:
    """Return a sentence when there is an NVIDIA device but the image was started without its driver."""
    if environ.get("CLM_OR_MLM_IMAGE") != "full" or not devices.exists():
        return None
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "this machine has an NVIDIA GPU, but the image has no driver; start it with --nv"
    return None


def main(argv: Sequence[str]) -> None:
    if argv == [IDENTITY]:
        sys.stdout.write(f"{os.environ.get('CLM_OR_MLM_IMAGE', '')} {git_commit()}\n")
        return
    if problem := driver_problem(os.environ):
        # Training would fall back to the CPU in silence and run for weeks.
        raise UserError(problem)
    words = command_of(argv)
    environ = os.environ | cache_environment(scratch_of(os.environ), os.environ)
    os.execve(sys.executable, [sys.executable, "-m", *words], environ)


if __name__ == "__main__":
    run(main)
