"""`pip install .`: everything that the rooms need is in the wheel, and the command works from any folder."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from clm_or_mlm import VERSION
from clm_or_mlm.rooms import ROOMS
from common.provenance import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package's wheel, made from the files that git knows, as a fresh clone has them."""
    folder = tmp_path_factory.mktemp("wheel")
    clone = folder / "source"
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, check=True).stdout
    for name in filter(None, names.decode().split("\0")):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            (clone / name).write_bytes((ROOT / name).read_bytes())
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    ]
    subprocess.run([*command, "--wheel-dir", str(folder), str(clone)], check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_every_file_of_the_rooms(wheel: Path) -> None:
    names = subprocess.run(
        ["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=True
    ).stdout.split("\n")
    rooms = (*ROOMS, "clm_or_mlm", "common")
    wanted = {
        name for name in names if name.split("/")[0] in rooms and "/" in name and (ROOT / name).is_file()
    }
    held = set(zipfile.ZipFile(wheel).namelist())
    assert len(wanted) > 200
    assert wanted <= held, sorted(wanted - held)
    assert not {name for name in held if name.startswith("tests/")}


@pytest.mark.slow
def test_the_installed_command_works_from_any_folder(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "installed"
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--target",
        str(target),
    ]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True)
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

    def clm_or_mlm(*words: str) -> subprocess.CompletedProcess[str]:
        program = target / "bin" / "clm-or-mlm"
        return subprocess.run(
            [sys.executable, str(program), *words],
            cwd=tmp_path, env=environ | {"PYTHONPATH": str(target)}, capture_output=True, text=True,
        )  # fmt: skip

    assert clm_or_mlm("--version").stdout.startswith(f"clm-or-mlm {VERSION} ")
    done = clm_or_mlm("figure", "3", "--out", "figures")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "figures" / "figure3.pdf").stat().st_size > 10_000
    assert "92.48" in clm_or_mlm("table", "2").stdout
    wrong = clm_or_mlm("tabel")
    assert wrong.returncode == 2 and "did you mean 'table'" in wrong.stderr


def test_a_command_without_its_packages_says_what_to_install(tmp_path: Path) -> None:
    """With the analysis alone there is no torch; here it is hidden."""
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from clm_or_mlm.__main__ import main\nfrom common.cli import run\nrun(main)"
    )
    words = ["train", "610m-clm-42k", "--data", str(tmp_path), "--out", str(tmp_path / "out")]
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("error: this command needs torch")


def test_the_locked_versions_are_within_the_declared_bounds() -> None:
    extras = PROJECT["optional-dependencies"]
    for line in [*PROJECT["dependencies"], *extras["full"], *extras["test"]]:
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate():
            version = metadata.version(requirement.name)
            assert requirement.specifier.contains(version, prereleases=True), (
                f"{line}: {version} is installed"
            )
