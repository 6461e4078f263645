"""Which changes of a source count as mutants, that a mutant is what a test imports, and the lists of the rooms."""

from __future__ import annotations

import tomllib

import pytest

pytest.importorskip("cosmic_ray")

from tests.mutation.__main__ import ROOT, SETTINGS, SURVIVORS, _Mutated, test_files
from tests.mutation.mutants import mutants

KNOWN = tomllib.loads(SURVIVORS.read_text())

test_files.__test__ = False  # type: ignore[attr-defined]

SOURCE = """\
from __future__ import annotations
from dataclasses import dataclass
@dataclass(frozen=True, kw_only=True)
class A:
    b: int | None = 3
def f(a: int | str, *, b: int | None = None) -> int | None:
    return a < 2
"""


def test_a_mutant_computes_something_else() -> None:
    found = {item.change for item in mutants("m.py", SOURCE, SETTINGS["operators"])}
    assert found == {
        "@dataclass(frozen=True, kw_only=True) -> ",
        "b: int | None = 3 -> b: int | None = 4",
        "b: int | None = 3 -> b: int | None = 2",
        "return a < 2 -> return a <= 2",
        "return a < 2 -> return a >= 2",
        "return a < 2 -> return a < 3",
        "return a < 2 -> return a < 1",
    }


def test_an_import_gets_the_mutant() -> None:
    module = "analysis/records.py"
    loader = _Mutated(module, "x = 1\n")
    spec = loader.find_spec("analysis.records", None)
    assert spec is not None and spec.loader is loader and loader.find_spec("analysis.sources", None) is None
    space: dict[str, object] = {}
    exec(loader.get_code("analysis.records"), space)
    assert space["x"] == 1


def test_every_module_of_the_rooms_is_there_and_has_tests() -> None:
    for module in [module for room in SETTINGS["rooms"].values() for module in room]:
        files = test_files(module)
        assert (ROOT / module).is_file() and files and all((ROOT / file).is_file() for file in files), module


@pytest.mark.slow
def test_every_survivor_has_a_reason_and_its_line_is_in_its_module() -> None:
    for module, changes in KNOWN.items():
        source = " ".join((ROOT / module).read_text().split())
        for change, reason in changes.items():
            assert change.partition(" -> ")[0] in source and reason, (module, change)
