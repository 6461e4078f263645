"""Shards at an address: a local S3 and a local hub, with everything that can go wrong there."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Self

import numpy as np
import pytest
from streaming.base.storage.download import DOWNLOADER_MAPPINGS, GCSDownloader

from common.errors import UserError
from pretraining.data import remote_shards
from pretraining.data.remote_shards import RemoteShards, find_shards
from pretraining.data.token_stream import TokenStream
from tests.benchmarks.fake_hub import FakeHub
from tests.pretraining.data.made_up_shards import whole_of

SHARD = "train/shard.00000.mds.zstd"
Fault = Callable[[bytes], bytes]
"""From a file's content to what arrives; it may raise what a library raises."""


class Store:
    """What streaming downloads from, over a folder; it answers the first so many requests for a name with a fault."""

    url = "s3://corpus/v1"

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked, self.opened = folder, list[str](), 0
        self.faults: dict[str, list[Fault]] = {}

    def get(self, url: str) -> Self:
        assert url == self.url
        self.opened += 1
        return self

    def download(self, url: str, path: str, timeout: float) -> None:
        name = url.removeprefix(f"{self.url}/")
        self.asked.append(name)
        fault: Fault = self.faults[name].pop(0) if self.faults.get(name) else bytes
        Path(path).write_bytes(fault((self.folder / name).read_bytes()))


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_shards, "FIRST_PAUSE", 0.001)


@pytest.fixture
def store(room: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    made = Store(room / "out")
    monkeypatch.setattr("streaming.base.storage.CloudDownloader.get", made.get)
    return made


def read_all(remote: RemoteShards, cache: Path) -> np.ndarray:
    reader = TokenStream(
        remote.folder / "train", cache / "d" / "train", fetch=remote.fetcher("train")
    )
    return reader.read(0, reader.tokens)


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob(".*.tmp"))


def status(code: int) -> Fault:
    def refused(content: bytes) -> bytes:
        error = OSError(f"the server answers {code}")
        error.response = SimpleNamespace(status_code=code)  # type: ignore[attr-defined]
        raise error

    return refused


def short(content: bytes) -> bytes:
    return content[: len(content) // 2]


def changed(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


def absent(content: bytes) -> bytes:
    raise FileNotFoundError("no such object")


def test_a_store_gives_the_same_tokens_and_nothing_is_left(
    room: Path, tmp_path: Path, store: Store
) -> None:
    remote = RemoteShards(store.url)
    assert (
        read_all(remote, tmp_path) == whole_of(room / "out", tmp_path / "own")
    ).all()
    assert not left(tmp_path / "d")
    before = len(store.asked)
    assert (
        read_all(RemoteShards(store.url), tmp_path)
        == whole_of(room / "out", tmp_path / "own")
    ).all()
    assert not [name for name in store.asked[before:] if name.endswith(".zstd")], (
        "shards are brought once"
    )
    folder = remote.folder
    del remote
    assert not folder.exists()


@pytest.mark.parametrize(
    "name", ["manifest.json", "train/index.json", "tokenizer/tokenizer.json", SHARD]
)
@pytest.mark.parametrize("fault", [status(503), status(429), short, changed])
def test_what_fails_is_asked_for_again(
    room: Path,
    tmp_path: Path,
    store: Store,
    name: str,
    fault: Fault,
    caplog: pytest.LogCaptureFixture,
) -> None:
    store.faults[name] = [fault, fault]
    remote = RemoteShards(store.url)
    assert (
        read_all(remote, tmp_path) == whole_of(room / "out", tmp_path / "own")
    ).all()
    assert store.asked.count(name) == 3
    assert store.opened == (1 if fault in (short, changed) else 3), (
        "a file that is wrong comes by the same connection"
    )
    assert f"{store.url}/{name}: " in caplog.text and "retrying (3 of 6)" in caplog.text


@pytest.mark.parametrize(
    ("fault", "times", "words"),
    [
        (changed, 6, "its content has changed"),
        (short, 6, "bytes instead of"),
        (status(503), 6, "503"),
        (status(404), 1, "404"),
        (absent, 1, "no such object"),
    ],
)
def test_lasting_fault_is_one_sentence_and_the_cache_is_clean(
    tmp_path: Path, store: Store, fault: Fault, times: int, words: str
) -> None:
    remote = RemoteShards(store.url)
    store.faults[SHARD] = [fault] * 10
    with pytest.raises(
        UserError, match=f"{store.url}/{SHARD} cannot be read: .*{words}"
    ) as raised:
        read_all(remote, tmp_path)
    assert "\n" not in str(raised.value)
    assert store.asked.count(SHARD) == times
    assert (
        not left(tmp_path / "d")
        and not (tmp_path / "d" / "train" / "shard.00000.mds").exists()
    )


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """A local S3; torn down with the module, for it takes most of a second to start."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer(
        ip_address="127.0.0.1", port=0
    )
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


def test_s3(
    room: Path, tmp_path: Path, s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import boto3

    monkeypatch.setenv("S3_ENDPOINT_URL", s3)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(key, "made-up")
    client = boto3.client("s3", endpoint_url=s3)
    client.create_bucket(Bucket="corpus")
    for path in (room / "out").rglob("*"):
        if path.is_file():
            client.upload_file(
                str(path), "corpus", f"v1/{path.relative_to(room / 'out')}"
            )
    remote = RemoteShards("s3://corpus/v1/")
    assert (
        read_all(remote, tmp_path) == whole_of(room / "out", tmp_path / "own")
    ).all()

    good = (room / "out" / SHARD).read_bytes()
    for name, body, words in (
        ("short", good[:100], "it has 100 bytes instead of"),
        ("changed", good[:-1] + b"x", "its content has changed"),
    ):
        client.put_object(Bucket="corpus", Key=f"v1/{SHARD}", Body=body)
        with pytest.raises(
            UserError, match=f"s3://corpus/v1/{SHARD} cannot be read: {words}"
        ):
            read_all(remote, tmp_path / name)
    client.delete_object(Bucket="corpus", Key=f"v1/{SHARD}")
    with pytest.raises(
        UserError, match=f"s3://corpus/v1/{SHARD} cannot be read: .*not found"
    ):
        read_all(remote, tmp_path / "gone")
    client.close()


def test_a_hub(room: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants as constants

    files = {
        f"shards/{path.relative_to(room / 'out')}": path.read_bytes()
        for path in (room / "out").rglob("*")
        if path.is_file()
    }
    with FakeHub({"me/corpus": {"main": ("1" * 40, files)}}).serve() as url:
        monkeypatch.setattr(constants, "ENDPOINT", url)
        monkeypatch.setattr(
            constants,
            "HUGGINGFACE_CO_URL_TEMPLATE",
            url + "/{repo_id}/resolve/{revision}/{filename}",
        )
        remote = RemoteShards("hf://datasets/me/corpus/shards")
        assert (
            read_all(remote, tmp_path) == whole_of(room / "out", tmp_path / "own")
        ).all()
        with pytest.raises(
            UserError, match=r"corpus/none/manifest\.json cannot be read"
        ):
            RemoteShards("hf://datasets/me/corpus/none")
    assert not left(tmp_path / "d")


@pytest.mark.filterwarnings("ignore:Please install grpcio-status:ImportWarning")
def test_google_cloud_is_read_by_streamings_downloader(
    room: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copy(self: GCSDownloader, remote: str, local: str, timeout: float) -> None:
        assert remote.startswith("gs://bucket/v1/")
        Path(local).write_bytes(
            (room / "out" / remote.removeprefix("gs://bucket/v1/")).read_bytes()
        )

    assert DOWNLOADER_MAPPINGS["gs"] is GCSDownloader
    monkeypatch.setattr(GCSDownloader, "_download_file_impl", copy)
    remote = RemoteShards("gs://bucket/v1")
    assert (
        read_all(remote, tmp_path) == whole_of(room / "out", tmp_path / "own")
    ).all()


def test_folders_and_addresses_are_told_apart(tmp_path: Path) -> None:
    assert find_shards(tmp_path) == (tmp_path, None)
    assert find_shards(f"file://{tmp_path}") == (tmp_path, None)
    for url in ("ftp://host/x", "https://host/x"):
        with pytest.raises(
            UserError, match=f"{url}: .* one of these schemes: s3, gs, hf"
        ):
            find_shards(url)
