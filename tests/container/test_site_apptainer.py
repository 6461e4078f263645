"""An Apptainer that cannot start is found in time, whatever it does."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from common.errors import UserError
from common.provenance import ROOT
from container import doctor
from container.site import Site, namespace_problem, version_of


def _program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A machine whose Apptainer answers and whose `unshare` works; tests replace either."""
    _program(tmp_path / "bin", "apptainer", "echo apptainer version 1.4.5")
    _program(tmp_path / "bin", "unshare", "exit 0")
    return Site(environ={"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}, root=tmp_path)


def _bin(site: Site) -> Path:
    return Path(site.environ["PATH"].split(":")[0])


HANGS = 'echo "$$" > "$0.pid"; sleep 600 & echo "$!" > "$0.child"; wait'


def test_one_that_answers(site: Site) -> None:
    assert version_of(site) == ("apptainer version 1.4.5", (1, 4))


def test_one_that_hangs_is_one_sentence_and_nothing_of_it_stays(site: Site) -> None:
    _program(_bin(site), "apptainer", HANGS)
    with pytest.raises(UserError, match=r"gave no answer within 1 s, so nothing can run in an image here"):
        version_of(site, 1.0)
    child = int((_bin(site) / "apptainer.child").read_text())
    limit = time.monotonic() + 20
    # A process that nobody has waited for yet is no longer at work either.
    while (state := _state(child)) not in ("gone", "Z"):
        assert time.monotonic() < limit, state
        time.sleep(0.05)


def _state(process: int) -> str:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0]
    except FileNotFoundError:
        return "gone"


def test_one_that_hangs_where_no_namespace_can_be_made(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    _program(_bin(site), "unshare", "exit 1")
    _program(_bin(site), "apptainer", HANGS)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(
        UserError, match=r"no answer within 1 s \(no user namespaces can be made here: `unshare"
    ):
        version_of(site, 1.0)
    # A user other than root is answered without waiting.
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(
        UserError, match=r"^no user namespaces can be made here \(`unshare --user true` fails"
    ):
        version_of(site)


def test_root_and_a_setuid_installation_do_without_namespaces(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _program(_bin(site), "unshare", "exit 1")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert version_of(site)[1] == (1, 4)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    starter = tmp_path / "libexec/apptainer/bin/starter-suid"
    starter.parent.mkdir(parents=True)
    starter.touch()
    assert version_of(site)[1] == (1, 4)


def test_one_that_fails_or_is_missing(site: Site) -> None:
    _program(_bin(site), "apptainer", "echo starter: permission denied; exit 13")
    with pytest.raises(UserError, match=r"ended with code 13: starter: permission denied"):
        version_of(site)
    (_bin(site) / "apptainer").unlink()
    with pytest.raises(UserError, match=r"apptainer is not on PATH; load your site's module"):
        version_of(Site(environ={"PATH": str(_bin(site))}, root=site.root))


def test_no_unshare_leaves_the_answer_to_apptainer(site: Site) -> None:
    (_bin(site) / "unshare").unlink()
    assert namespace_problem(Site(environ={"PATH": str(_bin(site))}, root=site.root)) is None


def test_doctor_says_fail_and_what_to_do(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    _program(_bin(site), "apptainer", HANGS)
    monkeypatch.setattr(doctor, "version_of", lambda at: version_of(at, 1.0))
    line = doctor.apptainer(site)
    assert line.status == "fail"
    assert "gave no answer within 1 s" in line.seen
    assert "site's support" in line.advice


@pytest.mark.parametrize(
    "words",
    [("build", "analysis"), ("run", "x.sif", "analysis"), ("test", "analysis"), ("verify", "analysis")],
)
def test_every_command_says_it_in_one_sentence(site: Site, tmp_path: Path, words: tuple[str, ...]) -> None:
    _program(_bin(site), "apptainer", HANGS)
    (tmp_path / "x.sif").touch()
    # The image has to seem to be there, and the limit is the real one but for its length.
    code = (
        "import sys, pathlib\n"
        "from container import apptainer, build, site, __main__ as m\n"
        "from common.cli import run\n"
        "apptainer.version_of = lambda where: site.version_of(where, 1.0)\n"
        "build.BUILD = pathlib.Path(sys.argv[1])\n"
        "run(m.main, sys.argv[2:])\n"
    )
    for name in ("analysis.sif", "analysis.sif.json"):
        (tmp_path / name).write_text('{"sha256": ""}')
    answer = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), *words],
        cwd=tmp_path,
        env=os.environ | dict(site.environ) | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 2, answer.stderr
    assert answer.stderr.count("\n") == 1
    assert "gave no answer within 1 s" in answer.stderr
