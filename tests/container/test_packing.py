"""How images are packed."""

from __future__ import annotations

import json
from pathlib import Path

from common.provenance import ROOT
from container.packing import labels_of, packs_with_words, same_bytes, squashfs_options
from container.sif import BUILD_DATE


def test_labels_are_those_of_the_definition_filled_and_dated_by_the_commit() -> None:
    definition = (ROOT / "container" / "analysis.def").read_text("utf-8")
    found = labels_of(definition, {"COMMIT": "abc", "LOCK": "00", "SNAPSHOT": "2026"}, 0)
    assert found["org.opencontainers.image.revision"] == "abc"
    assert found["clm-or-mlm.debian"] == "bookworm 2026"
    assert found["org.opencontainers.image.title"] == "clm-or-mlm analysis"
    assert found[BUILD_DATE].startswith("Thursday_01_January_1970")
    assert not any("{{" in value for value in found.values())


def test_apptainers_own_labels_are_left_out_and_ours_laid_in_their_place(tmp_path: Path) -> None:
    (words, line) = same_bytes(squashfs_options("zstd", (1, 4)), tmp_path, {"b": "2", "a": "1"}, 7)
    assert words == "--mksquashfs-args"
    assert line.startswith("-comp zstd -Xcompression-level 6 -all-time 7 -mkfs-time 7 -ef ")
    hidden = (tmp_path / "hidden").read_text().splitlines()
    made = (tmp_path / "made").read_text().splitlines()
    assert f"/.singularity.d/labels.json f 0644 0 0 cat {tmp_path}/labels.json" in made
    assert "/tmp d 1777 0 0" in made and f"/etc/resolv.conf f 0644 0 0 cat {tmp_path}/empty" in made
    # What is laid in a place is left out there first.
    assert {line.split()[0].lstrip("/") for line in made} <= set(hidden)
    assert {"etc/machine-id", "var/log", "var/cache/ldconfig/aux-cache"} <= set(hidden)
    assert json.loads((tmp_path / "labels.json").read_text()) == {"a": "1", "b": "2"}
    assert same_bytes([], tmp_path, {}, 7)[1].startswith("-all-time 7")


def test_old_apptainers_take_no_words() -> None:
    assert packs_with_words((1, 3)) and not packs_with_words((1, 2))


def test_a_builds_scripts_remove_nothing_where_the_machines_own_folders_are_shown() -> None:
    """Apptainer shows /tmp, /var/tmp and the home of the machine while it builds."""
    scripts = [
        (ROOT / "container" / name).read_text("utf-8") for name in ("post.sh", "analysis.def", "full.def")
    ]
    for text in scripts:
        for line in text.splitlines():
            if line.strip().startswith(("rm ", "find ")):
                assert all(
                    word.startswith(("/var/lib/apt/lists/", "/usr/share/")) for word in line.split()[2:]
                ), line
