"""The longest chain of jobs."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from workflow.jobs import KINDS, Job, marker
from workflow.path import critical_hours, critical_path


def _jobs(needs: dict[str, tuple[str, ...]]) -> list[Job]:
    return [
        Job(kind=KINDS["stage"], name=name, needs=tuple(marker("stage", other) for other in others))
        for name, others in needs.items()
    ]


def test_the_longest_of_two_ways_counts() -> None:
    jobs = _jobs({"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c", "gone")})
    hours = dict(zip((job.marker for job in jobs), (1.0, 5.0, 2.0, 1.0), strict=True))
    assert [job.name for job in critical_path(jobs, hours)] == ["a", "b", "d"]
    assert critical_hours(jobs, hours) == 7.0
    assert critical_path([], {}) == [] and critical_hours([], {}) == 0.0


@given(st.data())
def test_it_is_the_longest_of_all_chains(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 6))
    needs = {str(n): tuple(str(m) for m in range(n) if data.draw(st.booleans())) for n in range(size)}
    jobs = _jobs(needs)
    hours = {job.marker: float(data.draw(st.integers(1, 9))) for job in jobs}
    by_name = {job.name: job for job in jobs}

    def chains() -> list[float]:
        found = []
        for length in range(1, size + 1):
            for names in itertools.combinations(map(str, range(size)), length):
                if all(first in needs[second] for first, second in itertools.pairwise(names)):
                    found.append(sum(hours[by_name[name].marker] for name in names))
        return found

    assert critical_hours(jobs, hours) == max(chains())
