"""Descriptions: one hash whatever the order, and the first difference by name."""

import json

import pytest

from common.description import description_hash, first_difference

BEFORE = {"weights": "aa", "tuning": {"steps": 3, "betas": (0.9, 0.95)}, "epochs": None}


def test_order_does_not_change_a_hash_and_any_value_does() -> None:
    turned = {
        "epochs": None,
        "tuning": {"betas": [0.9, 0.95], "steps": 3},
        "weights": "aa",
    }
    assert description_hash(turned) == description_hash(BEFORE)
    assert description_hash({**BEFORE, "epochs": 0}) != description_hash(BEFORE)


@pytest.mark.parametrize(
    ("now", "found"),
    [
        (json.loads(json.dumps(BEFORE)), None),
        ({**BEFORE, "weights": "bb"}, ("weights", "aa", "bb")),
        (
            {**BEFORE, "tuning": {"steps": 4, "betas": [0.9, 0.95]}},
            ("tuning.steps", 3, 4),
        ),
        ({**BEFORE, "tuning": None}, ("tuning", BEFORE["tuning"], None)),
        ({**BEFORE, "prompt": None}, ("prompt", None, None)),
        ({"weights": "aa"}, ("tuning", BEFORE["tuning"], None)),
    ],
)
def test_the_first_difference_is_named_with_both_sides(
    now: dict, found: object
) -> None:
    assert first_difference(BEFORE, now) == found
