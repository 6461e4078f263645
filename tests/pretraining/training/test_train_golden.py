import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).parent
GOLDEN = json.loads((HERE.parent.parent / "golden" / "pretraining_losses.json").read_text())


def golden_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pretraining_golden", HERE / "golden.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", GOLDEN)
def test_losses_are_the_committed_ones(name: str) -> None:
    # Equal to the last digit on one machine; 2e-4 leaves room for another CPU's order of additions over 20 steps.
    module = golden_module()
    assert module.losses(module.SCHEDULES[name]) == pytest.approx(GOLDEN[name], rel=2e-4)


def test_the_committed_losses_show_learning() -> None:
    for name, values in GOLDEN.items():
        assert values[-1] < values[0] - 0.3, name
    assert GOLDEN["clm-10-mlm40-20"][:10] == GOLDEN["clm"][:10]
