"""A whole small store of two models and three datasets."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.analysis.stores import fill


@pytest.fixture(scope="session")
def whole_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("whole") / "store"
    fill(store)
    return store


@pytest.fixture
def store(whole_store: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole_store, tmp_path / "store"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files made just now count as settled."""
    monkeypatch.setattr("analysis.store.cell._SETTLED_NS", -1)
