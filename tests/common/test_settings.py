"""Typed settings from TOML and `key=value` words."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from common.errors import UserError
from common.settings import assignments, describe_settings, read_settings, read_toml


@dataclass(frozen=True, kw_only=True)
class Plan:
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
class Shape:
    """A shape."""

    hidden: int
    """Width."""
    layers: int = 2
    """Depth."""


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
def test_values_have_their_fields_type(values: dict[str, object], field: str, value: object) -> None:
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
    ],
)
def test_what_a_field_cannot_take_is_refused_in_a_sentence(values: dict[str, object], sentence: str) -> None:
    with pytest.raises(UserError) as refused:
        read_settings(Plan, values, "mine.toml", typed=False)
    assert str(refused.value) == sentence


def test_later_settings_start_from_earlier_ones_and_are_checked_together() -> None:
    base = read_settings(Plan, {"steps": 9, "note": "kept"}, "mine.toml")
    changed = read_settings(Plan, assignments(["steps=3"]), "--set", base=base, typed=False)
    assert changed == Plan(steps=3, note="kept")
    with pytest.raises(UserError, match=r"--set: steps must be at least 1"):
        read_settings(Plan, {"steps": 0}, "--set", base=base)
    assert read_settings(Plan, {}, base=base) == base


def test_a_missing_value_is_named() -> None:
    assert read_settings(Shape, {"hidden": 3}) == Shape(hidden=3)
    with pytest.raises(UserError, match=r"mine.toml \[sizes.s\]: hidden is missing"):
        read_settings(Shape, {"layers": 3}, "mine.toml [sizes.s]")


def test_a_word_without_an_equals_sign_is_refused() -> None:
    assert assignments(["a = 1 ", "b=c=d"]) == {"a": "1", "b": "c=d"}
    with pytest.raises(UserError, match="--set takes key=value, not 'steps'"):
        assignments(["steps"])


def test_a_file_that_is_not_toml_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("x = 1\n[y]\nz = 'w'\n")
    assert read_toml(tmp_path / "a.toml") == {"x": 1, "y": {"z": "w"}}
    (tmp_path / "b.toml").write_bytes(b"x = \xff")
    with pytest.raises(UserError, match=r"b\.toml: not a TOML file"):
        read_toml(tmp_path / "b.toml")


def test_every_setting_is_described_by_its_docstring() -> None:
    text = describe_settings(Plan(steps=7))
    assert text.startswith("peak_lr = 0.0005\n    Highest learning rate, of the stable phase.\nsteps = 7\n")
    assert "names = ('a', 'b')\n    Names.\n" in text


def test_an_inherited_setting_keeps_its_docstring() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Longer(Plan):
        extra: int = 0

    assert "    Names.\n" in describe_settings(Longer(steps=7))


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("steps", "3", "a whole number"), ("steps", True, "a whole number"), ("steps", [3], "a whole number"),
        ("steps", 2.6, "a whole number"), ("peak_lr", "1", "a number"), ("wandb", 1, "true or false"),
        ("wandb", "on", "true or false"), ("note", 5, "text"), ("note", True, "text"), ("names", "a", "a list"),
        ("names", [1], "a list; each text"),
    ],
)  # fmt: skip
def test_typed_values_are_not_converted(key: str, value: object, wanted: str) -> None:
    with pytest.raises(UserError, match=f"f.toml: {key} takes {wanted}, not"):
        read_settings(Plan, {key: value}, "f.toml")


def test_typed_values_of_their_types_are_taken() -> None:
    read = read_settings(Plan, {"steps": 1e3, "peak_lr": 2, "wandb": False, "note": "5", "names": ["a", "b"]})
    assert read == Plan(steps=1000, peak_lr=2.0, wandb=False, note="5", names=("a", "b"))
