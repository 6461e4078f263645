import re
import typing

import pytest

from clm_or_mlm.__main__ import main
from common.errors import UserError
from common.settings import assignments, keys_of, read_settings, values_of
from pretraining.plan.config import Batches, TrainingConfig

NO_SKIPS = ("3", "a:3", "3:x", "3:0", "-1:4", "1:1099511627776", "5:1,5:2", "5:1,4:1")


def read(*words: str) -> TrainingConfig:
    return read_settings(TrainingConfig, assignments(words), "--set", typed=False)


def test_settings_are_read_by_type_into_their_groups(
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = read(
        "peak_lr=1e-3", "warmup_steps=1e3", "tensorboard=no", "wandb=runs", "seed=2"
    )
    assert (config.optimizer.peak_lr, config.optimizer.warmup_steps, config.seed) == (
        1e-3,
        1000,
        2,
    )
    assert (config.record.tensorboard, config.record.wandb) == (False, "runs")
    assert TrainingConfig().tokens_per_step == 2_373_120
    main(["settings", "--set", "global_batch=96"])
    out = capsys.readouterr().out
    assert "global_batch = 96\n    Sequences per step" in out
    assert re.findall(r"(?m)^\w+(?= = )", out) == [*values_of(TrainingConfig())]
    main(["settings", "Out", "memory"])
    assert re.findall(r"(?m)^\w+(?= = )", capsys.readouterr().out) == ["microbatch"]
    with pytest.raises(
        UserError,
        match=r"no setting matches 'masking'.*ratio and steps are in the model's name",
    ):
        main(["settings", "masking"])


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("peak_rl=1", "did you mean 'peak_lr'"),
        ("max_grad_norm=1", "did you mean 'clip_norm'"),
        ("on_spike=skip", "unknown key 'on_spike'; did you mean 'skip'"),
        ("sequence_length=1", "did you mean 'max_length'"),
        ("weighting=tokens", "did you mean 'token'"),
        ("cut=packed", "unknown cut 'packed'; use one of random, fixed"),
        ("beta2=1", "beta2 must be below 1"),
        ("clip_norm=0", "above 0"),
        ("min_length=4096", "above max_length"),
        ("microbatch=-1", "at least 0"),
        ("seed=-1", "seed must be at least 0"),
        ("seed=4294967296", "seed must be below 4,294,967,296"),
        ("warmup_steps=-1", "warmup_steps must be at least 0"),
        *(
            (
                f"skip={text}",
                f"skip='{text}': write STEP:COUNT.*rising.*above 0.*below 2",
            )
            for text in NO_SKIPS
        ),
    ],
)
def test_wrong_settings_are_refused(word: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read(word)


def test_the_kernels_to_choose_from_are_the_registered_ones() -> None:
    """They are written out so that a misspelt one is reported before torch is imported."""
    from pretraining.model.attention import AUTO, BACKENDS

    assert typing.get_args(keys_of(TrainingConfig)["backend"].hint) == (AUTO, *BACKENDS)


def test_machine_settings_may_change_when_a_run_resumes() -> None:
    config = TrainingConfig()
    free = values_of(config).keys() - read("algorithms=module:Class").science().keys()
    assert free == {
        "microbatch",
        "precision",
        "backend",
        "residual",
        "compile",
        "eval_every",
        "eval_sequences",
        "save_every",
        "log_every",
        "cache",
        "cache_gb",
        "tensorboard",
        "wandb",
        "callbacks",
        "skip",
        "save_minutes",
        "timeout_minutes",
        "shard_optimizer",
    }
    assert read("microbatch=1", "save_every=5", "wandb=p").science() == config.science()
    assert read("seed=1").science() != config.science()


def test_lengths_follow_the_cut() -> None:
    config = read("cut=fixed", "max_length=100", "global_batch=4")
    assert (config.tokens_per_step, config.sequences.attended_length) == (400, 100)
    assert TrainingConfig().sequences.attended_length == pytest.approx(1365.7, abs=0.05)


def test_groups_divide_the_step() -> None:
    assert (Batches().group_size, Batches().pass_tokens) == (12, 24_576)
    assert Batches(global_batch=32).group_size == 8
    assert Batches(global_batch=7, loss_group=4).group_size == 1
    assert read("microbatch=48").science() == TrainingConfig().science()
    assert read("loss_group=48").science() != TrainingConfig().science()


def test_left_out_batches_are_never_trained_on() -> None:
    assert [Batches(skip="3:2,6:1").number(step) for step in range(9)] == [
        0,
        1,
        2,
        5,
        6,
        7,
        9,
        10,
        11,
    ]
    assert [Batches().number(step) for step in range(3)] == [0, 1, 2]


def test_only_skips_of_the_past_are_recorded() -> None:
    config = read("skip=3:2,6:1")
    assert config.interventions(6) == {"skip": [[3, 2]]}
    assert config.interventions(3) == {"skip": []}
    assert config.science() == TrainingConfig().science()
