"""docs/tutorial.ipynb runs from its first cell to its last and shows what it showed."""

import base64
import io
import re
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from PIL import Image

import clm_or_mlm as cm
from tests.commands import python
from tests.docs.notebook import NOTEBOOK


def pixels(output: Any) -> np.ndarray:
    return np.asarray(
        Image.open(io.BytesIO(base64.b64decode(output["data"]["image/png"]))).convert(
            "L"
        ),
        float,
    )


@pytest.mark.slow
def test_its_cells_show_what_they_showed(tmp_path: Path) -> None:
    out = tmp_path / "now.ipynb"
    python("-m", "tests.docs.notebook", out, code=0)
    then, now = nbformat.read(NOTEBOOK, as_version=4), nbformat.read(out, as_version=4)
    for one, two in zip(then.cells, now.cells, strict=True):
        for old, new in zip(
            one.get("outputs", []), two.get("outputs", []), strict=True
        ):
            if "image/png" in old.get("data", {}):
                assert pixels(old).shape == pixels(new).shape
                assert np.abs(pixels(old) - pixels(new)).mean() < 1
            else:
                assert old == new, one["source"]


def test_it_uses_every_public_name_and_shows_its_outputs() -> None:
    code = [
        cell
        for cell in nbformat.read(NOTEBOOK, as_version=4).cells
        if cell.cell_type == "code"
    ]
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert [cell["source"] for cell in code[1:] if not cell["outputs"]] == []
    assert set(re.findall(r"\bcm\.(\w+)", text)) == set(cm.__all__)
    assert len(text) < 100_000
    assert str(Path.home()) not in text.replace("/root/", "") and "/tmp/" not in text
