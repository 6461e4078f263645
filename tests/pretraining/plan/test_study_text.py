import tomllib
from importlib import resources

import pytest

from pretraining.plan.study_text import study_text

FIRST_TRY = tomllib.loads(
    (resources.files("pretraining") / "plan/studies/first-try.toml").read_text("utf-8")
)
TABLES = {
    "decay_steps": 400,
    "models": {
        "mine": {
            "start": "a/b",
            "stages": [{"train": "clm", "steps": 800, "decay": "sqrt:50 %"}],
        }
    },
    "settings": {
        "peak_lr": 1e-4,
        "tensorboard": False,
        "warmup_steps": 0,
        "global_batch": 64,
    },
}


@pytest.mark.parametrize("content", [FIRST_TRY, TABLES], ids=["names", "tables"])
def test_the_text_reads_back(content: dict[str, object]) -> None:
    assert tomllib.loads(study_text(content)) == content
