"""What runs an image: Apptainer or SingularityCE a .sif file, Podman the same root as an OCI archive (.tar).

A runtime is what it is called, which files it takes and the command line that it makes of a wish; nothing of the
user's leaks into an image but variables for devices, jobs and networks. What a runtime can do is asked by starting it
(`answer`), not read from its version.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from common.errors import UserError
from common.registry import Registry
from container.machine import Machine
from container.start import SCRATCH, scratch_of

__all__ = [
    "RUNTIMES",
    "Inside",
    "Runtime",
    "answer",
    "inside",
    "launch",
    "passed_on",
    "runtime_of",
    "stream",
    "version_of",
]

SECONDS = 300.0
"""Time that `apptainer --version` has to answer: where no user namespace can be made, as in a chroot, it or a site's
wrapper around it may wait for ever; and a wrapper may set itself up at its first start."""


@dataclass(frozen=True, kw_only=True)
class Inside:
    """A command in an image."""

    image: Path
    """The image file."""
    words: Sequence[str]
    """A room or shortcut and its arguments."""
    folder: str
    """The current folder, which stays current."""
    places: Sequence[str]
    """Folders that are shown, as --bind and --volume take them."""
    environ: Mapping[str, str]
    """Variables that are set inside."""
    gpu: str = "none"
    """`nvidia`, `rocm` or `none`."""


def _apptainer(wish: Inside) -> list[str]:
    shown = [word for place in wish.places for word in ("--bind", place)]
    gpu = {"nvidia": ["--nv"], "rocm": ["--rocm"], "none": []}[wish.gpu]
    line = ["run", "--no-home", "--cleanenv", "--pwd", wish.folder, *gpu, *shown]
    return [*line, str(wish.image), *wish.words]


def _prefixed(environ: Mapping[str, str]) -> dict[str, str]:
    """Return variables as Apptainer and SingularityCE take them, each by its own prefix.

    Apptainer's --env splits values at commas, as in CUDA_VISIBLE_DEVICES=0,1; equal values under both names are fine.
    """
    return {
        f"{prefix}ENV_{key}": value
        for key, value in environ.items()
        for prefix in ("APPTAINER", "SINGULARITY")
    }


def _podman(wish: Inside) -> list[str]:
    # Networks, shared memory and limits are the node's, as in Apptainer; files belong to the user.
    line = ["run", "--rm", "--interactive"]
    line += ["--network=host", "--ipc=host", "--ulimit=host", "--security-opt=label=disable"]
    line += [] if os.geteuid() == 0 else ["--userns=keep-id", "--group-add=keep-groups"]
    gpu = {"nvidia": ["nvidia.com/gpu=all"], "rocm": ["/dev/kfd", "/dev/dri"], "none": []}[wish.gpu]
    gpu += [path for path in ("/dev/infiniband",) if wish.gpu != "none" and Path(path).exists()]
    line += [f"--device={device}" for device in gpu]
    line += [f"--volume={place if ':' in place else f'{place}:{place}'}" for place in wish.places]
    line += [f"--env={key}" for key in wish.environ]
    return [*line, f"--workdir={wish.folder}", f"oci-archive:{wish.image}", *wish.words]


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """A program that runs images."""

    name: str
    """Its name in sentences."""
    programs: tuple[str, ...]
    """What it is called on PATH, the first that is there."""
    suffix: str
    """Of the image files that it takes."""
    line: Callable[[Inside], list[str]]
    """Its words for a command in an image."""
    variables: Callable[[Mapping[str, str]], dict[str, str]]
    """The variables that it is started with so that these are set inside."""
    builds_with: tuple[str, ...]
    """Options of its `build` that our images take; what only runs images need not know them."""


RUNTIMES: Registry[Runtime] = Registry(
    "runtime",
    (
        Runtime(
            name="apptainer",
            programs=("apptainer", "singularity"),
            suffix=".sif",
            line=_apptainer,
            variables=_prefixed,
            builds_with=("--build-arg", "--mksquashfs-args"),
        ),
        Runtime(
            name="podman",
            programs=("podman",),
            suffix=".tar",
            line=_podman,
            variables=dict,
            builds_with=("--timestamp", "--label"),
        ),
    ),
)
"""All runtimes by name. `singularity` is SingularityCE, or Apptainer's other name."""


def runtime_of(image: Path) -> Runtime:
    """Return what runs an image file, by its ending.

    Raises:
        UserError: no runtime takes such files.
    """
    for runtime in RUNTIMES.values():
        if image.suffix == runtime.suffix:
            return runtime
    known = ", ".join(f"{runtime.suffix} ({runtime.name})" for runtime in RUNTIMES.values())
    raise UserError(f"{image} is not named like an image file; such names end in {known}")


def version_of(
    machine: Machine, seconds: float = SECONDS, runtime: Runtime = RUNTIMES["apptainer"]
) -> tuple[str, str]:
    """Return the path of a runtime's program and what it says of its version.

    Raises:
        UserError: it is not on PATH, does not answer in time, or fails.
    """
    program = machine.which(*runtime.programs)
    if program is None:
        raise UserError(
            f"{runtime.name} is not on PATH; load your site's module (often `module load {runtime.name}`) or install it"
        )
    code, text = machine.output([program, "--version"], seconds)
    if code:
        last = (text or "no message").splitlines()[-1]
        raise UserError(
            f"`{program} --version` exited with code {code} ({last}), so no image can run here; if user namespaces are "
            f"disabled, ask your site to enable them or to provide another build of {runtime.name}"
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
    r"|(HTTPS?|NO)_PROXY|(https?|no)_proxy|SOURCE_DATE_EPOCH"
)


def passed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a command in an image gets from outside: devices, jobs, networks, caches."""
    return {key: value for key, value in environ.items() if _PASS.fullmatch(key)}


def inside(image: Path, words: Sequence[str], machine: Machine, binds: Sequence[str] = ()) -> Inside:
    """Return the wish to run a command in an image: the current folder and the scratch are shown, no home is.

    Args:
        image: the image file.
        words: a room or shortcut and its arguments.
        machine: for its GPU and the caller's variables.
        binds: more folders, as Apptainer's --bind takes them.

    Raises:
        UserError: no scratch can be written, or CLM_OR_MLM_GPU is unknown.
    """
    gpu = machine.environ.get("CLM_OR_MLM_GPU", "auto")
    if gpu == "auto":
        devices = {"/dev/nvidiactl": "nvidia", "/dev/kfd": "rocm"}
        gpu = next((name for path, name in devices.items() if machine.path(path).exists()), "none")
    if gpu not in ("nvidia", "rocm", "none"):
        raise UserError(f"CLM_OR_MLM_GPU must be auto, nvidia, rocm or none, not {gpu!r}")
    here, scratch = str(Path.cwd()), str(scratch_of(machine.environ).parent)
    return Inside(
        image=image,
        words=words,
        folder=here,
        places=tuple(dict.fromkeys([here, scratch, *binds])),
        environ=passed_on(machine.environ) | {SCRATCH: scratch},
        gpu=gpu,
    )


def _started(
    image: Path, words: Sequence[str], machine: Machine, binds: Sequence[str]
) -> tuple[list[str], dict[str, str]]:
    """Return the command line of a command in an image, and its environment."""
    if not image.is_file():
        raise UserError(f"{image} does not exist; build it first: clm-or-mlm build {image.stem}")
    runtime = runtime_of(image)
    program, _ = version_of(machine, SECONDS, runtime)
    wish = inside(image, words, machine, binds)
    return [program, *runtime.line(wish)], dict(machine.environ) | runtime.variables(wish.environ)


def launch(image: Path, words: Sequence[str], binds: Sequence[str] = ()) -> None:
    """Become a command in an image, so that signals reach it; returns only by an error.

    Raises:
        UserError: no image, no runtime for it, no scratch folder.
    """
    command, environ = _started(image, words, Machine(), binds)
    os.execve(command[0], command, environ)


def answer(
    image: Path, words: Sequence[str], given: str, binds: Sequence[str] = (), machine: Machine | None = None
) -> str:
    """Return what a command in an image prints, and so show that it starts here.

    Args:
        image: the image file.
        words: a room or shortcut and its arguments.
        given: its standard input.
        binds: folders that it shows.
        machine: this one.

    Raises:
        UserError: it cannot be started, or ends with an error; its last line is in the sentence.
    """
    command, environ = _started(image, words, machine or Machine(), binds)
    try:
        done = subprocess.run(
            command, input=given, env=environ, capture_output=True, text=True, timeout=2 * SECONDS
        )
    except subprocess.TimeoutExpired:
        raise UserError(
            f"{image} did not answer within {2 * SECONDS:.0f} s; run it by hand with {command[0]}"
        ) from None
    if done.returncode:
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        raise UserError(
            f"{image} cannot be started here ({done.returncode}: {last}); is it an image of this package?"
        )
    return done.stdout
