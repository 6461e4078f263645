"""Caches of one user that another user of the node cannot write; the second user needs root to become one."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from common.errors import UserError
from common.files import private_folder, scratch_folder

NOBODY = 65534
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")


def as_another_user(work: Callable[[], str]) -> str:
    """Run `work` in a child process of another user and return what it returns."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            answer = work()
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that everybody can write, as a node's /tmp."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        path.chmod(0o1777)
        yield path


def test_the_place_is_chosen_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = f"clm-or-mlm-{os.getuid()}"
    both = {"CLM_OR_MLM_SCRATCH": "/scratch", "SLURM_TMPDIR": "/node"}
    assert scratch_folder("/mine", both) == Path("/mine", own)
    assert scratch_folder("", both) == Path("/scratch", own)
    assert scratch_folder("", {"SLURM_TMPDIR": "/node"}) == Path("/node", own)
    monkeypatch.delenv("CLM_OR_MLM_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert scratch_folder("", {}) == tmp_path / "clm-or-mlm"


def test_only_the_user_can_open_it(tmp_path: Path) -> None:
    for path in (tmp_path / "new" / "cache", tmp_path / "open"):
        if path.name == "open":
            path.mkdir(mode=0o755)
        assert private_folder(path) == path
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_links_and_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "file").touch()
    for name in ("link", "file"):
        with pytest.raises(UserError, match="is not a folder, so it cannot be a cache"):
            private_folder(tmp_path / name)


@needs_root
def test_a_folder_of_another_user_is_refused_by_both(shared: Path) -> None:
    theirs = shared / "theirs"
    assert as_another_user(lambda: str(private_folder(theirs))) == str(theirs)
    with pytest.raises(UserError, match=r"another user .UID 65534"):
        private_folder(theirs)
    ours = private_folder(shared / "ours")
    answer = as_another_user(lambda: str(private_folder(ours)))
    assert answer.startswith("UserError") and "belongs to another user (UID 0)" in answer


@needs_root
def test_two_users_share_a_scratch_and_no_folder(shared: Path) -> None:
    theirs = as_another_user(lambda: str(private_folder(scratch_folder(str(shared)))))
    ours = private_folder(scratch_folder(str(shared)))
    assert Path(theirs) != ours
    assert {path.stat().st_uid for path in shared.iterdir()} == {0, NOBODY}
    assert as_another_user(lambda: str(list(ours.iterdir()))).startswith("PermissionError")
