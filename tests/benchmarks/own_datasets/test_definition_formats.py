"""TOML and YAML files mean the same; what YAML reads as something else than it shows is refused with its line."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import yaml

from benchmarks.own_datasets.definition_file import read_definitions
from benchmarks.own_datasets.definition_formats import FORMATS, read_tables
from benchmarks.own_datasets.ready_definitions import ready_files
from common.errors import UserError

GOOD = """reviews:
  kind: text
  labels: [bad, fair, good]
  metric: macro_f1
  prompt: "Review: {text}"
  columns: {text: body, label: stars}
  files: {train: a.tsv, test: [b.tsv, c.tsv]}
"""


def test_yaml_says_what_toml_says(tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text(GOOD)
    (tmp_path / "my.toml").write_text(
        '[reviews]\nkind = "text"\nlabels = ["bad", "fair", "good"]\nmetric = "macro_f1"\nprompt = "Review: {text}"\n'
        'columns = {text = "body", label = "stars"}\nfiles = {train = "a.tsv", test = ["b.tsv", "c.tsv"]}\n'
    )
    assert read_definitions(tmp_path / "my.yaml") == read_definitions(tmp_path / "my.toml")


@pytest.mark.parametrize("stem", ready_files())
def test_every_ready_file_written_as_yaml_defines_the_same(stem: str, tmp_path: Path) -> None:
    tables = tomllib.loads(ready_files()[stem].read_text("utf-8"))
    (tmp_path / "again.yml").write_text(yaml.safe_dump(tables, allow_unicode=True), encoding="utf-8")
    assert read_tables(tmp_path / "again.yml") == tables


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "defines no dataset"),
        ("- a\n", "defines no dataset"),
        ("reviews: 3\n", "give the dataset a table of its own"),
        (
            "reviews:\n  kind: text\n  kind: pair\n",
            r"not valid YAML: the key 'kind' occurs twice \(at line 3, column 3",
        ),
        (GOOD + GOOD, r"the key 'reviews' occurs twice \(at line 8"),
        ("reviews:\n  files: {train: a, train: b}\n", "the key 'train' occurs twice"),
        ("1: {kind: text}\n", r"the key '1' must be a text in quotation marks \(at line 1"),
        (
            "reviews: &a {kind: text}\nmore: *a\n",
            r"anchors and aliases are not read; write the text out \(at line 1",
        ),
        ("more: *a\n", r"anchors and aliases are not read.*line 1"),
        ("reviews:\n  <<: {kind: text}\n", r"the key '<<' must be a text"),
        ("reviews: !!python/object/apply:os.system [true]\n", "could not determine a constructor.*line 1"),
        ("reviews: {kind: text\n", "not valid YAML: .*line 2"),
        ("a: \x07\n", "not valid YAML"),
        ("reviews: {kind: text, labels: [no, yes]}\n", "the label False must be a text in quotation marks"),
        ("reviews: {kind: text, labels: [0.5, 1]}\n", "the label 0.5 must be a text in quotation marks"),
        ("reviews: {kind: text, labels: [a, b], title: 2024-01-01}\n", "title = .* must be a text"),
        ("[" * 5_000, "not valid YAML"),
    ],
)
def test_a_bad_yaml_file_is_one_sentence_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message) as caught:
        read_definitions(tmp_path / "my.yaml")
    assert str(tmp_path / "my.yaml") in str(caught.value) and "\n" not in str(caught.value)


def test_other_names_and_other_files_are_refused(tmp_path: Path) -> None:
    assert list(FORMATS) == [".toml", ".yaml", ".yml"]
    (tmp_path / "my.json").write_text("{}")
    with pytest.raises(UserError, match=r"its name must end in one of \.toml, \.yaml, \.yml"):
        read_definitions(tmp_path / "my.json")
    (tmp_path / "my.yaml").write_bytes(b"\xff")
    with pytest.raises(UserError, match="is not UTF-8"):
        read_definitions(tmp_path / "my.yaml")
    (tmp_path / "big.yaml").write_text("a: b\n" * (1 << 18))
    with pytest.raises(UserError, match="no such file needs more than"):
        read_definitions(tmp_path / "big.yaml")
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(UserError, match="is a folder"):
        read_definitions(tmp_path / "folder.toml")
