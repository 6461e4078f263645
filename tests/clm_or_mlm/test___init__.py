"""What `import clm_or_mlm` offers: the names of its docstring, imported when they are used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import clm_or_mlm
from common.provenance import ROOT


@pytest.mark.parametrize("name", clm_or_mlm.__all__)
def test_every_name_is_there_and_documented(name: str) -> None:
    assert getattr(clm_or_mlm, name).__doc__ or name == "FIGURES"
    assert name in (clm_or_mlm.__doc__ or "")


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="'clm_or_mlm' has no attribute 'open_sorce'"):
        clm_or_mlm.open_sorce  # noqa: B018


def test_a_table_from_the_papers_cells() -> None:
    source = clm_or_mlm.open_source("published")
    assert len(clm_or_mlm.published_scores()) == len(source.scores(clm_or_mlm.Settings()))
    assert clm_or_mlm.build_table(10, source=source).number == 10


def test_the_import_itself_is_light() -> None:
    code = "import sys, clm_or_mlm; sys.exit('pandas' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
