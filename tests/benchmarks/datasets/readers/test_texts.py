"""GLUE's files of every form; bad lines are named."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.datasets.readers.original_files import BadRowError
from benchmarks.datasets.readers.texts import Labels
from tests.benchmarks.datasets.readers.originals import Put, read, rows


def test_sst2_tsv_and_hub_parquet_give_the_same(tmp_path: Path, put: Put) -> None:
    examples = [(f'some "text {i} ', i % 2) for i in range(40)]
    tsv = put(
        "train.tsv",
        "sentence\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in examples),
    )
    hub = tmp_path / "train.parquet"
    found = pa.table(
        {
            "sentence": [t for t, _ in examples],
            "label": [i for _, i in examples],
            "idx": list(range(40)),
        }
    )
    feature = {"names": ["negative", "positive"], "_type": "ClassLabel"}
    metadata = {"huggingface": json.dumps({"info": {"features": {"label": feature}}})}
    pq.write_table(found.replace_schema_metadata(metadata), hub)
    one, other = (
        read("sst2", train=tsv, validation=tsv),
        read("sst2", train=hub, validation=hub),
    )
    for split in ("train", "validation", "test"):
        assert one.tables[split].equals(other.tables[split])
    assert (
        len(rows(one, "train")),
        len(rows(one, "validation")),
        len(rows(one, "test")),
    ) == (38, 2, 40)
    assert rows(one, "test")[3] == {
        "id": "validation-3",
        "first": 'some "text 3 ',
        "second": None,
        "label": 1,
    }


def test_mnli_official_tsv(put: Put) -> None:
    train = (
        "index\tgenre\tsentence1\tsentence2\tlabel1\tgold_label\n"
        + "0\tx\ta\tb\tneutral\tcontradiction\n" * 3
    )
    content = read(
        "mnli_m",
        train=put("train.tsv", train),
        validation=put("dev_matched.tsv", train),
    )
    assert rows(content, "test")[0] == {
        "id": "validation-0",
        "first": "a",
        "second": "b",
        "label": 2,
    }


def test_index_json(put: Put) -> None:
    entries = {
        str(i): {"text_a": f"a{i}", "text_b": f"b{i}", "label": str(i % 2)}
        for i in range(20)
    }
    path = put("train.json", json.dumps(entries, indent=4))
    content = read("qqp", train=path, validation=path)
    assert rows(content, "test")[1] == {
        "id": "validation-1",
        "first": "a1",
        "second": "b1",
        "label": 1,
    }


@pytest.mark.parametrize("number", [-1, 2])
def test_number_beyond_the_files_names_is_not_a_label(number: int) -> None:
    labels = Labels(
        names=["negative", "positive"], declared={"0": "positive", "1": "negative"}
    )
    assert [labels.id_of(0), labels.id_of(1)] == [1, 0]
    with pytest.raises(
        BadRowError, match=r"-1 is not in the label set|2 is not in the label set"
    ):
        labels.id_of(number)
