from pathlib import Path

import pytest

from common.errors import UserError
from pretraining.plan.study_plan import load_study, plan_of
from tests.pretraining.small_study import STUDY

MODELS = STUDY[STUDY.index("models = ") : STUDY.index("[sizes")]


def test_a_study_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mini.toml"
    path.write_text(STUDY)
    study = load_study(path)
    plan = plan_of(tuple(study.models.values()), study)
    assert study.config.batches.global_batch == 8
    assert study.shapes["mini-s"].vocab == 400
    # The two base models share their size alone; the two-stage model leaves the trunk, the decayed one goes on.
    assert plan.costs().steps == 24 + 24 + 15 + 12
    assert len(plan.stages) == 8


def test_a_study_that_sets_microbatch_means_its_groups_too(tmp_path: Path) -> None:
    path = tmp_path / "mini.toml"
    for words, expected in (
        ("", 12),
        ("microbatch = 4", 4),
        ("microbatch = 4\nloss_group = 2", 2),
    ):
        path.write_text(STUDY.replace("microbatch = 4", words))
        assert load_study(path).config.batches.loss_group == expected


def test_each_model_is_pretrained_as_often_as_the_file_says(tmp_path: Path) -> None:
    path = tmp_path / "mini.toml"
    names = ["mini-s-mlm40-24", "mini-s-clm-24"]
    again = [f"{name}{end}" for name in names for end in ("", "-s1", "-s2")]
    path.write_text(STUDY.replace(MODELS, f"models = {names}\npretrainings = 3\n"))
    study = load_study(path)
    assert [*study.models] == again and [
        model.seed for model in study.models.values()
    ] == [0, 1, 2] * 2
    assert study.models == {name: study.model(name) for name in again}
    plan = plan_of(tuple(study.models.values()), study)
    assert plan.costs().steps == 3 * (24 + 24)
    path.write_text(STUDY.replace(MODELS, f"models = {again}\npretrainings = 3\n"))
    with pytest.raises(
        UserError, match="list mini-s-mlm40-24 alone, not mini-s-mlm40-24-s1"
    ):
        load_study(path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "global_batch",
            "global_batchs",
            "unknown key 'global_batchs'; did you mean 'global_batch'",
        ),
        ("layers", "layer", "did you mean 'layers'"),
        ("mlp = 64", "", r"\[sizes.s\]: mlp is missing"),
        ("decay_steps", "decay_step", "did you mean 'decay_steps'"),
        ("mini-s-clm-24", "mini-t-clm-24", "unknown model"),
        ("prefix =", "prefix", "not a TOML file"),
        ("decay_steps = 6", "decay_steps = 4.5", "decay_steps takes a whole number"),
        ("[settings]", "[setting]", "did you mean 'settings'"),
        ("[sizes.s]", "[sizes]", r"hidden takes a table, \[sizes.hidden\], not 32"),
        ("warmup_steps = 3", "warmup_steps = -2", "warmup_steps must be at least 0"),
        (
            "warmup_steps = 3",
            'warmup_steps = "2"',
            "warmup_steps takes a whole number, not '2'",
        ),
        (
            "warmup_steps = 3",
            "warmup_steps = 1" + 400 * "0",
            "warmup_steps must be below 1,099,511,627,776",
        ),
        ("peak_lr = 3e-3", "peak_lr = inf", "peak_lr must be a finite number"),
        (
            "warmup_steps = 3",
            "weight_decay = nan",
            "weight_decay must be a finite number",
        ),
        ("warmup_steps = 3", "cache_gb = nan", "cache_gb must be a finite number"),
        (
            "warmup_steps = 3",
            'wandb = "a\\u001b"',
            "wandb must be one line of printable text",
        ),
        (
            "hidden = 32",
            "hidden = -1",
            r"\[sizes.s\]: hidden must be from 1 to 65,536, not -1",
        ),
        ("heads = 4", "heads = 3", "hidden=32 is not a multiple of heads=3"),
        ("kv_heads = 2", "kv_heads = 3", "heads=4 is not a multiple of kv_heads=3"),
        ("heads = 4", "heads = 32", "hidden / heads must be even"),
        (
            "vocab = 400",
            "rope_theta = nan",
            "rope_theta must be a finite number, not nan",
        ),
        ("vocab = 400", "norm_eps = inf", "norm_eps must be a finite number, not inf"),
        ("decay_steps = 6", "decay_steps = -3", "decay_steps must be at least 1"),
        ('"mini-"', '"../../../esc-"', "prefix must be at most 60 letters"),
        ('"mini-"', '"/tmp/"', "prefix must be"),
        ("[sizes.s]", '[sizes."../s"]', "invalid size name '../s'"),
        (MODELS, "models = 0\n", "models takes a list, not 0"),
        (MODELS, "pretrainings = 0\n", "pretrainings must be at least 1"),
        ("models = [", "models = [3, ", "models takes a list; each text, not 3"),
        (
            "mini-s-clm-24",
            "mini-s-clm-1" + "2" * 5000,
            "a model's name has at most 120 characters",
        ),
    ],
)
def test_a_wrong_study_file_is_reported(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    path = tmp_path / "mini.toml"
    path.write_text(STUDY.replace(old, new, 1))
    with pytest.raises(UserError, match=message) as error:
        load_study(path)
    assert str(path) in str(error.value)
