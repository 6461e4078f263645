"""One word for a comparison: pages, captions, marks and `compare` say what the finding that owns it counts."""

import re

import pytest

from analysis.claims.assessment import Assessment
from analysis.claims.catalogue import ANSWERS, FINDINGS
from analysis.claims.owners import owned_pairs
from clm_or_mlm.__main__ import main
from common.provenance import ROOT
from paper_figures.figure import CLEAR
from tests.paper_figures.drawn import collected

FIGURES = ("2", "4", "6", "9", "10")


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


@pytest.mark.parametrize("name", FIGURES)
def test_marks_are_filled_as_the_owner_counts(
    assessment: Assessment, name: str
) -> None:
    data = collected(name).data
    owned = owned_pairs(set(data["model"]), assessment.result_of)
    seen = 0
    for (task, pair), owner in owned.items():
        rows = data[(data["panel"] == task) & data["model"].isin(pair)]
        marks = rows[rows[CLEAR].notna()]
        is_drawn = 1 in (rows["x"].nunique(), rows["series"].nunique())
        if len(rows) == 2 and len(marks) == 1 and is_drawn:
            seen += 1
            [row] = marks.to_dict("records")
            assert row[CLEAR] == (owner.ahead == row["model"]), (task, pair)
    assert seen == {"2": 7, "4": 22, "6": 36, "9": 7, "10": 22}[name]


def test_figure_4_fills_at_least_what_f6_counts(assessment: Assessment) -> None:
    said = re.findall(r"(\d+) of \d+", collected("4").caption.partition("\n")[0])
    assert sum(map(int, said)) >= assessment.judged["F6"].holds_in == 15


@pytest.mark.parametrize("page", ["docs/build-an-encoder.md", "docs/compare.md"])
def test_commands_that_pages_cite_say_to_which_family_a_word_belongs(
    page: str, capsys: pytest.CaptureFixture[str], assessment: Assessment
) -> None:
    text = (ROOT / page).read_text("utf-8")
    pairs = re.findall(r"compare (610m-\S+) (610m-[\w-]+)\s*$", text, re.MULTILINE)
    for pair in pairs:
        assert main(["compare", *pair]) == 0
        said = capsys.readouterr().out
        owners = {
            one.finding for one in owned_pairs(pair, assessment.result_of).values()
        }
        assert owners == set(re.findall(r"^(\w+) counts the same averages", said, re.M))
