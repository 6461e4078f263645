"""Which model classes of the installed transformers run: `python -m tests.benchmarks.families.table` writes the page.

Each is tiny, drawn at random, and fine-tuned for five steps of each task by the commands that a user calls.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import torch
import transformers

from benchmarks.datasets.local_dataset import load
from benchmarks.datasets.synthetic import make_synthetic
from clm_or_mlm.__main__ import main
from common.errors import UserError
from tests.benchmarks.families.tiny_models import families, save_tiny
from tests.benchmarks.finetuning.tokenizer_kinds import train

__all__ = ["PAGE", "page", "said_on", "tried"]

PAGE = Path(__file__).resolve().parents[3] / "docs" / "model-families.md"
NAMES = ("sst2", "uner_en", "squad", "msmarco")
_RUNS = "runs"

_HEAD = """# Which models can be measured?

We tried to fine-tune a tiny, randomly initialised model of each text-only class of transformers {version} for five
steps on each of the four tasks with `clm-or-mlm benchmarks run`. The command tests each model: its outputs must depend
on later tokens, and every module must see both sides of a token. If padding changes the outputs, texts are batched by
length. Where a class's head needs more than hidden states (GTE, Nomic BERT, Longformer, XLNet), the package uses its
standard head. `run`, with or without `--dry-run`, prints the result of this test.
`python -m tests.benchmarks.families.table` writes this page.

| kind of model | model types |
|---|---|
"""
_REFUSED = """
## Refused

| reason | model types |
|---|---|
"""
_ONE_SIDED = """
These models cannot be made bidirectional: some of their modules see only one side of a token.

| number and class of one-sided modules | model types |
|---|---|
"""
_ONE_SIDE = "cannot be made bidirectional: a token sees only one side in {} of its modules ({})"


def tried(name: str, config: type, folder: Path) -> str:
    """Return what the commands print about a model type: its kind after `runs: `, or why it is refused.

    Raises:
        AssertionError: `--dry-run` and `run` differ, or a run is not complete.
    """
    data = folder / "data"
    if not data.is_dir():
        for dataset in NAMES:
            make_synthetic(data, dataset, train=64, evaluation=16)
    texts = load(data, "sst2").train["first"].to_pylist() + load(data, "squad").train["context"].to_pylist()
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


def page(found: dict[str, str]) -> str:
    """Return the page for what was said of each model type."""
    runs, refused = defaultdict(list), defaultdict(list)
    for name, said in sorted(found.items()):
        kind, _, what = said.partition(": ")
        (runs if kind == _RUNS else refused)[what].append(f"`{name}`")
    text = _HEAD.format(version=transformers.__version__.partition(".")[0])
    text += "".join(_row(what, names) for what, names in sorted(runs.items(), key=_size))
    pattern = re.escape(_ONE_SIDE).replace(r"\{\}", "(.*)")
    sided = {what: match for what in refused if (match := re.fullmatch(pattern, what))}
    text += _REFUSED + "".join(_row(what, refused[what]) for what in sorted(refused.keys() - sided.keys()))
    modules = {f"{match[1]} {match[2]}": refused[what] for what, match in sided.items()}
    return text + _ONE_SIDED + "".join(_row(what, names) for what, names in sorted(modules.items()))


def _row(what: str, names: list[str]) -> str:
    return f"| {what} | {', '.join(names)} |\n"


def said_on(text: str) -> dict[str, str]:
    """Return what a page says of each model type, as `tried` does."""
    runs, rest = text.split(_REFUSED)
    refused, sided = rest.split(_ONE_SIDED)
    found = {}
    for words, part in ((f"{_RUNS}: {{}}", runs), ("refused: {}", refused), (f"refused: {_ONE_SIDE}", sided)):
        for what, names in re.findall(r"^\| (.*) \| (`.*`) \|$", part, re.MULTILINE):
            slots = what.split(" ", 1) if part is sided else [what]
            found |= dict.fromkeys(re.findall("`(.*?)`", names), words.format(*slots))
    return found


def _size(item: tuple[str, list[str]]) -> tuple[int, str]:
    return -len(item[1]), item[0]


def _all(names: Iterable[str], record: Path) -> dict[str, str]:
    """Return what is said of each, in a file as well, from which a later call continues."""
    known = dict(json.loads(line) for line in record.read_text().splitlines()) if record.is_file() else {}
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
    (print if "PAGE_SKIP" in os.environ else PAGE.write_text)(
        page(_all(sys.argv[2:], Path(sys.argv[1] if len(sys.argv) > 1 else "families.jsonl")))
    )
