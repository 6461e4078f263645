import itertools
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.ragged import Ragged, packed_batches, padded_batches

ROWS = st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=1, max_size=8)


@given(rows=ROWS, cut=st.integers(0, 8))
def test_rows_come_back_whole_and_joined(rows: list[list[int]], cut: int) -> None:
    ragged = Ragged.of(rows)
    assert [row.tolist() for row in map(ragged.__getitem__, range(len(ragged)))] == rows
    joined = Ragged.join([Ragged.of(rows[:cut]), Ragged.of(rows[cut:])])
    assert joined.values.tolist() == ragged.values.tolist()
    assert joined.offsets.tolist() == ragged.offsets.tolist()
    assert ragged.row_of.tolist() == [
        number for number, row in enumerate(rows) for _ in row
    ]


@given(rows=ROWS, width=st.integers(0, 9))
def test_padding_fills_the_right_side_only(rows: list[list[int]], width: int) -> None:
    order = np.arange(len(rows))[::-1].copy()
    padded = Ragged.of(rows).padded(order, fill=-100, width=width)
    longest = max(width, max(map(len, rows)))
    assert padded.tolist() == [
        rows[i] + [-100] * (longest - len(rows[i])) for i in order
    ]


@given(
    widths=st.lists(st.integers(1, 50), min_size=1, max_size=40),
    budget=st.integers(1, 120),
    overhead=st.sampled_from([0, 1, 20, 10**6]),
)
def test_batches_hold_every_item_once_and_keep_the_budget(
    widths: list[int], budget: int, overhead: int
) -> None:
    batches = padded_batches(np.array(widths), budget, overhead)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(widths)))
    for batch in batches:
        assert len(batch) == 1 or max(widths[i] for i in batch) * len(batch) <= budget
    assert widths[batches[0][0]] == max(widths)


@given(
    widths=st.lists(st.integers(1, 30), min_size=1, max_size=9),
    budget=st.integers(30, 120),
    overhead=st.sampled_from([1, 7, 40]),
)
def test_batches_cost_no_more_than_any_other_cuts(
    widths: list[int], budget: int, overhead: int
) -> None:
    """All 2^(n - 1) ways to cut the sorted items are tried."""
    ordered = sorted(widths, reverse=True)

    def cost(batches: list[list[int]]) -> float:
        sizes = [max(batch) * len(batch) for batch in batches]
        return sum(sizes) + overhead * len(sizes) if max(sizes) <= budget else math.inf

    found = [
        [widths[i] for i in batch]
        for batch in padded_batches(np.array(widths), budget, overhead)
    ]
    ways = []
    for cuts in itertools.product([False, True], repeat=len(widths) - 1):
        ends = [i + 1 for i, cut in enumerate(cuts) if cut] + [len(widths)]
        ways.append(
            [ordered[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        )
    assert cost(found) == min(map(cost, ways))


@given(st.lists(st.integers(1, 300), max_size=60), st.integers(1, 600))
def test_packed_batches_hold_each_item_once_with_like_tokens(
    widths: list[int], budget: int
) -> None:
    found = packed_batches(np.array(widths, dtype=np.int64), budget)
    assert sorted(np.concatenate(found).tolist() if found else []) == list(
        range(len(widths))
    )
    tokens = [sum(widths[item] for item in part) for part in found]
    assert all(total <= budget + max(widths) for total in tokens)
    assert len(found) <= -(-sum(widths) // budget)
    order = [widths[item] for part in found for item in part]
    assert order == sorted(widths, reverse=True)
