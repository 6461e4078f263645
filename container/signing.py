"""Signed images: a signature in the image's file that a public key verifies, by Apptainer itself.

A record next to an image guards against accidents; a signature also against someone who replaces both.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

from common.errors import UserError
from common.files import sha256_file, write_text
from container.apptainer import apptainer
from container.build import record_of

__all__ = ["PASSPHRASE", "sign", "signature_problem"]

PASSPHRASE = "APPTAINER_SIGN_PASSPHRASE"
"""Environment variable with the passphrase of an encrypted private key, handed to Apptainer's prompt."""


def sign(image: Path, key: Path) -> None:
    """Sign an image with a private key, and write its new SHA-256 into its record.

    Args:
        image: the image file, changed in place.
        key: an RSA, ECDSA or Ed25519 private key (PEM), readable by its owner alone.

    Raises:
        UserError: no image or key, a key that others may read, or Apptainer refuses.
    """
    for path in (image, key):
        if not path.is_file():
            raise UserError(f"{path} does not exist")
    if stat.S_IMODE(key.stat().st_mode) & 0o077:
        raise UserError(f"{key} can be read by others: chmod 600 {key}, and do not use it if they may have")
    if "PRIVATE KEY" not in key.read_text("utf-8", errors="replace"):
        raise UserError(
            f"{key} is no private key (PEM); make one: openssl genpkey -algorithm ed25519 -out KEY"
        )
    unsigned = sha256_file(image)
    answer = subprocess.run(
        [apptainer(), "sign", "--key", str(key), str(image)],
        capture_output=True,
        text=True,
        input=f"{os.environ[PASSPHRASE]}\n" if PASSPHRASE in os.environ else None,
    )
    if answer.returncode:
        last = (answer.stdout + answer.stderr).strip().splitlines()[-1:] or ["no message"]
        raise UserError(f"{image} could not be signed: {last[0]}")
    record = record_of(image)
    if record.is_file():
        content = json.loads(record.read_text("utf-8"))
        # What another build of the commit must have, before anyone signs it.
        content["unsigned_sha256"] = content.get("unsigned_sha256", unsigned)
        content["sha256"], content["bytes"] = sha256_file(image), image.stat().st_size
        write_text(record, json.dumps(content, indent=1) + "\n")


def signature_problem(image: Path, public: Path) -> str | None:
    """Return why an image's signature is not that of a public key, or None."""
    if not public.is_file():
        raise UserError(f"{public} does not exist; whoever signed the image hands out the public key")
    answer = subprocess.run(
        [apptainer(), "verify", "--key", str(public), str(image)], capture_output=True, text=True
    )
    if answer.returncode == 0:
        return None
    lines = (answer.stdout + answer.stderr).strip().splitlines()
    return (lines[-1] if lines else "no message").removeprefix("FATAL:").strip()
