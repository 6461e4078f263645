from __future__ import annotations

import pytest

from common.errors import UserError
from pretraining.plan.config import TrainingConfig
from pretraining.plan.interventions import batch_number, before, read_changes, value_at


def test_batches_left_out_are_never_trained_on_and_all_others_once() -> None:
    skips = read_changes("skip", "3:2,6:1", int)
    assert [batch_number(skips, step) for step in range(9)] == [0, 1, 2, 5, 6, 7, 9, 10, 11]
    assert [batch_number((), step) for step in range(3)] == [0, 1, 2]


def test_a_rate_holds_until_the_next() -> None:
    changes = read_changes("peak_lr_from", "2:3e-4,5:1e-4", float)
    assert [value_at(changes, step, 1e-3) for step in (0, 1, 2, 4, 5, 9)] == [
        1e-3,
        1e-3,
        3e-4,
        3e-4,
        1e-4,
        1e-4,
    ]


def test_only_changes_of_the_past_are_recorded() -> None:
    config = TrainingConfig(skip="3:2,6:1", peak_lr_from="5:1e-4")
    assert before(config.skips, 6) == [[3, 2]]
    assert config.interventions(6) == {"skip": [[3, 2]], "peak_lr_from": [[5, 1e-4]]}
    assert config.interventions(3) == {"skip": [], "peak_lr_from": []}
    assert config.science() == TrainingConfig().science()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3", "write STEP:VALUE"),
        ("a:3", "write STEP:VALUE"),
        ("3:x", "write STEP:VALUE"),
        ("3:0", "above 0"),
        ("-1:4", "at least 0"),
        ("1:1099511627776", r"below 2\^40"),
        ("5:1,5:2", "must rise"),
    ],
)
def test_what_is_no_change_is_refused(text: str, message: str) -> None:
    with pytest.raises(UserError, match=f"skip='{text}': .*{message}"):
        TrainingConfig(skip=text)
