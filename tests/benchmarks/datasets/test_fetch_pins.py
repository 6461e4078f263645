"""What is there and what is pinned has to be the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.datasets.fetch import fetch
from benchmarks.datasets.local_dataset import load
from benchmarks.datasets.synthetic import make_synthetic
from benchmarks.protocol import DATASETS, Dataset, Pin
from common.errors import UserError
from tests.benchmarks.fake_hub import COMMIT, OTHER, FakeHub, conll_rows

pytestmark = pytest.mark.usefixtures("hub")


def test_a_repository_in_which_nothing_says_which_files_are_meant_is_refused(tmp_path: Path) -> None:
    dataset = replace(DATASETS["conll2003_en"], pins=(Pin(role="train", repo="o/n", files=("*/t.parquet",)),))
    fake = FakeHub({"o/n": {"main": (COMMIT, {"a/t.parquet": b"", "b/t.parquet": b""})}})
    with fake.serve(), pytest.raises(UserError, match=r"o/n has train files in several folders \(a, b\)"):
        fetch(dataset, tmp_path)


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
def test_what_is_there_must_be_of_the_pinned_files(
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
        with pytest.raises(UserError, match=f"conll2003_en {message}; fetch it again with --replace"):
            fetch(other, tmp_path)
        assert load(tmp_path, "conll2003_en").manifest == before
        three = pinned(**{role: files[role] for role in ("train", "validation", "test")})
        again = fetch(three, tmp_path, replace_old=True)
        assert fetch(three, tmp_path) == again
        moved = replace(three, pins=tuple(replace(pin, commit=OTHER) for pin in three.pins))
        with pytest.raises(UserError, match=f"takes .* at {COMMIT}, this package pins {OTHER}"):
            fetch(moved, tmp_path)


def test_what_was_not_fetched_is_not_compared_with_the_pins(tmp_path: Path) -> None:
    made = make_synthetic(tmp_path, "conll2003_en", train=8, evaluation=4)
    assert fetch("conll2003_en", tmp_path) == made
