"""A comparison has one owner: the first finding that counts it. `test_clear` holds others to its word."""

from analysis.claims.assessment import Assessment
from analysis.claims.catalogue import ANSWERS, FINDINGS
from analysis.claims.owners import owned_pairs


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


def test_findings_that_share_a_comparison_count_it_as_the_first_does(
    assessment: Assessment,
) -> None:
    """Or the later one is about more: it is not what pages, marks and `compare` take."""
    every = counted(assessment)
    models = {model for _, pair in every for model in pair}
    owned = owned_pairs(models, assessment.result_of)
    assert owned.keys() == every.keys() and len(owned) > 60
    for key, by_finding in every.items():
        [(first, ahead), *_] = by_finding.items()
        assert owned[key][::2] == (first, ahead)
