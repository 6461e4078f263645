"""The image's own test: what it must import, and one figure. The full image runs `workflow.selftest` after it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from common.cli import run
from common.errors import UserError, nearest
from container.start import cache_environment, scratch_of

__all__ = ["IMPORTS", "start"]

IMPORTS = {
    "analysis": ("numpy", "scipy", "pandas", "pyarrow", "statsmodels.api", "matplotlib", "orjson", "jinja2"),
    "full": (
        "torch", "transformers", "tokenizers", "safetensors", "composer", "streaming", "datasets", "sklearn",
    ),
}  # fmt: skip
"""Modules that each image must import; the full one must import the analysis' too."""


def start(*words: str) -> None:
    """Run a room or a shortcut in a process of its own; `UserError` with its last words when it fails."""
    command = [sys.executable, "-m", "container.start", *words]
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode:
        last = (answer.stderr.strip() or "no message").splitlines()[-1]
        raise UserError(f"`{' '.join(words)}` ended with code {answer.returncode}: {last}")


def _imports(image: str) -> None:
    for name in (*IMPORTS["analysis"], *(IMPORTS["full"] if image == "full" else ())):
        importlib.import_module(name)
    if image == "analysis":
        for name in ("torch", "transformers"):
            if importlib.util.find_spec(name) is not None:
                raise UserError(f"the analysis image must not hold {name}")


def _figure(folder: Path) -> None:
    start("reproduce-figure3", "--out", str(folder))
    for suffix in ("pdf", "png", "svg", "csv"):
        if not (folder / f"figure3.{suffix}").is_file():
            raise UserError(f"figure3.{suffix} was not written")


def main(argv: Sequence[str]) -> int | None:
    image = argv[0] if len(argv) == 1 else ""
    if image not in IMPORTS:
        raise UserError(
            f"container.selftest takes the image: {' or '.join(IMPORTS)}{nearest(image, IMPORTS)}"
        )
    os.environ.update(cache_environment(scratch_of(os.environ), os.environ))
    _imports(image)
    with tempfile.TemporaryDirectory() as folder:
        _figure(Path(folder))
    sys.stdout.write(f"{image} image: imports and Figure 3 work\n")
    return None


if __name__ == "__main__":
    run(main)
