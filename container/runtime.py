"""What runs an image, a .sif file: Apptainer, SingularityCE, or Apptainer under its other name `singularity`.

A command in an image does not see the user's home, and of the user's variables only those for devices, jobs and
networks. Whether such a program can run an image is found out by starting the image (`identity_of`), not by the
program's version.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from common.errors import UserError
from container.image_mount import path_with_lasting_mount
from container.machine import HANGS, Machine
from container.start import IDENTITY, SCRATCH, compat_folder, scratch_of

SECONDS = 300.0
"""Time that `apptainer --version` has to answer: where no user namespace can be made, as in a chroot, it or a site's
wrapper around it may wait for ever; and a wrapper may set itself up at its first start."""


def check_name(image: Path) -> None:
    """Raise a `UserError` where a file is not named like an image."""
    if image.suffix != ".sif":
        raise UserError(
            f"{image} is not named like an image file; such names end in .sif"
        )


def program_of(machine: Machine) -> str | None:
    """Return the path of the program that runs images, or None."""
    return machine.which("apptainer", "singularity")


def _by_spython(
    machine: Machine, seconds: float, *question: str
) -> tuple[int, str] | None:
    """Ask Apptainer by the library spython, in a process of its own (`container.client`).

    Args:
        machine: the machine.
        seconds: how long the process may take.
        question: the words that `container.client` takes.

    Returns:
        The process's exit code, 0 or `HANGS`, and what it printed; None where Apptainer itself is to be asked.
    """
    # spython starts `singularity`, an alias that some sites leave out.
    if machine.which("singularity") is None:
        return None
    client = Path(__file__).with_name("client.py")
    # With -P the client's folder is not searched for modules.
    code, text = machine.output([sys.executable, "-P", str(client), *question], seconds)
    # After `HANGS` Apptainer is not asked again: it would take as long. After a failure it may still answer.
    return (code, text) if code in (0, HANGS) else None


def version_of(machine: Machine, seconds: float = SECONDS) -> tuple[str, str]:
    """Return the path of the program that runs images and what it says of its version.

    Raises:
        UserError: it is not on PATH, does not answer in time, or fails.
    """
    program = program_of(machine)
    if program is None:
        raise UserError(
            "apptainer is not on PATH; load your site's module (often `module load apptainer`; for jobs, add it to "
            "`modules` in the site's file) or install it"
        )

    # Apptainer itself is asked where spython is not installed or cannot answer.
    answer = _by_spython(machine, seconds, "version")
    if answer is None:
        answer = machine.output([program, "--version"], seconds)
    code, text = answer
    if code:
        last_line = (text or "no message").splitlines()[-1]
        raise UserError(
            f"`{program} --version` exited with code {code} ({last_line}), so no image can run here; if user "
            "namespaces are disabled, ask your site to enable them or to provide another build of apptainer"
        )

    # Lines above the last may be warnings.
    return program, (text or "no version named").splitlines()[-1]


def stream(words: Sequence[str]) -> Iterator[str]:
    """Run an Apptainer command and yield the lines of its output and errors as they come.

    Args:
        words: the command and its arguments, such as `test` and an image.

    Raises:
        UserError: it ended with an error.
    """
    program, _ = version_of(Machine())
    with subprocess.Popen(
        [program, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        yield from process.stdout

    if process.returncode:
        raise UserError(f"apptainer {words[0]} exited with code {process.returncode}")


_PASS = re.compile(
    r"(SLURM|NCCL|RCCL|FI|UCX|GLOO|TORCH|PYTORCH|CUDA|HIP|ROCR|HSA|MIOPEN|AMD|GPU|NVIDIA|HF|WANDB|CLM_OR_MLM|OMP|MKL)_.*"
    r"|(OPENBLAS|TORCHELASTIC|TRITON)_.*"
    r"|MASTER_(ADDR|PORT)|RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|NODE_RANK|TMPDIR|NO_COLOR|COLUMNS|TERM"
    r"|(HTTPS?|NO|ALL)_PROXY|(https?|no|all)_proxy|SOURCE_DATE_EPOCH|REQUESTS_CA_BUNDLE|SSL_CERT_FILE"
)
"""Variables that a command in an image gets from outside: of devices, jobs, networks and caches."""

_SECRET = re.compile(r".*(TOKEN|KEY|SECRET|PASSWORD).*")
"""Variables that may be secrets: a command in an image gets them only if the user names them in `NAMED`."""

NAMED = "CLM_OR_MLM_PASS"
"""Variable with the names of further variables that images get, such as `HF_TOKEN WANDB_API_KEY`."""


def command_in(
    image: Path, words: Sequence[str], machine: Machine, binds: Sequence[str] = ()
) -> tuple[list[str], dict[str, str]]:
    """Return the arguments with which Apptainer runs a command in an image, and the variables to start it with.

    The command begins in the current folder. It sees this folder and the scratch folder, but no home.

    Args:
        image: the image file.
        words: the command, as `container.start` takes it.
        machine: the machine, which may have a GPU, and its variables.
        binds: more folders that the command sees, as Apptainer's --bind takes them.

    Returns:
        `["run", *options, image, *words]`; and the variables by name.

    Raises:
        UserError: no scratch can be written, CLM_OR_MLM_GPU is unknown, or the folder of libraries for older drivers
            is not the cluster's.
    """
    # The kind of GPU that the image shows.
    gpu = machine.environ.get("CLM_OR_MLM_GPU", "auto")
    if gpu == "auto":
        gpu = "none"
        # The devices of AMD's and of NVIDIA's drivers.
        if machine.path("/dev/kfd").exists():
            gpu = "rocm"
        if machine.path("/dev/nvidiactl").exists():
            gpu = "nvidia"

    if gpu not in ("nvidia", "rocm", "none"):
        raise UserError(
            f"CLM_OR_MLM_GPU must be auto, nvidia, rocm or none, not {gpu!r}"
        )

    # The folders that the command sees.
    here = str(Path.cwd())
    # The user's folder is in the scratch folder, where other users' folders may be too. The command gets the
    # scratch folder, and in it finds or makes the user's folder by `scratch_of`, as here.
    scratch = str(scratch_of(machine.environ).parent)
    bound = [here, scratch]

    # The libraries for older drivers are NVIDIA's.
    compat = compat_folder(machine.environ) if gpu == "nvidia" else None
    if compat:
        bound.append(str(compat))
    bound += binds

    # The variables that the command gets.
    named = machine.environ.get(NAMED, "").split()
    environ = {}
    for key, value in machine.environ.items():
        is_public = _PASS.fullmatch(key) and not _SECRET.fullmatch(key)
        if is_public or key in named:
            environ[key] = value

    environ[SCRATCH] = scratch
    # A cluster's proxy may decrypt connections; the file with its certificates has to be visible in the image.
    certificates = {environ.get("REQUESTS_CA_BUNDLE"), environ.get("SSL_CERT_FILE")}
    for path in sorted(filter(None, certificates)):
        if Path(path).is_file():
            bound.append(path)

    # The line, and the variables under the names that bring them into the image.
    gpu_options = {"nvidia": ["--nv"], "rocm": ["--rocm"], "none": []}[gpu]
    line = ["run", "--no-home", "--cleanenv", "--pwd", here, *gpu_options]

    # Each place once, in this order.
    for place in dict.fromkeys(bound):
        line += ["--bind", place]

    # With --cleanenv, a variable reaches the command if it has such a prefix, which is then removed. Apptainer's option
    # --env would split values at commas, as in CUDA_VISIBLE_DEVICES=0,1. SingularityCE knows only its own prefix; equal
    # values under both are fine.
    prefixed = {}
    for key, value in environ.items():
        prefixed[f"APPTAINERENV_{key}"] = value
        prefixed[f"SINGULARITYENV_{key}"] = value

    return [*line, str(image), *words], prefixed


def _runtime_for(image: Path, machine: Machine) -> str:
    """Return the path of the program that runs an image.

    Raises:
        UserError: there is no such image, or no program that runs it.
    """
    if not image.is_file():
        raise UserError(
            f"{image} does not exist; build it first: clm-or-mlm build {image.stem}"
        )
    check_name(image)
    return version_of(machine)[0]


def launch(image: Path, words: Sequence[str], binds: Sequence[str] = ()) -> None:
    """Replace this process by a command in an image, so that signals reach the command; returns only by an error.

    Args:
        image: the image file.
        words: the command, as `container.start` takes it.
        binds: more folders that the command sees, as Apptainer's --bind takes them.

    Raises:
        UserError: there is no such image, no program that runs it, or no scratch folder.
    """
    machine = Machine()
    program = _runtime_for(image, machine)
    line, variables = command_in(image, words, machine, binds)
    lasting = path_with_lasting_mount(machine, scratch_of(machine.environ))
    # `lasting` comes last, so that its PATH replaces the machine's.
    os.execve(program, [program, *line], {**machine.environ, **variables, **lasting})


def identity_of(
    image: Path, binds: Sequence[str] = (), machine: Machine | None = None
) -> tuple[str, str]:
    """Start an image and return what it says of itself: its name, `full` or `analysis`, and its code's commit.

    Args:
        image: the image file.
        binds: more folders to show in the image, as Apptainer's --bind takes them.
        machine: the machine; by default this one.

    Raises:
        UserError: it cannot be started here, or is not one of this package's.
    """
    host = machine or Machine()
    program = _runtime_for(image, host)
    line, variables = command_in(image, [IDENTITY], host, binds)

    # spython and Apptainer are started with the variables of this machine, and with those that bring
    # variables into the image.
    host = replace(host, environ={**host.environ, **variables})

    # spython runs a command by `execute`, which takes the same options as `run`. `run` has the image's own script start
    # container.start; `execute` is given that command. line is ["run", *options, image, IDENTITY].
    command, options = ["python", "-m", "container.start", IDENTITY], line[1:-2]
    words = ["execute", str(image), json.dumps(command), json.dumps(options)]
    answer = _by_spython(host, 2 * SECONDS, *words)
    if not answer:
        answer = host.output([program, *line], 2 * SECONDS)
    code, text = answer

    # The image prints a line such as `analysis 1f2e...`; warnings of Apptainer may stand in others.
    identity = re.search(r"^(analysis|full) (\S+)$", text, re.MULTILINE)
    if code or identity is None:
        last_line = (text or "no message").splitlines()[-1]
        raise UserError(
            f"{image} cannot be started here ({code}: {last_line}); is it an image of this package? By hand: "
            f"{program} run"
        )

    return identity[1], identity[2]
