"""The real analysis image: built by `make image` or by the first of these tests, which takes minutes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from common.errors import UserError
from common.provenance import PROVENANCE, ROOT
from container.build import IMAGES, record_of
from container.site import Site, namespace_problem, version_of

pytestmark = [
    pytest.mark.apptainer,
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(shutil.which("apptainer") is None, reason="apptainer is not on PATH"),
]


@pytest.fixture(scope="module", autouse=True)
def _apptainer_starts() -> None:
    why = namespace_problem(Site())
    if why is not None:
        pytest.skip(f"no user namespaces can be made here: {why}")
    try:
        version_of(Site())
    except UserError as error:
        pytest.skip(str(error))


def _container(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "container", *words]
    environ = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, env=environ, **options)  # type: ignore[call-overload]


@pytest.fixture(scope="module")
def image() -> Path:
    """The image of the commit that is checked out; built when there is none."""
    path = IMAGES["analysis"].path
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True
    ).stdout.strip()
    record = record_of(path)
    if not (path.is_file() and record.is_file() and json.loads(record.read_text())["commit"] == commit):
        answer = _container("build", "analysis", cwd=ROOT)
        assert answer.returncode == 0, answer.stderr[-4000:]
    return path


def test_the_image_is_small(image: Path) -> None:
    assert image.stat().st_size < 450_000_000


def test_it_is_what_the_locks_and_the_commit_say(image: Path) -> None:
    answer = _container("verify", "analysis", cwd=ROOT)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "DIFFERS" not in answer.stdout


def test_a_changed_image_and_a_changed_lock_are_reported(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from container import verify as module
    from container.build import Image

    copy = tmp_path / "analysis.sif"
    shutil.copyfile(image, copy)
    shutil.copyfile(record_of(image), record_of(copy))
    with copy.open("ab") as file:
        file.write(b"\0")
    lock = tmp_path / "analysis.txt"
    text = IMAGES["analysis"].requirements.read_text()
    version = text.split("\nnumpy==")[1].split(" ")[0]
    lock.write_text(text.replace(f"numpy=={version}", "numpy==2.1.0"))
    monkeypatch.setattr(Image, "requirements", lock)
    found = {item.what: item.problems for item in module.verify(IMAGES["analysis"], copy)}
    assert "changed after its build" in found["file"][0]
    assert found["lock file"]
    assert found["Python packages"] == (f"package numpy is {version}, expected 2.1.0",)
    assert not found["Debian packages"]


@pytest.fixture(scope="module")
def moved(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the image far from the repository, as a user has it."""
    path = tmp_path_factory.mktemp("elsewhere") / "analysis.sif"
    shutil.copyfile(image, path)
    path.chmod(0o755)
    return path


def test_figure_3_has_the_same_bytes_inside_and_outside(moved: Path, tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    command = ["apptainer", "run", "--no-home", str(moved), "reproduce-figure3", "--source", "published"]
    subprocess.run(command, cwd=inside, check=True, capture_output=True)
    subprocess.run(
        [sys.executable, "-m", "paper_figures", "3", "--source", "published", "--out", str(outside)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    written = sorted((inside / "build" / "figures").iterdir())
    assert {path.name for path in written} == {path.name for path in outside.iterdir()}
    for path in written:
        if not path.name.endswith(PROVENANCE):
            assert path.read_bytes() == (outside / path.name).read_bytes(), path.name
    # How it was made names the Python, the command and the commit; locks, versions and hashes are equal.
    first, second = (
        json.loads((folder / f"figure3.{PROVENANCE}").read_text()) for folder in (written[0].parent, outside)
    )
    for key in ("lock", "versions", "files"):
        assert first[key] == second[key], key


def test_a_scratch_that_cannot_be_written_is_one_sentence(moved: Path, tmp_path: Path) -> None:
    environ = os.environ | {"APPTAINERENV_CLM_OR_MLM_SCRATCH": "/proc/none"}
    command = ["apptainer", "run", "--no-home", str(moved), "analysis", "--help"]
    answer = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert answer.returncode == 2
    assert "no scratch folder can be used: /proc/none" in answer.stderr


def test_users_packages_do_not_leak_in(moved: Path, tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise SystemExit('leaked')")
    environ = os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONUSERBASE": str(tmp_path)}
    command = ["apptainer", "run", "--no-home", str(moved), "analysis", "scores", "--help"]
    answer = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
