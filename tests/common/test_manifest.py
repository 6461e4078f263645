import json
import os
from pathlib import Path

import pytest

from benchmarks.datasets.schema import Manifest
from benchmarks.datasets.synthetic import make_synthetic
from common import manifest
from common.errors import UserError
from common.files import sha256_file, sha256_open, temporary_name
from common.manifest import (
    DamagedError,
    VerifiedFile,
    check_file,
    manifest_text,
    read_manifest,
    remove_ours,
    strangers,
    write_manifest,
)
from workflow.jobs import JOB_KINDS, Job, Workflow, by_marker, load_workflow, save

CONTENT = {
    "name": "é\n",
    "count": 3,
    "rate": 1e-05,
    "large": 1.5e300,
    "nested": {"b": [1, None, True], "a": {}},
}


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_manifest(path, CONTENT)
    assert read_manifest(path, "write it again") == CONTENT
    with pytest.raises(FileNotFoundError):
        read_manifest(tmp_path / "absent.json", "write it again")


def test_no_flipped_bit_passes(tmp_path: Path) -> None:
    """Every bit of the file: letters' case, layout and the seal itself included."""
    path = tmp_path / "a.json"
    good = manifest_text(CONTENT).encode()
    for bit in range(8 * len(good)):
        data = bytearray(good)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        with pytest.raises(UserError, match="write it again"):
            read_manifest(path, "write it again")


@pytest.mark.parametrize("files", [[], {"a": []}, {"a": 1}, "a"])
def test_files_are_a_table_of_hashes(tmp_path: Path, files: object) -> None:
    (tmp_path / "a.json").write_text(manifest_text({"files": files}))
    with pytest.raises(DamagedError, match="'files' is not a table of hashes"):
        read_manifest(tmp_path / "a.json", "write it again")


def test_sealed_manifest_of_another_shape_is_refused(
    tmp_path: Path,
) -> None:
    """Every key of what each reader reads, left out and replaced by values of other types, and sealed again."""
    make_synthetic(tmp_path, "sst2", train=16, evaluation=8)
    workflow = Workflow(
        target="all",
        jobs=by_marker([Job(kind=JOB_KINDS["shards"], name="shards", makes=("a",))]),
    )
    save(workflow, tmp_path)
    readers = [
        (
            tmp_path / "sst2/manifest.json",
            lambda: Manifest.read(tmp_path / "sst2/manifest.json"),
        ),
        (tmp_path / "workflow.json", lambda: load_workflow(tmp_path)),
    ]
    refused = 0
    for path, read in readers:
        good = read_manifest(path, "")
        for key in good:
            for value in (..., None, 1, "x", [], [1], {}, {"x": 1}):
                other = {name: kept for name, kept in good.items() if name != key}
                path.write_text(
                    manifest_text(other if value is ... else {**other, key: value})
                )
                try:
                    read()
                except UserError as error:
                    assert str(path) in str(error) and "\n" not in str(error)
                    refused += 1
        path.write_text(manifest_text(good))
        read()
    assert refused > 30


def test_other_layouts_and_unsealed_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    sealed = json.loads(manifest_text(CONTENT))
    for text in (
        json.dumps(sealed),
        json.dumps(CONTENT),
        "[]",
        "",
        manifest_text(CONTENT) + "\n",
        "[" * 100_000,
        '{"a": ' + "[" * 900 + "]" * 900 + ', "seal": ""}',
        manifest_text(CONTENT).replace('"count": 3', '"count": 3, "count": 3'),
    ):
        path.write_text(text)
        with pytest.raises(
            UserError,
            match=r"a\.json is damaged or from an earlier version .*write it again",
        ):
            read_manifest(path, "write it again")


@pytest.fixture
def file(tmp_path: Path) -> VerifiedFile:
    path = tmp_path / "a.bin"
    path.write_bytes(os.urandom(3_000_000))
    os.utime(path, ns=(0, 0))
    return VerifiedFile(path, sha256_file(path), 3_000_000)


def test_it_is_hashed_once_until_it_changes(
    file: VerifiedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    original = sha256_open
    monkeypatch.setattr(
        manifest, "sha256_open", lambda fd: (calls.append(fd), original(fd))[1]
    )
    for _ in range(3):
        os.close(file.open())
    assert len(calls) == 1
    os.utime(file.path, ns=(0, 1))
    os.close(file.open())
    assert len(calls) == 2
    content = file.path.read_bytes()
    file.path.unlink()
    with pytest.raises(FileNotFoundError):
        file.open()
    file.path.write_bytes(content)
    os.close(file.open())
    assert len(calls) == 3


def test_another_size_or_content_is_named(file: VerifiedFile) -> None:
    content = file.path.read_bytes()
    file.path.write_bytes(content[:-1])
    with pytest.raises(DamagedError, match="2999999 bytes instead of 3000000"):
        file.open()
    file.path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    for _ in range(2):  # what was refused is not remembered as seen
        with pytest.raises(DamagedError, match="SHA-256"):
            file.open()
    file.path.unlink()
    os.mkfifo(file.path)
    with pytest.raises(UserError, match="not a regular file"):
        file.open()


def test_what_changes_while_it_is_hashed_is_refused(
    file: VerifiedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = sha256_open

    def slow(descriptor: int) -> str:
        found = original(descriptor)
        with file.path.open("r+b") as changed:
            changed.write(b"x")
        return found

    monkeypatch.setattr(manifest, "sha256_open", slow)
    with pytest.raises(DamagedError, match="changed while it was being read"):
        file.open()


def test_check_file_remembers_across_calls(
    file: VerifiedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_file(file.path, file.sha256)
    monkeypatch.setattr(manifest, "sha256_open", lambda _: pytest.fail("hashed again"))
    check_file(file.path, file.sha256)


def test_strangers_are_what_is_not_listed_or_was_changed(tmp_path: Path) -> None:
    for name in (
        "listed",
        "changed",
        "any",
        "sub/listed",
        "sub/other",
        temporary_name("listed"),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to("/")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").mkdir()
    ours = {
        name: sha256_file(tmp_path / name)
        for name in ("listed", "sub/listed", "changed")
    }
    ours |= {"any": "", "pipe": ours["listed"]}
    (tmp_path / "changed").write_text("by hand")
    others = ["changed", "link", "pipe", "sub/other"]
    assert strangers(tmp_path, ours) == others
    assert strangers(tmp_path, ours, ["sub", "any", "absent"]) == ["sub/other"]
    assert strangers(tmp_path / "absent", {}) == []
    assert strangers(tmp_path, {}, ["any"]) == ["any"]


def test_what_is_listed_goes_and_strangers_stay(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    for name in ("listed", "changed"):
        (folder / name).write_text(name)
    ours = {name: sha256_file(folder / name) for name in ("listed", "changed")}
    (folder / "changed").write_text("by hand")
    with pytest.raises(UserError, match="not a valid path"):
        remove_ours(folder, {"../other": "", **ours})
    assert remove_ours(folder, {"absent": "", **ours}) == ["changed"]
    assert [path.name for path in folder.iterdir()] == ["changed"]
    assert remove_ours(folder, {"changed": ""}) == []
    assert not list(tmp_path.iterdir())
