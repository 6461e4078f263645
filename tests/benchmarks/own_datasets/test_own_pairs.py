"""From a definition and a file of pairs to a kept sentence-transformers folder."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from benchmarks.datasets.local_dataset import load_dataset
from benchmarks.own_datasets.definition_file import read_definitions
from common.errors import UserError
from tests.benchmarks.command import command

NOUNS = [
    "valve",
    "pump",
    "filter",
    "motor",
    "sensor",
    "cable",
    "switch",
    "gear",
    "belt",
    "lamp",
]
VERBS = ["clean", "replace", "test", "order", "fix", "oil"]
PAIRS = [
    (
        f"how do I {verb} the {noun}",
        f"To {verb} the {noun}, open the cover of the {noun} first.",
    )
    for noun in NOUNS
    for verb in VERBS
]


def written(folder: Path, ending: str, pairs: list[tuple[str, str]]) -> Path:
    """A definition whose file of pairs, or of triplets in JSON lines, is next to it."""
    if ending == "tsv":
        text = "".join(f"{query}\t{document}\n" for query, document in pairs)
    else:
        others = [*pairs[6:], *pairs[:6]]  # the same of another part of the machine
        rows = [
            {"query": query, "positive": positive, "negatives": [other]}
            for (query, positive), (_, other) in zip(pairs, others, strict=True)
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / f"pairs.{ending}").write_text(text)
    definition = folder / "manuals.toml"
    definition.write_text(
        f'[manuals]\nkind = "retrieval"\nfiles = {{train = "pairs.{ending}"}}\nlicence = "ours"\n'
    )
    return definition


@pytest.mark.parametrize("ending", ["tsv", "jsonl"])
def test_pairs_train_an_encoder_that_sentence_transformers_loads(
    ending: str,
    model_folder: Callable[..., Path],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    definition = written(tmp_path, ending, [*PAIRS, PAIRS[0]])
    data = ["--datasets", str(definition), "--data", str(tmp_path / "data")]
    assert not command("import")(
        ["manuals", "--datasets", str(definition), "--out", str(tmp_path / "data")]
    )
    local = load_dataset(tmp_path / "data", read_definitions(definition)[0])
    asked = {
        split: set(local.queries(split)["text"].to_pylist())
        for split in ("validation", "test")
    }
    assert ("negatives" in local.train.column_names) == (ending == "jsonl")
    trained = set(local.train["query"].to_pylist())
    assert [len(asked["validation"]), len(asked["test"]), len(trained)] == [3, 3, 54]
    assert asked["validation"] | asked["test"] | trained == {
        query for query, _ in PAIRS
    }
    words = [
        "--model",
        str(model_folder("llama")),
        "--out",
        str(tmp_path / "store"),
        "--keep",
        "best",
        *data,
    ]
    words += [
        "--lr",
        "1e-3",
        "3e-3",
        "--seed",
        "0",
        "--steps",
        "20",
        "--device",
        "cpu",
        "--workers",
        "1",
    ]
    capfd.readouterr()  # what saving the start printed
    assert not command("benchmarks", "run")(words)
    assert "Writing model" not in capfd.readouterr().err
    (folder,) = (tmp_path / "store/encoders/llama/IR/manuals").iterdir()
    card = (folder / "README.md").read_text()
    assert "licence: ours" in card and "sentence_transformers" in card
    model, tokenizer = (
        AutoModel.from_pretrained(folder).eval(),
        AutoTokenizer.from_pretrained(folder),
    )
    assert json.loads((folder / "modules.json").read_text())[1]["path"] == "1_Pooling"
    ids = tokenizer("how do I oil the lamp", return_tensors="pt")["input_ids"]
    other = ids.clone()
    other[0, -1] = 5
    with torch.no_grad():  # the first token sees the last
        first, second = (
            model(input_ids=each).last_hidden_state[0, 0] for each in (ids, other)
        )
    assert float((first - second).abs().max()) > 1e-6


def test_a_few_pairs_are_refused(tmp_path: Path) -> None:
    definition = written(tmp_path, "tsv", PAIRS[:5])
    with pytest.raises(
        UserError,
        match=r"manuals has pairs of 5 different queries.*at least 20.*--corpus",
    ):
        command("import")(
            ["manuals", "--datasets", str(definition), "--out", str(tmp_path / "data")]
        )
