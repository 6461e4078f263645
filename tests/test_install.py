"""`pip install .`: everything that the rooms need is in the wheel, and the command works from any folder."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from functools import partial
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from clm_or_mlm import __version__
from common.provenance import ROOT
from tests.commands import python
from tests.test_imports import ALLOWED

ENVIRONMENTS = ("analysis", "cluster", "full")
LACKED = {
    "analysis": {"torch", "transformers"},
    "cluster": {"pyarrow", "orjson", "scipy", "pandas"},
    "full": set(),
}
"""What commands may say that they need in each environment."""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


PIP, ALONE = ("-m", "pip"), ("--quiet", "--no-deps", "--no-index")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package's wheel, made from the files that git knows, as a fresh clone has them."""
    folder = tmp_path_factory.mktemp("wheel")
    clone = folder / "source"
    names = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, check=True
    ).stdout
    for name in filter(None, names.decode().split("\0")):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            (clone / name).write_bytes((ROOT / name).read_bytes())
    python(
        *PIP,
        "wheel",
        *ALONE,
        "--no-build-isolation",
        "--wheel-dir",
        folder,
        clone,
        code=0,
    )
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_every_file_of_the_rooms(wheel: Path) -> None:
    names = subprocess.run(
        ["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=True
    ).stdout.split("\n")
    wanted = {
        name
        for name in names
        if name.split("/")[0] in ALLOWED and "/" in name and (ROOT / name).is_file()
    }
    held = set(zipfile.ZipFile(wheel).namelist())
    assert len(wanted) > 200
    assert wanted <= held, sorted(wanted - held)
    assert not {name for name in held if name.startswith("tests/")}


@pytest.mark.slow
def test_the_installed_command_works_from_any_folder(
    wheel: Path, tmp_path: Path
) -> None:
    target = tmp_path / "installed"
    python(*PIP, "install", *ALONE, "--target", target, wheel, code=0)
    clm_or_mlm = partial(
        python, target / "bin" / "clm-or-mlm", cwd=tmp_path, PYTHONPATH=str(target)
    )
    assert clm_or_mlm("--version").stdout.startswith(f"clm-or-mlm {__version__} ")
    clm_or_mlm("figure", "3", "--out", "figures", code=0)
    assert (tmp_path / "figures" / "figure3.pdf").stat().st_size > 10_000
    assert "92.48" in clm_or_mlm("table", "2").stdout
    assert "did you mean 'table'" in clm_or_mlm("tabel", code=2).stderr


@pytest.mark.slow
def test_the_oldest_declared_versions_print_the_same(
    wheel: Path, tmp_path: Path
) -> None:
    """Of every direct dependency; needs a package index."""
    oldest = (
        "--quiet",
        "--resolution",
        "lowest-direct",
        "--target",
        tmp_path / "oldest",
    )
    python("-m", "uv", "pip", "install", *oldest, wheel, code=0)
    for words in (
        ("table", "10", "--source", "miniature"),
        ("claims",),
        ("compare", "610m-clm-42k", "610m-mlm40-42k"),
    ):
        ours = python("-m", "clm_or_mlm", *words, code=0).stdout
        there = python(
            "-m",
            "clm_or_mlm",
            *words,
            cwd=tmp_path,
            PYTHONPATH=str(tmp_path / "oldest"),
            code=0,
        )
        assert there.stdout == ours


def test_a_command_without_its_packages_says_what_to_install(tmp_path: Path) -> None:
    """With the analysis alone there is no torch; here it is hidden."""
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from clm_or_mlm.__main__ import main\nfrom common.cli import run\nrun(main)"
    )
    (tmp_path / "manifest.json").touch()
    words = ("train", "610m-clm-42k", "--data", tmp_path, "--out", tmp_path / "out")
    done = python("-c", code, *words, code=2)
    assert done.stderr.count("\n") == 1 and done.stderr.startswith(
        "error: this command needs torch"
    )


WALK = """
import contextlib, io, json
from clm_or_mlm.__main__ import COMMANDS, main
from common.errors import UserError
said = []
walk = [[*name.split(), word] for name in COMMANDS for word in ("--help", "--nope")]
for words in [[], ["--all"], ["--version"], *walk]:
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            said.append((words, "" if main(words, "clm-or-mlm") == 0 else "a code"))
        except UserError as error:
            said.append((words, str(error)))
print(json.dumps(said))
"""


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_command_helps_or_says_what_it_needs(environment: str) -> None:
    """In every environment that is installed here; an error that is no `UserError` ends the walk."""
    python = ROOT / ".venv" / environment / "bin" / "python"
    if not python.exists():
        pytest.skip(f"make {environment}-env has not been run")
    done = subprocess.run(
        [python, "-W", "error", "-c", WALK], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert len(said) > 60
    for words, sentence in said:
        needed = re.match(
            r"this command needs (\w+), .* in the repository run `make (\w+)-env`",
            sentence,
        )
        if needed:
            assert needed[1] in LACKED[environment] and needed[2] != environment, (
                words,
                sentence,
            )
        else:
            assert bool(sentence) == ("--nope" in words) and sentence != "a code", (
                words,
                sentence,
            )


@pytest.mark.parametrize("version", ["3.8", "3.10", "3.11"])
def test_a_python_without_the_environment_gets_a_sentence(version: str) -> None:
    here = Path.home().glob(f".pyenv/versions/{version}.*/bin/python")
    python = str(next(here, "")) or shutil.which(f"python{version}")
    if (
        python is None
        or subprocess.run([python, "-Ic", ""], capture_output=True).returncode
    ):
        pytest.skip(f"no Python {version} here")
    words = [python, "-s", "-m", "clm_or_mlm", "table", "10"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and not done.stdout
    assert (
        done.stderr.startswith(f"error: Python {version} is running outside")
        and done.stderr.count("\n") == 1
    )


@pytest.mark.parametrize("linked", [".venv", ".venv/analysis"])
def test_make_never_clears_a_linked_environment(linked: str, tmp_path: Path) -> None:
    other, here = tmp_path / "other", tmp_path / "here"
    binaries = other / ".venv" / "analysis" / "bin"
    binaries.mkdir(parents=True)
    (binaries / "python").symlink_to(sys.executable)
    (here / "requirements").mkdir(parents=True)
    shutil.copy(ROOT / "Makefile", here)
    (here / "requirements" / "analysis.txt").touch()  # newer than what is installed
    (here / linked).parent.mkdir(exist_ok=True)
    (here / linked).symlink_to(other / linked)
    done = subprocess.run(
        ["make", "analysis-env"], cwd=here, capture_output=True, text=True
    )
    assert done.returncode == 0 and "used as it is" in done.stderr
    assert [path.name for path in binaries.iterdir()] == ["python"]


def test_make_installs_the_command_into_its_environments(tmp_path: Path) -> None:
    """With a lock of nothing: the program of the environment starts this checkout's code, from any folder."""
    (tmp_path / "requirements").mkdir()
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "requirements" / "analysis.txt").touch()
    (tmp_path / "clm_or_mlm").mkdir()
    (tmp_path / "clm_or_mlm" / "__main__.py").write_text(
        "import sys\ndef console(): print(sys.argv[1:])\n"
    )
    made = ["make", "analysis-env", f"PYTHON={sys.executable}"]
    subprocess.run(made, cwd=tmp_path, capture_output=True, check=True)
    words = [tmp_path / ".venv/analysis/bin/clm-or-mlm", "table", "a b"]
    done = subprocess.run(words, cwd="/", capture_output=True, text=True)
    assert done.stdout == "['table', 'a b']\n", done.stderr


def test_the_locked_versions_are_within_the_declared_bounds() -> None:
    extras = PROJECT["optional-dependencies"]
    for line in [*PROJECT["dependencies"], *extras["full"], *extras["test"]]:
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate():
            version = metadata.version(requirement.name)
            assert requirement.specifier.contains(version, prereleases=True), (
                f"{line}: {version} is installed"
            )
