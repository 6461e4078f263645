"""Where an artefact comes from: command, code, locks and machine, in a manifest of its own next to the artefact.

An artefact is a file or a folder that a command makes. It holds nothing of this itself, so that it has the same bytes
when it is made again.
"""

from __future__ import annotations

import functools
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from common.files import sha256_file
from common.plain_text import HIDDEN, redacted

PROVENANCE = "provenance.json"
"""Name of the file in the folder of a run or a model; of a single file such as `table10.md` it is
`table10.provenance.json` next to it."""
OF_A_CALL = ("command", "platform")
"""Fields of a provenance that differ from call to call and from machine to machine."""
ROOT = Path(__file__).resolve().parent.parent
"""The repository, or the folder the package is installed in."""
SHOWN = (
    "--add-model", "--as", "--as-llama3", "--batch", "--begin-of-text", "--callback", "--data", "--dataset",
    "--datasets", "--device", "--document-separator", "--dry-run", "--end-of-text", "--epochs",
    "--exact-micro-batches", "--format", "--head", "--interval", "--keep", "--kind", "--logs", "--lr", "--max-length",
    "--merge", "--metric", "--model", "--name", "--objective", "--out", "--part", "--pooling", "--positions",
    "--precision", "--prompts", "--repeat-text", "--resamples", "--retry-failed", "--revision", "--seed",
    "--selection", "--set", "--shard-records", "--source", "--start", "--steps", "--stop-file", "--study",
    "--temperature", "--text-field", "--tokenizer", "--tokens", "--trust-remote-code", "--validation-share",
    "--validation-tokens", "--workers",
)  # fmt: skip
"""Options whose values a recorded command shows: they decide what is made, and none takes a secret."""

IMAGE_SHA256 = "CLM_OR_MLM_IMAGE_SHA256"
"""Variable by which a workflow says which image its jobs run in."""


@functools.cache
def git_commit() -> str:
    """Return the commit of the code, with `-dirty` when tracked files were changed; `unknown` without git.

    CLM_OR_MLM_COMMIT in the environment wins: an image holds no git folder.
    """
    given = os.environ.get("CLM_OR_MLM_COMMIT")
    if given:
        return given

    # `--exclude=*` leaves out every tag, so that the hash itself is printed.
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    command += ["--abbrev=40", "--exclude=*"]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"

    return answer.stdout.strip() or "unknown"


def provenance(environment: str, packages: Iterable[str]) -> dict[str, object]:
    """Return what is recorded next to an artefact: commit, lock, Python, versions of packages, command.

    A workflow's job adds the hash of its image.

    Args:
        environment: `analysis` or `full`; the lock is `requirements/<environment>.txt`.
        packages: names of the packages whose versions are recorded; those that are not installed are left out.
    """
    record: dict[str, object] = {"commit": git_commit()}
    image = os.environ.get(IMAGE_SHA256)
    if image:
        record["image_sha256"] = image

    lock = ROOT / "requirements" / f"{environment}.txt"
    lock_sha256 = "unknown"
    if lock.is_file():
        lock_sha256 = sha256_file(lock)
    record["lock"] = {"name": f"requirements/{lock.name}", "sha256": lock_sha256}

    record["python"] = platform.python_version()
    record["platform"] = f"{platform.system()} {platform.machine()}"
    versions = {name: _version(name) for name in packages}
    record["versions"] = {
        name: version for name, version in versions.items() if version is not None
    }

    path = Path(sys.argv[0])
    program = [path.name]
    # `python -m PACKAGE` sets argv[0] to the package's __main__.py.
    if path.name == "__main__.py":
        program = ["python", "-m", path.parent.name]
    record["command"] = [*program, *_recorded(sys.argv[1:])]
    return record


def _recorded(words: Iterable[str]) -> Iterator[str]:
    """Yield the words of a command, with `***` in place of the values of options that are not in `SHOWN`."""
    # Whether values of the last option are shown; before the first option stand commands, models and figures.
    is_shown = True
    for word in words:
        option, equals, value = word.partition("=")
        # A letter must follow the dashes: a key in PEM also begins with dashes.
        is_option = word.startswith("--") and word[2:3].isalpha()
        if not is_option:
            yield _shown(word) if is_shown else HIDDEN
            continue

        is_shown = option in SHOWN
        if equals:
            value = _shown(value) if is_shown else HIDDEN
        yield f"{option}{equals}{value}"


def _shown(value: str) -> str:
    """Return a value as it may be passed on: of an absolute path its last part, of an address neither user nor query.

    Secrets of a known form are hidden wherever they stand.
    """
    if "://" in value:
        address, _, _ = value.partition("?")
        return redacted(address)
    # A value may be a setting: data=/home/me/shards.
    key, equals, last = value.rpartition("=")
    if last.startswith(("/", "~")):
        last = Path(last).name
    return redacted(f"{key}{equals}{last}")


@functools.cache
def _version(package: str) -> str | None:
    """Return the version of an installed package."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def provenance_path(artefact: Path, *, folder: bool = False) -> Path:
    """Return where the provenance of an artefact is: in a folder, or next to a file.

    Files that differ only in their ending, such as the pictures of a figure, share one.

    Args:
        artefact: the file or folder, which need not be there yet.
        folder: whether the artefact is a folder.
    """
    if folder:
        return artefact / PROVENANCE
    return artefact.with_name(f"{artefact.stem}.{PROVENANCE}")
