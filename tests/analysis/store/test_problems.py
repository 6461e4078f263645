"""Problems as sentences, records and a summary."""

from __future__ import annotations

from analysis.store.problems import HARMLESS, KINDS, Problem, problem_records, summary

BROKEN = Problem(path="results/a", kind="broken", sentence="is empty")
STRAY = Problem(path="results/b", kind="stray", sentence="is ignored")
MISSING = Problem(path="results/c", kind="missing", sentence="has 29 of its 30 runs")


def test_a_problem_reads_as_path_and_sentence() -> None:
    assert str(BROKEN) == "results/a: is empty"
    assert problem_records([BROKEN]) == [{"path": "results/a", "kind": "broken", "sentence": "is empty"}]
    assert sorted([STRAY, BROKEN]) == [BROKEN, STRAY]


def test_the_summary_counts_what_costs_a_run() -> None:
    assert set(KINDS) > HARMLESS
    assert [problem.harmless for problem in (BROKEN, STRAY, MISSING)] == [False, False, True]
    assert summary([MISSING]) == summary([]) == "no problems"
    assert summary([STRAY, MISSING]) == "1 problem (1 stray)"
    assert summary([STRAY, BROKEN, BROKEN]) == "3 problems (2 broken, 1 stray)"
