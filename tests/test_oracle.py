"""The oracle: its lock installs next to the torch of the tests, and what it computes is sentence-transformers' own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

import tests.oracle
from common.files import sha256_file
from tests.locks import read_requirements
from tests.oracle import LOCK, CannotInstall, Oracle, install

VERSIONS = """
import sys, datasets, numpy, sentence_transformers, tokenizers, torch, transformers
modules = (datasets, numpy, sentence_transformers, tokenizers, torch, transformers)
answer = {module.__name__: [module.__version__.split("+")[0], module.__file__] for module in modules}
answer["ours"] = [name for name in sys.modules if name.split(".")[0] in ("common", "benchmarks", "pretraining")]
answer["given"] = given
"""


@pytest.mark.slow
def test_it_holds_the_papers_versions_and_borrows_torch(oracle: Oracle, tmp_path: Path) -> None:
    import torch

    found = oracle.run(VERSIONS, folder=tmp_path / "run", number=0.1, path=tmp_path)
    assert found.pop("given") == {"number": 0.1, "path": str(tmp_path)}
    assert found.pop("ours") == []
    pins = read_requirements(LOCK)
    assert (pins["sentence-transformers"], pins["transformers"]) == ("3.4.1", "4.48.3")
    for name in ("datasets", "sentence_transformers", "tokenizers", "transformers"):
        version, file = found[name]
        assert version == pins[canonicalize_name(name)]
        assert Path(file).is_relative_to(oracle.site)
    for name in ("numpy", "torch"):
        assert not Path(found[name][1]).is_relative_to(oracle.site)
    assert found["torch"][0] == torch.__version__.split("+")[0]


@pytest.mark.slow
def test_nothing_of_it_asks_for_other_versions(oracle: Oracle, tmp_path: Path) -> None:
    """What is borrowed suits it: pip finds no conflict of a package of the oracle."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pip", "check"],
        env=oracle.environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line != "No broken requirements found."]
    assert {canonicalize_name(line.split()[0]) for line in lines}.isdisjoint(read_requirements(LOCK)), (
        done.stdout
    )


def test_what_is_borrowed_is_not_in_its_lock() -> None:
    lines = LOCK.with_name("oracle-borrowed.txt").read_text().splitlines()
    borrowed = {line for line in lines if not line.startswith("#")}
    pins = set(read_requirements(LOCK))
    assert borrowed and not borrowed & pins
    assert not [name for name in pins if re.match("nvidia|cuda|triton", name)]
    assert borrowed <= set(read_requirements(LOCK.with_name("full.txt")))


@pytest.mark.slow
def test_a_failure_shows_what_the_script_said(oracle: Oracle, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="ValueError: forty-two"):
        oracle.run("raise ValueError('forty-two')", folder=tmp_path / "run")


def test_what_cannot_be_installed_leaves_nothing_and_gives_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text(f"colorama==0.4.6 --hash=sha256:{'0' * 64}\n")
    monkeypatch.setattr(tests.oracle, "LOCK", lock)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(CannotInstall, match="No matching distribution found for colorama"):
        install(tmp_path / "build")
    assert [path.name for path in (tmp_path / "build").iterdir()] in ([".oracle.lock"], [])


@pytest.mark.slow
def test_two_processes_at_once_end_with_one_folder(tmp_path: Path) -> None:
    """A wheel made here stands for the lock: neither process disturbs the other."""
    import zipfile

    wheel = tmp_path / "colorless-1-py3-none-any.whl"
    info = "colorless-1.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("colorless.py", "")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: colorless\nVersion: 1\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    lock = tmp_path / "lock.txt"
    lock.write_text(f"colorless==1 --hash=sha256:{sha256_file(wheel)}\n")
    script = (
        "import pathlib, sys, tests.oracle as o\n"
        "o.LOCK = pathlib.Path(sys.argv[1])\n"
        "print(o.install(pathlib.Path(sys.argv[2])).site)"
    )
    environment = os.environ | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    command = [sys.executable, "-c", script, str(lock), str(tmp_path / "build")]
    both = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = {process.communicate()[0].strip() for process in both}
    assert [process.returncode for process in both] == [0, 0]
    (site,) = said
    assert (Path(site) / "colorless.py").is_file()
    assert len(list((tmp_path / "build").glob("*lock-*"))) == 1
