"""Shards that are elsewhere: `s3://`, `gs://` and `hf://datasets/OWNER/NAME/...`.

What is small (manifest, indexes, tokenizer) is brought at the start of each process. A shard is brought into the cache
of shards when it is first opened, which training does a block ahead of need (`dataloader.Data.open_ahead`). Whatever
arrives late, short or changed is asked for again, a few times, each after a longer pause.

The downloads are those of MosaicML's streaming, with its environment variables (S3_ENDPOINT_URL, AWS's own, GCS_KEY,
HF_ENDPOINT, ...).
"""

from __future__ import annotations

import logging
import random
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from common.errors import UserError, first_line
from common.files import private_folder
from common.manifest import MANIFEST, check_file
from common.reading import inside
from pretraining.data.shard_manifest import (
    INDEX,
    SHARD_SPLITS,
    check_split,
    load_manifest,
    read_index,
)
from pretraining.data.token_stream import DISK_FULL, Fetch

logger = logging.getLogger(__name__)

SCHEMES = ("s3", "gs", "hf")
"""What an address may begin with."""
ATTEMPTS = 6
"""Times that a file is asked for."""
FIRST_PAUSE = 1.0
"""Seconds before it is asked for again the first time; each later pause is twice the one before."""
_TIMEOUT = 120.0
_AGAIN = (408, 425, 429)
"""Answers below 500 after which the same question may be answered."""


class RemoteShards:
    """A folder of shards at an address."""

    def __init__(self, url: str) -> None:
        """Copy what is small.

        Raises:
            UserError: it cannot be read, or is not what `shards` writes.
        """
        self.url = url.rstrip("/")
        self.folder = folder = Path(tempfile.mkdtemp(prefix="clm-or-mlm-"))
        """The copy of manifest, indexes and tokenizer; it is removed with this object."""
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._get(MANIFEST, folder / MANIFEST, lambda: load_manifest(folder))
        manifest = load_manifest(folder)
        for split in SHARD_SPLITS:
            path = private_folder(folder / split) / INDEX
            check = partial(_check_index, folder, split, manifest)
            self._get(f"{split}/{INDEX}", path, check)
        for name, digest in manifest["tokenizer_files"].items():
            path = inside(private_folder(folder / "tokenizer"), name)
            self._get(f"tokenizer/{name}", path, partial(check_file, path, digest))

    def fetcher(self, split: str) -> Fetch:
        """Return what brings a shard of a split."""
        return lambda name, path, check: self._get(f"{split}/{name}", path, check)

    # Cached: a new client of boto for each file would cost more CPU than the download.
    @cached_property
    def _downloader(self) -> Any:
        """The downloader, with the connection that it opened for the first file."""
        # Imported here: it imports torchvision and transformers, which takes seconds.
        from streaming.base.storage import CloudDownloader

        return CloudDownloader.get(self.url)

    def _download(self, url: str, path: Path) -> None:
        # In a temporary folder, since some downloaders leave more files than the wanted one.
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            self._downloader.download(url, str(Path(folder, path.name)), _TIMEOUT)
            Path(folder, path.name).replace(path)

    def _get(self, name: str, path: Path, check: Callable[[], object]) -> None:
        """Download a file and check it, again if need be.

        Raises:
            UserError: it is not there, or never arrived as it should.
            OSError: the disk is full.
        """
        url = f"{self.url}/{name}"
        problem = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                logger.warning(
                    "%s: %s; retrying (%d of %d)", url, problem, attempt + 1, ATTEMPTS
                )
                pause = FIRST_PAUSE * 2 ** (attempt - 1)
                # A random pause, so that the ranks of a job do not all ask at once.
                time.sleep(pause * random.uniform(0.5, 1.0))
            path.unlink(missing_ok=True)
            try:
                self._download(url, path)
                check()
                return
            except UserError as error:
                problem = str(error).replace(str(path), "").lstrip(": ")
            except Exception as error:  # each library raises its own
                # The next attempt opens another connection.
                vars(self).pop("_downloader", None)
                if isinstance(error, OSError) and error.errno in DISK_FULL:
                    raise
                problem = first_line(error)
                if _is_final(error):
                    break
        raise UserError(f"{url} cannot be read: {problem}")


def find_shards(data: str | Path) -> tuple[Path, RemoteShards | None]:
    """Return the folder that holds a set of shards' manifest, and where its shards are if they are not in it.

    Args:
        data: a folder, or an address with a scheme of `SCHEMES` (`file://` is a folder).

    Raises:
        UserError: an unknown scheme, or shards that cannot be read.
    """
    scheme, colon, rest = str(data).partition("://")
    if not colon:
        return Path(data), None
    if scheme == "file":
        return Path(rest), None
    if scheme not in SCHEMES:
        known = ", ".join(SCHEMES)
        raise UserError(
            f"{data}: shards must be in a folder or at a URL with one of these schemes: {known}"
        )
    remote = RemoteShards(str(data))
    return remote.folder, remote


def _check_index(folder: Path, split: str, manifest: dict[str, Any]) -> None:
    check_split(folder, split, manifest, read_index(folder / split))


def _is_final(error: Exception) -> bool:
    """Return whether asking again would fail again: there is no such file, or access is refused."""
    if isinstance(error, FileNotFoundError):
        return True
    response = getattr(error, "response", None)
    if isinstance(response, dict):  # boto's
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    else:  # the hub's
        status = getattr(response, "status_code", None)
    return isinstance(status, int) and 400 <= status < 500 and status not in _AGAIN
