"""The tests mirror the rooms by name: whoever knows a module knows where its tests are, and the other way round."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.provenance import ROOT
from tests.test_imports import ALLOWED

TESTS = ROOT / "tests"

CLAIMS = "tests/analysis/claims/test_catalogue.py"

ELSEWHERE = {
    "analysis/claims/catalogue/continued.py": CLAIMS,
    "analysis/claims/catalogue/dynamics.py": CLAIMS,
    "analysis/claims/catalogue/objective.py": CLAIMS,
    "analysis/claims/catalogue/ratio.py": CLAIMS,
    "analysis/claims/catalogue/terms.py": CLAIMS,
    "analysis/claims/catalogue/two_stage.py": CLAIMS,
    "analysis/records.py": "tests/analysis/statistics/test_scores_table.py",
    "miniature/folders.py": "tests/miniature/test_plan.py",
    "miniature/untrained.py": "tests/miniature/pipeline/test_pipeline_kills.py",
    "pretraining/data/shard_settings.py": "tests/pretraining/data/test_build_shards.py",
}
"""Modules without a test file of their name, each with the test that runs it."""

ACROSS = {
    "clm_or_mlm/test_one_interval.py": "every output that prints a 95 % interval",
    "paper_figures/test_texts_of_all_figures.py": "every figure, from every kind of source",
    "paper_figures/figures/test_miniature.py": "every figure, from the committed miniature",
    "paper_figures/figures/test_published.py": "every figure, from the published cells",
    "pretraining/test_seams.py": "which modules may know Composer, streaming and torch",
}
"""Test files of a room that belong to no single module, each with what they test."""


def is_module(path: Path) -> bool:
    return path.name not in ("__init__.py", "__main__.py")


MODULES = sorted(
    str(path.relative_to(ROOT)) for room in ALLOWED for path in (ROOT / room).rglob("*.py") if is_module(path)
)
FILES = sorted(
    str(path.relative_to(TESTS)) for room in ALLOWED for path in (TESTS / room).rglob("test_*.py")
)  # fmt: skip


def files_of(module: str) -> list[Path]:
    """Return the test files of a module: `test_<module>.py`, or several, one for each aspect, in a folder if many."""
    path = Path(module)
    folder = TESTS / path.parent
    return [
        file
        for place in (folder, folder / path.stem)
        for file in [place / f"test_{path.stem}.py", *place.glob(f"test_{path.stem}_*.py")]
        if file.is_file()
    ]


@pytest.mark.parametrize("module", MODULES)
def test_a_module_has_tests_of_its_name(module: str) -> None:
    if module in ELSEWHERE:
        assert (ROOT / ELSEWHERE[module]).is_file()
        assert not files_of(module), "it has tests of its own now"
    else:
        assert files_of(module), f"write tests/{Path(module).parent}/test_{Path(module).name}"


@pytest.mark.parametrize("file", FILES)
def test_a_test_file_has_the_name_of_a_module_or_of_a_room(file: str) -> None:
    path = ROOT / file
    words = path.stem.removeprefix("test_").split("_")
    names = ["_".join(words[:count]) for count in range(1, len(words) + 1)]
    own_folder = path.parent.name in names and path.parent.with_suffix(".py").is_file()
    named = own_folder or any(
        (path.parent / f"{name}.py").is_file() or (path.parent / name).is_dir() for name in names
    )
    assert named != (file in ACROSS), file


def test_the_lists_of_exceptions_name_what_is_there() -> None:
    assert set(ELSEWHERE) <= set(MODULES)
    assert set(ACROSS) <= set(FILES)
