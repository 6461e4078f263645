import hashlib
import json

import pytest

from common.provenance import ROOT
from pretraining.plan.config import TRAINING_VERSION
from tests.pretraining.training.train.golden import SCHEDULES, losses

GOLDEN = json.loads((ROOT / "tests" / "golden" / "pretraining_losses.json").read_text())


@pytest.mark.parametrize("name", GOLDEN)
def test_losses_are_the_committed_ones(name: str) -> None:
    # Equal to the last digit on one machine; 2e-4 leaves room for another CPU's order of additions over 20 steps.
    assert losses(SCHEDULES[name]) == pytest.approx(GOLDEN[name], rel=2e-4)


def test_new_losses_need_a_new_version() -> None:
    """Checkpoints of another version are not resumed: whoever commits other losses raises `TRAINING_VERSION` too."""
    of_version = {1: "0544b09ca016f8a1920744f99a1f15539b1a1cbf59e54f0b0b1338867bf8695c"}
    text = json.dumps(GOLDEN, sort_keys=True)
    assert of_version[TRAINING_VERSION] == hashlib.sha256(text.encode()).hexdigest()
    assert max(of_version) == TRAINING_VERSION


def test_the_committed_losses_show_learning() -> None:
    for name, values in GOLDEN.items():
        assert values[-1] < values[0] - 0.3, name
    assert GOLDEN["clm-10-mlm40-20"][:10] == GOLDEN["clm"][:10]
