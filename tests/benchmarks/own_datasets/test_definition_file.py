"""A file of datasets of one's own: what it may say, and one sentence for what it may not."""

from pathlib import Path

import pytest

from benchmarks.own_datasets.definition_file import DATASET_KINDS, read_definitions
from benchmarks.protocol import datasets_of
from common.errors import UserError
from tests.benchmarks.own_datasets.given import GOOD

COMMIT = "0" * 40


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "defines no dataset"),
        ("[mine\n", "not a TOML file: .*line 4"),
        ("mine = 3\n", r"\[mine\] is not a table"),
        ('[Mine]\nkind = "text"\n', "consists of lowercase letters"),
        ("[mine]\nlabels = []\n", r"\[mine\]: kind is missing"),
        (
            '[mine]\nkind = "txt"\n',
            r"\[mine\]: unknown kind of dataset 'txt'; .*did you mean 'text'",
        ),
        (
            GOOD + "metrik = 3\n",
            r"\[mine\]: unknown key 'metrik'; did you mean 'metric'",
        ),
        (GOOD + "title = 2024-01-01\n", r"\[mine\]: title takes text, not datetime"),
        (
            GOOD.replace('"a"', "0.5"),
            r"\[mine\]: labels takes a list; each text, not 0.5",
        ),
        (
            GOOD + 'metric = "entity_f1"\n',
            "is not a metric of 'text'.*use one of accuracy, macro_f1",
        ),
        (
            '[mine]\nkind = "text"\nlabels = ["a", "b", "c"]\nmetric = "f1"\n',
            "with 3 labels use macro_f1",
        ),
        ('[mine]\nkind = "text"\n', "`labels` must name two or more"),
        ('[mine]\nkind = "text"\nlabels = ["a", "a"]\n', "a label occurs twice"),
        ('[mine]\nkind = "answers"\nlabels = ["a", "b"]\n', "'answers' has no labels"),
        ('[mine]\nkind = "tags"\nlabels = ["B-X", "I-X"]\n', "`labels` lacks O"),
        (
            '[mine]\nkind = "tags"\nlabels = ["O", "B-X", "Y"]\n',
            "mixes schemes: B-X and Y are of no one scheme",
        ),
        ('[mine]\nkind = "value"\n', "`range` must give the smallest and the largest"),
        (
            '[mine]\nkind = "value"\nrange = [5, 0]\n',
            "`range` must give the smallest and the largest",
        ),
        (GOOD + "range = [0, 1]\n", "only the kind 'value' has a `range`"),
        (GOOD + 'prompt = "{second}"\n', r"the prompt has the placeholder \{second\}"),
        (GOOD + 'prompt = "Review"\n', r"the prompt lacks the placeholder \{text\}"),
        ('[mine]\nkind = "answers"\nprompt = "{text}"\n', "takes no prompt"),
        (
            GOOD + 'columns = {txt = "body"}\n',
            "columns: unknown key 'txt'; it can have .*; did you mean 'text'",
        ),
        (GOOD + "columns = {text = 3}\n", r"\[columns\]: text takes text, not 3"),
        (
            '[mine]\nkind = "retrieval"\ncolumns = {query = "q", anchor = "a"}\n',
            "columns: anchor is another word for query; give one of them",
        ),
        (
            GOOD + 'files = {dev = "d.tsv"}\n',
            "files: unknown key 'dev'; it can have train, validation, test",
        ),
        (GOOD + "files = {train = 3}\n", r"\[files\]: train takes a list, not 3"),
        (
            GOOD + 'files = "train.tsv"\n',
            r"files takes a table, \[files\], not 'train.tsv'",
        ),
        (
            GOOD + 'files = {train = "a"}\nhub = {repo = "a/b"}\n',
            "give `files` or `hub`, not both",
        ),
        (GOOD + 'hub = {repo = "glue"}\n', "hub.repo must have the form OWNER/NAME"),
        (GOOD + 'hub = {repo = ["a/b"]}\n', "hub.repo must have the form OWNER/NAME"),
        (
            GOOD + 'hub = {repo = "a/b", revision = "main"}\n',
            "hub.revision must be a commit of 40",
        ),
        (
            GOOD + f'hub = {{repo = "a/b", revision = "{COMMIT}", dev = "x"}}\n',
            "hub: unknown key 'dev'",
        ),
        (GOOD + 'ids = "none"\n', "only answers have ids"),
        ('[mine]\nkind = "answers"\nids = "all"\n', "the only value is 'none'"),
        (GOOD + 'leave_out = ["a"]\n', "`leave_out` has a, which is one of the labels"),
        (
            '[mine]\nkind = "answers"\nleave_out = [-1]\n',
            "have no single label; remove `leave_out`",
        ),
        (GOOD + 'quotes = "yes"\n', r"quotes takes .*, not 'yes'"),
        (GOOD + "epochs = 0\n", "epochs must be at least 1, not 0"),
        (GOOD + "epochs = true\n", "epochs takes a whole number, not True"),
        (GOOD + 'trained_on = "msmarco"\n', "only retrieval can name another dataset"),
    ],
)
def test_what_is_wrong_is_one_sentence(file: Path, text: str, message: str) -> None:
    file.write_text(
        '[good]\nkind = "text"\nlabels = ["a", "b"]\n' + text if "[" in text else text
    )
    with pytest.raises(UserError, match=message) as caught:
        read_definitions(file)
    assert str(file) in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(UserError, match="there is no file"):
        read_definitions(file.with_name("other.toml"))


def test_every_kind_makes_a_dataset(file: Path) -> None:
    tables = []
    for number, kind in enumerate(DATASET_KINDS.values()):
        labels = '["O", "B-X"]' if kind.labelled else "[]"
        tables.append(f'[set{number}]\nkind = "{kind.name}"\nlabels = {labels}\n')
        tables.append("range = [0, 1]\n" if kind.name == "value" else "")
    file.write_text("".join(tables))
    for dataset, kind in zip(
        read_definitions(file), DATASET_KINDS.values(), strict=True
    ):
        assert (dataset.task, dataset.form, dataset.headline) == (
            kind.task,
            kind.form,
            kind.metrics[0],
        )
        assert dataset.labels == {"value": 1, "retrieval": None}.get(kind.name, 2)
        assert dataset.is_own and dataset.name not in datasets_of(dataset.task)
