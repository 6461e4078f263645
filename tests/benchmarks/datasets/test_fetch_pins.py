"""What is fetched, locked and pinned has to be the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.datasets.fetch import fetch
from benchmarks.datasets.local_dataset import load
from benchmarks.datasets.synthetic import make_synthetic
from benchmarks.hub_files import LOCK, Pin
from benchmarks.protocol import DATASETS, Dataset
from common.errors import UserError
from tests.benchmarks.fake_hub import COMMIT, OTHER, FakeHub, conll_rows

pytestmark = pytest.mark.usefixtures("hub")


def test_lock_and_pin_must_agree(tmp_path: Path) -> None:
    entry = {
        "role": "train",
        "repo": "rajpurkar/squad",
        "revision": OTHER,
        "path": "x",
        "bytes": 1,
        "sha256": None,
    }
    (tmp_path / LOCK).write_text(json.dumps({"datasets": {"squad": [entry]}}))
    with pytest.raises(UserError, match="this package pins 7b6d24c4"):
        fetch("squad", tmp_path)
    (tmp_path / LOCK).write_text("[]")
    with pytest.raises(UserError, match="is no lock file"):
        fetch("squad", tmp_path)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"train": "b/train-*", "validation": "a/dev*", "test": "a/test*"},
            r"takes train from a/train-0\.parquet of hgissbkh/conll2003-en, where fetch does not look for it",
        ),
        (
            {"train": ("a/tr*", "b/*"), "validation": "a/dev*", "test": "a/test*", "corpus": "a/corpus*"},
            "takes no corpus from hgissbkh/conll2003-en, where fetch looks for it",
        ),
    ],
)
def test_what_is_there_and_what_is_locked_must_be_of_the_pinned_files(
    files: dict[str, str | tuple[str, ...]], message: str, tmp_path: Path
) -> None:
    def pinned(**patterns: str | tuple[str, ...]) -> Dataset:
        found = (
            Pin(role=role, repo="hgissbkh/conll2003-en", files=(one,) if isinstance(one, str) else one)
            for role, one in patterns.items()
        )
        return replace(DATASETS["conll2003_en"], pins=tuple(found))

    places = ("a/train-0.parquet", "a/dev.parquet", "a/test.parquet", "b/train-0.parquet", "a/corpus.parquet")
    fake = FakeHub({"hgissbkh/conll2003-en": {"main": (COMMIT, {path: conll_rows(8) for path in places})}})
    with fake.serve():
        before = fetch(pinned(train="a/train-*", validation="a/dev*", test="a/test*"), tmp_path)
        other = pinned(**files)
        with pytest.raises(
            UserError, match=f"conll2003_en {message}; remove its entry from .*{LOCK}, and fetch"
        ):
            fetch(other, tmp_path)
        with pytest.raises(
            UserError, match=f"{LOCK} {message}; use the lock .* remove the entry of conll2003_en"
        ):
            fetch(other, tmp_path, replace_old=True)
        assert load(tmp_path, "conll2003_en").manifest == before
        (tmp_path / LOCK).unlink()
        three = pinned(**{role: files[role] for role in ("train", "validation", "test")})
        again = fetch(three, tmp_path, replace_old=True)
        assert fetch(three, tmp_path) == again


def test_what_was_not_fetched_is_not_compared_with_the_pins(tmp_path: Path) -> None:
    made = make_synthetic(tmp_path, "conll2003_en", train=8, evaluation=4)
    assert fetch("conll2003_en", tmp_path) == made
