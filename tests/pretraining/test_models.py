"""The study's names: parsing, printing, stages, figures and tables."""

import csv
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from common.errors import UserError
from pretraining.models import Design, arm_of, format_steps
from pretraining.paper_models import FIGURE_MODELS, MODELS, TABLES, figures_of, parse
from pretraining.paper_settings import TRAINING

PUBLISHED = Path(__file__).parents[2] / "analysis" / "data" / "published_scores.csv"


def test_there_are_51_models_of_the_known_kinds() -> None:
    assert len(MODELS) == 51
    kinds = Counter(model.kind for model in MODELS.values())
    assert kinds == {"base": 19, "two-stage": 14, "continued": 6, "intermediate": 12}
    assert Counter(model.size for model in MODELS.values()) == {
        "210m": 5,
        "610m": 40,
        "1b": 6,
    }


def test_tables_hold_the_models_the_paper_prints() -> None:
    with PUBLISHED.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for table, names in TABLES.items():
        printed = dict.fromkeys(
            row["model"] for row in rows if int(row["table"]) == table
        )
        assert tuple(printed) == names


def test_figures_show_what_their_axes_say() -> None:
    assert sorted(FIGURE_MODELS) == list(range(1, 13))
    assert len(FIGURE_MODELS[3]) == 12
    assert {MODELS[name].ratio for name in FIGURE_MODELS[3]} == {20, 30, 40, 50}
    shares = [
        round(100 * MODELS[name].clm_share)
        for name in FIGURE_MODELS[6]
        if "clm" in name
    ]
    assert sorted(set(shares)) == [23, 24, 25, 50, 75, 76, 77, 100]
    assert set(FIGURE_MODELS[4]) == {
        name for name, model in MODELS.items() if model.kind == "intermediate"
    }
    assert figures_of("610m-mlm40-42k") == (1, 2, 3, 5, 6, 7, 8, 9)
    tables = {
        model: tuple(n for n, names in TABLES.items() if model in names)
        for model in MODELS
    }
    assert tables["610m-mlm40-42k"] == (2, 3, 4, 5, 10, 11, 12, 13, 14, 15, 16, 17)
    assert tables["1b-clm-10k-mlm40-42k"] == ()


def describe(name: str) -> list[tuple[str, str, int, int, str | None]]:
    return [
        (s.name, s.phase, s.first_step, s.end, s.parent) for s in MODELS[name].stages
    ]


def test_stages_of_each_kind() -> None:
    assert describe("610m-mlm40-12k") == [
        ("610m-mlm40", "stable", 0, 10_000, None),
        ("610m-mlm40-12k", "decay", 10_000, 12_000, "610m-mlm40"),
    ]
    assert describe("610m-clm-10k-mlm40-42k") == [
        ("610m-clm", "stable", 0, 10_000, None),
        ("610m-clm-10k-mlm40", "stable", 10_000, 40_000, "610m-clm"),
        ("610m-clm-10k-mlm40-42k", "decay", 40_000, 42_000, "610m-clm-10k-mlm40"),
    ]
    assert describe("610m-clm-40k-mlm20-42k") == [
        ("610m-clm", "stable", 0, 40_000, None),
        ("610m-clm-40k-mlm20-42k", "decay", 40_000, 42_000, "610m-clm"),
    ]
    assert describe("610m-clm-dec42k-mlm40-54k") == [
        ("610m-clm", "stable", 0, 40_000, None),
        ("610m-clm-42k", "decay", 40_000, 42_000, "610m-clm"),
        ("610m-clm-dec42k-mlm40", "stable", 42_000, 52_000, "610m-clm-42k"),
        ("610m-clm-dec42k-mlm40-54k", "decay", 52_000, 54_000, "610m-clm-dec42k-mlm40"),
    ]
    assert describe("610m-clm-42k-1000") == [("610m-clm", "stable", 0, 1_000, None)]


def test_stages_are_consecutive_and_add_up() -> None:
    for name, model in MODELS.items():
        assert parse(name) == model and model.name == name
        assert model.stages[0].first_step == 0
        for before, after in zip(model.stages, model.stages[1:], strict=False):
            assert before.end == after.first_step and after.parent == before.name
        assert sum(stage.steps for stage in model.stages) == model.steps
        assert (model.stages[-1].phase == "decay") == model.decayed
        assert not model.decayed or model.stages[-1].steps == TRAINING.decay_steps


def test_what_a_two_stage_name_says() -> None:
    model = MODELS["610m-clm-10k-mlm40-42k"]
    assert (model.size, model.objective, model.ratio) == ("610m", "clm+mlm", 40)
    assert model.clm_share == pytest.approx(0.238, abs=0.001)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("610m-mlm4-42k ", "unknown model"),
        ("610m-mlm40-42", "at least 2000"),
        ("610-mlm40-42k", "did you mean '610m-mlm40-42k'"),
        ("700m-mlm40-42k", "unknown model"),
        ("610m-clm-41k-mlm40-42k", "at least 43000"),
        ("610m-clm-42k-41000", "at most 40000"),
        ("610m-clm-0-mlm40-42k", "its switch must be at least 1, not 0"),
        ("610m-clm-dec1k-mlm40-42k", "its switch must be at least 2000, not 1000"),
        (
            "610m-clm-10k-mlm40-9k-clm-42k",
            "its switch must be at least 10001, not 9000",
        ),
        ("610m-clm-10k-mlm40-dec42k", "unknown model"),
        ("610m-clm-10k-mlm40-42k-20000", "unknown model"),
        ("610m-mlm40to40-42k", "does not change; write mlm40"),
        ("610m-clm-42k-s0", "did you mean '610m-clm-42k'"),
        ("bert-base-uncased", "a name reads SIZE-OBJECTIVE-STEPS"),
        ("", "unknown model"),
    ],
)
def test_wrong_names_are_explained(name: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        parse(name)


def test_names_in_the_scheme_that_the_paper_did_not_train() -> None:
    model = parse("610m-clm-20k-mlm60-42k")
    assert model.ratio == 60
    assert figures_of(model.name) == ()
    assert parse("1b-clm-22k").steps == 22_000


@pytest.mark.parametrize("name", MODELS)
def test_another_pretraining_has_the_same_stages_and_shares_none(name: str) -> None:
    first, again = MODELS[name], parse(f"{name}-s2")
    assert (again.name, again.seed, arm_of(again.name)) == (f"{name}-s2", 2, (name, 2))
    assert (first.seed, arm_of(name)) == (0, (name, 0))
    for one, other in zip(first.stages, again.stages, strict=True):
        parent = None if one.parent is None else f"{one.parent}-s2"
        assert other == replace(one, name=f"{one.name}-s2", parent=parent)


def test_a_design_of_its_own_has_prefix_sizes_and_decay() -> None:
    small = Design(sizes=("s", "m"), prefix="mini-", decay_steps=20)
    model = small.parse("mini-m-clm-100-mlm40-420")
    assert [(s.name, s.first_step, s.end) for s in model.stages] == [
        ("mini-m-clm", 0, 100),
        ("mini-m-clm-100-mlm40", 100, 400),
        ("mini-m-clm-100-mlm40-420", 400, 420),
    ]
    with pytest.raises(UserError):
        small.parse("610m-clm-42k")
    with pytest.raises(UserError):
        parse("mini-m-clm-100-mlm40-420")


@pytest.mark.parametrize(
    ("steps", "text"), [(12_000, "12k"), (1_500, "1500"), (420, "420"), (0, "0")]
)
def test_steps_print_as_in_names(steps: int, text: str) -> None:
    assert format_steps(steps) == text
