"""Runs tables: read back exactly, refused with the row that is wrong, and noticed when changed."""

import errno
import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.sources import open_source
from analysis.store.runs_table import (
    COLUMNS,
    manifest_path,
    read_runs,
    read_table,
    sort_runs,
    write_runs,
)
from benchmarks.own_datasets.definition_file import read_definitions
from benchmarks.own_datasets.definitions import known_datasets
from benchmarks.protocol import DATASETS
from common.errors import UserError
from pretraining.paper_models import MODELS
from tests.analysis.made_up import made_up_runs
from tests.analysis.store.tables import HEADER, ROW, csv_file, table


@pytest.mark.parametrize("name", ["runs.parquet", "runs.csv"])
def test_a_written_table_is_read_back_exactly(tmp_path: Path, name: str) -> None:
    runs = sort_runs(table())
    write_runs(tmp_path / name, table())
    read = read_runs(tmp_path / name)
    pd.testing.assert_frame_equal(read, runs, check_exact=True)
    assert tuple(read.columns) == COLUMNS
    assert read["lr"].dtype == np.float64
    assert read["seed"].dtype == np.int64
    assert str(read["n_test"].dtype) == "Int64"


@given(order=st.permutations(range(24)))
@settings(max_examples=15, deadline=None)
def test_shuffled_rows_give_the_same_bytes(
    order: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("order")
    write_runs(folder / "a.parquet", table(24))
    write_runs(folder / "b.parquet", table(24).iloc[order])
    assert (folder / "a.parquet").read_bytes() == (folder / "b.parquet").read_bytes()


def test_the_releases_header_is_understood(tmp_path: Path) -> None:
    path = csv_file(
        tmp_path, "610m-mlm40-42k,SC,sst2,1e-05,0,0.7298099762470309,0.7614678899082569"
    )
    read = read_runs(path)
    assert read.loc[0, "validation_score"] == 0.7298099762470309
    assert read.loc[0, "lr"] == 1e-5
    assert read["n_test"].isna().all()


NO_TABLES: dict[str, tuple[str, bytes | pa.Table, str]] = {
    "text": ("x.parquet", b"hello", "cannot be read as Parquet"),
    "empty": ("x.csv", b"", "is empty"),
    "latin letters": ("x.csv", HEADER.encode() + b"\n\xe9\xff,,,,,,\n", r"line 2, byte 1 \(0xe9\) is not UTF-8"),
    "a sheet": ("x.xlsx", b"PK\x03\x04", "x.xlsx is a spreadsheet; save its rows as CSV in UTF-8"),
    "other columns": ("x.parquet", pa.table({"model": ["a"]}), "lacks 'task'"),
    "no runs": ("x.parquet", pa.Table.from_pandas(table(0)), "has a header but no runs"),
    "words for rates": ("x.parquet", pa.Table.from_pandas(table(1).assign(lr="fast")), r"lr contains \w+, not n"),
    "a column twice": (
        "x.parquet", pa.Table.from_pandas(table(2)).append_column("lr", pa.array([0.1, 0.1])), "'lr' twice"
    ),
    "a header twice": ("x.csv", f"{HEADER},test_score\n{ROW},0.5\n".encode(), "'test_score' twice"),
    "a header in two spellings": (
        "x.csv", f"{HEADER},validation_score\n{ROW},0.5\n".encode(), "'validation_score' twice"
    ),
    "wrong headers": (
        "x.csv", f"model,task,dataset,lr,seed,validation,test_scores\n{ROW}\n".encode(),
        r"lacks 'validation_score'; .*'validation'; 'test_score'; .*'test_scores'",
    ),
}  # fmt: skip
for _name in ("model", "test_score"):
    _plain = pa.Table.from_pandas(table(2))
    _bytes = _plain.set_column(
        _plain.column_names.index(_name), _name, pa.array([b"\xff", b"x"])
    )
    NO_TABLES[f"bytes for {_name}"] = (
        "x.parquet",
        _bytes,
        f"the column {_name} contains",
    )


@pytest.mark.parametrize("name", NO_TABLES)
def test_what_is_no_runs_table_is_refused_in_a_sentence(
    name: str, tmp_path: Path
) -> None:
    file, content, words = NO_TABLES[name]
    if isinstance(content, bytes):
        (tmp_path / file).write_bytes(content)
    else:
        pq.write_table(content, tmp_path / file)
    with pytest.raises(UserError, match=words) as error:
        read_runs(tmp_path / file)
    assert str(tmp_path / file) in str(error.value) and "\n" not in str(error.value)


def test_an_absent_file_and_a_folder_say_how_a_table_is_made(tmp_path: Path) -> None:
    for path, words in (
        (tmp_path / "no.parquet", "does not exist"),
        (tmp_path, "is a folder"),
    ):
        with pytest.raises(UserError, match=f"{words}.*clm-or-mlm ingest"):
            read_runs(path)


def test_named_own_model_is_remembered_in_parquet(
    tmp_path: Path,
) -> None:
    path = csv_file(tmp_path, "bert-base,SC,sst2,1e-05,0,0.5,0.5", ROW)
    runs = read_runs(path, add_models=["bert-*"])
    # The study's models come first
    assert runs["model"].tolist() == ["610m-mlm40-42k", "bert-base"]
    write_runs(tmp_path / "runs.parquet", runs)
    assert len(read_runs(tmp_path / "runs.parquet")) == 2


def test_a_parquet_table_says_what_its_own_datasets_are(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text(
        '[reviews]\nlabels = ["a", "b"]\nkind = "text"\n[mine]\nkind = "answers"\n'
    )
    own = read_definitions(tmp_path / "my.toml")
    runs = pd.concat(
        [table(4), *(table(4).assign(task=o.task, dataset=o.name) for o in own)]
    )
    write_runs(
        tmp_path / "runs.parquet",
        runs.assign(model="610m-clm-42k"),
        datasets=known_datasets(own),
    )
    read = read_table(tmp_path / "runs.parquet")
    assert (
        read.runs["dataset"].unique().tolist()[-2:] == ["mine", "reviews"]
        and len(read.runs) == 12
    )
    assert [read.datasets[one.name] for one in own] == own and "mine" not in DATASETS
    with pytest.raises(
        UserError,
        match=r"'other' is unknown.* your own are known only from their run store",
    ):
        read_runs(csv_file(tmp_path, "610m-clm-42k,SC,other,1e-05,0,0.5,0.5"))


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ("null", "record"),
        ("5", "record"),
        ("{", "record"),
        ('{"added_models": null}', "record"),
        ('{"added_models": [1]}', "record"),
        ('{"protocol": 1}', "record"),
        ('{"datasets": []}', "record"),
        ('{"datasets": {"mine": 3}}', r"\[mine\] is not a table"),
        (
            '{"datasets": {"mine": {"kind": "txt"}}}',
            r"\[mine\]: unknown kind of dataset 'txt'",
        ),
        (
            '{"datasets": {"sst2": {"kind": "text", "labels": ["a", "b"]}}}',
            "one of the paper's names",
        ),
    ],
)
def test_a_damaged_record_is_refused(record: str, message: str, tmp_path: Path) -> None:
    plain = pa.Table.from_pandas(table(2)).replace_schema_metadata(
        {b"clm_or_mlm": record.encode()}
    )
    pq.write_table(plain, tmp_path / "runs.parquet")
    with pytest.raises(UserError, match=f"{tmp_path / 'runs.parquet'}: .*{message}"):
        read_runs(tmp_path / "runs.parquet")


def test_rows_are_in_the_order_of_the_study(tmp_path: Path) -> None:
    write_runs(tmp_path / "runs.parquet", table(60))
    read = read_runs(tmp_path / "runs.parquet")
    ranks = [
        (list(MODELS).index(m), list(DATASETS).index(d))
        for m, d in zip(read["model"], read["dataset"], strict=True)
    ]
    assert ranks == sorted(ranks)


def test_a_learning_rate_that_went_through_float32_is_the_grids(tmp_path: Path) -> None:
    path = csv_file(
        tmp_path, f"610m-mlm40-42k,SC,sst2,{float(np.float32(1e-4))!r},0,0.5,0.5"
    )
    assert read_runs(path)["lr"].tolist() == [1e-4]


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (
            ["610m-mlm40-42kk,SC,sst2,1e-05,0,0.5,0.5"],
            "line 2: .*did you mean '610m-mlm40-42k'",
        ),
        (
            ["bert-base,SC,sst2,1e-05,0,0.5,0.5"],
            "line 2: unknown model 'bert-base'.*--add-model bert-base",
        ),
        (
            [ROW, "610m-mlm40-42k,SC,sst-2,1e-05,1,0.5,0.5"],
            "line 3: dataset 'sst-2' is unknown; .*; did you mean 'sst2'",
        ),
        (
            ["610m-mlm40-42k,QA,qed,1e-05,0,0.5,0.5"],
            "'qed' is outside the paper's twelve",
        ),
        (
            ["610m-mlm40-42k,QA,sst2,1e-05,0,0.5,0.5"],
            "line 2 gives sst2 the task 'QA', but it belongs to SC",
        ),
        (
            ["610m-mlm40-42k,SC,sst2,1e-05,0,nan,0.5"],
            "line 2 has no validation_score; a run that diverged scores 0",
        ),
        (
            [ROW, "610m-mlm40-42k,SC,sst2,2e-05,0,0.99,"],
            "lr 2e-05, seed 0 has no test_score but needs one",
        ),
        (
            ["610m-mlm40-42k,SC,sst2,1e-05,0,0.5,91.4"],
            "test_score 91.4, .*divide percentages by 100",
        ),
        (["610m-mlm40-42k,SC,sst2,1e-05,0,0.5,-0.1"], "outside"),
        (
            ["610m-mlm40-42k,SC,sst2,1e-05,0,0.5,good"],
            "line 2: test_score 'good' is not a number",
        ),
        (
            ["610m-mlm40-42k,SC,sst2,0,0,0.5,0.5"],
            "learning rate that is not a positive number",
        ),
        (
            ["610m-mlm40-42k,SC,sst2,1e-05,0.5,0.5,0.5"],
            "seed that is not a whole number",
        ),
        (
            [ROW, "610m-mlm40-42k,SC,sst2,2e-05,0,0.5,0.5", ROW],
            "line 2 and line 4 are the same run.*lr 1e-05, seed 0",
        ),
        (
            ["610m-mlm40-42k,SC,sst2,1e-05,0,0.5"],
            "line 2 has 6 columns, the header 7, separated by commas",
        ),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, lines: list[str], sentence: str) -> None:
    path = csv_file(tmp_path, *lines)
    with pytest.raises(UserError, match=sentence) as error:
        read_runs(path)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


DIALECTS: dict[str, Callable[[str], str]] = {
    "semicolons, decimal commas": lambda text: text.replace(",", ";").replace(".", ","),
    "per cent signs": lambda text: text.replace(",0.7298,", ",72.98%,").replace(
        ",0.7615", ",76.15 %"
    ),
    "tabs": lambda text: text.replace(",", "\t"),
    "comments, blank lines": lambda text: (
        f"# from a sheet\n\n{text}\n,,,,,,\n# the end\n"
    ),
    "blanks": lambda text: text.replace(",", " , "),
    "capitals, an index": lambda text: text.replace("610", "0,610").replace(
        "model", ",Model"
    ),
    "sep": lambda text: "sep=;\n" + text.replace(",", ";"),
    "quotes": lambda text: re.sub(r"[^,\n]+", '"\\g<0>"', text),
}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_table_as_spreadsheets_write_it_is_the_same(
    dialect: str, encoding: str, tmp_path: Path
) -> None:
    plain = f"{HEADER}\n610m-mlm40-42k,SC,sst2,1e-05,0,0.7298,0.7615\n"
    (tmp_path / "plain.csv").write_text(plain)
    (tmp_path / "own.tsv").write_bytes(DIALECTS[dialect](plain).encode(encoding))
    pd.testing.assert_frame_equal(
        read_runs(tmp_path / "own.tsv"), read_runs(tmp_path / "plain.csv")
    )


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (
            ["m,SC,sst2,1e-05,0,0,5,0,6"],
            "line 2 has 9 columns, the header 7, .*commas; .*decimal commas.*semicolons",
        ),
        (
            ['m,SC,sst2,1e-05,0,"0,5","0,6"'],
            "line 2: val_score '0,5' is not a number; .*points.*semicolons",
        ),
        (
            ["m,SC,sst2,1e-05,0,91%,90%", "m,SC,sst2,1e-05,1,0.9,90%"],
            "line 3: val_score has no per cent sign",
        ),
        (["m,SC,sst2,1e-05,0,0.91±0.01,0.9"], "line 2: val_score .* nor a seed's"),
        (["m,SC,sst2,1e-05,0,nan,0.9"], "line 2 has no validation_score; .*diverged"),
        (
            ["m,SC,sst2,1e-05,0,0.5,0.6", "# again", " m ,SC,sst2,1e-05,0,0.5,0.7"],
            "line 2 and line 4 are the same",
        ),
        (['m,SC,"sst2,1e-05,0,0.5,0.6'], "line 2 cannot be read"),
        ([], "has a header but no runs; a line is a run"),
    ],
)
def test_a_dialect_that_cannot_be_read_is_named(
    lines: list[str], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=sentence) as error:
        read_runs(csv_file(tmp_path, *lines), add_models=["m"])
    assert "ingest" not in str(error.value)


def test_a_model_in_the_scheme_outside_the_study_is_fine(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "610m-clm-20k-mlm15-42k,SC,sst2,1e-05,0,0.5,0.5")
    assert read_runs(path)["model"].tolist() == ["610m-clm-20k-mlm15-42k"]


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("n_validation", "inf", "n_validation inf"),
        ("n_test", "1e300", "n_test 1e.300"),
        ("seed", "1e30", "seed"),
        ("lr", "2", "below 1"),
        ("lr", "inf", "learning rate"),
        ("lr", "", "learning rate"),
        ("seed", "-1", "seed"),
        ("val_score", "nan", "val"),
        ("test_score", "inf", "line 2 has test_score inf"),
        ("model", "", "cannot name a model"),
        ("model", "=1+1", "formula"),
        ("model", "a\x1b[2J", "unprintable"),
        ("model", "x" * 300, "300 bytes"),
    ],
)
def test_a_value_out_of_range_is_refused(
    field: str, value: str, why: str, tmp_path: Path
) -> None:
    row = {
        "model": "610m-mlm40-42k",
        "task": "SC",
        "dataset": "sst2",
        "lr": "1e-5",
        "seed": "0",
        "val_score": "0.5",
        "test_score": "0.5",
        "n_validation": "3",
        "n_test": "3",
    } | {field: value}
    path = csv_file(tmp_path, ",".join(row.values()), header=",".join(row))
    with pytest.raises(UserError, match=why) as error:
        read_runs(path, add_models=["*"])
    assert str(error.value).isprintable()


@pytest.fixture(params=["csv", "parquet"])
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"runs.{request.param}"
    write_runs(path, made_up_runs(np.random.default_rng(0), models=("610m-clm-42k",)))
    return path


@pytest.mark.parametrize("of", ["table", "manifest"])
def test_no_flipped_bit_passes(written: Path, of: str) -> None:
    file = written if of == "table" else manifest_path(written)
    content, draw = file.read_bytes(), random.Random(0)
    for _ in range(100):
        bit = draw.randrange(8 * len(content))
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        file.write_bytes(flipped)
        with pytest.raises(UserError, match=f"{written}.*delete") as error:
            read_runs(written)
        assert "\n" not in str(error.value)
    file.write_bytes(content)
    read_runs(written)


def test_an_edited_score_is_refused_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    runs = made_up_runs(np.random.default_rng(0), models=("610m-clm-42k",))
    write_runs(path, runs)
    before = manifest_path(path).read_text()
    path.write_text(path.read_text().replace(",0.", ",0.9", 1))
    with pytest.raises(
        UserError,
        match=f"{path} has changed since it was written.*delete {manifest_path(path)} to have",
    ):
        open_source(str(path))
    manifest_path(path).unlink()
    own = open_source(str(path))
    assert own.unsealed == len(runs) and own.long_label.startswith(
        f"{path} (unsealed, like the authors' files"
    )
    write_runs(path, runs)
    assert manifest_path(path).read_text() == before and open_source(
        str(path)
    ).long_label == str(path)


def test_a_table_that_cannot_be_replaced_stays_sealed(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path.name: path.read_bytes() for path in written.parent.iterdir()}

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched, pytest.raises(OSError, match="No space"):
        patched.setattr(os, "fsync", full)
        write_runs(
            written, made_up_runs(np.random.default_rng(1), models=("610m-clm-42k",))
        )
    assert {path.name: path.read_bytes() for path in written.parent.iterdir()} == before
    assert read_table(written).unsealed == 0


def test_a_manifest_follows_its_table_under_another_name(
    written: Path, tmp_path: Path
) -> None:
    moved = Path(shutil.copy(written, tmp_path / f"other{written.suffix}"))
    assert read_table(moved).unsealed == len(read_runs(written))
    shutil.copy(manifest_path(written), manifest_path(moved))
    assert not read_table(moved).unsealed and read_runs(moved).equals(
        read_runs(written)
    )
