"""The page of findings: the committed one, and its sections."""

from __future__ import annotations

from pathlib import Path

from analysis.__main__ import main
from analysis.claims.catalogue import CLAIMS
from analysis.claims.grades import GRADES

ROOT = Path(__file__).parents[4]


def test_the_committed_findings_are_those_generated_now(tmp_path):
    out = tmp_path / "findings.md"
    assert main(["claims", "--source", "published", "--format", "markdown", "--out", str(out)]) == 0
    committed = (ROOT / "docs" / "findings.md").read_text()
    assert out.read_text() == committed, "docs/findings.md is old: make findings"


def test_the_page_has_a_sentence_for_every_finding():
    page = (ROOT / "docs" / "findings.md").read_text()
    for name, claim in CLAIMS.items():
        section = page.split(f"\n### {name}\n")[1].split("\n### ")[0]
        assert claim.statement in section
        words = [grade.capitalize() for grade in GRADES]
        assert any(f"\n{word}" in section for word in words), name
