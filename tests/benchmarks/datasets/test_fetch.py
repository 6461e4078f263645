"""Fetching, with the real hub client against a hub on a local port."""

import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from benchmarks.commands.datasets import PARTIAL
from benchmarks.datasets.fetch import UnreachableError, fetch
from benchmarks.datasets.local_dataset import load_dataset
from benchmarks.datasets.synthetic import make_synthetic
from benchmarks.protocol import DATASETS, Dataset, Pin
from common.errors import UserError
from common.manifest import MANIFEST
from common.provenance import ROOT
from tests.benchmarks.command import command
from tests.benchmarks.fake_hub import COMMIT, OTHER, FakeHub, conll_rows, parquet
from tests.commands import python

main = command("fetch")
pytestmark = pytest.mark.usefixtures("hub")


def _pinned(*pins: Pin) -> Dataset:
    """CoNLL-2003 with these files on a hub."""
    dataset = DATASETS["conll2003_en"]
    return replace(dataset, files=replace(dataset.files, pins=pins))


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def test_first_fetch_keeps_the_commit(tmp_path: Path, fake: FakeHub) -> None:
    manifest = fetch("conll2003_en", tmp_path)
    assert manifest.counts == {"train": 40, "validation": 40, "test": 40}
    assert manifest.source["kind"] == "hub"
    assert load_dataset(tmp_path, "conll2003_en").labels[5] == "B-LOC"
    files = manifest.source["files"]
    assert [(file["role"], file["revision"]) for file in files] == [
        ("train", COMMIT),
        ("validation", COMMIT),
        ("test", COMMIT),
    ]
    content = fake.repos["hgissbkh/conll2003-en"]["main"][1]
    assert all(
        file["sha256"] == sha256(content[file["path"]]).hexdigest() for file in files
    )
    assert [path.name for path in tmp_path.iterdir()] == ["conll2003_en"], (
        "downloads are removed"
    )
    before = len(fake.gets)
    assert fetch("conll2003_en", tmp_path) == manifest
    assert len(fake.gets) == before, "nothing is downloaded twice"


def test_the_commit_of_the_manifest_wins_over_a_moved_branch(
    tmp_path: Path, fake: FakeHub
) -> None:
    first = fetch("conll2003_en", tmp_path / "a")
    branches = fake.repos["hgissbkh/conll2003-en"]
    branches["old"] = branches["main"]
    branches["main"] = (OTHER, {path: conll_rows(30) for path in branches["old"][1]})
    elsewhere = tmp_path / "b" / "conll2003_en"
    elsewhere.mkdir(parents=True)
    shutil.copy(tmp_path / "a" / "conll2003_en" / MANIFEST, elsewhere)
    with pytest.raises(UserError, match="fetch it again with --replace"):
        fetch("conll2003_en", tmp_path / "b")
    assert fetch("conll2003_en", tmp_path / "b", replace_old=True) == first
    assert fetch("conll2003_en", tmp_path / "c").counts["train"] == 30, (
        "elsewhere the branch counts"
    )
    del branches["old"]
    with pytest.raises(UserError, match=f"has no commit {COMMIT} on the hub"):
        fetch("conll2003_en", tmp_path / "b", replace_old=True)


def test_content_that_differs_from_the_manifest_is_refused(
    tmp_path: Path, fake: FakeHub
) -> None:
    fetch("conll2003_en", tmp_path)
    files = fake.repos["hgissbkh/conll2003-en"]["main"][1]
    changed = conll_rows(40, shift=1)
    assert len(changed) == len(files["data/test-00000-of-00001.parquet"])
    files["data/test-00000-of-00001.parquet"] = changed
    with pytest.raises(
        UserError,
        match=r"test-00000-of-00001\.parquet .* has the SHA-256 .* the manifest says",
    ):
        fetch("conll2003_en", tmp_path, replace_old=True)
    assert load_dataset(tmp_path, "conll2003_en").tables["test"].num_rows == 40, (
        "what was there stays"
    )
    left = [path.name for path in (tmp_path / ".downloads").rglob("*.parquet")]
    assert "test-00000-of-00001.parquet" not in left


def test_killed_fetch_goes_on(tmp_path: Path, fake: FakeHub) -> None:
    """Killed in the middle of a file: whole files stay, and nothing is believed of the unfinished one."""
    big = parquet(
        [{"words": [os.urandom(8_000).hex()], "ner": [0]} for _ in range(1_600)]
    )
    assert len(big) > 21 << 20, "the client writes blocks of 10 MB"
    files = fake.repos["hgissbkh/conll2003-en"]["main"][1]
    files["data/validation-00000-of-00001.parquet"] = big
    # The same content is brought once
    files["data/test-00000-of-00001.parquet"] = conll_rows(40, shift=1)
    command = [
        sys.executable,
        "-m",
        "clm_or_mlm",
        "fetch",
        "conll2003_en",
        "--out",
        str(tmp_path),
    ]
    with fake.serve():
        fake.stall_after = 21 << 20
        process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
        assert fake.stalled.wait(60)
        wait_until(
            lambda: (
                len(list(tmp_path.glob(".downloads/*/*/snapshots/*/data/*.parquet")))
                == 2
            )
        )
        process.kill()
        process.wait()
        fake.go_on.set()
        assert not (tmp_path / "conll2003_en").exists()
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    asked = Counter(path.split("/")[1].split("-")[0] for path, _ in fake.gets)
    assert asked == {"train": 1, "validation": 2, "test": 1}
    assert load_dataset(tmp_path, "conll2003_en").manifest.counts["validation"] == 1_600


def test_what_is_not_there(tmp_path: Path, fake: FakeHub) -> None:
    with pytest.raises(
        UserError, match="hgissbkh/record is not on the hub, or you do not have access"
    ):
        fetch("record", tmp_path)
    del fake.repos["hgissbkh/conll2003-en"]["main"][1][
        "data/test-00000-of-00001.parquet"
    ]
    with pytest.raises(
        UserError, match=r"has no test file matching .*`clm-or-mlm import`"
    ):
        fetch("conll2003_en", tmp_path)
    fake.status = 503
    with pytest.raises(UnreachableError, match=r"cannot be reached \(HTTP 503\)"):
        fetch("conll2003_en", tmp_path)
    assert not (tmp_path / "conll2003_en").exists()


@pytest.mark.slow
def test_no_network_is_one_sentence(tmp_path: Path) -> None:
    """Port 9 of this machine refuses connections; the hub's client tries for 25 s."""
    words = ("-m", "clm_or_mlm", "fetch", "--out", tmp_path / "data")
    done = python(*words, code=2, HF_ENDPOINT="http://127.0.0.1:9")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: the hub cannot be reached")
    assert "clm-or-mlm import" in done.stderr


def test_pinned_hash(tmp_path: Path) -> None:
    path = "sst2/train-00000-of-00001.parquet"
    content = parquet([{"sentence": "x", "label": 0}])
    commit = DATASETS["sst2"].files.pins[0].commit
    assert commit is not None
    files = {path: content, "sst2/validation-00000-of-00001.parquet": content}
    fake = FakeHub({"nyu-mll/glue": {"x": (commit, files)}})
    with (
        fake.serve(),
        pytest.raises(UserError, match="but the pinned hash is 66a253e67968"),
    ):
        fetch("sst2", tmp_path)


def test_command_continues_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["record", "conll2003_en", "--out", str(tmp_path)]) == PARTIAL
    assert (tmp_path / "conll2003_en").is_dir()
    assert "40 train, 40 validation, 40 test" in capsys.readouterr().out
    assert main(["conll2003_en", "--out", str(tmp_path)]) == 0
    with pytest.raises(UserError, match="did you mean 'record'"):
        main(["recrod", "--out", str(tmp_path)])


def test_repository_that_names_no_files_is_refused(
    tmp_path: Path,
) -> None:
    dataset = _pinned(Pin(role="train", repo="o/n", files=("*/t.parquet",)))
    fake = FakeHub(
        {"o/n": {"main": (COMMIT, {"a/t.parquet": b"", "b/t.parquet": b""})}}
    )
    with (
        fake.serve(),
        pytest.raises(
            UserError, match=r"o/n has train files in several folders \(a, b\)"
        ),
    ):
        fetch(dataset, tmp_path)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"train": "b/train-*", "validation": "a/dev*", "test": "a/test*"},
            r"has train data from a/train-0\.parquet of hgissbkh/conll2003-en, which fetch does not use",
        ),
        (
            {
                "train": ("a/tr*", "b/*"),
                "validation": "a/dev*",
                "test": "a/test*",
                "corpus": "a/corpus*",
            },
            "has no corpus data from hgissbkh/conll2003-en, which fetch uses",
        ),
    ],
)
def test_what_is_there_must_be_of_the_pinned_files(
    files: dict[str, str | tuple[str, ...]], message: str, tmp_path: Path
) -> None:
    def pinned(**patterns: str | tuple[str, ...]) -> Dataset:
        found = (
            Pin(
                role=role,
                repo="hgissbkh/conll2003-en",
                files=(one,) if isinstance(one, str) else one,
            )
            for role, one in patterns.items()
        )
        return _pinned(*found)

    places = (
        "a/train-0.parquet",
        "a/dev.parquet",
        "a/test.parquet",
        "b/train-0.parquet",
        "a/corpus.parquet",
    )
    fake = FakeHub(
        {
            "hgissbkh/conll2003-en": {
                "main": (COMMIT, {path: conll_rows(8) for path in places})
            }
        }
    )
    with fake.serve():
        before = fetch(
            pinned(train="a/train-*", validation="a/dev*", test="a/test*"), tmp_path
        )
        other = pinned(**files)
        with pytest.raises(
            UserError, match=f"conll2003_en {message}; fetch it again with --replace"
        ):
            fetch(other, tmp_path)
        assert load_dataset(tmp_path, "conll2003_en").manifest == before
        three = pinned(
            **{role: files[role] for role in ("train", "validation", "test")}
        )
        again = fetch(three, tmp_path, replace_old=True)
        assert fetch(three, tmp_path) == again
        moved = _pinned(*(replace(pin, commit=OTHER) for pin in three.files.pins))
        with pytest.raises(
            UserError,
            match=f"was made from .* at {COMMIT}, but this package pins {OTHER}",
        ):
            fetch(moved, tmp_path)


def test_what_was_not_fetched_is_not_compared_with_the_pins(tmp_path: Path) -> None:
    made = make_synthetic(tmp_path, "conll2003_en", train=8, evaluation=4)
    assert fetch("conll2003_en", tmp_path) == made
