"""A registry gives an object by its name, or refuses the name with the nearest one; never another object."""

from dataclasses import dataclass

import pytest

from common.errors import UserError
from common.registry import Registry


@dataclass(frozen=True)
class Colour:
    name: str


def test_objects_come_by_name_in_the_order_of_registration() -> None:
    colours = Registry("colour", [Colour("red"), Colour("blue")])
    green = colours.register(Colour("green"))
    assert list(colours) == ["red", "blue", "green"]
    assert colours["green"] is green
    assert "green" in colours and "pink" not in colours
    assert colours.get("pink") is None
    colours.pop("green")
    assert len(colours) == 2


def test_a_name_is_taken_once_and_the_nearest_suggested() -> None:
    colours = Registry("colour", [Colour("red"), Colour("blue")])
    with pytest.raises(ValueError, match="already a colour called 'red'"):
        colours.register(Colour("red"))
    with pytest.raises(
        UserError,
        match=r"unknown colour 'bleu'; use one of red, blue; did you mean 'blue'",
    ):
        colours["bleu"]
