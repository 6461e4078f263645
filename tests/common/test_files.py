"""Atomic files: the old one or the new one, never half of either; outputs go where they are sent; private caches."""

import errno
import os
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from common.cli import run
from common.errors import UserError
from common.files import (
    append_line,
    atomic_folder,
    atomic_path,
    cache_folder,
    mark_cache,
    nearest_existing,
    private_folder,
    remove_leftovers,
    scratch_folder,
    temporary_name,
    write_text,
    write_together,
)
from common.provenance import ROOT
from tests.commands import python


def test_an_error_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.txt"
    write_text(path, "old")
    with pytest.raises(RuntimeError), atomic_path(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert [entry.name for entry in path.parent.iterdir()] == ["a.txt"]


def test_nearest_existing_is_the_path_or_above_it(tmp_path: Path) -> None:
    write_text(tmp_path / "a/file", "")
    for path, expected in (("a", "a"), ("a/b/c", "a"), ("a/file/b", "a/file")):
        assert nearest_existing(tmp_path / path) == tmp_path / expected
    assert nearest_existing(Path("no such/folder")) == Path()


def test_a_killed_writer_leaves_the_old_file_or_the_new(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "0" * 200_000)
    program = textwrap.dedent(
        f"""
        from pathlib import Path
        from common.files import write_text
        for i in range(10**6):
            write_text(Path({str(path)!r}), str(i % 10) * 200_000)
        """
    )
    for delay in (0.05, 0.11, 0.17):
        process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
        time.sleep(0.3 + delay)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        text = path.read_text()
        assert len(text) == 200_000
        assert len(set(text)) == 1


@pytest.mark.parametrize("failing", range(3))
def test_files_that_belong_together_are_all_new_or_all_old(
    tmp_path: Path, failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / name for name in ("a.pdf", "b.csv", "c.json")]
    write_together(dict.fromkeys(paths[:2], b"old"))
    flush, flushed = os.fsync, []

    def full(descriptor: int) -> None:
        flushed.append(descriptor)
        if len(flushed) > failing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flush(descriptor)

    with (
        monkeypatch.context() as patched,
        pytest.raises(OSError, match="No space") as error,
    ):
        patched.setattr(os, "fsync", full)
        write_together(dict.fromkeys(paths, b"new"))
    assert error.value.filename == str(paths[failing])
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "a.pdf": b"old",
        "b.csv": b"old",
    }
    write_together(dict.fromkeys(paths, b"new"))
    assert {
        path.name: path.read_bytes() for path in tmp_path.iterdir()
    } == dict.fromkeys(("a.pdf", "b.csv", "c.json"), b"new")


def test_files_get_the_usual_permissions(tmp_path: Path) -> None:
    write_text(tmp_path / "a", "x")
    (tmp_path / "b").write_text("x")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_the_cache_is_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CLM_OR_MLM_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine" / "clm-or-mlm"
    monkeypatch.delenv("CLM_OR_MLM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert cache_folder() == tmp_path / "cache" / "clm-or-mlm"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # the standard says: ignored
    assert cache_folder() == Path.home() / ".cache" / "clm-or-mlm"


def test_a_folder_is_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "folder"
    with atomic_folder(path) as temporary:
        (temporary / "a.txt").write_text("old")
    with pytest.raises(RuntimeError), atomic_folder(path) as temporary:
        (temporary / "a.txt").write_text("half")
        raise RuntimeError
    assert (path / "a.txt").read_text() == "old"
    with atomic_folder(path) as temporary:
        (temporary / "b.txt").write_text("new")
        (temporary / "b.txt").chmod(0o600)  # as safetensors does
    assert [item.name for item in path.iterdir()] == ["b.txt"]
    assert (path / "b.txt").stat().st_mode & 0o444 == path.stat().st_mode & 0o444
    assert [item.name for item in path.parent.iterdir()] == ["folder"]


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path: Path) -> None:
    program = textwrap.dedent(
        f"""
        import os, signal
        from pathlib import Path
        from common.files import atomic_folder, atomic_path
        with atomic_path(Path({str(tmp_path / "a.txt")!r})) as file, atomic_folder(Path({str(tmp_path / "b")!r})) as b:
            file.write_text("half")
            (b / "c").write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    python("-c", program)
    assert len(list(tmp_path.iterdir())) == 2
    with atomic_path(tmp_path / "a.txt") as mine:
        mine.write_text("mine")
        write_text(tmp_path / "a.txt", "whole")
        assert mine.exists(), "the file of a process that lives stays"
    with atomic_folder(tmp_path / "b") as folder:
        (folder / "c").write_text("whole")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.txt", "b"]


def test_a_folder_that_was_being_replaced_comes_back(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    name = temporary_name("b").replace(f"-{os.getpid()}-", f"-{child.pid}-")
    (tmp_path / f"{name}.old").mkdir()
    (tmp_path / f"{name}.old" / "c").write_text("old")
    remove_leftovers(tmp_path, "b")
    assert [entry.name for entry in tmp_path.iterdir()] == ["b"] and (
        tmp_path / "b" / "c"
    ).read_text() == "old"


def test_temporary_names_of_ended_processes_are_left_over(
    tmp_path: Path,
) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    ended = temporary_name("a").replace(f"-{os.getpid()}-", f"-{child.pid}-")
    away = ended.replace(ended.split(".")[2][:6], "0" * 6)
    old = away.replace(".a.", ".b.")
    stay = (".git", ".DS_Store", ".a.tmp", temporary_name("a"), away)
    for name in (*stay, ended, old):
        (tmp_path / name).mkdir()
    os.utime(tmp_path / old, (0, 0))
    (tmp_path / f"{ended}.link").symlink_to(tmp_path / ".git")
    remove_leftovers(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*stay}


def test_a_replaced_name_is_on_the_disk_before_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    flush = os.fsync

    def note(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    write_text(tmp_path / "a", "a")
    assert synced[-1] == str(tmp_path)
    with atomic_folder(tmp_path / "b") as making:
        (making / "deep").mkdir()
        (making / "deep" / "c").touch()
    assert {str(making), str(making / "deep"), str(making / "deep" / "c")} < {*synced}
    assert synced[-1] == str(tmp_path)


def test_a_cache_has_the_mark_that_backups_know(tmp_path: Path) -> None:
    mark_cache(tmp_path / "cache")
    assert (
        (tmp_path / "cache/CACHEDIR.TAG")
        .read_text()
        .startswith("Signature: 8a477f597d28d172789f06886806bc55")
    )


def refused(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command says that is to write to `path` and cannot."""
    with pytest.raises(SystemExit) as stop:
        run(lambda words: write_text(Path(words[0]), "x" * 100_000 + "\n"), [str(path)])
    assert stop.value.code == 2
    return capsys.readouterr().err


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name in ("there.txt", "new.txt"):
        (tmp_path / f"to-{name}").symlink_to(Path("deep", name))
    (tmp_path / "deep" / "there.txt").write_text("old")
    for name in ("there.txt", "new.txt"):
        write_text(tmp_path / f"to-{name}", "new")
        assert (tmp_path / f"to-{name}").is_symlink()
        assert (tmp_path / "deep" / name).read_text() == "new"
    (tmp_path / "folder").symlink_to("deep")
    with atomic_folder(tmp_path / "folder") as temporary:
        (temporary / "a").write_text("a")
    assert (tmp_path / "folder").is_symlink() and [
        p.name for p in (tmp_path / "deep").iterdir()
    ] == ["a"]


def test_devices_are_written_to_and_not_replaced(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_text(Path(os.devnull), "x")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)
    assert refused(Path("/dev/full"), capsys) == (
        "error: /dev/full: No space left on device; free some space and run the same command again\n"
    )
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


def test_a_pipe_gets_all_of_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_text(pipe, "x" * 200_000)
    reader.join()
    assert read == ["x" * 200_000] and stat.S_ISFIFO(pipe.stat().st_mode)


def test_every_refusal_names_the_users_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    for path, why in (
        (tmp_path / "file" / "below", "File exists"),
        (tmp_path / "folder", "Is a directory"),
        (tmp_path / ("long" * 100), "File name too long"),
    ):
        said = refused(path, capsys)
        named = path.parent if path.name == "below" else path
        assert said == f"error: {said.split(': ')[1]}: {why}\n"
        assert str(named) in said and ".tmp" not in said
    real = os.fsync

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("common.files.os.fsync", full)
    with pytest.raises(OSError, match="No space") as error:
        write_text(tmp_path / "a.txt", "x")
    assert error.value.filename == str(tmp_path / "a.txt")
    monkeypatch.setattr("common.files.os.fsync", real)

    def read_only(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", "some temporary file")

    monkeypatch.setattr(Path, "unlink", read_only)
    with (
        pytest.raises(RuntimeError, match="the first error"),
        atomic_path(tmp_path / "b.txt"),
    ):
        raise RuntimeError("the first error")


def test_long_names_are_written_too(tmp_path: Path) -> None:
    path = tmp_path / ("ü" * 120 + ".txt")
    write_text(path, "x")
    assert path.read_text() == "x"


NOBODY = 65534
needs_root = pytest.mark.skipif(
    os.getuid() != 0, reason="only root can become another user"
)


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


def test_the_place_is_chosen_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = f"clm-or-mlm-{os.getuid()}"
    monkeypatch.setenv("CLM_OR_MLM_SCRATCH", "/scratch")
    monkeypatch.setenv("SLURM_TMPDIR", "/node")
    assert scratch_folder("/mine") == Path("/mine", own)
    assert scratch_folder() == Path("/scratch", own)
    monkeypatch.delenv("CLM_OR_MLM_SCRATCH")
    assert scratch_folder() == Path("/node", own)
    monkeypatch.delenv("SLURM_TMPDIR")
    monkeypatch.delenv("CLM_OR_MLM_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert scratch_folder() == tmp_path / "clm-or-mlm"


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
    assert (
        answer.startswith("UserError") and "belongs to another user (UID 0)" in answer
    )


@needs_root
def test_two_users_share_a_scratch_and_no_folder(shared: Path) -> None:
    theirs = as_another_user(lambda: str(private_folder(scratch_folder(str(shared)))))
    ours = private_folder(scratch_folder(str(shared)))
    assert Path(theirs) != ours
    assert {path.stat().st_uid for path in shared.iterdir()} == {0, NOBODY}
    assert as_another_user(lambda: str(list(ours.iterdir()))).startswith(
        "PermissionError"
    )


def test_a_line_after_one_that_was_cut_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "lines"
    append_line(path, "first")
    with path.open("ab") as file:
        file.write(b"sec")  # as a full disk leaves it
    append_line(path, "third")
    append_line(path, "fourth")
    assert path.read_text().splitlines() == ["first", "sec", "third", "fourth"]
