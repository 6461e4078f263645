"""The datasets that are defined already: each is valid, is fetched from where it says, and reads files of its form."""

import io
import json
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.commands.grid import GridOptions
from benchmarks.datasets.local_dataset import (
    dataset_manifest,
    load_dataset,
    verify_dataset,
)
from benchmarks.own_datasets.definition_file import READY, read_definitions, ready_text
from benchmarks.protocol import DATASETS, Dataset
from common.errors import UserError
from common.provenance import ROOT
from tests.benchmarks.command import command
from tests.benchmarks.fake_hub import FakeHub

NUMBERS = {
    "beir": 12,
    "glue": 7,
    "xnli": 15,
}
COMMITS = ("c" * 40, "d" * 40)
"""Of the hub's conversion, and of the branch."""
KNOWN = {
    pin.commit
    for dataset in DATASETS.values()
    for pin in dataset.files.pins
    if pin.commit
}


@pytest.mark.parametrize("stem", READY)
def test_a_ready_file_is_valid_and_invents_no_revision(stem: str) -> None:
    found = read_definitions(READY[stem])
    assert len(found) == NUMBERS[stem]
    for definition in found:
        assert (
            definition.name.startswith(stem.replace("-", "_"))
            and definition.name not in DATASETS
        )
        assert (
            definition.is_own
            and definition.files.citation != "not stated"
            and definition.files.pins
        )
        roles = {pin.role for pin in definition.files.pins}
        assert roles & {"validation", "test"}
        assert (
            {"queries", "corpus"} <= roles
            if definition.task == "IR"
            else "train" in roles
        )
        assert {pin.commit for pin in definition.files.pins} <= KNOWN | {None}
        assert definition_again(definition) == definition
    if any(pin.commit is None for definition in found for pin in definition.files.pins):
        assert (
            "the first fetch finds the branch's, and the\n# dataset's manifest"
            in READY[stem].read_text("utf-8")
        )


def definition_again(definition: Dataset) -> Any:
    """What one gets by the name with dashes."""
    (found,) = read_definitions(Path(definition.name.replace("_", "-")))
    return found


def test_names_are_of_files_and_datasets_with_the_nearest_named(
    tmp_path: Path,
) -> None:
    assert len(read_definitions(Path("glue"))) == 7
    assert [definition.name for definition in read_definitions(Path("xnli-de"))] == [
        "xnli_de"
    ]
    for word, message in (
        ("glue-col", "glue has no dataset 'glue-col'; .*; did you mean 'glue_cola'"),
        (
            "xnl",
            "there is no file xnl and no ready-made definition .*; did you mean 'xnli'",
        ),
        ("my.toml", "there is no file my.toml"),
        (
            str(tmp_path / "xnli"),
            "is not a dataset definition: that must be a TOML file whose name ends in .toml",
        ),
    ):
        with pytest.raises(UserError, match=message):
            read_definitions(Path(word))


def test_a_file_hides_a_ready_one_and_a_folder_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "beir").mkdir()
    assert len(read_definitions(Path("beir"))) == NUMBERS["beir"]
    (tmp_path / "xnli").touch()
    with pytest.raises(
        UserError, match="is not a dataset definition: that must be a TOML file"
    ):
        read_definitions(Path("xnli"))


def test_the_command_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert not command("datasets")(["ready"])
    shown = capsys.readouterr().out
    assert shown == ready_text() + "\n" and shown.count("\n") == sum(NUMBERS.values())
    assert (
        "glue_cola" in shown
        and "nyu-mll/glue@bcdcba79d07b" in shown
        and "facebook/xnli@at fetch" in shown
    )


def test_without_names_those_of_the_files_are_meant(tmp_path: Path) -> None:
    _, names, _, _ = GridOptions(
        datasets=(Path("glue-cola"), Path("beir-scifact")), out=tmp_path
    ).grid()
    assert names == ("glue_cola", "beir_scifact")
    _, names, _, _ = GridOptions(
        datasets=(Path("glue-cola"),), dataset=("SC",), out=tmp_path
    ).grid()
    assert names == ("sst2", "qqp", "mnli_m")


def parquet(
    rows: list[dict[str, Any]], names: dict[str, list[str]] | None = None
) -> bytes:
    """Rows as a hub's Parquet file, which names the classes of a column."""
    table = pa.Table.from_pylist(rows)
    if names:
        features = {
            column: {"names": known, "_type": "ClassLabel"}
            for column, known in names.items()
        }
        table = table.replace_schema_metadata(
            {"huggingface": json.dumps({"info": {"features": features}})}
        )
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def made_up(definition: Dataset, role: str, n: int = 40) -> bytes:
    """A file of a role with the columns of the repository."""
    columns = definition.files.columns
    if definition.task == "IR":
        if role in ("queries", "corpus"):
            return parquet(
                [
                    {"_id": f"{role[0]}{i}", "title": "", "text": f"{role} {i}"}
                    for i in range(n)
                ]
            )
        first = 0 if role == "test" else n // 2
        lines = (f"q{i}\tc{i}\t1" for i in range(first, first + n // 2))
        return "\n".join(["query-id\tcorpus-id\tscore", *lines, ""]).encode()
    if definition.task == "QA":
        answers = {"text": ["Oslo"], "answer_start": [7]}
        row = {"context": "It was Oslo.", "answers": answers}
        return parquet(
            [{**row, "id": f"{role}{i}", "question": f"{role} {i}?"} for i in range(n)]
        )
    if definition.task == "TC":
        tagged = [
            {"id": str(i), "tokens": [f"{role}{i}", "Oslo"], "ner_tags": [0, 5]}
            for i in range(n)
        ]
        return parquet(tagged)
    texts = {
        columns[field][0]: f"{field} {role}"
        for field in ("text", "second")
        if field in columns
    }
    if definition.form == "SC-value":
        return parquet(
            [
                {**{c: f"{t} {i}" for c, t in texts.items()}, "label": i % 6 / 1.2}
                for i in range(n)
            ]
        )
    rows = [
        {
            **{c: f"{t} {i}" for c, t in texts.items()},
            "label": i % len(definition.label_names),
        }
        for i in range(n)
    ]
    return parquet(rows, {"label": list(definition.label_names)})


def hub_of(definition: Dataset) -> FakeHub:
    """A hub with the definition's files: the last pattern of each role, as if the first ones matched nothing."""
    repos: dict[str, dict[str, tuple[str, dict[str, bytes]]]] = {}
    for pin in definition.files.pins:
        branch, colon, path = pin.files[-1].partition(":")
        branch, path = (branch, path) if colon else ("main", pin.files[-1])
        places = repos.setdefault(pin.repo, {"main": (pin.commit or COMMITS[1], {})})
        place = places.setdefault(branch, (COMMITS[0], {}))
        place[1][path.replace("*", "0000")] = made_up(definition, pin.role)
    return FakeHub(repos)


FETCHED = (
    "beir-nfcorpus",
    "beir-scifact",
    "glue-cola",
    "glue-mrpc",
    "glue-stsb",
    "glue-qnli",
    "xnli-sw",
)
"""One of each form."""


EXAMPLES = (ROOT / "docs/languages.toml").read_text(encoding="utf-8")
"""Definitions to copy, of more languages."""


@pytest.mark.parametrize("word", [*FETCHED, *tomllib.loads(EXAMPLES)])
def test_each_form_is_fetched_with_one_command_at_a_commit(
    word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if word not in FETCHED:
        example = EXAMPLES[EXAMPLES.index(f"[{word}]") :].partition("\n\n")[0]
        (tmp_path / "my.toml").write_text(example, encoding="utf-8")
        word = str(tmp_path / "my.toml")
    (definition,) = read_definitions(Path(word))
    fake = hub_of(definition)
    with fake.serve():
        # Not MS MARCO as well
        named = [definition.name] if definition.task == "IR" else []
        assert not command("fetch")(
            [*named, "--datasets", word, "--out", str(tmp_path)]
        )
        before = len(fake.gets)
        assert (
            not command("fetch")([*named, "--datasets", word, "--out", str(tmp_path)])
            and len(fake.gets) == before
        )
    assert verify_dataset(tmp_path, definition) == []
    manifest = dataset_manifest(tmp_path, definition)
    counts = manifest.counts
    assert counts["test"] in (10, 20, 40) and counts["validation"] >= 2
    files = manifest.source["files"]
    assert {file["revision"] for file in files} <= {*COMMITS, *KNOWN} and all(
        file["sha256"] for file in files
    )
    found = load_dataset(tmp_path, definition)
    assert not found.labels or set(found.labels) == set(definition.label_names)
