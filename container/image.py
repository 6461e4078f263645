"""The two images: built with everything pinned, and compared with what they were built from.

An image is one .sif file with a Debian system, Python packages and the code of a commit. Python packages are downloaded
by this machine's own pip and Debian packages from its Debian mirror, so that its mirrors, proxies, certificates and
cache are used; Python's part of the image is then built without network, from files whose hashes the lock holds.

A lock is a file with the name, version and hash of every package: `requirements/*.txt` of Python's packages,
`container/*.lock` of Debian's. A snapshot is the state of Debian's packages at a date.
"""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from common.errors import UserError
from common.files import (
    atomic_path,
    is_marked,
    mark_cache,
    sha256_file,
    write_text,
)
from common.manifest import (
    FILES,
    check_files,
    read_manifest,
    refuse_strangers,
    write_manifest,
    written_by,
)
from common.provenance import ROOT, git_commit
from container.check_lines import CheckLine, fail, ok, warn
from container.machine import Machine
from container.packages import LOCK
from container.runtime import stream, version_of
from container.same_bytes import labels_of, mksquashfs_words, normalise

log = logging.getLogger(__name__)

BUILD = ROOT / "build"

ImageName = Literal["analysis", "full"]
"""What an image is called."""


@dataclass(frozen=True, kw_only=True)
class Image:
    """One of the two images."""

    name: ImageName
    """Which one."""

    @property
    def needs_gb(self) -> float:
        """Free space that a build takes for its unpacked root, in GB."""
        return 20 if self.name == "full" else 2

    @property
    def path(self) -> Path:
        """The image file."""
        return BUILD / f"{self.name}.sif"

    @property
    def bom(self) -> Path:
        """The file next to it that lists its packages (SBOM)."""
        return self.path.with_suffix(".sbom.json")

    @property
    def context(self) -> Path:
        """The folder from which it is built; the build's log is written there as well."""
        return BUILD / "container" / self.name

    @property
    def definition(self) -> Path:
        """Its definition file."""
        return ROOT / "container" / f"{self.name}.def"

    @property
    def debian_lock(self) -> Path:
        """The lock of its Debian packages for this machine's processor."""
        machine = platform.machine()
        # Debian calls aarch64 arm64; x86-64 is the usual machine and has no ending.
        endings = {"x86_64": "", "aarch64": "-arm64"}
        ending = endings.get(machine, f"-{machine}")
        return ROOT / "container" / f"debian-{self.name}{ending}.lock"

    @property
    def requirements(self) -> Path:
        """The lock of its Python packages; those that only tests need are not among them."""
        name = "full-image" if self.name == "full" else self.name
        return ROOT / "requirements" / f"{name}.txt"


IMAGES = (Image(name="analysis"), Image(name="full"))
"""The two images."""


def image_record(image: Path) -> Path:
    """Return the manifest next to an image: how it was built, and its hash and its SBOM's."""
    return image.with_name(f"{image.name}.json")


_DEBIAN_URL = re.compile(r"^[^#]*?\b(https?://[^\s\]]+/debian/?)(?=\s|$)", re.MULTILINE)
"""An address that ends in /debian, before any # of its line, as in both forms of apt's files:
`deb [arch=amd64] http://MIRROR/debian bookworm main` and `URIs: http://MIRROR/debian`."""


def mirror_of(environ: Mapping[str, str], apt: Path = Path("/etc/apt")) -> str:
    """Return the address of the Debian mirror to build from.

    It is $DEBIAN_MIRROR, else the first mirror of Debian among this machine's package sources.

    Args:
        environ: the environment.
        apt: the folder with the files that list package sources.

    Raises:
        UserError: there is none.
    """
    chosen = environ.get("DEBIAN_MIRROR")
    if chosen:
        return chosen
    further_files = sorted((apt / "sources.list.d").glob("*"))
    for file in [apt / "sources.list", *further_files]:
        if not file.is_file():
            continue
        text = file.read_text("utf-8", errors="replace")
        match = _DEBIAN_URL.search(text)
        if match:
            return match[1]

    raise UserError(
        "no Debian mirror is configured on this machine; give one with --mirror URL or DEBIAN_MIRROR=URL (for Debian's "
        "snapshot service, write {snapshot} in the URL where the date of the lock file belongs)"
    )


def dated_mirror(mirror: str, snapshot: str, seconds: float = 10.0) -> str:
    """Return the address at which a mirror's host has Debian's packages of a date; the mirror where it has none.

    Some hosts have old states of Debian as well, at the path of Debian's snapshot service or below the mirror's.

    Args:
        mirror: an address such as https://HOST/debian; if it has {snapshot} in it, it is returned as it is.
        snapshot: the date, such as 20261121T000000Z.
        seconds: how long to wait for an answer.

    Returns:
        An address with {snapshot} in the place of the date, or `mirror`.
    """
    if "{snapshot}" in mirror:
        return mirror
    address = mirror.rstrip("/")
    host = address.removesuffix("/debian")
    for candidate in (
        f"{host}/archive/debian/{{snapshot}}",
        f"{address}/{{snapshot}}",
    ):
        dated = candidate.replace("{snapshot}", snapshot)
        # Every state of Debian's version bookworm has this file.
        release_file = f"{dated}/dists/bookworm/Release"

        # An address without the file, or without an answer, raises an error and is passed over.
        with (
            contextlib.suppress(OSError, ValueError),
            urllib.request.urlopen(release_file, timeout=seconds),
        ):
            return candidate

    return mirror


def snapshot_of(lock: Path) -> str:
    """Return the date in a Debian lock's first line, such as 20261121T000000Z.

    Raises:
        UserError: there is no such file, or no date in its first line.
    """
    text = lock.read_text("utf-8") if lock.is_file() else ""
    # Such as `# bookworm 20261121T000000Z: name, version and SHA-256 of every Debian package in full.sif`.
    match = re.match(r"# bookworm (\d{8}T\d{6}Z)", text)
    if match is None:
        raise UserError(
            f"{lock}: no snapshot date in its first line; record it with --relock"
        )
    return match[1]


def build(image: Image, *, mirror: str | None = None, relock: bool = False) -> Path:
    """Build an image and return its path; an old image file stays until the new one is whole.

    Args:
        image: the image.
        mirror: address of a Debian mirror; `{snapshot}` in it is replaced by the lock's date.
        relock: write a new lock with the Debian packages that the mirror has today. Without it, packages that are not
            those of the lock are refused.

    Raises:
        UserError: something that is needed is missing or differs from the locks, or the build failed.
    """
    # Everything that can be refused before packages are downloaded.
    _check_place(image)
    commit = _commit_in_image()
    if Machine().which("debootstrap") is None:
        raise UserError(
            "images are built by debootstrap, which is not on PATH; "
            "install it, or build elsewhere and copy the image"
        )

    todays_mirror = mirror or mirror_of(os.environ)
    # A new lock is made of today's packages; an old one needs the mirror as of its date, for today's may be newer.
    if relock:
        snapshot = f"{datetime.now(UTC):%Y%m%d}T000000Z"
        address = todays_mirror
    else:
        snapshot = snapshot_of(image.debian_lock)
        address = dated_mirror(todays_mirror, snapshot)

    _check_room(image)

    # What the build reads, and Apptainer's command. Every timestamp in the image is the commit's, so that two
    # builds have the same bytes.
    commit_time = int(_git("log", "-1", "--format=%ct"))
    arguments = {
        "MIRROR": address.replace("{snapshot}", snapshot).rstrip("/"),
        "COMMIT": commit,
        "LOCK": sha256_file(image.requirements),
        "SNAPSHOT": snapshot,
    }
    context = _context(image, relock, commit_time)
    definition = image.definition.read_text("utf-8")
    labels = labels_of(definition, arguments, commit_time)

    # The definition finds the folder at /context, and is filled with the arguments.
    words = ["build", "--force", "--bind", f"{context}:/context"]
    words += ["--mksquashfs-args", mksquashfs_words(context, labels, commit_time)]
    for key, value in arguments.items():
        words += ["--build-arg", f"{key}={value}"]

    # The build. Then the image file is made independent of the time and the machine of its build.
    target = image.path
    # The image gets its name when this block ends without an error.
    with atomic_path(target) as unfinished:
        words += [str(unfinished), str(image.definition)]
        _apptainer_build(words, context / "build.log")
        if relock:
            head = f"# bookworm {snapshot}: name, version and SHA-256 of every Debian package in {image.name}.sif\n"
            # Written there by container.packages, which runs at the end of the build.
            installed = (context / LOCK).read_text("utf-8")
            write_text(image.debian_lock, head + installed)

        normalise(unfinished, commit_time)

        # What the image was built from. The lock of Debian's packages is in `debian`, that of Python's beside it.
        is_dated = "{snapshot}" in address
        debian = {
            "lock": sha256_file(image.debian_lock),
            "snapshot": snapshot,
            "mirror": "snapshot" if is_dated else "mirror of the day",
        }
        record = {
            "image": image.name,
            "commit": commit,
            "lock": arguments["LOCK"],
            "debian": debian,
            "tools": _tools(),
        }

        # Also written there by container.packages; `image.bom` is where it goes in the end, beside the image.
        bom = context / "sbom.json"
        hashes = {
            target.name: sha256_file(unfinished),
            image.bom.name: sha256_file(bom),
        }

        # The record is written first: by it the next build knows the other files as its own (`_check_place`).
        write_manifest(image_record(target), record, hashes)
        shutil.copyfile(bom, image.bom)

    return target


def _check_place(image: Image) -> None:
    """Refuse a build that would overwrite files that no earlier build has written."""
    record = image_record(image.path)
    names = [image.path.name, image.bom.name, record.name]
    # A folder with the mark is from an earlier build (`_context`), and may be replaced.
    if not is_marked(image.context):
        names.append(image.context.relative_to(BUILD).as_posix())
    # The record of the last build lists its files. An empty hash stands for any content: a build that was
    # killed between its record and its image has left the image of the build before, whose hash is not in the
    # record.
    ours = dict.fromkeys(written_by(record), "")
    remedy = "and the image goes there; move them elsewhere"
    refuse_strangers(BUILD, ours, remedy, among=names)


def _commit_in_image() -> str:
    """Return the commit whose code an image will hold; warn where the checkout has changes, which it will not hold.

    Raises:
        UserError: the package is not a git checkout.
    """
    # The hash; with `-dirty` at its end where files were changed since the commit.
    commit = git_commit()
    if commit == "unknown":
        raise UserError(
            f"{ROOT} is not a git checkout; an image contains a commit, so build it from a clone"
        )
    if commit.endswith("-dirty"):
        log.warning(
            "the image will contain the last commit, without uncommitted changes"
        )
    return commit.removesuffix("-dirty")


def _check_room(image: Image) -> None:
    """Refuse a build whose unpacked root has no room in Apptainer's temporary folder."""
    temporary = Path(os.environ.get("APPTAINER_TMPDIR") or tempfile.gettempdir())
    free = Machine().free_gb(temporary)
    if free < image.needs_gb:
        raise UserError(
            f"{temporary} has {free:.1f} GB free, but the build needs {image.needs_gb:.0f} GB; set APPTAINER_TMPDIR "
            "to a folder with more space"
        )


def _tools() -> dict[str, str]:
    """Return the versions of the programs on which an image's bytes depend as well."""
    return {
        "apptainer": version_of(Machine())[1],
        "mksquashfs": version_line("mksquashfs", "-version"),
        "debootstrap": version_line("debootstrap", "--version"),
    }


def version_line(*command: str) -> str:
    """Return the first line of what a program says of its version; `unknown` where it fails."""
    code, text = Machine().output(command)
    # It also fails where the program is not on PATH: Apptainer may bring its own mksquashfs.
    return "unknown" if code else text.partition("\n")[0]


def _git(*words: str) -> str:
    """Return what a git command prints about this checkout."""
    return subprocess.run(
        ["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True
    ).stdout


def _context(image: Image, relock: bool, commit_time: int) -> Path:
    """Make the folder that the build reads, and return it.

    It holds the wheels of all Python packages, the commit's source code as source.tar, and the lock of Debian packages
    as debian.lock. Without debian.lock, the build takes any Debian packages; `build` makes a new lock of
    them.

    Args:
        image: the image.
        relock: whether the folder has no debian.lock, so that the build takes any Debian packages.
        commit_time: time of the commit, in seconds since 1970.

    Raises:
        UserError: this is another Python or system than the locks are for, or a package could not be downloaded.
    """
    if sys.version_info[:2] != (3, 11) or sys.platform != "linux":
        raise UserError(
            "images must be built on Linux with Python 3.11, for which the locks were made"
        )

    context = image.context
    shutil.rmtree(context, ignore_errors=True)
    mark_cache(context)
    log.info("downloading the packages of %s", image.requirements.relative_to(ROOT))

    # pip checks the hash of each download. A package that exists only as source is built into a wheel by the setuptools
    # and setuptools-scm of this environment: in isolation pip would download the newest ones, without a hash.
    pip = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--require-hashes",
    ]
    words = ["--no-build-isolation", "--wheel-dir", str(context / "wheels")]
    words += ["--requirement", str(image.requirements)]

    # Without SOURCE_DATE_EPOCH a wheel that is built here would hold the time of its build.
    environ = os.environ | {"SOURCE_DATE_EPOCH": str(commit_time)}
    answer = subprocess.run(
        [*pip, *words], stderr=subprocess.PIPE, text=True, env=environ
    )
    if answer.returncode:
        # The last of pip's errors is in the sentence.
        error = "pip failed"
        for line in answer.stderr.splitlines():
            if line.startswith("ERROR"):
                error = line
        raise UserError(f"the packages could not be downloaded: {error}")

    if not relock:
        shutil.copyfile(image.debian_lock, context / "debian.lock")
    _git("archive", "--format=tar", "-o", str(context / "source.tar"), "HEAD")
    return context


def _apptainer_build(words: list[str], log_file: Path) -> None:
    """Run Apptainer's build and write its output to a file; lines that show progress are also logged.

    Raises:
        UserError: the build failed; the last lines of the output are in the message.
    """
    log.info("apptainer %s", " ".join(words))
    try:
        with log_file.open("w", encoding="utf-8") as file:
            for line in stream(words):
                file.write(line)
                # So that the file can be read while the build runs.
                file.flush()
                # Apptainer's steps (INFO:), the packages that debootstrap installs (I: Base system ...), and
                # errors.
                if line.startswith(("INFO:", "I: Base system", "error:")):
                    log.info("%s", line.strip()[:160])
    except UserError as error:
        output = log_file.read_text("utf-8").splitlines()
        last_lines = "\n".join(f"    {line[:300]}" for line in output[-15:])
        raise UserError(f"{error}; last lines of {log_file}:\n{last_lines}") from None


_REMEDY = "build the image again"


def verify_image(image: Image, path: Path | None = None) -> list[CheckLine]:
    """Compare an image file with its record, and the record with the locks and the commit of this checkout.

    The file has to have the hash that the record (`image_record`) lists. The locks have to have the hashes of those
    that it was built from. A checkout at another commit is only a warning.

    Args:
        image: which of the two images the file should be.
        path: the image file; `build/<name>.sif` when left out.

    Returns:
        A line for each comparison; only one if the file is not that of the record, since the rest says nothing then.

    Raises:
        UserError: there is no such file.
    """
    path = path or image.path
    if not path.is_file():
        raise UserError(
            f"{path} does not exist; build it: clm-or-mlm build {image.name}"
        )

    # The image file, by the hash in its record.
    try:
        record = read_manifest(image_record(path), _REMEDY)
        if path.name not in record[FILES]:
            raise UserError(
                f"{image_record(path)} describes {', '.join(record[FILES])}; rename the image to match"
            )
        # The image and its SBOM, which has to lie beside it.
        check_files(path.parent, record[FILES], _REMEDY)
    except (FileNotFoundError, UserError) as error:
        return [fail("file", str(error))]

    lines = [ok("file", f"sha256 {record[FILES][path.name]}")]
    if record["image"] != image.name:
        lines.append(
            fail("image", f"found {record['image']}, expected {image.name}; {_REMEDY}")
        )

    # The locks and the commit that it was built from, by what they are in this checkout.
    image_commit = record["commit"]
    hash_when_built = {
        image.requirements: record["lock"],
        image.debian_lock: record["debian"]["lock"],
    }
    for lock, digest in hash_when_built.items():
        name = str(lock.relative_to(ROOT))
        if sha256_file(lock) == digest:
            lines.append(ok(name, "as built"))
            continue
        changed = f"the image was built from a different version: git diff {image_commit} -- {name}; {_REMEDY}"
        lines.append(fail(name, changed))

    commit = git_commit()
    if commit == image_commit:
        lines.append(ok("commit", commit))
    else:
        lines.append(warn("commit", f"image: {image_commit}, this checkout: {commit}"))

    return lines
