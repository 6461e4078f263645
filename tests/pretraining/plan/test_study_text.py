import tomllib
from importlib import resources
from pathlib import Path

import pytest

from pretraining.plan.study_plan import read_study
from pretraining.plan.study_text import divided_study, study_text

FIRST_TRY = tomllib.loads((resources.files("pretraining") / "plan/studies/first-try.toml").read_text("utf-8"))
TABLES = {
    "decay_steps": 400,
    "models": {"mine": {"start": "a/b", "stages": [{"train": "clm", "steps": 800, "decay": "sqrt:50 %"}]}},
    "settings": {"peak_lr": 1e-4, "tensorboard": False, "warmup_steps": 0, "global_batch": 64},
}


@pytest.mark.parametrize("content", [FIRST_TRY, TABLES], ids=["names", "tables"])
def test_the_text_reads_back(content: dict[str, object]) -> None:
    assert tomllib.loads(study_text(content)) == content


@pytest.mark.parametrize("content", [FIRST_TRY, TABLES], ids=["names", "tables"])
def test_a_divided_study_is_a_study_in_proportion(content: dict[str, object]) -> None:
    whole, small = (read_study(one, Path("x")) for one in (content, divided_study(content, 50)))
    for one, other in zip(whole.models.values(), small.models.values(), strict=True):
        assert other.objectives == one.objectives and other.steps == one.steps // 50
        assert [stage.phase for stage in other.stages] == [stage.phase for stage in one.stages]
    assert (
        small.config.optimizer.peak_lr == whole.config.optimizer.peak_lr
        and small.config.batches.global_batch == 4
    )
    assert divided_study(content, 1) == content
