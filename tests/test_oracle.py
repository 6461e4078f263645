"""The oracle: its lock installs next to the torch of the tests, and what it computes is sentence-transformers' own."""

import re
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tests.commands import python
from tests.locks import read_requirements
from tests.oracle import LOCK, Oracle

VERSIONS = """
import sys, datasets, numpy, sentence_transformers, tokenizers, torch, transformers
modules = (datasets, numpy, sentence_transformers, tokenizers, torch, transformers)
answer = {module.__name__: [module.__version__.split("+")[0], module.__file__] for module in modules}
answer["ours"] = [name for name in sys.modules if name.split(".")[0] in ("common", "benchmarks", "pretraining")]
answer["given"] = given
"""


@pytest.mark.slow
def test_it_holds_the_papers_versions_and_borrows_torch(
    oracle: Oracle, tmp_path: Path
) -> None:
    import torch

    found = oracle.run(VERSIONS, folder=tmp_path / "run", number=0.1, path=tmp_path)
    assert found.pop("given") == {"number": 0.1, "path": str(tmp_path)}
    assert found.pop("ours") == []
    pins = read_requirements(LOCK)
    assert (pins["sentence-transformers"], pins["transformers"]) == ("3.4.1", "4.48.3")
    for name in ("datasets", "sentence_transformers", "tokenizers", "transformers"):
        version, file = found[name]
        assert version == pins[canonicalize_name(name)]
        assert Path(file).is_relative_to(oracle.site)
    for name in ("numpy", "torch"):
        assert not Path(found[name][1]).is_relative_to(oracle.site)
    assert found["torch"][0] == torch.__version__.split("+")[0]


@pytest.mark.slow
def test_nothing_of_it_asks_for_other_versions(oracle: Oracle, tmp_path: Path) -> None:
    """What is borrowed suits it: pip finds no conflict of a package of the oracle."""
    done = python("-P", "-m", "pip", "check", **oracle.environment(tmp_path))
    lines = [
        line
        for line in done.stdout.splitlines()
        if line != "No broken requirements found."
    ]
    assert {canonicalize_name(line.split()[0]) for line in lines}.isdisjoint(
        read_requirements(LOCK)
    ), done.stdout


def test_what_is_borrowed_is_not_in_its_lock() -> None:
    lines = LOCK.with_name("oracle-borrowed.txt").read_text().splitlines()
    borrowed = {line for line in lines if not line.startswith("#")}
    pins = set(read_requirements(LOCK))
    assert borrowed and not borrowed & pins
    assert not [name for name in pins if re.match("nvidia|cuda|triton", name)]
    assert borrowed <= set(read_requirements(LOCK.with_name("full.txt")))
