"""Datasets from their hubs at pinned commits, once, on a machine with network.

Files are downloaded to `<out>/.downloads/<dataset>`, checked against their hashes and the lock, turned into the local
form by the same code as `import`, and removed. What is whole is not downloaded again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.datasets.import_files import make
from benchmarks.datasets.local_dataset import read_manifest, verify
from benchmarks.datasets.schema import MANIFEST, Manifest
from benchmarks.hub_files import LOCK, LockedFile, Pin, choose, read_lock, write_lock
from benchmarks.protocol import Dataset, get_dataset
from common.errors import UserError
from common.files import sha256_file
from common.reading import inside

__all__ = ["UnreachableError", "fetch", "fetch_all"]

log = logging.getLogger(__name__)

DOWNLOADS = ".downloads"

_KIND = "hub"
"""What the manifest of a fetched dataset says its source is."""


class UnreachableError(UserError):
    """No network, or the hub does not answer."""


def fetch(
    dataset: Dataset | str, data: Path, *, replace_old: bool = False, skip_bad: bool = False
) -> Manifest:
    """Fetch one dataset into `data`, unless it is there and whole, and return its manifest.

    The hub is that of HF_ENDPOINT in the environment, else the public one.

    Args:
        dataset: the dataset, or the name of one of the twelve.
        data: the folder of the datasets.
        replace_old: fetch again, and put the result in place of what is there.
        skip_bad: leave bad lines out instead of stopping at the first.

    Raises:
        UnreachableError: no network.
        UserError: a file is not there, differs from its hash, or is bad; what is there or locked is of other files than
            those that are pinned.
    """
    dataset = get_dataset(dataset)
    name = dataset.name
    pins = dataset.pins
    if not pins:
        raise UserError(f"nothing says where {name} is on a hub; use `clm-or-mlm import {name} FILES...`")
    path = data / LOCK
    if (data / name / MANIFEST).is_file() and not replace_old:
        if faults := verify(data, dataset):
            raise UserError(f"{faults[0]}; fetch it again with --replace")
        manifest = read_manifest(data, dataset)
        if found := _difference(pins, _files_of(manifest)):
            raise UserError(
                f"{data / name} {found}; remove its entry from {path}, and fetch it again with --replace"
            )
        log.info("%s is in %s already", name, data)
        return manifest
    locked = read_lock(path).get(name, [])
    if found := _difference(pins, locked):
        raise UserError(
            f"{path} {found}; use the lock of this version, or remove the entry of {name} to go with the pin"
        )
    downloads = data / DOWNLOADS / name
    wanted = locked or _resolve(pins)
    data.mkdir(parents=True, exist_ok=True)
    _download(wanted, downloads)
    fetched = [_checked(file, downloads, pins) for file in wanted]
    if fetched != locked:
        write_lock(path, {**read_lock(path), name: fetched})
    files: dict[str, list[Path]] = {}
    for file in fetched:
        files.setdefault(file.role, []).append(_path_of(downloads, file))
    source = {"kind": _KIND, "files": [vars(file) for file in fetched]}
    manifest = make(dataset, files, data, source=source, skip_bad=skip_bad, replace=replace_old)
    shutil.rmtree(downloads, ignore_errors=True)
    with contextlib.suppress(OSError):  # others are being fetched
        downloads.parent.rmdir()
    return manifest


def _files_of(manifest: Manifest) -> list[LockedFile]:
    """Return the files that a dataset was fetched from; none where it is from elsewhere."""
    if manifest.source["kind"] != _KIND:
        return []
    return [LockedFile(**file) for file in manifest.source["files"]]


def _difference(pins: Sequence[Pin], files: Sequence[LockedFile]) -> str | None:
    """Return in what files differ from what is pinned; None where they do not, or where there are none."""
    if not files:
        return None
    for file in files:
        commits = [pin.commit for pin in pins if (pin.role, pin.repo) == (file.role, file.repo)]
        if not commits:
            return f"takes {file.role} from {file.repo}, where fetch does not look for it"
        if None not in commits and file.revision not in commits:
            return f"takes {file.repo} at {file.revision}, this package pins {commits[0]}"
        if not any(pin.takes(file) for pin in pins):
            path = file.path[:200]
            return f"takes {file.role} from {path} of {file.repo}, where fetch does not look for it"
    lacking = next((pin for pin in pins if not any(pin.takes(file) for file in files)), None)
    return f"takes no {lacking.role} from {lacking.repo}, where fetch looks for it" if lacking else None


def _resolve(pins: Sequence[Pin]) -> list[LockedFile]:
    """Return the files that the pins name, at their commits; an unknown commit is the branch's newest.

    Raises:
        UserError: a repository, a commit or a file is not there.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import RevisionNotFoundError
    from huggingface_hub.hf_api import RepoFile

    api = HfApi(_endpoint())
    out = []
    listed: dict[tuple[str, str], tuple[str, dict[str, RepoFile]]] = {}
    for pin in pins:
        for branch in pin.branches():
            if (pin.repo, branch) in listed:
                continue
            try:
                with _sentences(pin.repo):
                    commit = pin.commit or str(api.dataset_info(pin.repo, revision=branch, timeout=30).sha)
                    tree = api.list_repo_tree(pin.repo, recursive=True, revision=commit, repo_type="dataset")
                    files = {file.path: file for file in tree if isinstance(file, RepoFile)}
            except RevisionNotFoundError:
                if pin.commit is None:
                    continue
                raise UserError(
                    f"{pin.repo} has no commit {pin.commit} on the hub; correct the revision, or get the original "
                    "files and use `clm-or-mlm import`"
                ) from None
            listed[pin.repo, branch] = commit, files
        branch, paths = choose(
            pin, {branch: files for (repo, branch), (_, files) in listed.items() if repo == pin.repo}
        )
        commit, files = listed[pin.repo, branch]
        for path in paths:
            size, lfs = files[path].size, files[path].lfs
            sha256 = lfs.sha256 if lfs else None
            out.append(
                LockedFile(
                    role=pin.role, repo=pin.repo, revision=commit, path=path, bytes=size, sha256=sha256
                )
            )
    return out


def _download(files: Sequence[LockedFile], downloads: Path) -> None:
    """Bring the files that are not there, a repository at a time.

    Raises:
        UserError: the hub cannot be reached, or no longer has a file.
    """
    from huggingface_hub import snapshot_download

    by_folder: dict[Path, list[LockedFile]] = {}
    for file in files:
        if not _path_of(downloads, file).is_file():
            log.info("%s of %s (%.1f MB)", file.path, file.repo, file.bytes / 1e6)
            by_folder.setdefault(_folder_of(downloads, file), []).append(file)
    for folder, missing in by_folder.items():
        one = missing[0]
        with _sentences(one.repo):
            snapshot_download(
                one.repo,
                repo_type="dataset",
                revision=one.revision,
                local_dir=folder,
                cache_dir=downloads / ".cache",
                allow_patterns=[file.path for file in missing],
                endpoint=_endpoint(),
                max_workers=4,
            )


def _endpoint() -> str | None:
    return os.environ.get("HF_ENDPOINT")


@contextlib.contextmanager
def _sentences(repo: str) -> Iterator[None]:
    """Turn the hub's exceptions into one sentence each, but for that of a revision that is not there."""
    from httpx2 import HTTPError
    from huggingface_hub import errors
    from huggingface_hub.utils import logging as hub_logging

    # The client prints every attempt and its address; what comes of them is one sentence here.
    hub_logging.set_verbosity_error()
    try:
        yield
    except errors.RevisionNotFoundError:
        raise
    except (errors.GatedRepoError, errors.RepositoryNotFoundError) as error:
        raise UserError(
            f"{repo} is not on the hub, or not open to you; log in with `huggingface-cli login`, or get the "
            f"original files and use `clm-or-mlm import`"
        ) from error
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled, HTTPError) as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status == 404:
            raise UserError(f"{repo} no longer has what it listed: {error}") from error
        raise UnreachableError(
            f"the hub cannot be reached ({f'HTTP {status}' if status else type(error).__name__}); run fetch on a "
            f"machine with network and copy data/ here, or make the dataset from its original files with "
            f"`clm-or-mlm import`"
        ) from error


def _folder_of(downloads: Path, file: LockedFile) -> Path:
    return inside(downloads, f"{file.repo.replace('/', '+')}/{file.revision}")


def _path_of(downloads: Path, file: LockedFile) -> Path:
    return inside(_folder_of(downloads, file), file.path)


def _checked(file: LockedFile, downloads: Path, pins: Sequence[Pin]) -> LockedFile:
    """Return the entry of a downloaded file with its size and hash.

    Raises:
        UserError: it is not what the lock, the hub or the pins say; it is removed.
    """
    path = _path_of(downloads, file)
    if not path.is_file():
        raise UserError(f"{file.repo} no longer has {file.path} at {file.revision}")
    found = sha256_file(path)
    pinned = (pin.sha256.get(file.path) for pin in pins if pin.repo == file.repo)
    for source, expected in (("the lock", file.sha256), *(("the pinned hash", known) for known in pinned)):
        if expected and found != expected:
            path.unlink()
            raise UserError(
                f"{file.path} of {file.repo} has the SHA-256 {found[:12]}..., {source} says {expected[:12]}...; it was "
                f"removed, run the same command again, and if that repeats itself the hub's file has changed"
            )
    return replace(file, sha256=found, bytes=path.stat().st_size)


def fetch_all(
    datasets: Sequence[Dataset], data: Path, done: Callable[[Manifest], None], **options: Any
) -> list[str]:
    """Fetch datasets one after another and return the names of those that could not be fetched.

    Args:
        datasets: the datasets.
        data: the folder of the datasets.
        done: called with each manifest.
        options: as in `fetch`.

    Raises:
        UnreachableError: no network.
        UserError: the only dataset could not be fetched.
    """
    failed = []
    for dataset in datasets:
        try:
            done(fetch(dataset, data, **options))
        except UnreachableError:
            raise
        except UserError as error:
            if len(datasets) == 1:
                raise
            log.error("%s: %s", dataset.name, error)
            failed.append(dataset.name)
    if failed:
        log.error("%d of %d datasets are missing: %s", len(failed), len(datasets), ", ".join(failed))
    return failed
