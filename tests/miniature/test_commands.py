"""`clm-or-mlm miniature`: what its commands understand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clm_or_mlm.__main__ import main
from miniature.data import MADE_UP
from miniature.forms import FORMS
from miniature.toy_study import Miniature


def test_options_reach_the_miniature(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    monkeypatch.setattr(
        "miniature.pipeline.make_miniature",
        lambda *given, **options: calls.append((given, options)) or "summary\n",
    )
    # As `make miniature` without DATA calls it.
    main(["miniature", "run", "--form", "quick", "--data", "", "--out", "o", "--workers", "4"])
    main(["miniature", "run", "--show", "--example", "e"])
    first = Miniature.below(Path("o"), FORMS["quick"], MADE_UP)
    second = Miniature.below(Path("build/miniature"), FORMS["cpu"], MADE_UP)
    assert calls == [
        ((first,), {"workers": 4, "example": None, "train": True}),
        ((second,), {"workers": 2, "example": Path("e"), "train": False}),
    ]
    assert capsys.readouterr().out == "summary\n" * 2
