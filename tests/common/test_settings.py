"""Typed settings from TOML and `key=value` words."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

import pytest
from annotated_types import Ge, Gt, Lt

from common.errors import UserError
from common.reading import read_toml
from common.settings import (
    FileSettings,
    Group,
    assignments,
    describe_settings,
    keys_of,
    read_settings,
    values_of,
)


@dataclass(frozen=True, kw_only=True)
class Plan(FileSettings):
    """A plan."""

    peak_lr: float = 5e-4
    """Highest learning rate,
    of the stable phase."""
    steps: int = 4
    """Number of steps."""
    cut: Literal["random", "fixed"] = "random"
    """How text is cut."""
    wandb: bool = True
    """Whether to log."""
    names: tuple[str, ...] = ("a", "b")
    """Names."""
    rates: tuple[float, ...] = ()
    """Rates."""
    note: str = ""
    """Any words."""

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise UserError(f"steps must be at least 1, not {self.steps}")


@dataclass(frozen=True, kw_only=True)
class Shape(FileSettings):
    """A shape."""

    hidden: Annotated[int, Ge(1), Lt(2**16)]
    """Width."""
    layers: int = 2
    """Depth."""


@dataclass(frozen=True, kw_only=True)
class Optimizer(Group):
    """How weights are changed."""

    peak_lr: Annotated[float, Gt(0)] = 5e-4
    """Highest learning rate (`lr`)."""
    warmup: int = field(default=0, metadata={"may change": True})
    """Steps of warm-up."""

    def __post_init__(self) -> None:
        if self.peak_lr > 1 and not self.warmup:
            raise UserError(f"peak_lr={self.peak_lr} needs a warmup")


@dataclass(frozen=True, kw_only=True)
class Study(FileSettings):
    """A study: a group, whose settings stand among its own, and tables."""

    seed: int = 0
    """Seed."""
    optimizer: Optimizer = Optimizer()
    sizes: dict[str, Shape] = field(default_factory=dict)
    """A table for each size."""
    labels: tuple[str | int, ...] = ()
    """Labels."""


@pytest.mark.parametrize(
    ("values", "field", "value"),
    [
        ({"peak_lr": 1}, "peak_lr", 1.0),
        ({"peak_lr": "1e-3"}, "peak_lr", 1e-3),
        ({"steps": "1e6"}, "steps", 1_000_000),
        ({"steps": 10.0}, "steps", 10),
        ({"cut": "fixed"}, "cut", "fixed"),
        ({"wandb": False}, "wandb", False),
        ({"wandb": "off"}, "wandb", False),
        ({"wandb": "yes"}, "wandb", True),
        ({"names": ["x", "--y"]}, "names", ("x", "--y")),
        ({"names": []}, "names", ()),
        ({"rates": [1, 2.5]}, "rates", (1.0, 2.5)),
        ({"note": "--steps=3 = x"}, "note", "--steps=3 = x"),
        ({"note": ""}, "note", ""),
    ],
)
def test_values_have_their_fields_type(
    values: dict[str, object], field: str, value: object
) -> None:
    read = getattr(read_settings(Plan, values, typed=False), field)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"peek_lr": 1}, "mine.toml: unknown key 'peek_lr'; did you mean 'peak_lr'?"),
        ({"peak-lr": 1}, "mine.toml: unknown key 'peak-lr'; did you mean 'peak_lr'?"),
        ({"steps": "x"}, "mine.toml: steps takes a whole number, not 'x'"),
        ({"steps": "2.6"}, "mine.toml: steps takes a whole number, not '2.6'"),
        ({"steps": 0}, "mine.toml: steps must be at least 1, not 0"),
        (
            {"cut": "radnom"},
            "mine.toml: unknown cut 'radnom'; use one of random, fixed; did you mean 'random'?",
        ),
        ({"wandb": "maybe"}, "mine.toml: wandb takes true or false, not 'maybe'"),
        ({"note": {}}, "mine.toml: note takes a value, not a table"),
        ({"peak_lr": "nan"}, "mine.toml: peak_lr must be a finite number, not nan"),
    ],
)
def test_what_a_field_cannot_take_is_refused_in_a_sentence(
    values: dict[str, object], sentence: str
) -> None:
    with pytest.raises(UserError) as refused:
        read_settings(Plan, values, "mine.toml", typed=False)
    assert str(refused.value) == sentence


def test_later_settings_build_on_earlier_ones() -> None:
    base = read_settings(Plan, {"steps": 9, "note": "kept"}, "mine.toml")
    changed = read_settings(
        Plan, assignments(["steps=3"]), "--set", base=base, typed=False
    )
    assert changed == Plan(steps=3, note="kept")
    with pytest.raises(UserError, match=r"--set: steps must be at least 1"):
        read_settings(Plan, {"steps": 0}, "--set", base=base)
    assert read_settings(Plan, {}, base=base) == base


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"sizes": {"s": {"layers": 3}}}, "[sizes.s]: hidden is missing"),
        (
            {"sizes": {"s": {"hiden": 3}}},
            "[sizes.s]: unknown key 'hiden'; did you mean 'hidden'?",
        ),
        (
            {"sizes": {"s": {"hidden": 0}}},
            "[sizes.s]: hidden must be at least 1, not 0",
        ),
        (
            {"sizes": {"s": {"hidden": 65536}}},
            "[sizes.s]: hidden must be below 65,536, not 65536",
        ),
        ({"sizes": {"s": 3}}, "[sizes]: s takes a table, [sizes.s], not 3"),
        ({"sizes": [3]}, "sizes takes a table, [sizes], not (3,)"),
        ({"labels": [1, 2.5]}, "labels takes a list; each text, not 2.5"),
        ({"warmup": "3"}, "warmup takes a whole number, not '3'"),
        ({"lr": 3.0}, "unknown key 'lr'; did you mean 'peak_lr'?"),
        ({"optimizer": {"warmup": 3}}, "unknown key 'optimizer'"),
        ({"peak_lr": 0}, "peak_lr must be above 0, not 0"),
        ({"peak_lr": 2.5}, "peak_lr=2.5 needs a warmup"),
        ([3], "there must be a table of keys and values, not [3]"),
    ],
)
def test_tables_and_groups_are_refused_by_their_place(
    values: object, sentence: str
) -> None:
    with pytest.raises(UserError) as refused:
        read_settings(Study, values, "f.toml", remedy="write it again")
    assert str(refused.value) == f"f.toml: {sentence}; write it again"


def test_group_is_read_from_surrounding_keys() -> None:
    read = read_settings(
        Study, {"seed": 3, "warmup": 5, "sizes": {"s": {"hidden": 8}}}, "f.toml"
    )
    assert read == Study(
        seed=3, optimizer=Optimizer(warmup=5), sizes={"s": Shape(hidden=8)}
    )
    changed = read_settings(
        Study, assignments(["peak_lr=2.5"]), "--set", base=read, typed=False
    )
    assert changed == replace(read, optimizer=Optimizer(peak_lr=2.5, warmup=5))
    assert values_of(changed) == {
        "seed": 3,
        "peak_lr": 2.5,
        "warmup": 5,
        "sizes": {"s": Shape(hidden=8)},
        "labels": (),
    }
    assert [key for key, one in keys_of(Study).items() if one.field.metadata] == [
        "warmup"
    ]
    assert "\nwarmup = 5\n    Steps of warm-up.\n" in describe_settings(changed)


def test_words_of_set_are_keys_and_values() -> None:
    assert assignments(["a = 1 ", "b=c=d"]) == {"a": "1", "b": "c=d"}
    with pytest.raises(UserError, match="--set takes key=value, not 'steps'"):
        assignments(["steps"])


def test_a_file_that_is_not_toml_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("x = 1\n[y]\nz = 'w'\n")
    assert read_toml(tmp_path / "a.toml") == {"x": 1, "y": {"z": "w"}}
    # As Windows' editors write
    (tmp_path / "mark.toml").write_bytes(b"\xef\xbb\xbfx = 1\r\n")
    assert read_toml(tmp_path / "mark.toml") == {"x": 1}
    (tmp_path / "b.toml").write_bytes(b"x = \xff")
    with pytest.raises(UserError, match=r"b\.toml: not a TOML file"):
        read_toml(tmp_path / "b.toml")


def test_every_setting_is_described_by_its_docstring() -> None:
    text = describe_settings(Plan(steps=7))
    assert text.startswith(
        "peak_lr = 0.0005\n    Highest learning rate, of the stable phase.\nsteps = 7\n"
    )
    assert "names = ('a', 'b')\n    Names.\n" in text


def test_an_inherited_setting_keeps_its_docstring() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Longer(Plan):
        extra: int = 0

    assert "    Names.\n" in describe_settings(Longer(steps=7))


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("steps", "3", "a whole number"),
        ("steps", True, "a whole number"),
        ("steps", [3], "a whole number"),
        ("steps", 2.6, "a whole number"),
        ("peak_lr", "1", "a number"),
        ("wandb", 1, "true or false"),
        ("wandb", "on", "true or false"),
        ("note", 5, "text"),
        ("note", True, "text"),
        ("names", "a", "a list"),
        ("names", [1], "a list; each text"),
    ],
)
def test_typed_values_are_not_converted(key: str, value: object, wanted: str) -> None:
    with pytest.raises(UserError, match=f"f.toml: {key} takes {wanted}, not"):
        read_settings(Plan, {key: value}, "f.toml")


def test_typed_values_of_their_types_are_taken() -> None:
    read = read_settings(
        Plan,
        {"steps": 1e3, "peak_lr": 2, "wandb": False, "note": "5", "names": ["a", "b"]},
    )
    assert read == Plan(
        steps=1000, peak_lr=2.0, wandb=False, note="5", names=("a", "b")
    )
