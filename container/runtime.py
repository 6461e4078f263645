"""What runs an image, a .sif file: Apptainer, SingularityCE, or Apptainer under its other name `singularity`.

Nothing of the user's leaks into an image but variables for devices, jobs and networks. What a runtime can do is asked
by starting it (`identity_of`), not read from its version.
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
    """Return the exit code and the answer of `container.client`; None where Apptainer itself is to be asked."""
    # spython starts `singularity`, an alias that some sites leave out.
    if machine.which("singularity") is None:
        return None
    client = Path(__file__).with_name("client.py")
    code, text = machine.output([sys.executable, "-P", str(client), *question], seconds)
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
    code, text = _by_spython(machine, seconds, "version") or machine.output(
        [program, "--version"], seconds
    )
    if code:
        last = (text or "no message").splitlines()[-1]
        raise UserError(
            f"`{program} --version` exited with code {code} ({last}), so no image can run here; if user namespaces are "
            "disabled, ask your site to enable them or to provide another build of apptainer"
        )
    return program, (text or "no version named").splitlines()[-1]


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
        raise UserError(f"apptainer {words[0]} exited with code {process.returncode}")


_PASS = re.compile(
    r"(SLURM|NCCL|RCCL|FI|UCX|GLOO|TORCH|PYTORCH|CUDA|HIP|ROCR|HSA|MIOPEN|AMD|GPU|NVIDIA|HF|WANDB|CLM_OR_MLM|OMP|MKL)_.*"
    r"|(OPENBLAS|TORCHELASTIC|TRITON)_.*"
    r"|MASTER_(ADDR|PORT)|RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|NODE_RANK|TMPDIR|NO_COLOR|COLUMNS|TERM"
    r"|(HTTPS?|NO|ALL)_PROXY|(https?|no|all)_proxy|SOURCE_DATE_EPOCH|REQUESTS_CA_BUNDLE|SSL_CERT_FILE"
)
"""Variables that a command in an image gets from outside: of devices, jobs, networks and caches."""

_SECRET = re.compile(r".*(TOKEN|KEY|SECRET|PASSWORD).*")
"""Those among them that it gets only where `NAMED` names them."""

NAMED = "CLM_OR_MLM_PASS"
"""Variable with the names of secrets that images get, such as `HF_TOKEN WANDB_API_KEY`."""


def command_in(
    image: Path, words: Sequence[str], machine: Machine, binds: Sequence[str] = ()
) -> tuple[list[str], dict[str, str]]:
    """Return Apptainer's words that run a command in an image, and the variables that it is started with.

    The current folder stays current; it and the scratch are shown, no home is.

    Args:
        image: the image file.
        words: the command, as `container.start` takes it.
        machine: for its GPU and the caller's variables.
        binds: more folders, as Apptainer's --bind takes them.

    Raises:
        UserError: no scratch can be written, CLM_OR_MLM_GPU is unknown, or the folder of libraries for older drivers
            is not the cluster's.
    """
    gpu = machine.environ.get("CLM_OR_MLM_GPU", "auto")
    if gpu == "auto":
        gpu = "none"
        if machine.path("/dev/kfd").exists():
            gpu = "rocm"
        if machine.path("/dev/nvidiactl").exists():
            gpu = "nvidia"
    if gpu not in ("nvidia", "rocm", "none"):
        raise UserError(
            f"CLM_OR_MLM_GPU must be auto, nvidia, rocm or none, not {gpu!r}"
        )
    here = str(Path.cwd())
    scratch = str(scratch_of(machine.environ).parent)
    places = [here, scratch]
    compat = compat_folder(machine.environ) if gpu == "nvidia" else None
    if compat:
        places.append(str(compat))
    places += binds
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
            places.append(path)
    driver = {"nvidia": ["--nv"], "rocm": ["--rocm"], "none": []}[gpu]
    line = ["run", "--no-home", "--cleanenv", "--pwd", here, *driver]
    for place in dict.fromkeys(places):
        line += ["--bind", place]
    # Apptainer's --env splits values at commas, as in CUDA_VISIBLE_DEVICES=0,1. SingularityCE knows only its own
    # prefix; equal values under both are fine.
    prefixed = {}
    for key, value in environ.items():
        prefixed[f"APPTAINERENV_{key}"] = value
        prefixed[f"SINGULARITYENV_{key}"] = value
    return [*line, str(image), *words], prefixed


def _runtime_for(image: Path, machine: Machine) -> str:
    """Return the path of the program that runs an image."""
    if not image.is_file():
        raise UserError(
            f"{image} does not exist; build it first: clm-or-mlm build {image.stem}"
        )
    check_name(image)
    return version_of(machine)[0]


def launch(image: Path, words: Sequence[str], binds: Sequence[str] = ()) -> None:
    """Become a command in an image, so that signals reach it; returns only by an error.

    Raises:
        UserError: no image, nothing that runs it, no scratch folder.
    """
    machine = Machine()
    program = _runtime_for(image, machine)
    line, variables = command_in(image, words, machine, binds)
    lasting = path_with_lasting_mount(machine, scratch_of(machine.environ))
    os.execve(program, [program, *line], {**machine.environ, **variables, **lasting})


def identity_of(
    image: Path, binds: Sequence[str] = (), machine: Machine | None = None
) -> tuple[str, str]:
    """Start an image and return what it says of itself: its name, `full` or `analysis`, and its code's commit.

    Args:
        image: the image file.
        binds: more folders to show in the image, as Apptainer's --bind takes them.
        machine: this one.

    Raises:
        UserError: it cannot be started here, or is not one of this package's.
    """
    here = machine or Machine()
    program = _runtime_for(image, here)
    line, variables = command_in(image, [IDENTITY], here, binds)
    here = replace(here, environ={**here.environ, **variables})
    # line is ["run", *options, image, IDENTITY].
    command, options = ["python", "-m", "container.start", IDENTITY], line[1:-2]
    words = ["execute", str(image), json.dumps(command), json.dumps(options)]
    answer = _by_spython(here, 2 * SECONDS, *words)
    if not answer:
        answer = here.output([program, *line], 2 * SECONDS)
    code, text = answer
    identity = re.search(r"^(analysis|full) (\S+)$", text, re.MULTILINE)
    if code or identity is None:
        last = (text or "no message").splitlines()[-1]
        raise UserError(
            f"{image} cannot be started here ({code}: {last}); is it an image of this package? By hand: {program} run"
        )
    return identity[1], identity[2]
