"""Images: what they are built from, against their records, and the real one, which takes minutes."""

import functools
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from clm_or_mlm.__main__ import main
from common import files
from common.errors import UserError
from common.files import sha256_file
from common.manifest import check_files, read_manifest, write_manifest
from common.provenance import PROVENANCE, ROOT, git_commit
from container import image as images
from container.image import (
    Image,
    build,
    dated_mirror,
    image_record,
    mirror_of,
    snapshot_of,
    verify_image,
    version_line,
)
from container.machine import Machine
from container.runtime import version_of
from tests.commands import python
from tests.flips import flip


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


ANALYSIS, FULL = Image(name="analysis"), Image(name="full")


LIST = (
    "# deb http://old.example/debian bookworm main\n"
    "deb [arch=amd64] http://near.example/debian bookworm main\n"
)
DEB822 = "Types: deb\n# http://dated.example/archive/debian/20250520T000000Z\nURIs: http://near.example/debian\n"


@pytest.mark.parametrize(
    ("files", "named", "mirror"),
    [
        ({"sources.list": LIST}, {}, "http://near.example/debian"),
        ({"sources.list": LIST}, {"DEBIAN_MIRROR": "http://given.example/debian"}, "http://given.example/debian"),
        # deb822; other repositories are passed over.
        ({"sources.list.d/a.list": "deb http://packages.example/tool stable main\n",
          "sources.list.d/debian.sources": DEB822}, {}, "http://near.example/debian"),
        ({}, {}, None),
    ],
)  # fmt: skip
def test_the_mirror_is_the_environments_then_the_machines(
    tmp_path: Path, files: dict[str, str], named: dict[str, str], mirror: str | None
) -> None:
    (tmp_path / "sources.list.d").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    if mirror:
        assert mirror_of(named, tmp_path) == mirror
    else:
        with pytest.raises(
            UserError,
            match="no Debian mirror is configured on this machine; give one with --mirror",
        ):
            mirror_of(named, tmp_path)


@pytest.mark.parametrize(
    ("there", "mirror", "found"),
    [
        (
            "archive/debian/20261121T000000Z",
            "{host}/debian",
            "{host}/archive/debian/{{snapshot}}",
        ),
        ("debian/20261121T000000Z", "{host}/debian/", "{host}/debian/{{snapshot}}"),
        ("archive/debian/20200101T000000Z", "{host}/debian", "{host}/debian"),
        (
            "archive/debian/20261121T000000Z",
            "{host}/own/{{snapshot}}",
            "{host}/own/{{snapshot}}",
        ),
    ],
)
def test_a_mirror_with_snapshots_gives_the_locks_date(
    tmp_path: Path, there: str, mirror: str, found: str
) -> None:
    (tmp_path / there / "dists/bookworm").mkdir(parents=True)
    (tmp_path / there / "dists/bookworm/Release").touch()
    serves = functools.partial(QuietHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), serves) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        host = f"http://127.0.0.1:{server.server_port}"
        assert dated_mirror(
            mirror.format(host=host), "20261121T000000Z"
        ) == found.format(host=host)
        server.shutdown()
    assert dated_mirror(host, "20261121T000000Z", seconds=1) == host, "nobody answers"


def test_the_recorded_date_is_read(tmp_path: Path) -> None:
    lock = tmp_path / "debian.lock"
    with pytest.raises(UserError, match="--relock"):
        snapshot_of(lock)
    lock.write_text("# bookworm 20261121T000000Z: packages\n")
    assert snapshot_of(lock) == "20261121T000000Z"


def test_too_little_space_is_found_before_anything_is_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Machine, "which", lambda _, name: f"/usr/sbin/{name}")
    monkeypatch.setattr(Machine, "free_gb", lambda *_: 1.0)
    with pytest.raises(
        UserError,
        match=r"has 1.0 GB free, but the build needs 20 GB; set APPTAINER_TMPDIR",
    ):
        build(FULL, mirror="http://near.example/debian")


def test_definitions_name_no_host_and_share_their_environment() -> None:
    texts = {one.name: one.definition.read_text("utf-8") for one in (ANALYSIS, FULL)}
    for name, text in texts.items():
        assert "http" not in text
        assert f"clm-or-mlm.image {name}\n" in text
        for section in (
            "%labels",
            "%help",
            "%post",
            "%environment",
            "%runscript",
            "%test",
        ):
            assert f"\n{section}\n" in text
    parts = [text.split("%environment")[1].split("%runscript")[0].replace(name, "")
             for name, text in texts.items()]  # fmt: skip
    assert parts[0] == parts[1]


def test_a_tool_that_is_not_there_has_no_version() -> None:
    assert version_line("git", "--version").startswith("git version ")
    assert version_line("no-such-tool", "--version") == "unknown"


@pytest.mark.slow
def test_the_full_images_own_test_passes_outside_too(tmp_path: Path) -> None:
    script = FULL.definition.read_text("utf-8").split("%test\n")[1]
    environ = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(tmp_path),
    }
    answer = subprocess.run(
        ["sh", "-c", script], env=environ, cwd=tmp_path, capture_output=True, text=True
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr


REAL = [
    pytest.mark.apptainer,
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(
        shutil.which("apptainer") is None, reason="apptainer is not on PATH"
    ),
]


def _real(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test of the real image."""
    for mark in REAL:
        test = mark(test)
    return test


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A file in an image's place, with the record and the SBOM of a build from the locks that are here."""
    one = ANALYSIS
    path, bom = tmp_path / "analysis.sif", tmp_path / "analysis.sbom.json"
    path.write_bytes(b"image" * 1000)
    bom.write_text('{"components": []}')
    record = {
        "image": "analysis",
        "commit": git_commit(),
        "lock": sha256_file(one.requirements),
        "debian": {"lock": sha256_file(one.debian_lock)},
    }
    write_manifest(
        image_record(path),
        record,
        {file.name: sha256_file(file) for file in (path, bom)},
    )
    return path


def _problems(path: Path) -> dict[str, str]:
    return {
        line.what: line.sentence
        for line in verify_image(ANALYSIS, path)
        if line.status == "fail"
    }


def test_an_image_from_the_locks_that_are_here_is_what_it_says(built: Path) -> None:
    assert {line.status for line in verify_image(ANALYSIS, built)} == {"ok"}


@pytest.mark.parametrize(
    "name", ["analysis.sif", "analysis.sbom.json", "analysis.sif.json"]
)
def test_every_flipped_bit_is_noticed(built: Path, name: str) -> None:
    flip(built.parent / name)
    assert list(_problems(built)) == ["file"]


@pytest.mark.parametrize(
    "name", ["analysis.sif", "analysis.sbom.json", "analysis.sif.json"]
)
def test_check_names_every_flipped_bit(
    built: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(built.parent)]) == 0
    assert "2 files as it says" in capsys.readouterr().out
    flip(built.parent / name)
    assert main(["check", str(built.parent)]) == 1
    assert "damaged: " in capsys.readouterr().out


@pytest.fixture
def stand_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of images, and in place of each program that a build calls one that writes what that would."""

    def apptainer(words: list[str], log: Path) -> None:
        log.write_text("done")
        Path(words[-2]).write_text("image")
        (log.parent / "sbom.json").write_text("{}")

    monkeypatch.setattr(images, "BUILD", tmp_path)
    monkeypatch.setattr(images, "_apptainer_build", apptainer)
    monkeypatch.setattr(images, "normalise", lambda *_: None)
    monkeypatch.setattr(images, "_check_room", lambda _: None)
    monkeypatch.setattr(images, "_tools", dict)
    monkeypatch.setattr(Machine, "which", lambda _, name: f"/usr/sbin/{name}")
    monkeypatch.setattr(sys, "executable", "true")
    return tmp_path


MIRROR = "http://near.example/{snapshot}"


def test_build_keeps_files_of_others(stand_ins: Path) -> None:
    build(ANALYSIS, mirror=MIRROR)
    made = [path for path in stand_ins.rglob("*") if path.is_file()]
    names = {path.relative_to(stand_ins).as_posix() for path in made}
    assert {"analysis.sif", "analysis.sif.json", "analysis.sbom.json"} < names
    build(ANALYSIS, mirror=MIRROR)  # what it made it replaces
    for name in (*names - {"container/analysis/CACHEDIR.TAG"}, "container/analysis/a"):
        shutil.rmtree(stand_ins)
        path = stand_ins / name
        path.parent.mkdir(parents=True)
        path.write_text("mine")
        with pytest.raises(UserError, match=f"holds other files .{name}"):
            build(ANALYSIS, mirror=MIRROR)
        assert path.read_text() == "mine"


@pytest.mark.parametrize("name", ["write_manifest", "shutil.copyfile", "sync_folder"])
def test_killed_build_is_repaired_by_the_next(
    name: str, stand_ins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (stand_ins / "notes.md").write_text("mine")
    place = {"write_manifest": images, "shutil.copyfile": images.shutil}
    target, call = place.get(name, files), name.rpartition(".")[2]
    real = getattr(target, call)

    def killed(*words: object, **more: object) -> object:
        if call == "copyfile" and "sbom" not in str(words[0]):
            return real(*words, **more)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(target, call, killed)
        build(ANALYSIS, mirror=MIRROR)
    path = build(ANALYSIS, mirror=MIRROR)
    check_files(path.parent, read_manifest(image_record(path), "")["files"], "")
    assert (stand_ins / "notes.md").read_text() == "mine"


def test_another_lock_is_named_and_a_newer_commit_is_a_warning(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = git_commit()
    monkeypatch.setattr(Image, "requirements", FULL.requirements)
    monkeypatch.setattr("container.image.git_commit", lambda: "abc")
    assert _problems(built) == {
        "requirements/full-image.txt": "the image was built from a different version: "
        f"git diff {there} -- requirements/full-image.txt; build the image again"
    }
    assert verify_image(ANALYSIS, built)[-1].status == "warn"
    assert (
        next(line.what for line in verify_image(FULL, built) if line.status == "fail")
        == "image"
    )
    image_record(built).unlink()
    assert list(_problems(built)) == ["file"]
    with pytest.raises(UserError, match="does not exist; build it"):
        verify_image(FULL, tmp_path / "full.sif")


@pytest.fixture(scope="module")
def image() -> Path:
    """The image of the commit that is checked out; built when there is none."""
    try:
        version_of(Machine())
    except UserError as error:
        pytest.skip(str(error))
    path = ANALYSIS.path
    record = image_record(path)
    if not (
        path.is_file()
        and record.is_file()
        and json.loads(record.read_text())["commit"] == git_commit()
    ):
        python("-m", "clm_or_mlm", "build", "analysis", code=0)
    return path


@_real
def test_the_image_is_small(image: Path) -> None:
    assert image.stat().st_size < 450_000_000


@_real
def test_it_is_what_the_locks_and_the_commit_say(image: Path) -> None:
    assert (
        "0 fail"
        in python("-m", "clm_or_mlm", "container", "verify", "analysis", code=0).stdout
    )


@pytest.fixture(scope="module")
def moved(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the image far from the repository, as a user has it."""
    path = tmp_path_factory.mktemp("elsewhere") / "analysis.sif"
    shutil.copyfile(image, path)
    path.chmod(0o755)
    return path


@_real
def test_figure_3_has_the_same_bytes_inside_and_outside(
    moved: Path, tmp_path: Path
) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    command = [
        "apptainer",
        "run",
        "--no-home",
        str(moved),
        "reproduce-figure3",
        "--source",
        "published",
    ]
    subprocess.run(command, cwd=inside, check=True, capture_output=True)
    python(
        "-m",
        "clm_or_mlm",
        "figure",
        "3",
        "--source",
        "published",
        "--out",
        outside,
        code=0,
    )
    written = sorted((inside / "build" / "figures").iterdir())
    assert {path.name for path in written} == {path.name for path in outside.iterdir()}
    for path in written:
        if not path.name.endswith(PROVENANCE):
            assert path.read_bytes() == (outside / path.name).read_bytes(), path.name
    # How it was made names the Python, the command and the commit; locks, versions and hashes are equal.
    first, second = (
        json.loads((folder / f"figure3.{PROVENANCE}").read_text())
        for folder in (written[0].parent, outside)
    )
    for key in ("lock", "versions", "files"):
        assert first[key] == second[key], key


@_real
@pytest.mark.parametrize(
    ("variables", "code", "said"),
    [
        (
            {"APPTAINERENV_CLM_OR_MLM_SCRATCH": "/proc/none"},
            2,
            "no usable scratch folder: /proc/none",
        ),
        # The user's own packages do not leak in.
        ({"PYTHONPATH": ".", "PYTHONUSERBASE": "."}, 0, ""),
    ],
)
def test_of_the_users_environment_only_the_scratch_comes_in(
    moved: Path, tmp_path: Path, variables: dict[str, str], code: int, said: str
) -> None:
    (tmp_path / "numpy.py").write_text("raise SystemExit('leaked')")
    command = ["apptainer", "run", "--no-home", str(moved), "scores", "--help"]
    answer = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | variables,
        capture_output=True,
        text=True,
    )
    assert answer.returncode == code and said in answer.stderr, answer.stderr


def test_the_image_is_the_full_environment_without_tests() -> None:
    def versions(path: Path) -> dict[str, str]:
        lines = path.read_text().splitlines()
        rows = (
            line.split()[0].split("==")
            for line in lines
            if "==" in line and line[0].isalnum()
        )
        return dict(rows)

    image, full = versions(FULL.requirements), versions(ROOT / "requirements/full.txt")
    assert image.items() < full.items()
    assert {"torch", "transformers", "mosaicml"} <= image.keys()
    assert (
        not {"pytest", "mypy", "ruff", "playwright", "moto", "ipython"} & image.keys()
    )
