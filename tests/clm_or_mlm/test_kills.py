"""`kill -9` ten times at moments drawn from a seed: the next call ends with the bytes of a clean one, nothing more."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.datasets.local_dataset import load_dataset
from benchmarks.datasets.synthetic import make_synthetic
from tests.benchmarks.datasets.test_fetch import COMMIT, conll_rows
from tests.benchmarks.fake_hub import FakeHub
from tests.benchmarks.tiny import make_tokenizer, save_model
from tests.kills import survives

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def test_ingest(store: Path, tmp_path: Path) -> None:
    survives(
        [
            "-m",
            "clm_or_mlm",
            "ingest",
            str(store),
            "--out",
            "runs.parquet",
            "--instances",
            "instances",
        ],
        tmp_path,
    )


@pytest.mark.parametrize(
    "words",
    [
        "figure 2 3 claims --out figures",
        "claims --out claims.json",
        "report --out index.html",
    ],
)
def test_of_published_cells(words: str, tmp_path: Path) -> None:
    survives(["-m", "clm_or_mlm", *words.split()], tmp_path)


def test_import(tmp_path: Path) -> None:
    originals = tmp_path / "originals"
    originals.mkdir()
    for name, count in (("train.tsv", 20_000), ("dev.tsv", 500)):
        rows = "".join(f"a film number {i} of {count}\t{i % 2}\n" for i in range(count))
        (originals / name).write_text(f"sentence\tlabel\n{rows}")
    files = [
        "--train",
        str(originals / "train.tsv"),
        "--validation",
        str(originals / "dev.tsv"),
    ]
    survives(["-m", "clm_or_mlm", "import", "sst2", *files, "--out", "data"], tmp_path)


@pytest.fixture
def hub() -> Iterator[str]:
    files = {
        f"data/{split}-00000-of-00001.parquet": conll_rows(4_000)
        for split in ("train", "validation", "test")
    }
    with FakeHub(
        {"hgissbkh/conll2003-en": {"main": (COMMIT, files)}}
    ).serve() as endpoint:
        yield endpoint


def test_fetch(hub: str, tmp_path: Path) -> None:
    survives(
        ["-m", "clm_or_mlm", "fetch", "conll2003_en", "--out", "data"],
        tmp_path,
        HF_ENDPOINT=hub,
    )


def test_run(tmp_path: Path) -> None:
    make_synthetic(tmp_path / "data", "uner_en", train=96, evaluation=24)
    texts = [
        " ".join(words)
        for words in load_dataset(tmp_path / "data", "uner_en")
        .train["words"]
        .to_pylist()
    ]
    save_model(tmp_path / "model", make_tokenizer(texts))
    folders = [
        "--model",
        str(tmp_path / "model"),
        "--data",
        str(tmp_path / "data"),
        "--out",
        "results",
    ]
    few = [
        "--steps",
        "20",
        "--dataset",
        "uner_en",
        "--lr",
        "1e-3",
        "2e-3",
        "--seed",
        "0",
        "1",
    ]
    words = ["benchmarks", "run", *folders, *few, "--device", "cpu", "--workers", "1"]
    survives(["-m", "clm_or_mlm", *words], tmp_path)
