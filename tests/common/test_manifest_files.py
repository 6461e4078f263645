from __future__ import annotations

import os
from pathlib import Path

import pytest

from common import manifest
from common.errors import UserError
from common.files import sha256_file, sha256_open
from common.manifest import DamagedError, VerifiedFile, check_file


@pytest.fixture
def file(tmp_path: Path) -> VerifiedFile:
    path = tmp_path / "a.bin"
    path.write_bytes(os.urandom(3_000_000))
    os.utime(path, ns=(0, 0))
    return VerifiedFile(path, sha256_file(path), 3_000_000)


def test_it_is_hashed_once_until_it_changes(file: VerifiedFile, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    original = sha256_open
    monkeypatch.setattr(manifest, "sha256_open", lambda fd: (calls.append(fd), original(fd))[1])
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


def test_check_file_remembers_across_calls(file: VerifiedFile, monkeypatch: pytest.MonkeyPatch) -> None:
    check_file(file.path, file.sha256)
    monkeypatch.setattr(manifest, "sha256_open", lambda _: pytest.fail("hashed again"))
    check_file(file.path, file.sha256)
