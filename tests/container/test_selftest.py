"""The images' own test."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from common.errors import UserError
from container import selftest
from container.selftest import IMPORTS, main, start


def test_an_unknown_image_names_the_nearest() -> None:
    with pytest.raises(UserError, match="takes the image: analysis or full; did you mean 'full'"):
        main(["ful"])
    with pytest.raises(UserError, match="takes the image"):
        main([])


def test_what_a_room_prints_last_is_in_the_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"`analysys` ended with code 2: .*did you mean 'analysis'"):
        start("analysys")


def test_a_missing_package_or_figure_fails_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(IMPORTS, "analysis", ("no_such_package",))
    with pytest.raises(ModuleNotFoundError):
        selftest._imports("analysis")
    monkeypatch.setitem(IMPORTS, "analysis", ("json",))
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(selftest.importlib.util, "find_spec", lambda name: object())
    with pytest.raises(UserError, match="the analysis image must not hold torch"):
        selftest._imports("analysis")
    monkeypatch.setattr(selftest, "start", lambda *_: None)
    with pytest.raises(UserError, match=r"figure3.pdf was not written"):
        selftest._figure(tmp_path)
