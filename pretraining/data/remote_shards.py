"""Shards at an address: `s3://`, `gs://` and `hf://datasets/OWNER/NAME/...`.

The small files (manifest, indexes, tokenizer) are downloaded at the start of each process. A shard is downloaded when
it is first opened, which training does a block ahead of need (`dataloader.Data.open_ahead`); its content goes into the
cache of shards (`token_stream`). A file that arrives late, incomplete or changed is downloaded again, a few times, each
after a longer pause.

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
"""Most times that a file is downloaded."""
FIRST_PAUSE = 1.0
"""Seconds before a file is downloaded the second time; each later pause is twice the one before."""
_TIMEOUT = 120.0
"""Seconds after which streaming's downloader gives up a file."""
_AGAIN = (408, 425, 429)
"""HTTP statuses of refusals that may pass: the server was slow, or was asked too early or too often."""


class RemoteShards:
    """A folder of shards at an address."""

    def __init__(self, url: str) -> None:
        """Download the small files into a temporary folder.

        Raises:
            UserError: a file cannot be read, or is not one that `shards` writes.
        """
        self.url = url.rstrip("/")
        self.folder = folder = Path(tempfile.mkdtemp(prefix="clm-or-mlm-"))
        """The folder with manifest, indexes and tokenizer; it is removed when this object is deleted."""
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

        # Each download comes with a check of the file, and is made again if the check raises an error.
        self._get(MANIFEST, folder / MANIFEST, lambda: load_manifest(folder))
        manifest = load_manifest(folder)
        for split in SHARD_SPLITS:
            # `private_folder` also makes the split's folder.
            path = private_folder(folder / split) / INDEX
            check = partial(_check_index, folder, split, manifest)
            self._get(f"{split}/{INDEX}", path, check)

        for name, digest in manifest["tokenizer_files"].items():
            # `inside` refuses a name that would lead out of the folder.
            path = inside(private_folder(folder / "tokenizer"), name)
            self._get(f"tokenizer/{name}", path, partial(check_file, path, digest))

    def fetcher(self, split: str) -> Fetch:
        """Return the function that downloads a file of a split, for `TokenStream`."""
        return lambda name, path, check: self._get(f"{split}/{name}", path, check)

    # Cached, since a new client of boto for each file would cost more CPU than the download.
    @cached_property
    def _downloader(self) -> Any:
        """The downloader of streaming for this kind of address; it keeps the connection that it opens."""
        # Imported here: it imports torchvision and transformers, which takes seconds.
        from streaming.base.storage import CloudDownloader

        return CloudDownloader.get(self.url)

    def _download(self, url: str, path: Path) -> None:
        """Download a file once, and put it at a path when it is complete."""
        # In a temporary folder, since some downloaders leave more files than the wanted one.
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            self._downloader.download(url, str(Path(folder, path.name)), _TIMEOUT)
            Path(folder, path.name).replace(path)

    def _get(self, name: str, path: Path, check: Callable[[], object]) -> None:
        """Download a file and check it, several times if that fails.

        Args:
            name: the file's name at the address.
            path: where the file is put.
            check: raises a `UserError` if the downloaded file is not as it should be.

        Raises:
            UserError: the file does not exist, or failed the check each time.
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
                # The message of the check names the file's temporary path, which would tell the user nothing.
                problem = str(error).replace(str(path), "").lstrip(": ")
            except Exception as error:  # each library raises its own
                # Without the cached downloader, the next attempt opens another connection.
                vars(self).pop("_downloader", None)
                if isinstance(error, OSError) and error.errno in DISK_FULL:
                    raise
                problem = first_line(error)
                if _is_final(error):
                    break

        raise UserError(f"{url} cannot be read: {problem}")


def find_shards(data: str | Path) -> tuple[Path, RemoteShards | None]:
    """Return the folder with the small files of a set of shards, and the object that downloads its shards.

    Args:
        data: a folder, or an address with a scheme of `SCHEMES` (`file://` is a folder).

    Returns:
        The folder with manifest, indexes and tokenizer; and None if the folder has the shards as well. At an
        address, the folder is a temporary copy, which is removed when the second object is deleted.

    Raises:
        UserError: the scheme is unknown, or the shards cannot be read.
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
    """Refuse a downloaded index that is not the one that the manifest was made with."""
    check_split(folder, split, manifest, read_index(folder / split))


def _is_final(error: Exception) -> bool:
    """Return whether another download would fail as well: the file does not exist, or access is refused."""
    if isinstance(error, FileNotFoundError):
        return True
    # Errors of boto hold the server's response as a dictionary, those of the hub's client as an object.
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    else:
        status = getattr(response, "status_code", None)
    # Statuses from 400 on are faults of the request, those from 500 on faults of the server, which may pass.
    return isinstance(status, int) and 400 <= status < 500 and status not in _AGAIN
