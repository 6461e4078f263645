"""What `import clm_or_mlm` offers: the names of its docstring, imported when they are used."""

import json
import re

import pytest
import yaml
from cffconvert import Citation

import clm_or_mlm
from clm_or_mlm import api
from common.provenance import ROOT


def test_the_names_are_those_of_the_api() -> None:
    assert clm_or_mlm.__all__ == dir(clm_or_mlm) == api.__all__ == sorted(api.__all__)
    assert set(
        re.findall(r"`(\w+)`", (clm_or_mlm.__doc__ or "").partition("has them all")[2])
    ) == set(api.__all__)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="'clm_or_mlm' has no attribute 'lod'"):
        clm_or_mlm.lod  # noqa: B018


def test_archives_find_version_licence_and_the_paper() -> None:
    text = (ROOT / "CITATION.cff").read_text("utf-8")
    Citation(text).validate()
    citation = yaml.safe_load(text)
    paper = citation["preferred-citation"]
    assert (
        paper["title"]
        == "Should We Still Pretrain Encoders with Masked Language Modeling?"
    )
    assert paper["identifiers"][0]["value"] == "arXiv:2507.00994"
    codemeta, zenodo = (
        json.loads((ROOT / name).read_text("utf-8"))
        for name in ("codemeta.json", ".zenodo.json")
    )
    assert (
        citation["version"]
        == codemeta["version"]
        == zenodo["version"]
        == clm_or_mlm.__version__
    )
    assert (
        citation["license"]
        == zenodo["license"]
        == codemeta["license"].rpartition("/")[2]
        == "Apache-2.0"
    )
    assert citation["title"] == zenodo["title"] and codemeta["name"] == "clm-or-mlm"
    assert codemeta["referencePublication"]["url"] == paper["url"]
    said = codemeta["description"].replace("arXiv ", "arXiv:")
    assert zenodo["related_identifiers"][0]["identifier"] in said
