"""What figures are drawn from."""

from __future__ import annotations

from benchmarks.protocol import AVERAGE
from tests.paper_figures.made_up import from_runs, made_up_runs


def test_averages_are_of_tasks_and_say_where_from() -> None:
    inputs = from_runs(made_up_runs(["610m-clm-42k"]))
    assert inputs.averages["task"].tolist() == ["SC", "TC", "QA", "IR"]
    assert set(inputs.averages["dataset"]) == {AVERAGE}
    assert set(inputs.averages["source"]) == {inputs.name}
    assert inputs.averages is inputs.averages
