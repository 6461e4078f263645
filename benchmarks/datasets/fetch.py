"""Datasets from their hubs at pinned commits, once, on a machine with network.

A pin names a repository, the patterns of its files, and mostly a commit. Where no commit is pinned, the first fetch
takes the newest commit of the branch, and the dataset's manifest records it with the hashes of the files. A later fetch
then gets the same files. Files are downloaded to `<out>/.downloads/<dataset>`, checked against their hashes, turned
into the local form by the same code as `import`, and removed.
"""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path, PurePosixPath
from typing import Any

from benchmarks.datasets.import_files import make
from benchmarks.datasets.local_dataset import (
    check_place,
    dataset_manifest,
    verify_dataset,
)
from benchmarks.datasets.schema import Manifest
from benchmarks.protocol import Dataset, Pin, get_dataset
from common.errors import UserError
from common.files import is_marked, mark_cache, sha256_file
from common.manifest import MANIFEST, refuse_strangers
from common.reading import inside

log = logging.getLogger(__name__)

DOWNLOADS = ".downloads"

_KIND = "hub"
"""The kind of source that the manifest of a fetched dataset records."""
_REMEDY = "get the original files and use `clm-or-mlm import`"
_MAIN = "main"
"""The branch that a pattern of a pin means if it names none."""

_File = dict[str, Any]
"""A file as the manifest of a fetched dataset lists it: role, repo, revision (commit), path, bytes and sha256.

The hash is None until the file is downloaded, if the hub does not know it: a hub knows the hashes of large files only.
"""


class UnreachableError(UserError):
    """No network, or the hub does not answer."""


class _NoRevisionError(UserError):
    """A repository without the commit or the branch that is asked for."""


def fetch(dataset: Dataset | str, data: Path, *, replace_old: bool = False) -> Manifest:
    """Fetch one dataset into `data`, unless it is there and whole, and return its manifest.

    The hub is that of HF_ENDPOINT in the environment, else the public one.

    Args:
        dataset: the dataset, or the name of one of the paper's twelve.
        data: the folder of the datasets.
        replace_old: fetch again, and put the result in place of what is there.

    Raises:
        UnreachableError: no network.
        UserError: a file is not on the hub, differs from its hash, or is bad; or the dataset in `data` was made from
            other files than the pinned ones.
    """
    dataset = get_dataset(dataset)
    name, pins = dataset.name, dataset.files.pins
    if not pins:
        raise UserError(
            f"{name} has no known location on a hub; use `clm-or-mlm import {name} --train FILE ...`"
        )

    # What is on disk already: the files that the dataset was made from, if it was fetched.
    recorded: list[_File] = []
    if (data / name / MANIFEST).is_file():
        # A dataset that cannot be read may still be replaced; `recorded` is then empty.
        may_fail = contextlib.suppress(UserError) if replace_old else nullcontext()
        with may_fail:
            manifest = dataset_manifest(data, dataset)
            if manifest.source["kind"] == _KIND:
                recorded = manifest.source["files"]

        # A dataset that was imported or made up has no recorded files and so no difference: it counts as there.
        difference = _difference(pins, recorded)
        # Without `replace_old` nothing was suppressed above, so `manifest` has been read.
        if not replace_old:
            faults = list(verify_dataset(data, dataset))
            if difference:
                faults.append(f"{data / name} {difference}")
            if faults:
                raise UserError(f"{faults[0]}; fetch it again with --replace")
            log.info("%s is already in %s", name, data)
            return manifest

        # Where the recorded files differ from the pins, the pins decide what is fetched.
        if difference:
            recorded = []

    # Both folders must be free of other files before the hub is asked.
    check_place(data / name)
    downloads = data / DOWNLOADS / name

    # An earlier fetch, perhaps a killed one, marked the folder: then all that is in it may be used and removed.
    if not is_marked(downloads):
        # {}: without the mark, no file in the folder is known to be this package's.
        remedy = "and downloads go there; move them elsewhere, or choose another --out"
        refuse_strangers(downloads, {}, remedy)

    # Download and check the files, by role.
    # Files that were fetched before are fetched again at the commits of that time. `recorded` is empty
    # for a dataset that was not fetched or cannot be read, and where the pins have changed since.
    files = recorded or _resolve(pins)
    mark_cache(downloads)
    # The entries of `files`, with the hash and size of what was downloaded.
    entries = []
    paths: dict[str, list[Path]] = {}
    for file, path in _download(files, downloads):
        entries.append(_check_download(file, path, pins))
        paths.setdefault(file["role"], []).append(path)

    # Make the dataset of the downloads, which are not needed behind that.
    source = {"kind": _KIND, "files": entries}
    manifest = make(dataset, paths, data, source=source, replace=replace_old)
    shutil.rmtree(downloads, ignore_errors=True)

    # All datasets share this parent. `rmdir` fails while it is not empty: others are being fetched then.
    with contextlib.suppress(OSError):
        downloads.parent.rmdir()
    return manifest


def _branch_and_glob(pattern: str) -> tuple[str, str]:
    """Return the branch and the glob of a pin's pattern, which is written `BRANCH:GLOB` or `GLOB`."""
    branch, colon, glob = pattern.partition(":")
    return (branch, glob) if colon else (_MAIN, pattern)


def _matches(pin: Pin, file: _File) -> bool:
    """Return whether a pin names a file; commits are not compared.

    `_difference` compares commits in a sentence of its own. Branches cannot be compared: the manifest records
    the commit that a branch had, and not the branch.
    """
    if pin.role != file["role"] or pin.repo != file["repo"]:
        return False
    for pattern in pin.files:
        _, glob = _branch_and_glob(pattern)
        if fnmatch.fnmatchcase(file["path"], glob):
            return True
    return False


def _difference(pins: Sequence[Pin], files: Sequence[_File]) -> str:
    """Return in words how files differ from the pins; an empty text if they do not, or if there are no files."""
    for file in files:
        matching = [pin for pin in pins if _matches(pin, file)]
        if not matching:
            return f"has {file['role']} data from {file['path']} of {file['repo']}, which fetch does not use"

        # Where several pins name the file, the first one's commit counts.
        pin = matching[0]
        # U12: a pin without a commit accepts every commit, so the one that the first fetch found stays.
        if pin.commit not in (None, file["revision"]):
            return f"was made from {file['repo']} at {file['revision']}, but this package pins {pin.commit}"

    # An imported dataset has no files here: pins do not say which files it is made from.
    if not files:
        return ""
    for pin in pins:
        if not any(_matches(pin, file) for file in files):
            return f"has no {pin.role} data from {pin.repo}, which fetch uses"

    return ""


def _resolve(pins: Sequence[Pin]) -> list[_File]:
    """Ask the hub for the files that the pins name, and return their entries, with commit, size and perhaps hash.

    A pin without a commit gets the newest commit of the branch that its pattern names.

    Raises:
        UserError: a repository, a commit or a file is not there, or a pattern fits files of several folders.
    """
    from huggingface_hub import HfApi

    api = HfApi(_endpoint())

    # Cached: several pins may name one repository.
    @functools.cache
    def listing(repo: str, revision: str) -> tuple[str, dict[str, Any]]:
        """Return the commit of a revision, which is a commit or a branch, and its files by path."""
        with _hub_errors_as_sentences(repo, revision):
            info = api.dataset_info(
                repo, revision=revision, files_metadata=True, timeout=30
            )
        # The client calls the files of a repository siblings. It has None where the hub lists none.
        return str(info.sha), {file.rfilename: file for file in info.siblings or ()}

    entries = []
    for pin in pins:
        # The three are set by the last pattern that was tried; `paths` stays empty if no pattern matches.
        commit = ""
        paths: list[str] = []
        repo_files: dict[str, Any] = {}

        # Patterns are tried in order; the first one that matches any file decides.
        for pattern in pin.files:
            branch, glob = _branch_and_glob(pattern)
            try:
                commit, repo_files = listing(pin.repo, pin.commit or branch)
            except _NoRevisionError:
                # A repository may lack the branch of one pattern, but not the pinned commit.
                if pin.commit:
                    raise
                continue

            paths = sorted(fnmatch.filter(repo_files, glob))
            if paths:
                break

        # Refuse what is not clearly the data of one split.
        folders = sorted({str(PurePosixPath(path).parent) for path in paths})
        if not paths:
            raise UserError(
                f"{pin.repo} has no {pin.role} file matching {' or '.join(pin.files)}; {_REMEDY}"
            )

        if len(folders) > 1:
            raise UserError(
                f"{pin.repo} has {pin.role} files in several folders ({', '.join(folders)}), and it is not known which "
                "the paper used; choose the files and use `clm-or-mlm import`"
            )

        # The entries that the manifest will have.
        origin = {"role": pin.role, "repo": pin.repo, "revision": commit}
        for path in paths:
            hub_file = repo_files[path]
            # The hub knows the SHA-256 of large files only, which are in its large file storage (LFS).
            digest = hub_file.lfs.sha256 if hub_file.lfs else None
            entries.append(
                {**origin, "path": path, "bytes": hub_file.size, "sha256": digest}
            )

    return entries


def _download(files: Sequence[_File], downloads: Path) -> Iterator[tuple[_File, Path]]:
    """Download the files that are not in `downloads` yet, a repository at a time, and yield each with its path.

    Raises:
        UserError: the hub cannot be reached, or no longer has a file.
    """
    from huggingface_hub import snapshot_download

    files_of: dict[tuple[str, str], list[_File]] = {}
    for file in files:
        files_of.setdefault((file["repo"], file["revision"]), []).append(file)
    for (repo, revision), of_repo in files_of.items():
        size = sum(file["bytes"] for file in of_repo)
        log.info("%s (%.1f MB)", repo, size / 1e6)
        with _hub_errors_as_sentences(repo, revision):
            folder = snapshot_download(
                repo,
                repo_type="dataset",
                revision=revision,
                # The library keeps this folder as its cache, so a killed fetch continues where it stopped.
                cache_dir=downloads,
                allow_patterns=[file["path"] for file in of_repo],
                endpoint=_endpoint(),
                max_workers=4,
            )

        for file in of_repo:
            # A stranger chose the names of files on a hub: `inside` refuses a name that leads out of the folder.
            yield file, inside(Path(folder), file["path"])


def _check_download(file: _File, path: Path, pins: Sequence[Pin]) -> _File:
    """Return the entry of a downloaded file with its size and hash.

    Raises:
        UserError: the file's hash is not what the manifest, the hub or a pin says; the download is deleted.
    """
    actual = sha256_file(path)
    # Who says which hash; None where a source knows none.
    expectations = [("the hub or the manifest says", file["sha256"])]
    for pin in pins:
        if pin.repo == file["repo"]:
            known = pin.sha256.get(file["path"])
            expectations.append(("the pinned hash is", known))

    for source, expected in expectations:
        if expected and actual != expected:
            # `path` is a link into the client's cache. Both go, or the client would find the damaged file again.
            path.resolve().unlink(missing_ok=True)
            path.unlink(missing_ok=True)
            raise UserError(
                f"{file['path']} of {file['repo']} has the SHA-256 {actual[:12]}..., but {source} {expected[:12]}...; "
                "the download was deleted; try again: if this recurs, the file on the hub has changed"
            )

    return {**file, "sha256": actual, "bytes": path.stat().st_size}


def _endpoint() -> str | None:
    """Return the address of the hub; None: the client's own default."""
    return os.environ.get("HF_ENDPOINT")


@contextlib.contextmanager
def _hub_errors_as_sentences(repo: str, revision: str) -> Iterator[None]:
    """Turn an exception that the hub's client raises in the block into a `UserError` of one sentence."""
    # The client sends its requests with this library, and passes on its errors where there was no answer.
    from httpx2 import HTTPError
    from huggingface_hub import errors
    from huggingface_hub.utils import logging as hub_logging

    # The client would print every attempt with its address; the result is one sentence here.
    hub_logging.set_verbosity_error()
    try:
        yield
    except errors.RevisionNotFoundError as error:
        raise _NoRevisionError(
            f"{repo} has no commit {revision} on the hub; correct the revision, or {_REMEDY}"
        ) from error
    except (errors.GatedRepoError, errors.RepositoryNotFoundError) as error:
        raise UserError(
            f"{repo} is not on the hub, or you do not have access; log in with `hf auth login`, or {_REMEDY}"
        ) from error
    except (
        errors.LocalEntryNotFoundError,
        errors.OfflineModeIsEnabled,
        HTTPError,
    ) as error:
        # `LocalEntryNotFoundError`: the hub gave no answer, and the client's cache does not have the file.
        # Only an error with an answer of the hub has a status: no network means no answer. A missing
        # repository or revision was caught above, so that 404 here is a missing file.
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status == 404:
            raise UserError(
                f"{repo} no longer has a file that it listed; give another revision, or {_REMEDY}"
            ) from error

        raise UnreachableError(
            f"the hub cannot be reached ({f'HTTP {status}' if status else type(error).__name__}); run fetch on a "
            f"machine with network access and copy data/ here, or make the dataset from its original files with "
            f"`clm-or-mlm import`"
        ) from error


def fetch_all(
    datasets: Sequence[Dataset],
    data: Path,
    done: Callable[[Manifest], None],
    **options: Any,
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
        # Without network the other datasets would fail as well.
        except UnreachableError:
            raise
        except UserError as error:
            if len(datasets) == 1:
                raise
            log.error("%s: %s", dataset.name, error)
            failed.append(dataset.name)

    if failed:
        log.error(
            "%d of %d datasets could not be fetched: %s",
            len(failed),
            len(datasets),
            ", ".join(failed),
        )

    return failed
