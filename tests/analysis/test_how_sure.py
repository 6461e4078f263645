"""docs/how-sure.md has the numbers that its script prints."""

from common.provenance import ROOT
from tests.analysis.how_sure import lines


def test_every_line_of_the_script_is_on_the_page() -> None:
    page = " ".join((ROOT / "docs" / "how-sure.md").read_text("utf-8").split())
    printed = list(lines())
    assert len(printed) > 25 and [line for line in printed if line not in page] == []
