"""An --out that cannot be written is refused before anything is computed, by every command that has one."""

from pathlib import Path

import pytest

from clm_or_mlm.__main__ import COMMANDS, app_of, main
from tests.messages import refused


def writing() -> dict[str, bool]:
    """Every command with --out, and whether that is a file."""
    found = {}
    for name in COMMANDS:
        app = app_of(words := name.split())
        function = app[words[0]] if len(words) == 1 else app[words[0]][words[1]]
        for argument in function.assemble_argument_collection():
            if argument.name == "--out":
                found[name] = argument.parameter.metavar == "FILE"
    return found


def test_a_place_that_cannot_be_is_named_and_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    found = writing()
    assert len(found) > 15 and found["claims"] and not found["figure"]
    for name, is_file in found.items():
        wanted, other = ("file", "folder") if is_file else ("folder", "file")
        for place, why in {
            "/proc/below/x": "cannot be made in /proc",
            "file/below": f"cannot be made in {tmp_path / 'file'}",
            "loop": "loop",
            other: f"is a {other}, but a {wanted} is needed",
        }.items():
            with refused(f"--out {place} ", why, f"; choose another {wanted}"):
                main([*name.split(), "--out", place])
    assert sorted(path.name for path in tmp_path.rglob("*")) == [
        "file",
        "folder",
        "loop",
    ]
    assert (tmp_path / "file").read_text() == "x"
