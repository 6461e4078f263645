"""What an image runs: a command of `clm-or-mlm`, with the caches of all libraries in a folder that can be written.

An image is read-only and may be run without a home, so that libraries could not write caches to their usual places:
they go to a scratch folder. `python -m container.start COMMAND ARGS...` works the same inside an image and outside of
one, so that a workflow has one form of command.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from common.cli import run
from common.errors import UserError
from common.files import nearest_existing, private_folder
from common.provenance import git_commit
from container.machine import Machine

SCRATCH = "CLM_OR_MLM_SCRATCH"
"""Environment variable that names the scratch folder."""

IDENTITY = "identity"
"""The word that an image answers with its name and its code's commit."""

GPU_COUNT = "CLM_OR_MLM_GPU_COUNT"
"""Variable with the number of GPUs that a job was given on each of its nodes."""

COMPAT = "CLM_OR_MLM_CUDA_COMPAT"
"""Variable that names the cluster's folder of NVIDIA's forward-compatibility libraries, for drivers that are older."""

MINIMUM_DRIVER = 580
"""The oldest NVIDIA driver (its first number) that runs CUDA 13, for which the pinned torch is built."""

# It computes on each device as training will: that finds broken devices, which a count includes.
_COUNT = r"""
import torch, warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    usable = torch.cuda.device_count() if torch.cuda.is_available() else 0
reasons = [str(warning.message) for warning in caught]
for index in range(usable):
    try:
        torch.ones(2, device=f"cuda:{index}").sum().item()
    except RuntimeError as error:
        usable = index
        reasons.append(f"GPU {index}: {error}")
        break
print(usable, torch.__version__, torch.version.cuda or "", torch.version.hip or "", sep="\n")
last_reason = reasons[-1] if reasons else ""
print(" ".join(last_reason.split())[:300])
"""
"""A program that prints five lines: on how many GPUs torch can compute, the versions of torch, CUDA and ROCm (empty if
torch is not built for it), and the last reason why GPUs cannot be used, as torch says it."""

_WRITE_HERE = ("figure", "report", "reproduce", "workflow")
"""Commands that write below the current folder unless they are given another."""

_NEED_MB = 64
"""Free space that caches need."""
_CACHES = {
    "XDG_CACHE_HOME": "cache",
    "MPLCONFIGDIR": "matplotlib",
    "HF_HOME": "huggingface",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "triton",
    "TORCH_EXTENSIONS_DIR": "extensions",
    "WANDB_CACHE_DIR": "wandb",
}
"""The variables by which libraries find their caches, and the folder of each in the scratch folder."""


def scratch_of(environ: Mapping[str, str]) -> Path:
    """Return this user's folder for caches, made when absent, in the first place where it can be.

    Places are $SLURM_TMPDIR, $TMPDIR and /tmp; or only $CLM_OR_MLM_SCRATCH, where that is set.

    Raises:
        UserError: none can be written and has 64 MB free; the sentence names each place and why.
    """
    chosen = environ.get(SCRATCH)
    usual = [environ.get("SLURM_TMPDIR"), environ.get("TMPDIR"), "/tmp"]
    places = [chosen] if chosen else usual
    problems = []

    # Each place once, without those whose variable is not set.
    for place in dict.fromkeys(filter(None, places)):
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
    """Make a folder for caches if it is absent, and return why it cannot hold them; None if it can."""
    try:
        private_folder(folder)
    except UserError as error:
        # In a shared /tmp it could be another user's folder, or no folder. Of the sentence of
        # `private_folder`, what is before the comma says that; the rest is advice about other caches.
        return str(error).partition(",")[0]
    except FileExistsError:
        # A file is where the folder's parent should be.
        return "not a directory"
    except OSError as error:
        return os.strerror(error.errno or 0).lower()

    problem = Machine().write_problem(folder)
    if problem:
        return problem
    free = 1000 * Machine().free_gb(folder)
    return f"{free:.0f} MB free" if free < _NEED_MB else None


def cache_environment(scratch: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a command is to be started with in addition to, or in place of, those of `environ`.

    They send every library's caches to `scratch`; caches whose variable the user has set stay where they are. HOME is
    changed, to a folder made here, only when it cannot be written, as in an image that is run without a home. Packages
    of the user's own home are never imported, whatever was set.
    """
    added = {}
    for key, name in _CACHES.items():
        if not environ.get(key):
            added[key] = str(scratch / name)

    home = environ.get("HOME")
    if not home or not os.access(home, os.W_OK):
        added["HOME"] = str(scratch / "home")
        (scratch / "home").mkdir(exist_ok=True)

    added["PYTHONNOUSERSITE"] = "1"
    # The tokenizers library tokenises in one thread unless the user has chosen otherwise.
    added["TOKENIZERS_PARALLELISM"] = environ.get("TOKENIZERS_PARALLELISM", "false")
    return added


def command_of(words: Sequence[str]) -> list[str]:
    """Return what to write after `python -m`: a module and its arguments.

    Args:
        words: a command of `clm-or-mlm` with its arguments, `reproduce-figure3` for that of Figure 3, or torchrun with
            a command of its own.
    """
    # A job of several GPUs begins with torchrun (workflow.step), which is this module of torch.
    if words[:1] == ["torch.distributed.run"]:
        return list(words)
    if words[:1] == ["reproduce-figure3"]:
        figure = ["figure", "3", "--source", "published", "--out", "build/figures"]
        # A user's options come last, so that they win.
        words = [*figure, *words[1:]]
    return ["clm_or_mlm", *words]


def driver_problem(
    environ: Mapping[str, str], devices: Path = Path("/dev/nvidiactl")
) -> str | None:
    """Return a sentence when there is an NVIDIA device but the image was started without its driver; else None.

    Args:
        environ: the environment.
        devices: a file that is there if the machine has a device of NVIDIA.
    """
    # Only the full image has torch.
    if environ.get("CLM_OR_MLM_IMAGE") != "full" or not devices.exists():
        return None
    # No image holds the driver's library: --nv shows the machine's.
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "this machine has an NVIDIA GPU, but the image has no driver; start it with --nv"
    return None


def lost_output(words: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """Return a sentence when a command's output would be lost when the image ends; else None.

    With Apptainer's option --contain, the home and /tmp of an image are in memory.

    Args:
        words: the command, as `command_of` returns it.
        environ: the environment.
    """
    if not environ.get("CLM_OR_MLM_IMAGE") or "--help" in words:
        return None
    # `--out=DIR` is one word; `--out DIR` and `--dir DIR` are two.
    outputs = [word.partition("=")[2] for word in words if word.startswith("--out=")]
    for option, value in itertools.pairwise(words):
        if option in ("--out", "--dir"):
            outputs.append(value)

    # words is ["clm_or_mlm", COMMAND, ...]; these commands write below the current folder unless told otherwise.
    command = words[1] if len(words) > 1 else ""
    if not outputs and command in _WRITE_HERE:
        outputs = ["."]

    # With --contain, Apptainer keeps home, /tmp and /dev on one device in memory: what is on the device of
    # /dev is lost at the end.
    memory = Path("/dev").stat().st_dev
    for output in outputs:
        # The folder itself may not be made yet.
        folder = Path(output).absolute()
        if nearest_existing(folder).stat().st_dev == memory:
            return f"{folder} is in the image's memory, where nobody will see it; show a folder: --bind DIR"

    return None


def refuse_fewer_gpus(
    wanted: int, environ: Mapping[str, str], host: Path = Path("/")
) -> None:
    """Refuse to go on where torch cannot compute on as many GPUs as a job was given: it would take the CPU.

    Args:
        wanted: the number of GPUs that the job was given.
        environ: the environment of the command that is to be started.
        host: where /proc is.

    Raises:
        UserError: torch can compute on fewer; the sentence names driver, libraries and count, and what to do.
    """
    # In a process of its own: the LD_LIBRARY_PATH that it starts with decides which libraries of a driver torch finds.
    answer = subprocess.run(
        [sys.executable, "-c", _COUNT],
        env=dict(environ),
        capture_output=True,
        text=True,
    )
    if answer.returncode:
        message = answer.stderr.strip() or f"exit code {answer.returncode}"
        last_line = message.splitlines()[-1]
        raise UserError(
            f"this job was given {wanted} GPU(s), but torch cannot be asked for them: {last_line}"
        )

    # The five lines that `_COUNT` prints; after the last line break, `split` gives an empty text more.
    count, torch, cuda, hip, why = answer.stdout.split("\n")[:5]
    # torch's own advice, which begins with Please, is left out.
    why = why.partition(" Please ")[0].rstrip(".")
    if int(count) >= wanted:
        return

    # What the driver is, and whether its age is the cause.
    # The file has a line such as `NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 ...`.
    version_file = host / "proc/driver/nvidia/version"
    text = version_file.read_text("utf-8") if version_file.is_file() else ""
    module = re.search(r"Module.*?\s(\d+)(\.[\d.]+)", text)
    driver = "no NVIDIA driver on this node"
    advice = "check the node with nvidia-smi, and the number of GPUs that the job asks for (gpus_per_node, gres)"
    if module:
        # The two groups are 580 and .65.06.
        driver = f"NVIDIA driver {module[1]}{module[2]}"
        if cuda.startswith("13.") and int(module[1]) < MINIMUM_DRIVER:
            advice = f"CUDA {cuda} needs driver {MINIMUM_DRIVER}; use newer nodes, or set cuda_compat (docs/hpc.md)"

    # What torch was built for: a torch for another kind of GPU, or for none, finds none.
    built_for = "CPUs"
    if cuda:
        built_for = f"CUDA {cuda}"
    elif hip:
        built_for = f"ROCm {hip}"

    reason = f"; torch says: {why}" if why else ""
    raise UserError(
        f"this job was given {wanted} GPU(s), but torch {torch}, built for {built_for}, can compute on {count} here "
        f"({driver}{reason}); {advice}"
    )


def compat_folder(environ: Mapping[str, str]) -> Path | None:
    """Return the folder that `COMPAT` names, None where it names none.

    A command loads the libraries in it, so that they could do anything in the user's name.

    Raises:
        UserError: it holds no libcuda, or somebody else than root could have put it there.
    """
    if not environ.get(COMPAT):
        return None
    folder = Path(environ[COMPAT])
    if not folder.is_absolute() or not (folder / "libcuda.so.1").is_file():
        raise UserError(
            f"cuda_compat: {folder} is no full path of a folder with libcuda.so.1; correct the site's file"
        )

    states = [folder.stat()]
    states += [path.stat() for path in folder.iterdir()]
    # Root has the number 0; 0o022 are the rights of the group and of all others to write.
    if any(state.st_uid != 0 or state.st_mode & 0o022 for state in states):
        raise UserError(
            f"cuda_compat: {folder} does not belong to root alone, so its libraries may be anybody's; set "
            "LD_LIBRARY_PATH (in images APPTAINERENV_LD_LIBRARY_PATH) in your own shell if you trust them"
        )

    return folder


def main(argv: Sequence[str]) -> None:
    """Become a command of the package, or print the identity of image and checkout.

    Args:
        argv: the command with its arguments, or only `IDENTITY`.

    Raises:
        UserError: the command would not have the GPUs, the folders or the libraries that it needs.
    """
    if argv == [IDENTITY]:
        sys.stdout.write(f"{os.environ.get('CLM_OR_MLM_IMAGE', '')} {git_commit()}\n")
        return

    words = command_of(argv)
    # Without the driver, training would run on the CPU without a word, for weeks.
    problem = driver_problem(os.environ) or lost_output(words, os.environ)
    if problem:
        raise UserError(problem)
    environ = os.environ | cache_environment(scratch_of(os.environ), os.environ)

    # In an image the folder was checked outside already; inside, its owner root has another number.
    is_inside = bool(os.environ.get("CLM_OR_MLM_IMAGE"))
    compat = os.environ.get(COMPAT) if is_inside else compat_folder(os.environ)
    if compat:
        # The first folder that has a library wins.
        libraries = [str(compat), environ.get("LD_LIBRARY_PATH")]
        environ["LD_LIBRARY_PATH"] = ":".join(filter(None, libraries))

    # Only jobs that were given GPUs have a count.
    wanted = int(os.environ.get(GPU_COUNT) or 0)
    if wanted:
        refuse_fewer_gpus(wanted, environ)

    # The command takes the place of this process, so that signals reach it.
    os.execve(sys.executable, [sys.executable, "-m", *words], environ)


if __name__ == "__main__":
    run(main)
