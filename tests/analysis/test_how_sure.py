"""docs/how-sure.md and docs/claims.md have the numbers that their script prints."""

from analysis.published_cells import published_values
from common.provenance import ROOT
from tests.analysis.how_sure import lines, redrawn, without_a_difference


def page(name: str) -> str:
    return " ".join((ROOT / "docs" / name).read_text("utf-8").split())


def test_every_line_of_the_script_is_on_the_page() -> None:
    printed = list(lines())
    how_sure = page("how-sure.md")
    assert (
        len(printed) > 25 and [line for line in printed if line not in how_sure] == []
    )
    assert without_a_difference().lower() in page("claims.md").lower()


def test_margins_are_compared_with_printed_intervals() -> None:
    cells = published_values().query("dataset == 'average'")
    half = cells.groupby("task")["ci95"].median().sort_values()
    assert (half.index[0], half.index[-1]) == ("TC", "QA")
    words = f"(median half-width {half['TC']:.2f} and {half['QA']:.2f})"
    assert words in page("claims.md")


def test_alike_models_are_rarely_answered_and_never_surely() -> None:
    alike = redrawn(4_000, differ=False)
    assert alike.answered.mean() <= 0.08 and alike.sure.mean() <= 0.08
