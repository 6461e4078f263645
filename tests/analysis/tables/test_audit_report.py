"""The audit as JSON, Markdown and HTML."""

from __future__ import annotations

import json

from analysis.sources import open_source
from analysis.tables.audit import Audit, audit
from analysis.tables.audit_report import audit_document
from common.tables import show
from tests.analysis.stores import released_source


def page(form: str, found: Audit) -> str:
    return show(audit_document(found), form)


def test_json_has_the_documented_form() -> None:
    content = json.loads(page("json", audit(released_source())))
    assert {"cells", "arithmetic", "summary"} <= set(content)
    assert content["summary"]["all"]["cells"] == 800 and content["summary"]["2"]["cells"] == 60
    assert {"table", "model", "task", "dataset", "status"} <= set(content["cells"][0])


def test_pages_name_source_and_cells() -> None:
    found = audit(released_source(-0.02))
    for text in (page("markdown", found), page("html", found)):
        assert "test" in text
        assert "610m-mlm40-42k" in text
        assert "differs" in text
    assert "<h2>Cells with runs" not in page("html", audit(open_source("published")))


def test_without_runs_no_count_is_printed_and_zero_has_no_sign() -> None:
    text = page("markdown", audit(open_source("published")))
    assert "Cells by table" not in text and "0 differs" not in text
    assert "holds no runs" in text
    assert "-0.00" not in page("markdown", audit(released_source(-0.00002)))
    assert "Of 736 published scores (800 cells with their repeats)" in page(
        "markdown", audit(released_source())
    )
