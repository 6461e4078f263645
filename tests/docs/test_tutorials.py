"""The tutorials do what they say: their console blocks are run in a stand-in of a clean clone."""

from pathlib import Path

import pytest

from common.provenance import ROOT
from tests.docs.console import Step, run, stand_in_clone, steps

TUTORIALS = ROOT / "docs" / "tutorials"


def check(name: str, folder: Path) -> Path:
    made = steps((TUTORIALS / name).read_text(encoding="utf-8"))
    clone = stand_in_clone(folder)
    wrong = [
        f"$ {step.command}{printed}[exit code {code}]\n--- the page says\n{step.expected}"
        for step, (printed, code) in zip(made, run(made, clone), strict=True)
        if code or not step.agrees(printed)
    ]
    assert not wrong, "\n".join(wrong)
    return clone


@pytest.mark.slow
def test_the_reviewers(tmp_path: Path) -> None:
    clone = check("reviewer.md", tmp_path)
    assert (clone / "build/figures/figure3.png").stat().st_size > 10_000


@pytest.mark.slow
def test_researchers_from_documents_to_a_row_and_a_point(
    tmp_path: Path,
) -> None:
    clone = check("researcher.md", tmp_path)
    assert (
        clone / "pretrained/models/toy-s-clm-60-mlm40-120/model.safetensors"
    ).is_file()
    assert len(list((clone / "runs").rglob("results.json"))) == 6
    assert "toy-s-clm-60-mlm40-120" in (clone / "build/figures/figure2.csv").read_text()


@pytest.mark.parametrize(
    ("expected", "printed", "agrees"),
    [
        ("a ... c\n", "a b c\n", True),
        ("a ... c\n", "a b\nc\n", False),
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("a\n...\nd\n", "a\nd\n", True),
        ("a\n", "a\nb\n", False),
        ("a.c\n", "abc\n", False),
        ("", "a\n", False),
    ],
)
def test_dots_stand_for_words_or_lines_and_all_else_for_itself(
    expected: str, printed: str, agrees: bool
) -> None:
    assert Step(command="", expected=expected).agrees(printed) == agrees


def test_commands_and_outputs_are_cut_where_they_begin() -> None:
    made = steps("text\n```console\n$ one \\\n  two\nout\n$ three\n```\n")
    assert made == [
        Step(command="one \\\n  two\n", expected="out\n"),
        Step(command="three\n", expected=""),
    ]
