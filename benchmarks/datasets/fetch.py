"""Datasets from their hubs at pinned commits, once, on a machine with network.

Files are downloaded to `<out>/.downloads`, checked against their hashes and the lock, turned into the local form by
the same code as `import`, and removed. An interrupted download is resumed; what is whole is not downloaded again.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.datasets.hub_pins import LOCK, PINS, LockedFile, Pin, choose, read_lock, write_lock
from benchmarks.datasets.import_files import make
from benchmarks.datasets.local_dataset import read_manifest, verify
from benchmarks.datasets.schema import MANIFEST, Manifest
from benchmarks.protocol import get_dataset
from common.errors import UserError
from common.files import sha256_file
from common.plain_text import visible
from common.reading import inside

__all__ = ["HuggingFaceHub", "RemoteFile", "UnreachableError", "fetch", "fetch_all"]

log = logging.getLogger(__name__)

DOWNLOADS = ".downloads"

_KIND = "hub"
"""What the manifest of a fetched dataset says its source is."""


class UnreachableError(UserError):
    """No network, or the hub does not answer."""


@dataclass(frozen=True, kw_only=True)
class RemoteFile:
    """A file as its hub lists it."""

    bytes: int
    """Size."""
    sha256: str | None
    """Hash of the content where the hub states it (large files), else None."""


class HuggingFaceHub:
    """The hub that `huggingface_hub` talks to, with its own settings for token and proxies.

    Args:
        endpoint: its address; None: what HF_ENDPOINT in the environment says, else the public hub.
    """

    def __init__(self, endpoint: str | None = None) -> None:
        self._endpoint = endpoint

    def commit(self, repo: str, branch: str) -> str | None:
        """Return the commit of a branch, None when there is no such branch."""
        from huggingface_hub import HfApi
        from huggingface_hub.errors import RevisionNotFoundError

        try:
            with _sentences(repo):
                return str(HfApi(self._endpoint).dataset_info(repo, revision=branch, timeout=30).sha)
        except RevisionNotFoundError:
            return None

    def files(self, repo: str, commit: str) -> dict[str, RemoteFile]:
        """Return all files of a commit by path; `UserError` when there is no such commit."""
        from huggingface_hub import HfApi
        from huggingface_hub.errors import RevisionNotFoundError
        from huggingface_hub.hf_api import RepoFile

        try:
            with _sentences(repo):
                tree = HfApi(self._endpoint).list_repo_tree(
                    repo, recursive=True, revision=commit, repo_type="dataset"
                )
                return {
                    file.path: RemoteFile(bytes=file.size, sha256=file.lfs.sha256 if file.lfs else None)
                    for file in tree
                    if isinstance(file, RepoFile)
                }
        except RevisionNotFoundError:
            raise UserError(
                f"{repo} has no commit {commit} on the hub; correct the revision, or get the original "
                "files and use `python -m benchmarks import`"
            ) from None

    def download(self, file: LockedFile, target: Path) -> None:
        """Bring a file to `target`, resuming what an interrupted download left next to it.

        The hub's own `hf_hub_download` starts again after its process was killed.
        """
        from huggingface_hub import hf_hub_url
        from huggingface_hub.file_download import http_get
        from huggingface_hub.utils import build_hf_headers

        url = hf_hub_url(
            file.repo, file.path, repo_type="dataset", revision=file.revision, endpoint=self._endpoint
        )
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f"{target.name}.incomplete")
        if part.is_file() and part.stat().st_size > file.bytes:
            part.unlink()
        with _sentences(file.repo), part.open("ab") as opened:
            http_get(
                url,
                opened,
                resume_size=opened.tell(),
                headers=build_hf_headers(),
                expected_size=file.bytes,
                displayed_filename=file.path,
            )
        part.replace(target)


@contextlib.contextmanager
def _sentences(repo: str) -> Iterator[None]:
    """Turn the hub's exceptions into one sentence each."""
    from httpx2 import HTTPError
    from huggingface_hub import errors
    from huggingface_hub.utils import logging as hub_logging

    # The client prints every attempt and its address; what comes of them is one sentence here.
    hub_logging.set_verbosity_error()
    try:
        yield
    except (errors.GatedRepoError, errors.RepositoryNotFoundError) as error:
        raise UserError(
            f"{repo} is not on the hub, or not open to you; log in with `huggingface-cli login`, or get the "
            f"original files and use `python -m benchmarks import`"
        ) from error
    except (
        errors.LocalEntryNotFoundError,
        errors.OfflineModeIsEnabled,
        HTTPError,
    ) as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        if isinstance(error, errors.RevisionNotFoundError):
            raise
        if status == 404:
            raise UserError(f"{repo} no longer has what it listed: {error}") from error
        raise UnreachableError(
            f"the hub cannot be reached ({f'HTTP {status}' if status else type(error).__name__}); run fetch on a "
            f"machine with network and copy data/ here, or make the dataset from its original files with "
            f"`python -m benchmarks import`"
        ) from error


def fetch(name: str, data: Path, hub: HuggingFaceHub, *, lock: Path | None = None, keep: bool = False,
          replace_old: bool = False, skip_bad: bool = False) -> Manifest:  # fmt: skip
    """Fetch one dataset into `data`, unless it is there and whole, and return its manifest.

    Args:
        name: a dataset of the protocol.
        data: the folder of the datasets.
        hub: where to fetch from.
        lock: the lock file; default `data/hub.lock.json`.
        keep: keep the downloaded files.
        replace_old: fetch again, and put the result in place of what is there.
        skip_bad: leave bad lines out instead of stopping at the first.

    Raises:
        UnreachableError: no network.
        UserError: a file is not there, differs from its hash, or is bad; what is there or locked is of other files than
            those that are pinned; or the disk is too small.
    """
    dataset = get_dataset(name)
    if name not in PINS:
        raise UserError(
            f"nothing says where {name} is on a hub; use `python -m benchmarks import {name} FILES...`"
        )
    path = lock or data / LOCK
    if (data / name / MANIFEST).is_file() and not replace_old:
        if faults := verify(data, name):
            raise UserError(f"{faults[0]}; fetch it again with --replace")
        manifest = read_manifest(data, name)
        _check_source(manifest, data / name, path)
        log.info("%s is in %s already", name, data)
        return manifest
    locked = read_lock(path)
    _check_lock(path, name, locked.get(name, ()))
    wanted = locked.get(name) or _resolve(PINS[name], hub)
    downloads = data / DOWNLOADS
    _check_space(data, downloads, wanted)
    fetched = [_download(file, hub, downloads, pinned=_pinned(name, file)) for file in wanted]
    if fetched != locked.get(name):
        write_lock(path, {**read_lock(path), name: fetched})
    files: dict[str, list[Path]] = {}
    for file in fetched:
        files.setdefault(file.role, []).append(_path_of(downloads, file))
    source: Mapping[str, Any] = {"kind": _KIND, "files": [vars(file) for file in fetched]}
    manifest = make(dataset, files, data, source=source, skip_bad=skip_bad, replace=replace_old)
    if not keep:
        _forget(downloads, fetched)
    return manifest


def _resolve(pins: Sequence[Pin], hub: HuggingFaceHub) -> list[LockedFile]:
    """Return the files that the pins name, at their commits; an unknown commit is the branch's newest."""
    out = []
    listed: dict[tuple[str, str], tuple[str, dict[str, RemoteFile]]] = {}
    for pin in pins:
        for branch in pin.branches():
            if (pin.repo, branch) in listed:
                continue
            commit = pin.commit or hub.commit(pin.repo, branch)
            if commit is not None:
                listed[pin.repo, branch] = commit, hub.files(pin.repo, commit)
        branch, paths = choose(
            pin, {branch: files for (repo, branch), (_, files) in listed.items() if repo == pin.repo}
        )
        commit, files = listed[pin.repo, branch]
        out += [
            LockedFile(role=pin.role, repo=pin.repo, revision=commit, path=path, **vars(files[path]))
            for path in paths
        ]
    return out


def _check_source(manifest: Manifest, folder: Path, lock: Path) -> None:
    """Refuse a dataset that was fetched from other files than those that are pinned now."""
    if manifest.source["kind"] != _KIND:
        return
    try:
        files = [LockedFile(**file) for file in manifest.source["files"]]
    except (TypeError, UserError):
        return
    if found := _difference(PINS[manifest.dataset], files):
        raise UserError(f"{folder} {found}; remove its entry from {lock}, and fetch it again with --replace")


def _check_lock(lock: Path, name: str, files: Sequence[LockedFile]) -> None:
    if files and (found := _difference(PINS[name], files)):
        raise UserError(
            f"{lock} {found}; use the lock of this version, or remove the entry of {name} to go with the pin"
        )


def _difference(pins: Sequence[Pin], files: Sequence[LockedFile]) -> str | None:
    """Return in what files differ from what is pinned; None where they do not."""
    for file in files:
        commits = [pin.commit for pin in pins if (pin.role, pin.repo) == (file.role, file.repo)]
        if not commits:
            return f"takes {file.role} from {file.repo}, where fetch does not look for it"
        if None not in commits and file.revision not in commits:
            return f"takes {file.repo} at {file.revision}, this package pins {commits[0]}"
        if not any(pin.takes(file) for pin in pins):
            path = visible(file.path)[:200]
            return f"takes {file.role} from {path} of {file.repo}, where fetch does not look for it"
    lacking = next((pin for pin in pins if not any(pin.takes(file) for file in files)), None)
    return f"takes no {lacking.role} from {lacking.repo}, where fetch looks for it" if lacking else None


def _pinned(name: str, file: LockedFile) -> str | None:
    """Return the hash that the pins state for a file, if they do."""
    known = (pin.sha256.get(file.path) for pin in PINS[name] if pin.repo == file.repo)
    return next((value for value in known if value), None)


def _path_of(downloads: Path, file: LockedFile) -> Path:
    return inside(downloads / file.repo.replace("/", "+") / file.revision, file.path)


def _download(file: LockedFile, hub: HuggingFaceHub, downloads: Path, *, pinned: str | None) -> LockedFile:
    """Bring a file if it is not there, check it, and return its entry with the hash.

    Raises:
        UserError: the content is not what the lock, the pins or the hub say; the file is removed.
    """
    path = _path_of(downloads, file)
    if not (path.is_file() and path.stat().st_size == file.bytes):
        log.info("%s of %s (%s)", file.path, file.repo, _megabytes(file.bytes))
        hub.download(file, path)
    found = sha256_file(path)
    for source, expected in (("the lock", file.sha256), ("the pinned hash", pinned)):
        if expected and found != expected:
            path.unlink()
            raise UserError(
                f"{file.path} of {file.repo} has the SHA-256 {found[:12]}..., {source} says {expected[:12]}...; it was "
                f"removed, run the same command again, and if that repeats itself the hub's file has changed"
            )
    return replace(file, sha256=found)


def _check_space(data: Path, downloads: Path, files: Sequence[LockedFile]) -> None:
    data.mkdir(parents=True, exist_ok=True)
    needed = sum(file.bytes for file in files if not _path_of(downloads, file).is_file())
    free = shutil.disk_usage(data).free
    if needed > free:
        raise UserError(
            f"{data} has {_megabytes(free)} free and the download needs {_megabytes(needed)}; free some space or give "
            f"another folder with --out"
        )


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"


def _forget(downloads: Path, files: Sequence[LockedFile]) -> None:
    """Remove the downloaded files, and then the folders with nothing left in them."""
    for file in files:
        _path_of(downloads, file).unlink(missing_ok=True)
    folders = [downloads, *(path for path in downloads.rglob("*") if path.is_dir())]
    for path in sorted(folders, reverse=True):
        if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
            path.rmdir()


def fetch_all(
    names: Sequence[str], data: Path, hub: HuggingFaceHub, done: Callable[[Manifest], None], **options: Any
) -> list[str]:
    """Fetch datasets one after another and return the names of those that could not be fetched.

    Args:
        names: the datasets; all that have pins where none is named.
        data: the folder of the datasets.
        hub: where to fetch from.
        done: called with each manifest.
        options: as in `fetch`.

    Raises:
        UnreachableError: no network.
        UserError: an unknown name, or the only dataset could not be fetched.
    """
    names = [get_dataset(name).name for name in names] or list(PINS)
    failed = []
    for name in names:
        try:
            done(fetch(name, data, hub, **options))
        except UnreachableError:
            raise
        except UserError as error:
            if len(names) == 1:
                raise
            log.error("%s: %s", name, error)
            failed.append(name)
    if failed:
        log.error("%d of %d datasets are missing: %s", len(failed), len(names), ", ".join(failed))
    return failed
