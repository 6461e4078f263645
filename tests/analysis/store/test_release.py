import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from analysis.sources import open_source
from analysis.store import release
from analysis.store.ingest import ingest, open_store
from analysis.store.release import cached_release, released_store
from benchmarks.runs import cell_keys
from clm_or_mlm.__main__ import main
from common.errors import UserError
from common.provenance import ROOT
from pretraining.paper_models import FIGURE_MODELS
from tests.results import write_results

HELD = ("610m-mlm40-42k", "610m-clm-42k", "210m-mlm40-42k")
FILES = 2 * 12
Fetch = Callable[..., Path]

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def git(folder: Path, *args: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    done = subprocess.run(
        ["git", "-C", str(folder), *who, *args],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A stand-in for the authors' repository, with things in it that must not be run, and its commit."""
    folder = tmp_path_factory.mktemp("origin")
    work = folder / "work"
    for m, model in enumerate(HELD):
        for dataset in ("sst2", "nq"):
            for i, key in enumerate(cell_keys(model, dataset)[:12]):
                write_results(
                    work,
                    key,
                    {"validation": [i / 12, 1.0], "test": [0.5, i / 12, m / 3]},
                )
    (work / "main.py").write_text("raise SystemExit\n")
    (work / ".gitattributes").write_text(
        "*.json filter=evil text eol=crlf\n*.py filter=evil\n"
    )
    (work / "results" / HELD[0] / "link").symlink_to("/etc/passwd")
    (work / ".gitmodules").write_text(
        '[submodule "s"]\n\tpath = s\n\turl = ext::sh -c touch% evil\n'
    )
    git(folder, "init", "-q", str(work))
    (work / ".git" / "info" / "attributes").write_text("* -filter -text -eol\n")
    git(work, "add", "-A")
    git(work, "commit", "-qm", "results")
    bare = folder / "origin.git"
    git(folder, "clone", "-q", "--bare", str(work), str(bare))
    git(bare, "config", "uploadpack.allowFilter", "true")
    git(bare, "config", "uploadpack.allowAnySHA1InWant", "true")
    return f"file://{bare}", git(work, "rev-parse", "HEAD")


@pytest.fixture
def fetch(origin: tuple[str, str], tmp_path: Path) -> Fetch:
    def released(*models: str) -> Path:
        return released_store(
            models, cache=tmp_path / "cache", url=origin[0], commit=origin[1]
        )

    return released


def files(store: Path) -> list[str]:
    return sorted(
        str(p.relative_to(store)) for p in (store / "results").rglob("*") if p.is_file()
    )


def test_only_the_wanted_models_arrive(
    fetch: Fetch, origin: tuple[str, str], tmp_path: Path
) -> None:
    store = fetch(HELD[0])
    assert {Path(name).parts[1] for name in files(store)} == {HELD[0]}
    assert len(list(store.rglob("results.json"))) == FILES
    missing = git(store, "rev-list", "--objects", "--missing=print", origin[1]).split(
        "\n"
    )
    # Contents of the other models never came
    assert sum(line.startswith("?") for line in missing) >= FILES
    assert cached_release(tmp_path / "cache", commit=origin[1]) == (HELD[0],)


def test_a_second_call_only_compares_and_a_later_one_adds(
    fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = fetch(HELD[0])
    before = {name: (store / name).stat().st_mtime_ns for name in files(store)}
    steps: list[str] = []
    with monkeypatch.context() as patch:
        git = release._Clone.git
        patch.setattr(
            release._Clone,
            "git",
            lambda self, *words: steps.append(words[0]) or git(self, *words),
        )
        fetch(HELD[0])
        assert set(steps) == {"sparse-checkout", "status"}
    fetch(HELD[0], HELD[1])
    assert {Path(name).parts[1] for name in files(store)} == set(HELD[:2])
    assert {name: (store / name).stat().st_mtime_ns for name in before} == before


def test_a_lost_file_is_refused(fetch: Fetch) -> None:
    store = fetch(*HELD)
    file = next((store / "results" / HELD[0]).rglob("results.json"))
    file.unlink()
    with pytest.raises(
        UserError, match=f"{file} has changed since it was fetched; delete {store}"
    ):
        fetch(*HELD)


def test_a_file_that_was_changed_after_its_fetch_is_refused(
    fetch: Fetch, tmp_path: Path
) -> None:
    store = fetch(*HELD)
    file = next((store / "results" / HELD[1]).rglob("results.json"))
    content, times = file.read_bytes(), file.stat()
    file.write_bytes(content.replace(b"1.0", b"0.9", 1))
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    fetch(HELD[0])
    with pytest.raises(
        UserError, match=f"{file} has changed since it was fetched; delete {store}"
    ):
        fetch(*HELD)
    file.write_bytes(content)
    fetch(*HELD)
    copy = shutil.copytree(tmp_path / "cache", tmp_path / "copied")
    (tmp_path / "cache").rename(tmp_path / "before")
    copy.rename(tmp_path / "cache")
    fetch(*HELD)  # other times and inodes, the same content


def test_what_arrives_is_what_the_authors_have(
    fetch: Fetch, origin: tuple[str, str], tmp_path: Path
) -> None:
    work = Path(origin[0].removeprefix("file://")).parent / "work"
    ingest(work, tmp_path / "direct.parquet")
    ingest(fetch(*HELD), tmp_path / "fetched.parquet")
    assert (tmp_path / "direct.parquet").read_bytes() == (
        tmp_path / "fetched.parquet"
    ).read_bytes()


def test_nothing_of_the_clone_is_executed(
    fetch: Fetch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = tmp_path / "executed"
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("post-checkout", "reference-transaction", "post-index-change"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {trap}\n")
        (hooks / name).chmod(0o755)
    config = tmp_path / "gitconfig"
    config.write_text(
        f'[filter "evil"]\n\tsmudge = touch {trap}; cat\n\tclean = touch {trap}; cat\n\trequired = true\n'
        f"[core]\n\thooksPath = {hooks}\n\tfsmonitor = touch {trap}\n"
        "[submodule]\n\trecurse = true\n[fetch]\n\trecurseSubmodules = true\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    store = fetch(HELD[0])
    assert not trap.exists()
    assert not (store / "results" / HELD[0] / "link").is_symlink()
    assert b"\r" not in next(store.rglob("results.json")).read_bytes()


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(step, marks=[] if step in (4, 8, 11) else pytest.mark.slow)
        for step in range(1, 12)
    ],
)
def test_a_killed_fetch_goes_on(
    fetch: Fetch, origin: tuple[str, str], tmp_path: Path, step: int
) -> None:
    """At each of the eleven calls of git."""
    script = (
        "import os, pathlib, signal, subprocess, analysis.store.release as r\n"
        f"run, left = subprocess.run, [{step}]\n"
        "def dying(*args, **kwargs):\n"
        "    left[0] -= 1\n"
        "    if left[0] == 0: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return run(*args, **kwargs)\n"
        "r.subprocess.run = dying\n"
        f"r.released_store({HELD[:2]!r}, cache=pathlib.Path({str(tmp_path / 'cache')!r}), "
        f"url={origin[0]!r}, commit={origin[1]!r})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, check=False, capture_output=True
    )
    assert done.returncode == -signal.SIGKILL
    if (
        git_folder := tmp_path / "cache" / f"released-{origin[1][:12]}" / ".git"
    ).is_dir():
        # What git itself leaves when it is killed
        (git_folder / "index.lock").write_text("")
    store = fetch(*HELD[:2])
    assert {Path(name).parts[1] for name in files(store)} == set(HELD[:2])
    assert len(list(store.rglob("results.json"))) == 2 * FILES


def test_a_model_outside_the_release_is_told(
    fetch: Fetch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    fetch(HELD[0], "1b-clm-10k-mlm40-42k")
    assert "the release has no runs of 1b-clm-10k-mlm40-42k" in caplog.text
    with pytest.raises(UserError, match="has no runs of 1b-clm-10k-mlm40-42k"):
        fetch("1b-clm-10k-mlm40-42k")


def test_no_network_no_git_and_a_wrong_mirror_are_told(
    origin: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        UserError, match=r"cannot be fetched .*--source published"
    ) as error:
        released_store(
            HELD, cache=tmp_path / "a", url="file:///nowhere/at/all", commit=origin[1]
        )
    assert "\n" not in str(error.value)
    with pytest.raises(UserError, match="cannot be fetched"):
        released_store(
            HELD,
            cache=tmp_path / "b",
            url="https://127.0.0.1:9/x.git",
            commit=origin[1],
        )
    with pytest.raises(UserError, match="does not have the pinned commit 0123"):
        released_store(
            HELD, cache=tmp_path / "c", url=origin[0], commit="0123456789" * 4
        )
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="set CLM_OR_MLM_CACHE to another folder"):
        released_store(HELD, cache=tmp_path / "file", url=origin[0], commit=origin[1])
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="git is not on PATH"):
        released_store(HELD, cache=tmp_path / "d", url=origin[0], commit=origin[1])


def test_the_command_fetches_and_prints_the_store(
    origin: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(release, "COMMIT", origin[1])
    monkeypatch.setenv("CLM_OR_MLM_CACHE", str(tmp_path / "cache"))
    line = ["fetch-released", "--url", origin[0]]
    assert main([*line, "figure2", HELD[1]]) == 0
    store = Path(capsys.readouterr().out.strip())
    assert {Path(name).parts[1] for name in files(store)} == set(HELD) & set(
        FIGURE_MODELS[2]
    )
    with pytest.raises(UserError, match="did you mean '610m-clm-42k'"):
        main([*line, "610m-cml-42k"])


def test_released_runs_are_the_wanted_models_runs(
    fetch: Fetch,
    origin: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CLM_OR_MLM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(
        "analysis.store.release.released_store", lambda models, cache=None: fetch(*HELD)
    )
    opened = open_source("released", models=HELD[:1], need_instances=True)
    runs, instances = opened.need_runs("this"), opened.instances
    assert (set(runs["model"]), len(runs)) == ({HELD[0]}, FILES)
    assert instances is not None
    assert instances.is_dir()
    read, none = open_store(fetch(*HELD))
    assert none is None
    again = read.runs
    pd.testing.assert_frame_equal(
        again[again["model"] == HELD[0]].reset_index(drop=True), runs
    )


def test_a_copy_of_the_cache_is_the_released_source(
    fetch: Fetch,
    origin: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given by its path, too: what is not exact in the authors' own files differs, to the audit."""
    shutil.copytree(fetch(HELD[0]).parent, tmp_path / "copied")
    copied = next((tmp_path / "copied").glob("released-*[0-9a-f]"))
    for function in (
        release.is_release,
        release.cached_release,
        release.released_store,
    ):
        monkeypatch.setitem(function.__kwdefaults__ or {}, "commit", origin[1])
    opened = open_source(str(copied))
    assert opened.label == "released" and {*opened.runs["model"]} == {HELD[0]}  # type: ignore[index]
    assert not release.is_release(tmp_path)


def test_a_password_of_a_mirror_is_refused_and_not_shown(
    origin: tuple[str, str], tmp_path: Path
) -> None:
    for url in (
        "https://me:HUSH@127.0.0.1:9/x.git",
        "https://127.0.0.1:9/x.git?access_token=HUSH",
    ):
        with pytest.raises(UserError, match="leave the password out") as error:
            released_store([HELD[0]], cache=tmp_path, url=url, commit=origin[1])
        assert "HUSH" not in str(error.value)
    assert not list(tmp_path.iterdir())
