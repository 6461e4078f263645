"""The forests by dataset: which findings have one, its rows, marks and axis."""

import pytest

from analysis.claims.catalogue import FINDINGS
from benchmarks.protocol import TASKS
from common.errors import UserError
from paper_figures.figure import FIGURES
from paper_figures.supplementary.forests import forest_data
from tests.paper_figures.drawn import INPUTS, PUBLISHED, collected, picture

OF_SPREADS = {"F7", "F10"}


def test_every_claim_has_a_forest_but_those_about_spreads_which_say_so() -> None:
    assert [name for name in FIGURES if name.startswith("forest-")] == [
        f"forest-{one.lower()}" for one in FINDINGS
    ]
    for name, finding in FINDINGS.items():
        if name in OF_SPREADS:
            # Of runs that decide them too.
            for inputs in INPUTS.values():
                with pytest.raises(
                    UserError, match=rf"^{name} compares ratios .*every finding but F7 and F10 has one"
                ):
                    forest_data(inputs, finding)
        else:
            data = forest_data(PUBLISHED, finding)
            assert data["drawn"].any() and data["effect"].notna().all()


@pytest.mark.parametrize("finding", sorted(set(FINDINGS) - OF_SPREADS))
def test_every_forest_is_drawn_under_the_names_of_its_tasks(finding: str) -> None:
    """Of F5b and F9, which are about means over all tasks, under one heading a comparison."""
    written = [text.get_text() for text in picture(f"forest-{finding.lower()}").texts]
    headings = {task.title for task in TASKS.values()} & set(written)
    assert bool(headings) != ("All tasks" in written)


def test_a_pair_is_drawn_once_and_a_claim_across_tasks_by_pairs_of_datasets() -> None:
    searched = forest_data(PUBLISHED, FINDINGS["F5a"])
    pairs = {frozenset(label.partition(" on ")[0].split(" - ")) | {label.partition(" on ")[2]}
             for label in searched["contrast"]}  # fmt: skip
    assert (
        len(pairs) == searched["contrast"].nunique() > searched[searched["drawn"]]["contrast"].nunique() == 20
    )
    across = forest_data(PUBLISHED, FINDINGS["F2"])
    assert list((across["dataset"] == "average").value_counts()) == [81, 9] and across["q"].isna().all()


def test_every_row_of_a_forest_is_a_mark_with_its_name_and_interval_on_one_shared_axis() -> None:
    data, drawn = collected("forest-f1").data, picture("forest-f1")
    texts = {text.get_text() for text in drawn.texts}
    assert {
        collected("forest-f1").title,
        "SST-2",
        "MLM \u2212 CLM (points)",
        "1b",
        "Question answering",
    } <= texts
    marks = {line.get_gid(): line.get_xdata()[0] for ax in drawn.axes for line in ax.lines if line.get_gid()}
    assert marks == {f"point-{row}": effect for row, effect in data["effect"].items()}
    intervals = {
        tuple(line.get_xdata()) for ax in drawn.axes for line in ax.lines if len(set(line.get_xdata())) == 2
    }
    assert intervals >= set(zip(data["low"], data["high"], strict=True))
    assert len(drawn.axes) == 2
    [(low, high)] = {ax.get_xlim() for ax in drawn.axes}
    assert low < 0 and high > data["high"].max()


def test_the_axis_of_a_forest_ends_at_a_tick_beyond_everything_drawn() -> None:
    drawn = picture("forest-f12")
    assert drawn.axes[0].get_xlim() == (-10, 10)
    assert {-10, 0, 10} <= set(drawn.axes[0].get_xticks())
