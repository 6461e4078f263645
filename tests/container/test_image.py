import os
import subprocess
import sys
from pathlib import Path

import pytest

from common.errors import UserError
from common.provenance import ROOT
from container.image import Image, build, mirror_of, snapshot_of
from container.machine import Machine

ANALYSIS = Image(name="analysis")
FULL = Image(name="full")


def _apt(folder: Path, **files: str) -> Path:
    (folder / "sources.list.d").mkdir(parents=True)
    for name, text in files.items():
        (folder / name.replace("__", "/").replace("_", ".")).write_text(text)
    return folder


def test_the_mirror_is_the_environments_then_the_machines(tmp_path: Path) -> None:
    apt = _apt(tmp_path, sources_list="# deb http://old.example/debian bookworm main\n"
                                      "deb [arch=amd64] http://near.example/debian bookworm main\n")  # fmt: skip
    assert mirror_of({}, apt) == "http://near.example/debian"
    assert mirror_of({"DEBIAN_MIRROR": "http://given.example/debian"}, apt) == "http://given.example/debian"


def test_deb822_sources_are_read_and_other_repositories_passed_over(tmp_path: Path) -> None:
    apt = _apt(tmp_path)
    (apt / "sources.list.d" / "a.list").write_text("deb http://packages.example/tool stable main\n")
    (apt / "sources.list.d" / "debian.sources").write_text(
        "Types: deb\n# http://dated.example/archive/debian/20250520T000000Z\nURIs: http://near.example/debian/\n"
    )
    assert mirror_of({}, apt) == "http://near.example/debian/"


def test_no_mirror_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match="no Debian mirror is configured on this machine; give one with --mirror"
    ):
        mirror_of({}, tmp_path)


def test_the_recorded_date_is_read(tmp_path: Path) -> None:
    lock = tmp_path / "debian.lock"
    with pytest.raises(UserError, match="--relock"):
        snapshot_of(lock)
    lock.write_text("# bookworm 20261121T000000Z: packages\n")
    assert snapshot_of(lock) == "20261121T000000Z"


def test_too_little_space_is_found_before_anything_is_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Machine, "free_gb", lambda *_: 1.0)
    with pytest.raises(UserError, match=r"has 1.0 GB free, but the build needs 20 GB; set APPTAINER_TMPDIR"):
        build(FULL, mirror="http://near.example/debian")


def test_definitions_name_no_host_and_share_their_environment() -> None:
    texts = {one.name: one.definition.read_text("utf-8") for one in (ANALYSIS, FULL)}
    for name, text in texts.items():
        assert "http" not in text
        assert f"clm-or-mlm.image {name}\n" in text
        for section in ("%labels", "%help", "%post", "%environment", "%runscript", "%test"):
            assert f"\n{section}\n" in text
    parts = [text.split("%environment")[1].split("%runscript")[0].replace(name, "")
             for name, text in texts.items()]  # fmt: skip
    assert parts[0] == parts[1]


@pytest.mark.slow
def test_the_full_images_own_test_passes_outside_too(tmp_path: Path) -> None:
    script = FULL.definition.read_text("utf-8").split("%test\n")[1]
    environ = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(tmp_path),
    }
    answer = subprocess.run(["sh", "-c", script], env=environ, cwd=tmp_path, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr
