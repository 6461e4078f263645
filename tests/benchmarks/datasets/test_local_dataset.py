"""The local form: written whole, read back, and every fault found."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks.datasets import local_dataset
from benchmarks.datasets.local_dataset import (
    DatasetContent,
    cluster_ids,
    load_dataset,
    table,
    verify_dataset,
    write_dataset,
)
from benchmarks.datasets.schema import SPLIT_TABLES
from benchmarks.datasets.synthetic import make_synthetic
from benchmarks.protocol import Dataset, get_dataset
from common.errors import UserError
from common.manifest import SEAL, manifest_text
from tests.commands import python, started


def sc_content(n: int = 6, label: int = 1) -> DatasetContent:
    rows = [
        {"id": str(i), "first": f"text {i}", "second": None, "label": (i + label) % 2}
        for i in range(n)
    ]
    tables = {name: table("SC", name, rows) for name in ("train", "validation", "test")}
    return DatasetContent(tables=tables, splits="as given")


def write_sst2(data: Path, content: DatasetContent, *, replace: bool = False) -> str:
    return write_dataset(
        data,
        get_dataset("sst2"),
        content,
        source={"kind": "import", "files": []},
        replace=replace,
    ).content


def test_dataset_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process writes a table anew after all were hashed and this one was read."""
    write_sst2(tmp_path, sc_content())
    other = (tmp_path / "sst2" / "train.parquet").read_bytes()[:-1] + b"x"
    read_table = local_dataset._read_table

    def read(folder: Path, dataset: Dataset, name: str, remedy: str) -> pa.Table:
        rows = read_table(folder, dataset, name, remedy)
        started((folder / f"{name}.parquet").write_bytes, other).join()
        return rows

    monkeypatch.setattr(local_dataset, "_read_table", read)
    with pytest.raises(UserError, match=r"sst2 is damaged: .*content has changed"):
        load_dataset(tmp_path, "sst2")


def test_documents_are_kept_and_their_rows_are_clusters(tmp_path: Path) -> None:
    dataset = get_dataset("uner_en")
    named = [None, "b", "a", "b", None]
    tagged = [
        {"id": str(at), "words": ["Ada"], "tags": [0], "document": name}
        for at, name in enumerate(named)
    ]
    plain = [{**row, "document": None} for row in tagged]
    tables = {
        split: table("TC", split, plain if split == "train" else tagged)
        for split in SPLIT_TABLES
    }
    source = {"kind": "import", "files": []}
    write_dataset(
        tmp_path,
        dataset,
        DatasetContent(tables=tables, splits="as given"),
        source=source,
    )
    found = load_dataset(tmp_path, dataset)
    assert verify_dataset(tmp_path, dataset) == []
    assert cluster_ids(dataset, found.tables["test"]) == [0, 1, 2, 1, 3]
    assert cluster_ids(dataset, found.train) == []


def test_contexts_and_premises_are_clusters_and_qqp_pairs_not() -> None:
    asked = [
        {"id": str(at), "question": "?", "context": text, "answers": []}
        for at, text in enumerate("xyx")
    ]
    assert cluster_ids(get_dataset("squad_v2"), table("QA", "test", asked)) == [0, 1, 0]
    pairs = table(
        "SC",
        "test",
        [
            {"id": str(at), "first": text, "second": "h", "label": 0}
            for at, text in enumerate("aba")
        ],
    )
    assert cluster_ids(get_dataset("mnli_m"), pairs) == [0, 1, 0]
    assert (
        cluster_ids(get_dataset("qqp"), pairs)
        == cluster_ids(get_dataset("sst2"), pairs)
        == []
    )


def test_content_hash_sees_rows_and_labels_only(tmp_path: Path) -> None:
    one = write_sst2(tmp_path / "a", sc_content())
    content = sc_content()
    chunked = {
        name: pa.concat_tables([rows.slice(0, 2), rows.slice(2)])
        for name, rows in content.tables.items()
    }
    assert (
        write_sst2(tmp_path / "b", DatasetContent(tables=chunked, splits="other words"))
        == one
    )
    assert write_sst2(tmp_path / "c", sc_content(label=0)) != one


def test_other_words_about_the_same_data_are_no_other_version(tmp_path: Path) -> None:
    write_sst2(tmp_path, sc_content())
    reworded = DatasetContent(
        tables=sc_content().tables, splits="worded otherwise", notes=("a new note",)
    )
    write_sst2(tmp_path, reworded)
    assert load_dataset(tmp_path, "sst2").manifest.splits == "as given"


def test_any_flipped_byte_is_found(tmp_path: Path) -> None:
    write_sst2(tmp_path, sc_content())
    path = tmp_path / "sst2/test.parquet"
    whole = path.read_bytes()
    for position in range(0, len(whole), 97):
        broken = bytearray(whole)
        broken[position] ^= 0x10
        path.write_bytes(bytes(broken))
        assert len(verify_dataset(tmp_path, "sst2")) == 1
    path.write_bytes(whole[:-1])
    with pytest.raises(
        UserError, match=r"sst2 is damaged: test\.parquet: its content has changed"
    ):
        load_dataset(tmp_path, "sst2")
    path.unlink()
    with pytest.raises(UserError, match=r"sst2 is damaged: test\.parquet is missing"):
        load_dataset(tmp_path, "sst2")


def test_absent_dataset_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="clm-or-mlm fetch sst2"):
        load_dataset(tmp_path, "sst2")
    with pytest.raises(UserError, match="did you mean 'sst2'"):
        load_dataset(tmp_path, "sst"), load_dataset(tmp_path, "sst22")


def test_wrong_content_is_refused(tmp_path: Path) -> None:
    good = sc_content()
    row = {"id": "0", "first": "x", "second": None, "label": 0}
    for rows, message in (
        (
            [{**row, "label": 2}],
            "label number 2, but there are 2 labels, numbered from 0: negative, positive",
        ),
        ([row, row], "id '0' occurs twice"),
        ([], "would be empty"),
    ):
        tables = {**good.tables, "test": table("SC", "test", rows)}
        with pytest.raises(UserError, match=message):
            write_sst2(tmp_path, DatasetContent(tables=tables, splits=""))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("task", "row", "message"),
    [
        ("SC", {"id": "0", "first": "x", "second": None, "label": "one"}, "do not fit"),
        (
            "SC",
            {"id": "0", "first": "\ud83d", "second": None, "label": 1},
            "do not fit",
        ),
        (
            "QA",
            {"id": "1", "question": None, "context": "c", "answers": []},
            "of the table train has no question",
        ),
    ],
    ids=["a type", "no Unicode", "nothing"],
)
def test_a_row_that_does_not_fit_is_refused(
    task: str, row: dict[str, object], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        table(task, "train", [row])


def test_no_torch() -> None:
    """Fetching and looking run on a login node: seconds, not the import of a deep-learning stack."""
    code = (
        "import sys\n"
        "from benchmarks.datasets import fetch, import_files, listing, local_dataset, synthetic\n"
        "print([name for name in ('torch', 'transformers', 'datasets') if name in sys.modules])"
    )
    assert python("-c", code, code=0).stdout == "[]\n"


def test_writers_at_the_same_time(tmp_path: Path) -> None:
    """Three processes write one dataset: all succeed, one folder is there, and it is whole."""
    processes = [started(make_synthetic, tmp_path, "squad") for _ in range(3)]
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert [path.name for path in tmp_path.iterdir()] == ["squad"]
    assert verify_dataset(tmp_path, "squad") == []


def test_a_changed_manifest_is_noticed(tmp_path: Path) -> None:
    write_sst2(tmp_path, sc_content())
    path = tmp_path / "sst2/manifest.json"
    whole = path.read_text()
    for old, new in (
        ('"labels"', '"label"'),
        ('"SC"', '"TC"'),
        ('"seal": "', '"seal": "0'),
    ):
        path.write_text(whole.replace(old, new))
        with pytest.raises(UserError, match=r"sst2/manifest\.json is damaged"):
            load_dataset(tmp_path, "sst2")
    record = {key: value for key, value in json.loads(whole).items() if key != SEAL}
    for change in (
        {"tables": {"../../x": record["tables"]["test"]}},
        {"tables": {}},
        {"dataset": "qqp"},
    ):
        path.write_text(manifest_text(record | change))
        with pytest.raises(
            UserError,
            match=r"describes \w+ with the tables .*, not sst2 with train, validation, test",
        ):
            load_dataset(tmp_path, "sst2")
    path.write_text(manifest_text({"schema": 99}))
    with pytest.raises(UserError, match="is in version 99 of the local format"):
        load_dataset(tmp_path, "sst2")
