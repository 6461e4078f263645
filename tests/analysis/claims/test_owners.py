"""A comparison has one owner: the first finding that counts it. `test_clear` holds others to its word."""

from analysis.claims.assessment import Assessment
from analysis.claims.catalogue import ANSWERS, FINDINGS
from analysis.claims.owners import owned_pairs
from analysis.evidence.contrasts import Contrast


def counted(assessment: Assessment) -> dict[tuple[str, frozenset[str]], dict[str, str]]:
    """What each finding counts as ahead, by task and pair: differences that are parts of their own."""
    found: dict[tuple[str, frozenset[str]], dict[str, str]] = {}
    for name in (*FINDINGS, *(one.id for one in ANSWERS.values())):
        for part in assessment.judged[name].counted:
            for result in part.branch.results[: part.branch.result is not None]:
                first, second = result.comparison.sides
                same_task = len(set(result.comparison.places)) == 1
                is_pair = len(first) == len(second) == 1 and same_task
                if is_pair and result.comparison.has_direction:
                    ahead = {"holds": first[0], "fails": second[0]}
                    key = result.task, frozenset((*first, *second))
                    found.setdefault(key, {})[name] = ahead.get(part.counted, "")
    return found


def test_findings_that_share_a_comparison_count_it_alike(
    assessment: Assessment,
) -> None:
    """So it does not matter which of them is what pages, marks and `compare` take."""
    every = counted(assessment)
    models = {model for _, pair in every for model in pair}
    owned = owned_pairs(models, assessment.result_of)
    assert owned.keys() == every.keys() and len(owned) > 60
    for key, by_finding in every.items():
        [(first, ahead), *_] = by_finding.items()
        assert owned[key][::2] == (first, ahead)
        assert set(by_finding.values()) == {ahead}


def test_differences_beside_a_verdict_have_the_owners_word(
    assessment: Assessment,
) -> None:
    every = counted(assessment)
    seen = []
    for judged in assessment.judged.values():
        for beside in judged.reported:
            comparison = beside.branch.node
            if isinstance(comparison, Contrast) and len(comparison.terms) == 2:
                [first], [second] = comparison.sides
                owned = every.get((comparison.tasks[0], frozenset((first, second))), {})
                ahead = {"holds": first, "fails": second}.get(beside.outcome, "")
                seen += [beside.label for word in owned.values() if word == ahead]
                assert set(owned.values()) <= {ahead}, beside.label
    assert len(seen) == 4
