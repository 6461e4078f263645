"""The page of findings: the committed one, and its sections."""

from __future__ import annotations

from pathlib import Path

from analysis.claims.catalogue import CLAIMS
from analysis.claims.grades import GRADES
from clm_or_mlm.__main__ import main

ROOT = Path(__file__).parents[4]


def test_the_committed_findings_are_those_generated_now(tmp_path):
    out = tmp_path / "findings.md"
    assert (
        main(["claims", "--source", "published", "--opinion", "--format", "markdown", "--out", str(out)]) == 0
    )
    committed = (ROOT / "docs" / "findings.md").read_text()
    assert out.read_text() == committed, "docs/findings.md is old: make findings"


def test_the_page_has_a_grade_and_a_section_for_every_finding_and_is_short():
    page = (ROOT / "docs" / "findings.md").read_text()
    for name, claim in CLAIMS.items():
        [row] = [line for line in page.splitlines() if line.startswith(f"| [{name}](#{name.lower()}) |")]
        assert row.split(" | ")[2] in GRADES
        section = page.split(f"\n### {name}\n")[1].split("\n### ")[0]
        assert claim.statement in section and claim.remark in section
        assert "Most adverse: " in section or "Cannot be tested: needs individual runs." in section
    assert len(page.split()) < 2_750
