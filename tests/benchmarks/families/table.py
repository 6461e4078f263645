"""Which model classes of the installed transformers run; `python -m tests.benchmarks.families.table` writes the list.

Each is tiny, drawn at random, and fine-tuned for five steps of each task by the commands that a user calls.
"""

import contextlib
import csv
import io
import json
import logging
import os
import re
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import torch

from benchmarks.datasets.local_dataset import load_dataset
from benchmarks.datasets.synthetic import make_synthetic
from clm_or_mlm.__main__ import main
from common.errors import UserError
from common.provenance import ROOT
from tests.benchmarks.families.tiny_models import families, save_tiny
from tests.benchmarks.finetuning.tokenizer_kinds import train

LIST = ROOT / "docs" / "model-types.csv"
_HEAD = ("model type", "what the commands say")
NAMES = ("sst2", "uner_en", "squad", "msmarco")
_RUNS = "runs"


def tried(name: str, config: type, folder: Path) -> str:
    """Return what the commands print about a model type: its kind after `runs: `, or why it is refused.

    Raises:
        AssertionError: `--dry-run` and `run` differ, or a run is not complete.
    """
    data = folder / "data"
    if not data.is_dir():
        for dataset in NAMES:
            make_synthetic(data, dataset, train=64, evaluation=16)
    texts = (
        load_dataset(data, "sst2").train["first"].to_pylist()
        + load_dataset(data, "squad").train["context"].to_pylist()
    )
    save_tiny(name, config, train("roberta", texts, 500), folder / name)
    words = [
        "benchmarks",
        "run",
        "--model",
        str(folder / name),
        "--data",
        str(data),
        "--out",
        str(folder / "results"),
    ]
    words += ["--dataset", *NAMES, "--lr", "1e-3", "--seed", "0", "--steps", "5"]
    words += ["--workers", "1", "--device", "cpu"]
    said = [_said([*words, *more]) for more in (["--dry-run"], [])]
    if said[0].startswith("refused") or said[1].startswith("refused"):
        assert said[0] == said[1], f"{name}: {said}"
        return said[0]
    assert "4 of 4 runs done, 0 failed" in said[1], f"{name}: {said[1]}"
    what = re.search(r"M parameters, (.*), inputs up to", said[0])
    assert what is not None
    return f"{_RUNS}: {what[1]}"


def _said(words: list[str]) -> str:
    """Return what a command writes, or `refused` and its sentence."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            main(words)
        except UserError as error:
            sentence = str(error)
            assert "\n" not in sentence
            return f"refused: {re.sub(r'^.*? (?=does|cannot|is )', '', re.sub(r'/[^ :]*/', '', sentence))}"
    return out.getvalue()


def listed() -> dict[str, str]:
    """Return what the list says of each model type, as `tried` does."""
    with LIST.open(encoding="utf-8", newline="") as file:
        return dict(list(csv.reader(file))[1:])  # type: ignore[arg-type]


def write(found: dict[str, str]) -> None:
    """Write the list."""
    with LIST.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([_HEAD, *sorted(found.items())])


def _all(names: Iterable[str], record: Path) -> dict[str, str]:
    """Return what is said of each, in a file as well, from which a later call continues."""
    known = (
        dict(json.loads(line) for line in record.read_text().splitlines())
        if record.is_file()
        else {}
    )
    classes = families()
    for name in names or classes:
        if name not in known:
            with tempfile.TemporaryDirectory() as folder:
                known[name] = tried(name, classes[name], Path(folder))
            with record.open("a") as file:
                file.write(json.dumps([name, known[name]]) + "\n")
    return known


if __name__ == "__main__":
    os.environ["TQDM_DISABLE"] = "1"
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    write(
        _all(sys.argv[2:], Path(sys.argv[1] if len(sys.argv) > 1 else "families.jsonl"))
    )
