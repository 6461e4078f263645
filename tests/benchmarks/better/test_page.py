"""The table at the head of docs/build-an-encoder.md is that of the result files."""

import json
from statistics import fmean

import numpy as np
import pytest

from common.provenance import ROOT
from tests.benchmarks.better.scores import RESULTS, SETS_FILE
from tests.benchmarks.better.table import by_text, difference, found

ROWS = {
    "BM25": ("a-bm25-nq", "a-bm25-squad", "a-bm25-qmsum"),
    "MiniLM untrained": (
        "a-minilm-nq-128",
        "a-minilm-squad-128",
        "a-minilm-qmsum-128",
    ),
    "MiniLM, 250 updates on pairs": (
        "b-minilm-pairs-nq-128-seed*",
        "",
        "b-minilm-pairs-qmsum-128-seed*",
    ),
    "SmolLM2 as loaded": (
        "d-smollm2-as-loaded-nq-64",
        "",
        "d-smollm2-as-loaded-qmsum-64",
    ),
    "SmolLM2 both ways, untrained": (
        "d-smollm2-both-ways-nq-64",
        "",
        "d-smollm2-both-ways-qmsum-64",
    ),
    "SmolLM2, 100 updates of MLM": (
        "d-smollm2-mlm-nq-64-seed*",
        "",
        "d-smollm2-mlm-qmsum-64-seed*",
    ),
    "SmolLM2, 25 of CLM, 75 of MLM": (
        "d-smollm2-clm-mlm-nq-64-seed*",
        "",
        "d-smollm2-clm-mlm-qmsum-64-seed*",
    ),
}


@pytest.mark.parametrize("title", ROWS)
def test_a_row_of_the_page_is_its_result_files(title: str) -> None:
    cells = [""] * 3
    for place, name in enumerate(ROWS[title]):
        if name:
            paths = list(RESULTS.glob(f"{name}.json"))
            scores = [json.loads(path.read_text())["ndcg_cut_10"] for path in paths]
            cells[place] = f"{fmean(scores):.1f}"
    page = (ROOT / "docs" / "build-an-encoder.md").read_text()
    rows = [line.split("|")[1:-1] for line in page.splitlines() if title in line]
    assert [title, *cells] in [[cell.strip() for cell in row] for row in rows]


PAIRS = "b-minilm-pairs-qmsum-128"
MLM, BOTH_WAYS = "d-smollm2-mlm", "d-smollm2-both-ways"
CLM_MLM = "d-smollm2-clm-mlm"


@pytest.mark.parametrize(
    ("first", "second", "cluster", "sentence"),
    [
        (PAIRS, "a-minilm-qmsum-128", "", "pairs add {0} [{1}, {2}]"),
        (PAIRS, "a-bm25-qmsum", "", "lead BM25 by {0} [{1}, {2}]"),
        (PAIRS, "a-bm25-qmsum", "qmsum", "over other meetings that is [{1}, {2}]"),
        ("b-minilm-pairs-nq-128", "a-minilm-nq-128", "", "they add {0} [{1}, {2}]"),
        (
            f"{MLM}-qmsum-64",
            f"{BOTH_WAYS}-qmsum-64",
            "",
            "of MLM add {0} [{1}, {2}] on QMSum (two",
        ),
        (f"{CLM_MLM}-nq-64", f"{MLM}-nq-64", "", "(one seed: +{0} [{1}, {2}])"),
    ],
)
def test_a_gain_on_the_page_is_the_tables(
    first: str, second: str, cluster: str, sentence: str
) -> None:
    results = found()
    clusters = json.loads(SETS_FILE.read_text())
    labels = np.array(clusters[cluster]) if cluster else None
    gain = difference(by_text(results[first]), by_text(results[second]), labels)
    numbers = [f"{value:.1f}" for value in (gain.effect, *gain.interval())]
    page = (ROOT / "docs" / "build-an-encoder.md").read_text()
    assert sentence.format(*numbers) in " ".join(page.split())


def test_the_two_seeds_on_the_page_are_the_results() -> None:
    scores = [
        json.loads((RESULTS / f"{MLM}-nq-64-seed{seed}.json").read_text())[
            "ndcg_cut_10"
        ]
        for seed in (0, 1)
    ]
    gain = difference(
        by_text(found()[f"{MLM}-nq-64"]), by_text(found()[f"{BOTH_WAYS}-nq-64"])
    )
    page = " ".join((ROOT / "docs" / "build-an-encoder.md").read_text().split())
    assert f"its two seeds score {scores[0]:.1f} and {scores[1]:.1f}" in page
    low, high = gain.interval()
    assert low < 0 < high  # so it is not shown that MLM helps there
