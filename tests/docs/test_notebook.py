"""docs/tutorial.ipynb runs from its first cell to its last and shows what it showed."""

from __future__ import annotations

import base64
import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from PIL import Image

import clm_or_mlm as cm
from common.provenance import ROOT
from tests.docs.notebook import NOTEBOOK


@pytest.fixture(scope="module")
def notebooks(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """The committed notebook, and the same run now, in a process of its own."""
    out = tmp_path_factory.mktemp("notebook") / "now.ipynb"
    done = subprocess.run(
        [sys.executable, "-m", "tests.docs.notebook", str(out)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return nbformat.read(NOTEBOOK, as_version=4), nbformat.read(out, as_version=4)


def pixels(output: Any) -> np.ndarray:
    return np.asarray(
        Image.open(io.BytesIO(base64.b64decode(output["data"]["image/png"]))).convert("L"), float
    )


def test_its_cells_show_what_they_showed(notebooks: tuple[Any, Any]) -> None:
    then, now = notebooks
    for one, two in zip(then.cells, now.cells, strict=True):
        for old, new in zip(one.get("outputs", []), two.get("outputs", []), strict=True):
            if "image/png" in old.get("data", {}):
                assert pixels(old).shape == pixels(new).shape
                assert np.abs(pixels(old) - pixels(new)).mean() < 1
            else:
                assert old == new, one["source"]


def test_every_cell_that_shows_something_has_its_output(notebooks: tuple[Any, Any]) -> None:
    code = [cell for cell in notebooks[0].cells if cell.cell_type == "code"]
    assert [cell["source"] for cell in code[1:] if not cell["outputs"]] == []


def test_it_uses_every_public_name_and_stays_small() -> None:
    used = set(re.findall(r"\bcm\.(\w+)", NOTEBOOK.read_text(encoding="utf-8")))
    assert used == set(cm.__all__)
    assert NOTEBOOK.stat().st_size < 100_000


def test_it_holds_no_path_of_a_machine() -> None:
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert str(Path.home()) not in text.replace("/root/", "") and "/tmp/" not in text
