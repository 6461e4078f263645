"""Signed images, by Apptainer itself on a small image."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from common.errors import UserError
from common.files import sha256_file
from container.build import record_of
from container.signing import sign, signature_problem


def _keys(folder: Path, name: str = "signing") -> tuple[Path, Path]:
    private, public = folder / f"{name}.pem", folder / f"{name}.pub.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(private)], check=True)
    private.chmod(0o600)
    subprocess.run(["openssl", "pkey", "-in", str(private), "-pubout", "-out", str(public)], check=True)
    return private, public


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here")
def test_keys_that_others_can_read_and_files_that_are_none_are_refused(tmp_path: Path) -> None:
    private, public = _keys(tmp_path)
    image = tmp_path / "x.sif"
    with pytest.raises(UserError, match=r"x\.sif does not exist"):
        sign(image, private)
    image.touch()
    with pytest.raises(UserError, match=r"none\.pem does not exist"):
        sign(image, tmp_path / "none.pem")
    public.chmod(0o600)
    with pytest.raises(UserError, match="is no private key"):
        sign(image, public)
    private.chmod(0o644)
    with pytest.raises(UserError, match="can be read by others: chmod 600"):
        sign(image, private)
    with pytest.raises(UserError, match="hands out the public key"):
        signature_problem(image, tmp_path / "none.pem")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("apptainer") is None, reason="no Apptainer here")
@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here")
def test_a_signature_verifies_and_a_changed_byte_or_another_key_fails_it(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    (root / "etc").mkdir()
    (root / "etc" / "word").write_text("word\n")
    shutil.copy("/bin/sh", root / "bin" / "sh")
    image = tmp_path / "x.sif"
    subprocess.run(["apptainer", "--quiet", "build", str(image), str(root)], check=True, capture_output=True)
    before = sha256_file(image)
    record_of(image).write_text(json.dumps({"sha256": before, "bytes": image.stat().st_size}))
    private, public = _keys(tmp_path)
    assert signature_problem(image, public) is not None  # not signed yet
    sign(image, private)
    assert signature_problem(image, public) is None
    record = json.loads(record_of(image).read_text())
    assert record["unsigned_sha256"] == before and record["sha256"] == sha256_file(image) != before
    _, other = _keys(tmp_path, "other")
    assert signature_problem(image, other) is not None
    content = bytearray(image.read_bytes())
    content[len(content) // 2] ^= 1
    image.write_bytes(content)
    assert signature_problem(image, public) is not None
