"""Shards that are elsewhere: `s3://`, `gs://`, `hf://datasets/OWNER/NAME/...` and `https://`.

What is small (manifest, indexes, tokenizer) is copied once into the user's cache, under the hash of the manifest. A
shard is downloaded when it is first opened, which training does a block ahead of need (`dataloader.Data.open_ahead`),
compared with its hash, decompressed into the shard cache and forgotten. Whatever arrives late, short or changed is
asked for again, a few times, each after a longer pause.

The downloads are those of MosaicML's streaming, with its environment variables (S3_ENDPOINT_URL, AWS's own, GCS_KEY,
HF_ENDPOINT, ...); only plain web servers are read here, which streaming has no downloader for.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import random
import secrets
import shutil
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from streaming.base.storage import CloudDownloader

from common.errors import UserError, first_line
from common.files import private_folder, sha256_file
from common.manifest import DamagedError
from common.registry import Registry
from pretraining.data.manifest import MANIFEST, SPLITS, check_split, check_tokenizer, load_manifest
from pretraining.data.shard_cache import make_shard_cache_folder
from pretraining.data.shard_files import entries_of
from pretraining.data.shard_index import INDEX, ShardFile

__all__ = ["TRANSPORTS", "RemoteShards", "Transport", "find_shards"]

logger = logging.getLogger(__name__)

ATTEMPTS = 6
"""Times that a file is asked for."""
FIRST_PAUSE = 1.0
"""Seconds before it is asked for again the first time; each later pause is twice the one before."""
_TIMEOUT = 120.0
_CHUNK = 2**20
_UNFINISHED = ".unfinished"
_LEFT_OVER_SECONDS = 3600.0
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_AGAIN = (408, 425, 429)
"""Answers below 500 after which the same question may be answered."""


@dataclass(frozen=True, kw_only=True)
class Transport:
    """A way to shards that are elsewhere."""

    name: str
    """The scheme of its addresses."""
    download: Callable[[str, Path], None]
    """Writes what is at an address to a path at which nothing is."""


_own = threading.local()


def _by_streaming(url: str, path: Path) -> None:
    # One a thread and scheme: they keep their connection, which takes longer to make than many a file.
    downloaders: dict[str, CloudDownloader] = _own.__dict__.setdefault("downloaders", {})
    scheme = urlsplit(url).scheme
    if scheme not in downloaders:
        downloaders[scheme] = CloudDownloader.get(url)
    # In a folder of its own, for some leave more there than the file.
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".", suffix=_UNFINISHED) as folder:
        downloaders[scheme].download(url, str(Path(folder, path.name)), _TIMEOUT)
        Path(folder, path.name).replace(path)


class _UnsafeError(Exception):
    """An address that is not read."""


def _check_https(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" and (parts.scheme != "http" or parts.hostname not in _LOOPBACK):
        raise _UnsafeError(f"{url}: shards are read by https, and by http from this machine alone")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows what may be read in the first place."""

    def redirect_request(self, *words: Any) -> urllib.request.Request | None:
        _check_https(words[-1])
        return super().redirect_request(*words)


def _by_web(url: str, path: Path) -> None:
    _check_https(url)
    parts = urlsplit(url)
    request = urllib.request.Request(parts._replace(path=quote(parts.path, safe="/%")).geturl())
    web = urllib.request.build_opener(_Redirects)
    with web.open(request, timeout=_TIMEOUT) as answer, path.open("xb") as file:
        shutil.copyfileobj(answer, file, _CHUNK)


TRANSPORTS = Registry(
    "transport of shards",
    [
        *(Transport(name=name, download=_by_streaming) for name in ("s3", "gs", "hf")),
        *(Transport(name=name, download=_by_web) for name in ("https", "http")),
    ],
)
"""The kinds of addresses; `http` serves this machine alone."""


class RemoteShards:
    """A folder of shards at an address."""

    def __init__(self, url: str, root: Path) -> None:
        """Copy what is small.

        Args:
            url: address of the folder.
            root: folder of the shard cache.

        Raises:
            UserError: it cannot be read, or is not what `shards` writes.
        """
        self.url, self._transport = url.rstrip("/"), TRANSPORTS[urlsplit(url).scheme]
        self._place = private_folder(private_folder(root) / "remote")
        self.folder = self._copied()
        """The copy of manifest, indexes and tokenizer."""

    def fetcher(self, split: str) -> Callable[[ShardFile], contextlib.AbstractContextManager[Path]]:
        """Return what downloads a shard of a split, to be used in a `with` block, after which the copy is gone."""

        @contextlib.contextmanager
        def fetched(file: ShardFile) -> Iterator[Path]:
            # A name that the cache's cleaning knows, should this process be killed.
            path = self._place / f".{file.basename}.{os.getpid()}-{secrets.token_hex(4)}.tmp"

            def check() -> None:
                if (size := path.stat().st_size) != file.bytes:
                    raise DamagedError(f"it has {size} bytes instead of {file.bytes}")
                if sha256_file(path) != file.sha256:
                    raise DamagedError("its content is another (SHA-256)")

            try:
                self._get(f"{split}/{file.basename}", path, check)
                yield path
            finally:
                path.unlink(missing_ok=True)

        return fetched

    def _copied(self) -> Path:
        for path in self._place.glob(f".*{_UNFINISHED}"):  # of killed processes
            if time.time() - path.stat().st_mtime > _LEFT_OVER_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
        making = private_folder(self._place / f".{secrets.token_hex(8)}{_UNFINISHED}")
        try:
            self._get(MANIFEST, making / MANIFEST, lambda: load_manifest(making))
            manifest = load_manifest(making)
            final = self._place / sha256_file(making / MANIFEST)[:16]
            if _is_whole(final):
                return final
            for split in SPLITS:
                path = private_folder(making / split) / INDEX
                self._get(f"{split}/{INDEX}", path, partial(_check_index, making, split, manifest))
            private_folder(making / "tokenizer")
            for name, digest in manifest["tokenizer_files"].items():
                if Path(name).name != name or name in ("", "..", "."):
                    raise UserError(f"{self.url}/{MANIFEST}: names a file outside its folder: {name!r}")
                path = making / "tokenizer" / name
                self._get(f"tokenizer/{name}", path, partial(_check_hash, path, digest))
            if final.exists():  # of an earlier copy, damaged since
                shutil.rmtree(final, ignore_errors=True)
            with contextlib.suppress(OSError):  # another process was faster
                making.rename(final)
            return final
        finally:
            shutil.rmtree(making, ignore_errors=True)

    def _get(self, name: str, path: Path, check: Callable[[], object]) -> None:
        """Download a file and check it, again if need be.

        Raises:
            UserError: it is not there, or never arrived as it should.
        """
        url, problem = f"{self.url}/{name}", ""
        for attempt in range(ATTEMPTS):
            if attempt:
                logger.warning("%s: %s; asked for again (%d of %d)", url, problem, attempt + 1, ATTEMPTS)
                # Spread, so that the ranks of a job do not all ask at once.
                time.sleep(FIRST_PAUSE * 2 ** (attempt - 1) * random.uniform(0.5, 1.0))
            path.unlink(missing_ok=True)
            try:
                self._transport.download(url, path)
                check()
                return
            except (UserError, DamagedError) as error:
                problem = str(error).replace(str(path), "").lstrip(": ")
            except Exception as error:  # each library has its own
                problem = first_line(error)
                if _is_final(error):
                    break
        path.unlink(missing_ok=True)
        raise UserError(f"{url}: cannot be read: {problem}")


def find_shards(data: str | Path, cache: str = "") -> tuple[Path, RemoteShards | None]:
    """Return the folder that holds a set of shards' manifest, and where its shards are if they are not in it.

    Args:
        data: a folder, or an address with a scheme of `TRANSPORTS` (`file://` is a folder).
        cache: the setting `cache`.

    Raises:
        UserError: an unknown scheme, or shards that cannot be read.
    """
    scheme, colon, rest = str(data).partition("://")
    if not colon:
        return Path(data), None
    if scheme == "file":
        return Path(rest), None
    TRANSPORTS[scheme]
    remote = RemoteShards(str(data), make_shard_cache_folder(cache))
    return remote.folder, remote


def _is_whole(folder: Path) -> bool:
    """Return whether a copy is there and as it was made."""
    try:
        manifest = load_manifest(folder)
        for split in SPLITS:
            _check_index(folder, split, manifest)
        check_tokenizer(folder, manifest)
    except UserError:
        return False
    return True


def _check_index(folder: Path, split: str, manifest: Mapping[str, Any]) -> None:
    check_split(folder, split, manifest, entries_of(folder / split))


def _check_hash(path: Path, digest: str) -> None:
    if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
        raise DamagedError("its content is another (SHA-256)")


def _is_final(error: Exception) -> bool:
    """Return whether asking again would bring the same: there is no such file, or it is refused."""
    if isinstance(error, FileNotFoundError | _UnsafeError):
        return True
    response = getattr(error, "response", None)
    if isinstance(response, dict):  # boto's
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    else:  # the web's, the hub's
        status = getattr(error, "code", None) or getattr(response, "status_code", None)
    return isinstance(status, int) and 400 <= status < 500 and status not in _AGAIN
