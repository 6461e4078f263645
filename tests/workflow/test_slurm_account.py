"""The kinds of jobs, and options that the workflow sets itself against those that Snakemake's executor forbids."""

from __future__ import annotations

import re

import pytest

from common.errors import UserError
from workflow.slurm_account import OWN, check_extra, options_of, queue_name


def test_all_that_snakemakes_executor_forbids_is_refused_here_with_advice() -> None:
    from snakemake_executor_plugin_slurm.validation import get_forbidden_slurm_options

    forbidden = {
        word for pattern in get_forbidden_slurm_options() for word in re.findall(r"--?[\w-]+", pattern)
    }
    assert {"--constraint", "-C", "--qos", "--gres"} <= forbidden
    for option in sorted(forbidden):
        with pytest.raises(UserError, match=f"must not hold {option}; use "):
            check_extra(f"{option}=x" if option.startswith("--") else f"{option} x", "settings")


@pytest.mark.parametrize("words", ["--const=h100", "-Ch100", "-C h100", "--exclusive --part x", "--nodes 2"])
def test_abbreviated_and_glued_options_are_seen(words: str) -> None:
    with pytest.raises(UserError, match="must not hold"):
        check_extra(words, "x")


@pytest.mark.parametrize(
    "words", ["", "--exclusive", "--reservation=a --hint=nomultithread", "--nodelist=a,b"]
)
def test_others_are_taken(words: str) -> None:
    check_extra(words, "x")


def test_words_that_are_no_options(tmp_path: object) -> None:
    assert options_of("--exclude=n1 -x n2 --exclusive", "x") == ["--exclude", "-x", "--exclusive"]
    with pytest.raises(UserError, match="'h100', which belongs to no option"):
        options_of("h100", "x")
    with pytest.raises(UserError, match="cannot be read"):
        options_of("--comment='a", "x")


def test_no_option_has_two_advices() -> None:
    options = [option for group in OWN for option in group.split()]
    assert len(options) == len(set(options))


def test_a_job_belongs_to_a_kind_by_its_gpus() -> None:
    sizes = [(1, 0), (1, 1), (1, 2), (4, 8)]
    assert [queue_name(*size) for size in sizes] == ["cpu", "gpu", "gpus", "gpus"]
