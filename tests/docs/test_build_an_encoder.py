"""The commands and the blank of docs/build-an-encoder.md, on a tiny decoder."""

import csv
import re
import shlex
from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer

from clm_or_mlm.__main__ import main
from common.provenance import ROOT
from tests.pretraining.documents import make_documents
from tests.pretraining.families import save_start

PAGE = (ROOT / "docs" / "build-an-encoder.md").read_text(encoding="utf-8")
COMMANDS = [
    shlex.split(line)[1:]
    for line in re.findall(
        r"^    (clm-or-mlm .*)$", PAGE.partition("\n## ")[0], re.MULTILINE
    )
]
SMALL = {
    "shards": ["--validation-share", "0.05", "--workers", "0"],
    "adapt": shlex.split(
        "--steps 2 --set global_batch=4 --set max_length=24 --set eval_sequences=4 --set callbacks="
    ),
    "benchmarks": shlex.split(
        "--lr 1e-2 --seed 0 1 --steps 4 --device cpu --workers 1"
    ),
}
FOLDER = "encoder/models/smollm2-mlm30-3815"


@pytest.fixture(scope="module")
def adapted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder where the six commands were run, as they stand, but with smaller settings."""
    place = tmp_path_factory.mktemp("builder")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        save_start(place / "smollm2", "llama")
        texts = make_documents(900, words=8)
        Path("texts.txt").write_text("\n\n".join(make_documents(60)))
        (toml,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
        Path("manuals.toml").write_text(toml)
        with Path("triplets.csv").open("w", newline="") as file:
            names = re.search(r"columns `(\w+)`, `(\w+)`, `(\w+)`", PAGE)
            assert names is not None
            csv.writer(file).writerows(
                [
                    names.groups(),
                    *zip(texts[:300], texts[300:600], texts[600:], strict=True),
                ]
            )
        assert [words[0] for words in COMMANDS] == [
            "shards",
            "adapt",
            "import",
            "benchmarks",
            "benchmarks",
            "benchmarks",
            "compare",
        ]
        for words in COMMANDS:
            small = SMALL.get(words[0], [])
            if "--tokens" in words:  # too many for this text
                words = [word for word in words if word not in ("--tokens", "1e9")]
            assert not main([*words, *small])
            if words[0] == "adapt":  # its name says how many steps that are
                (made,) = Path("encoder/models").iterdir()
                made.rename(FOLDER)
    return place


def test_six_commands_end_with_an_interval(
    adapted: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(adapted)
    assert not main(COMMANDS[-1])
    printed = capsys.readouterr().out
    assert "manuals" in printed and re.search(
        r"(?:start|encoder) +\d.* \[[-+]\d+\.\d+, \+", printed
    ), printed
    kept = Path("results/encoders")
    assert {path.name for path in kept.iterdir()} == {"start", "encoder"}
    assert "negatives" in (adapted / "data/manuals/manifest.json").read_text()


def test_transformers_fills_the_blank_of_the_page(
    adapted: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(adapted)
    block = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[-1]
    exec(block, {})
    assert capsys.readouterr().out.strip()


def test_mined_triplets_are_imported(
    adapted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets = pytest.importorskip("datasets")
    texts = make_documents(120, words=8)
    pairs = datasets.Dataset.from_dict({"anchor": texts[:60], "positive": texts[60:]})
    model = SentenceTransformer(str(adapted / FOLDER), device="cpu")
    monkeypatch.chdir(tmp_path)
    block = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
    exec(block, {"pairs": pairs, "model": model})
    (toml,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    Path("manuals.toml").write_text(toml)
    assert not main(
        ["import", "manuals", "--datasets", "manuals.toml", "--out", "data"]
    )
    assert "negatives" in Path("data/manuals/manifest.json").read_text()
