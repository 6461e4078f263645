"""The table at the head of docs/build-an-encoder.md is that of the result files."""

import json

import pytest

from common.provenance import ROOT
from tests.benchmarks.better.scores import RESULTS

ROWS = {
    "BM25": ("a-bm25-nq", "a-bm25-squad", "a-bm25-qmsum"),
    "MiniLM untrained": (
        "a-minilm-nq-128",
        "a-minilm-squad-128",
        "a-minilm-qmsum-128",
    ),
    "MiniLM, 250 updates on pairs (one seed)": (
        "",
        "",
        "b-minilm-pairs-qmsum-128-seed0",
    ),
}


@pytest.mark.parametrize("title", ROWS)
def test_a_row_of_the_page_is_its_result_files(title: str) -> None:
    cells = [""] * 3
    for place, name in enumerate(ROWS[title]):
        if name:
            score = json.loads((RESULTS / f"{name}.json").read_text())["ndcg_cut_10"]
            cells[place] = f"{score:.1f}"
    page = (ROOT / "docs" / "build-an-encoder.md").read_text()
    rows = [line.split("|")[1:-1] for line in page.splitlines() if title in line]
    assert [title, *cells] in [[cell.strip() for cell in row] for row in rows]
