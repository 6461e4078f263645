from __future__ import annotations

import json
from pathlib import Path

import pytest

from common.errors import UserError
from common.manifest import manifest_text, read_manifest, write_manifest

CONTENT = {
    "name": "é\n",
    "count": 3,
    "rate": 1e-05,
    "large": 1.5e300,
    "nested": {"b": [1, None, True], "a": {}},
}


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_manifest(path, CONTENT)
    assert read_manifest(path, "write it again") == CONTENT
    with pytest.raises(FileNotFoundError):
        read_manifest(tmp_path / "absent.json", "write it again")


def test_no_flipped_bit_passes(tmp_path: Path) -> None:
    """Every bit of the file: letters' case, layout and the seal itself included."""
    path = tmp_path / "a.json"
    good = manifest_text(CONTENT).encode()
    for bit in range(8 * len(good)):
        data = bytearray(good)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        with pytest.raises(UserError, match="write it again"):
            read_manifest(path, "write it again")


def test_other_layouts_and_unsealed_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    sealed = json.loads(manifest_text(CONTENT))
    for text in (
        json.dumps(sealed),
        json.dumps(CONTENT),
        "[]",
        "",
        manifest_text(CONTENT) + "\n",
        "[" * 100_000,
        '{"a": ' + "[" * 900 + "]" * 900 + ', "seal": ""}',
        manifest_text(CONTENT).replace('"count": 3', '"count": 3, "count": 3'),
    ):
        path.write_text(text)
        with pytest.raises(
            UserError, match=r"a\.json is damaged or from an earlier version .*write it again"
        ):
            read_manifest(path, "write it again")
