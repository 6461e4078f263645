"""`python -m container build analysis|full`: everything pinned, downloaded here, checked, then built.

Packages are downloaded by this machine's own pip and Debian mirror, so its mirrors, proxies, certificates and
cache are used; the image is then built without network for Python, from files whose hashes the lock holds.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from common.errors import UserError
from common.files import sha256_file, write_text
from common.provenance import ROOT, git_commit
from common.registry import Registry
from container.apptainer import execute, stream, version
from container.inventory import canonical
from container.packing import labels_of, packs_with_words, same_bytes, squashfs_options
from container.sif import normalise

__all__ = ["IMAGES", "Image", "build", "commit_seconds", "mirror_of", "record_of", "without"]

log = logging.getLogger(__name__)

BUILD = ROOT / "build"


@dataclass(frozen=True, kw_only=True)
class Image:
    """One of the two images."""

    name: str
    """`analysis` or `full`."""
    needs_gb: float
    """Free space that a build takes at its peak, in GB: downloads, unpacked root, image."""

    @property
    def path(self) -> Path:
        """Where it lands."""
        return BUILD / f"{self.name}.sif"

    @property
    def definition(self) -> Path:
        """Its definition file."""
        return ROOT / "container" / f"{self.name}.def"

    @property
    def debian_lock(self) -> Path:
        """Debian packages it holds, with versions and hashes; those of another machine than x86-64 are other files."""
        other = {"x86_64": "", "aarch64": "-arm64"}.get(platform.machine(), f"-{platform.machine()}")
        return ROOT / "container" / f"debian-{self.name}{other}.lock"

    @property
    def requirements(self) -> Path:
        """Hash-locked Python packages it holds."""
        return ROOT / "requirements" / f"{self.name}.txt"


IMAGES: Registry[Image] = Registry(
    "image", (Image(name="analysis", needs_gb=3), Image(name="full", needs_gb=40))
)
"""The images by name."""


def record_of(image: Path) -> Path:
    """Return the file next to an image that records how it was built."""
    return image.with_suffix(".sif.json")


_DEBIAN_URL = re.compile(r"\bhttps?://[^\s\]]+/debian/?(?=\s|$)")


def mirror_of(environ: Mapping[str, str], apt: Path = Path("/etc/apt")) -> str:
    """Return the Debian mirror to build from: $DEBIAN_MIRROR, else the first of this machine's apt sources.

    Raises:
        UserError: there is none.
    """
    if named := environ.get("DEBIAN_MIRROR"):
        return named
    folder = apt / "sources.list.d"
    files = [apt / "sources.list", *sorted([*folder.glob("*.list"), *folder.glob("*.sources")])]
    for file in files:
        if not file.is_file():
            continue
        for line in file.read_text("utf-8", errors="replace").splitlines():
            if not line.lstrip().startswith("#") and (match := _DEBIAN_URL.search(line)):
                return match[0]
    raise UserError(
        "no Debian mirror is known here: give one by --mirror URL or DEBIAN_MIRROR=URL; with the address of "
        "Debian's snapshot service, {snapshot} stands for the recorded date"
    )


def snapshot_of(lock: Path) -> str:
    """Return the date in a Debian lock's first line, such as 20261121T000000Z."""
    match = re.match(r"# bookworm (\d{8}T\d{6}Z)", lock.read_text("utf-8")) if lock.is_file() else None
    if match is None:
        raise UserError(f"{lock}: no snapshot date in its first line; record it with --relock")
    return match[1]


def build(
    image: Image,
    *,
    mirror: str | None = None,
    relock: bool = False,
    flash_attn: str | None = None,
    test: bool = True,
    compression: str = "zstd",
    target: Path | None = None,
) -> Path:
    """Build an image and return its path; the old one stays until the new one is whole.

    Args:
        image: which.
        mirror: Debian mirror; `{snapshot}` in it is replaced by the recorded date.
        relock: record the Debian packages that the mirror holds today in place of refusing others.
        flash_attn: a flash-attn wheel to put into the full image.
        test: run the image's own test at the end.
        compression: `zstd`, or `gzip` for an Apptainer or kernel too old to read it.
        target: where the image goes; `build/<name>.sif` when left out.

    Raises:
        UserError: something that is needed is missing or differs from the locks, or the build failed.
    """
    target = target or image.path
    packed = squashfs_options(compression, version())
    snapshot = f"{datetime.now(UTC):%Y%m%d}T000000Z" if relock else snapshot_of(image.debian_lock)
    named = mirror or mirror_of(os.environ)
    mirror = named.replace("{snapshot}", snapshot).rstrip("/")
    commit = git_commit()
    if commit == "unknown":
        raise UserError("an image holds a commit of this repository: build it from a git checkout")
    if commit.endswith("-dirty"):
        log.warning("the image holds the last commit; uncommitted changes are left out")
        commit = commit.removesuffix("-dirty")
    started = time.monotonic()
    context = _context(image, flash_attn, relock)
    temporary = Path(os.environ.get("APPTAINER_TMPDIR") or os.environ.get("TMPDIR") or tempfile.gettempdir())
    _space(temporary, image.needs_gb / 2)
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    seconds = commit_seconds()
    arguments = {
        "MIRROR": mirror,
        "COMMIT": commit,
        "LOCK": sha256_file(image.requirements),
        "SNAPSHOT": snapshot,
    }
    words = ["build", "--force", *([] if test else ["--notest"]), "--bind", f"{context}:/context"]
    if packs_with_words(version()):
        labels = labels_of(image.definition.read_text("utf-8"), arguments, seconds)
        words += same_bytes(packed, context, labels, seconds)
    else:
        log.warning(
            "Apptainer before 1.3 dates what it packs: another build of this commit will have other bytes"
        )
    for key, value in arguments.items():
        words += ["--build-arg", f"{key}={value}"]
    words += [str(unfinished), str(image.definition)]
    try:
        _run_build(words, target.with_suffix(".log"), started)
        if relock:
            _write_lock(image, unfinished, snapshot)
        normalise(unfinished, seconds)
        digest = sha256_file(unfinished)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    record = {
        "image": image.name,
        "sha256": digest,
        "bytes": target.stat().st_size,
        "commit": commit,
        "lock": arguments["LOCK"],
        "debian": {
            "lock": sha256_file(image.debian_lock),
            "snapshot": snapshot,
            "mirror": "snapshot" if "{snapshot}" in named else "mirror of the day",
        },
        "flash_attn": None if flash_attn is None else Path(flash_attn).name,
        "seconds": round(time.monotonic() - started),
    }
    write_text(record_of(target), json.dumps(record, indent=1) + "\n")
    bom = execute(target, ["cat", "/opt/clm-or-mlm/sbom.json"])
    write_text(target.with_suffix(".sbom.json"), bom)
    return target


def commit_seconds() -> int:
    """Return the time of this repository's last commit, in seconds since 1970: the one time in an image."""
    answer = subprocess.run(
        ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"], capture_output=True, text=True, check=True
    )
    return int(answer.stdout)


def _space(folder: Path, gigabytes: float) -> None:
    free = shutil.disk_usage(folder).free / 1e9
    if free < gigabytes:
        raise UserError(
            f"{folder} has {free:.1f} GB free and the build needs {gigabytes:.0f}; "
            "set APPTAINER_TMPDIR to a larger folder"
        )


def _context(image: Image, flash_attn: str | None, relock: bool) -> Path:
    """Return the folder that the build reads: wheels, requirements, source, Debian lock."""
    context = BUILD / "container" / image.name
    wheels = context / "wheels"
    lock = sha256_file(image.requirements)
    done = wheels / ".lock"
    if not done.is_file() or done.read_text("utf-8") != lock:
        _download(image, wheels)
        write_text(done, lock)
    built = _wheels_of_sources(wheels, context / "built")
    write_text(context / "requirements.txt", without(image.requirements.read_text("utf-8"), built))
    if relock:
        (context / "debian.lock").unlink(missing_ok=True)
    else:
        shutil.copyfile(image.debian_lock, context / "debian.lock")
    extra = context / "extra"
    shutil.rmtree(extra, ignore_errors=True)
    extra.mkdir()
    if flash_attn is not None:
        if image.name != "full" or not flash_attn.endswith(".whl") or not Path(flash_attn).is_file():
            raise UserError(f"--flash-attn takes a wheel file and the full image, not {flash_attn!r}")
        shutil.copyfile(flash_attn, extra / Path(flash_attn).name)
    source = context / "source.tar"
    command = ["git", "-C", str(ROOT), "archive", "--format=tar", "-o", str(source), "HEAD"]
    subprocess.run(command, check=True)
    return context


def _download(image: Image, wheels: Path) -> None:
    """Download the locked packages with this machine's pip, which checks their hashes."""
    if sys.version_info[:2] != (3, 11) or sys.platform != "linux":
        raise UserError("images are built on Linux with Python 3.11, as the locks are made for")
    _space(wheels.parent if wheels.parent.exists() else BUILD if BUILD.exists() else ROOT, image.needs_gb / 2)
    shutil.rmtree(wheels, ignore_errors=True)
    wheels.mkdir(parents=True)
    log.info("downloading the packages of %s", image.requirements.relative_to(ROOT))
    answer = _pip("download", "--require-hashes", "--dest", wheels, "--requirement", image.requirements)
    if answer.returncode:
        errors = [line for line in answer.stderr.splitlines() if line.startswith("ERROR")]
        raise UserError(f"the packages could not be downloaded: {(errors or ['pip failed'])[-1]}")


def _pip(command: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "pip", command, "--quiet", "--no-deps", *map(str, words)]
    return subprocess.run(line, stderr=subprocess.PIPE, text=True)


def _wheels_of_sources(wheels: Path, built: Path) -> set[str]:
    """Build wheels of packages that exist as source only, and return their names; their hashes were checked."""
    sources = sorted([*wheels.glob("*.tar.gz"), *wheels.glob("*.zip")])
    lock, done = (wheels / ".lock").read_text("utf-8"), built / ".lock"
    if not done.is_file() or done.read_text("utf-8") != lock:
        shutil.rmtree(built, ignore_errors=True)
        built.mkdir()
        if sources:
            answer = _pip("wheel", "--wheel-dir", built, *sources)
            if answer.returncode:
                last = answer.stderr.strip().splitlines()[-1:]
                raise UserError(f"{', '.join(path.name for path in sources)} could not be built: {last}")
        write_text(done, lock)
    return {canonical(path.name.rsplit("-", 1)[0]) for path in sources}


def without(requirements: str, names: set[str]) -> str:
    """Return a hash-locked requirements text without the entries of some packages."""
    entries = re.split(r"\n(?=[A-Za-z0-9])", requirements)
    return "\n".join(entry for entry in entries if canonical(re.split(r"[=\[ ]", entry)[0]) not in names)


def _run_build(words: list[str], log_file: Path, started: float) -> None:
    log.info("apptainer %s", " ".join(words))
    last: list[str] = []
    try:
        with log_file.open("w", encoding="utf-8") as file:
            for line in stream(words):
                file.write(line)
                file.flush()
                last = [*last[-14:], line.rstrip()[:300]]
                if line.startswith(("INFO:", "I: Base system", "error:")):
                    log.info("%4.0f s  %s", time.monotonic() - started, line.strip()[:160])
    except UserError as error:
        text = "\n".join(f"    {line}" for line in last)
        raise UserError(f"{error}; the end of {log_file}:\n{text}") from None


def _write_lock(image: Image, built: Path, snapshot: str) -> None:
    bom = json.loads(execute(built, ["cat", "/opt/clm-or-mlm/sbom.json"]))
    rows = [
        f"{item['name']} {item['version']} {item['hashes'][0]['content']}\n"
        for item in bom["components"]
        if item["purl"].startswith("pkg:deb/")
    ]
    head = f"# bookworm {snapshot}: name, version and SHA-256 of every Debian package in {image.name}.sif\n"
    write_text(image.debian_lock, head + "".join(rows))
