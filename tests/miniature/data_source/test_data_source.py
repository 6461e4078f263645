"""The data source that DATA names."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.errors import UserError
from miniature.data_source import HUB, MADE_UP, get_data_source
from miniature.local import LocalFiles


def test_data_is_a_folder_the_hub_or_made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert get_data_source(None) is get_data_source("") is MADE_UP
    assert get_data_source("hub") is HUB
    monkeypatch.chdir(tmp_path)
    (tmp_path / "files").mkdir()
    assert get_data_source("files") == LocalFiles(tmp_path / "files"), "jobs work in another folder"


def test_a_folder_that_is_not_there_is_refused() -> None:
    with pytest.raises(UserError, match="no such folder; give one, or `hub`"):
        get_data_source("absent")
