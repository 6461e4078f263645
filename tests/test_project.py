"""What the project promises about itself: locks, entry points, no host names."""

import re
import subprocess

from common.provenance import ROOT
from tests.locks import read_requirements

TRACKED = subprocess.run(
    [
        "git",
        "-C",
        str(ROOT),
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ],
    capture_output=True,
    text=True,
    check=True,
).stdout.split("\0")[:-1]


def test_every_locked_requirement_has_hashes() -> None:
    for name in ("analysis", "cluster", "docs", "full"):
        text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
        entries = re.split(r"\n(?=[a-z0-9])", text.strip())
        assert len(entries) > 10
        for entry in entries:
            assert re.match(r"[A-Za-z0-9_.\[\]-]+==\S+", entry), entry
            assert "--hash=sha256:" in entry, entry


def test_the_small_lock_holds_the_versions_of_the_full_one() -> None:
    small, full = (
        read_requirements(ROOT / "requirements" / f"{name}.txt")
        for name in ("analysis", "full")
    )
    assert (
        small.items() <= full.items()
        and not {"torch", "transformers", "mosaicml"} & small.keys()
    )


def test_no_file_names_the_host_of_a_package_registry() -> None:
    names = (
        "pyp" + "i.org",
        "python" + "hosted.org",
        "deb.deb" + "ian.org",
        "npm" + "js.org",
    )
    hosts = re.compile("|".join(map(re.escape, names)))
    for name in TRACKED:
        path = ROOT / name
        if path.is_file() and path.suffix not in {".png", ".pdf", ".parquet"}:
            assert not hosts.search(
                path.read_text(encoding="utf-8", errors="ignore")
            ), name


def test_make_help_lists_every_target() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    listed = subprocess.run(
        ["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for group in re.findall(r"^\.PHONY: (.*)$", text, flags=re.MULTILINE):
        for target in group.split():
            assert re.search(rf"make {re.escape(target)}\b", listed), target
