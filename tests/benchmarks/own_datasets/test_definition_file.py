"""A file of datasets of one's own: what it may say, and one sentence for what it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.own_datasets.definition_file import KINDS, read_definitions
from benchmarks.own_datasets.definitions import DEFINITIONS, register
from benchmarks.protocol import DATASETS, PAPER_DATASETS, datasets_of
from common.errors import UserError
from tests.benchmarks.own_datasets.given import GOOD

COMMIT = "0" * 40


pytestmark = pytest.mark.usefixtures("no_definitions_left")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "defines no dataset"),
        ("[mine\n", r"is not valid TOML: .*line 4"),
        ("mine = 3\n", r"give the dataset a table of its own, \[mine\]"),
        ('[Mine]\nkind = "text"\n', "made of small letters"),
        ("[mine]\nlabels = []\n", "`kind` is missing; one of text, pair"),
        ('[mine]\nkind = "txt"\n', r"\[mine\]: unknown kind of dataset 'txt'; did you mean 'text'"),
        (GOOD + "metrik = 3\n", "unknown key 'metrik'; did you mean 'metric'"),
        (GOOD + 'metric = "entity_f1"\n', "is no metric of 'text'.*one of accuracy, macro_f1"),
        ('[mine]\nkind = "text"\nlabels = ["a", "b", "c"]\nmetric = "f1"\n', "with 3 take macro_f1"),
        ('[mine]\nkind = "text"\n', "`labels` is missing"),
        ('[mine]\nkind = "text"\nlabels = ["a", "a"]\n', "a label occurs twice"),
        ('[mine]\nkind = "answers"\nlabels = ["a", "b"]\n', "'answers' has no labels"),
        ('[mine]\nkind = "tags"\nlabels = ["B-X", "I-X"]\n', "the tags lack O"),
        ('[mine]\nkind = "value"\n', "`range` must be the smallest and the largest"),
        ('[mine]\nkind = "value"\nrange = [5, 0]\n', "`range` must be the smallest and the largest"),
        (GOOD + "range = [0, 1]\n", "`range` is of the kind 'value'"),
        (GOOD + 'prompt = "{second}"\n', r"the prompt has the place \{second\}"),
        (GOOD + 'prompt = "Review"\n', r"the prompt lacks the place \{text\}"),
        ('[mine]\nkind = "answers"\nprompt = "{text}"\n', "has a prompt of its own"),
        (GOOD + 'columns = {txt = "body"}\n', "unknown field 'txt' in columns; did you mean 'text'"),
        (GOOD + "columns = {text = 3}\n", "columns.text must be the name of a column"),
        (GOOD + 'files = {dev = "d.tsv"}\n', "unknown file 'dev'"),
        (GOOD + "files = {train = 3}\n", "files.train must be a path or a list of paths"),
        (GOOD + 'files = {train = "a"}\nhub = {repo = "a/b"}\n', "give `files` or `hub`, not both"),
        (GOOD + 'hub = {repo = "glue"}\n', "hub.repo must read OWNER/NAME"),
        (GOOD + 'hub = {repo = "a/b", revision = "main"}\n', "hub.revision must be a commit of 40"),
        (GOOD + f'hub = {{repo = "a/b", revision = "{COMMIT}", dev = "x"}}\n', "unknown key hub.dev"),
        (GOOD + "epochs = 0\n", "epochs = 0 must be a whole number of at least 1"),
        (GOOD + 'trained_on = "msmarco"\n', "only retrieval can name another set"),
        (GOOD.replace("mine", "sst2"), "sst2 is a name of the paper's"),
        (GOOD.replace("mine", "qed"), "qed is a name of the paper's"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_nothing_is_registered(file: Path, text: str, message: str) -> None:
    file.write_text('[good]\nkind = "text"\nlabels = ["a", "b"]\n' + text if "[" in text else text)
    with pytest.raises(UserError, match=message) as caught:
        register(file)
    assert str(file) in str(caught.value) and "\n" not in str(caught.value)
    assert not DEFINITIONS and list(DATASETS) == list(PAPER_DATASETS)
    with pytest.raises(UserError, match="there is no file"):
        register(file.with_name("other.toml"))


def test_every_kind_makes_a_dataset(file: Path) -> None:
    tables = []
    for number, kind in enumerate(KINDS.values()):
        labels = '["O", "B-X"]' if kind.labelled else "[]"
        tables.append(f'[set{number}]\nkind = "{kind.name}"\nlabels = {labels}\n')
        tables.append("range = [0, 1]\n" if kind.name == "value" else "")
    file.write_text("".join(tables))
    for found, kind in zip(register(file), KINDS.values(), strict=True):
        dataset = DATASETS[found.name]
        assert (dataset.task, dataset.form, dataset.headline) == (kind.task, kind.form, kind.metrics[0])
        assert dataset.labels == {
            "text": 2,
            "pair": 2,
            "labels": 2,
            "value": 1,
            "tags": 2,
            "retrieval": None,
        }.get(kind.name, 2)
        assert not dataset.in_paper and found.name not in datasets_of(dataset.task)
    assert [definition.name for definition in register(file)] == list(
        DEFINITIONS
    )  # a second time changes nothing
    file.write_text('[set0]\nkind = "text"\nlabels = ["a", "b", "c"]\n')
    with pytest.raises(UserError, match="set0 is another dataset than that of"):
        register(file)


def test_reading_alone_registers_nothing(file: Path) -> None:
    file.write_text(GOOD)
    assert [definition.name for definition in read_definitions(file)] == ["mine"]
    assert "mine" not in DATASETS
