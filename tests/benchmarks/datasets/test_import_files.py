"""`clm-or-mlm import`: roles, reports, and the counts of real files."""

import json
import os
import signal
from pathlib import Path

import pytest

from benchmarks.datasets.import_files import overlaps
from benchmarks.datasets.local_dataset import load_dataset, table, verify_dataset
from benchmarks.datasets.synthetic import synthetic
from benchmarks.protocol import DATASETS, get_dataset
from common.errors import UserError
from tests.benchmarks.command import command
from tests.commands import python

main = command("import")


def sst2_files(folder: Path, n: int = 60) -> list[str]:
    for name in ("train.tsv", "dev.tsv"):
        lines = "".join(f"{name} text {i} \t{i % 2}\n" for i in range(n))
        (folder / name).write_text("sentence\tlabel\n" + lines)
    return [
        "--train",
        str(folder / "train.tsv"),
        "--validation",
        str(folder / "dev.tsv"),
    ]


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["sst2", *sst2_files(tmp_path), "--out", str(tmp_path / "data")]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "57 train, 3 validation, 60 test" in out
    assert (
        "not all of the official data, which has 63,981 train, 3,368 validation, 872 test"
        in out
    )
    assert verify_dataset(tmp_path / "data", "sst2") == []
    assert main(arguments) == 0, "the same again changes nothing"
    sst2_files(tmp_path, n=80)
    with pytest.raises(UserError, match="--replace"):
        main(arguments)
    assert main([*arguments, "--replace"]) == 0
    files = load_dataset(tmp_path / "data", "sst2").manifest.source["files"]
    assert [(file["role"], file["name"]) for file in files] == [
        ("train", "train.tsv"),
        ("validation", "dev.tsv"),
    ]
    assert str(tmp_path) not in (tmp_path / "data/sst2/manifest.json").read_text(), (
        "no folder of this machine"
    )


def test_files_that_are_not_there_or_empty(tmp_path: Path) -> None:
    train, validation = sst2_files(tmp_path)[:2], sst2_files(tmp_path)[2:]
    (tmp_path / "empty.tsv").write_text("sentence\tlabel\n")
    for arguments, sentence in (
        (["sst3", *train], "did you mean 'sst2'"),
        (["sst2"], "name the files to import: train.tsv and dev.tsv"),
        (["sst2", "--train", "absent.tsv"], "there is no file absent.tsv"),
        (
            ["sst2", "--train", str(tmp_path)],
            "is a folder without \\*_gold_conll files",
        ),
        (["sst2", *train], "--validation FILE"),
        (
            ["sst2", "--train", str(tmp_path / "empty.tsv"), *validation],
            "the table train of sst2 would be empty",
        ),
    ):
        with pytest.raises(UserError, match=sentence):
            main([*arguments, "--out", str(tmp_path / "data")])
        assert not list(tmp_path.glob("data/*"))


def test_a_folder_of_conll_2012_is_its_files(tmp_path: Path) -> None:
    line = "doc 0 0 {} NN (S* - - - spk {} * -\n"
    text = (
        "#begin document (x); part 000\n"
        + line.format("Bush", "(PERSON)")
        + line.format("saw", "*")
    )
    for name in ("a.v4_gold_conll", "sub/b.v4_gold_conll"):
        (tmp_path / "conll" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "conll" / name).write_text(f"{text}\n#end document\n")
    files = [
        word
        for role in ("train", "validation", "test")
        for word in (f"--{role}", str(tmp_path / "conll"))
    ]
    assert main(["ontonotes", *files, "--out", str(tmp_path)]) == 0
    found = load_dataset(tmp_path, "ontonotes")
    assert [row["words"] for row in found.train.to_pylist()] == [["Bush", "saw"]] * 2
    assert [found.labels[tag] for tag in found.train["tags"][0].as_py()] == [
        "B-PERSON",
        "O",
    ]
    assert [file["name"] for file in found.manifest.source["files"][:2]] == [
        "a.v4_gold_conll",
        "b.v4_gold_conll",
    ]


@pytest.mark.parametrize("more", [[], ["--replace"]])
def test_files_of_others_in_a_datasets_folder_stay(
    tmp_path: Path, more: list[str]
) -> None:
    folder = tmp_path / "data/sst2"
    folder.mkdir(parents=True)
    arguments = ["sst2", *sst2_files(folder), "--out", str(tmp_path / "data"), *more]
    (folder / "manifest.json").write_text('{"name": "somebody\'s"}')
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(
        UserError,
        match=r"data/sst2 holds other files \(dev\.tsv, .*\); choose another --out",
    ):
        main(arguments)
    with pytest.raises(UserError, match="choose another --out"):
        command("synthetic")(["sst2", "--out", str(tmp_path / "data"), *more])
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_what_was_put_beside_a_dataset_is_not_replaced(tmp_path: Path) -> None:
    arguments = ["sst2", *sst2_files(tmp_path), "--out", str(tmp_path / "data")]
    assert main(arguments) == 0
    (tmp_path / "data/sst2/notes").mkdir()
    (tmp_path / "data/sst2/notes/a.md").write_text("mine")
    sst2_files(tmp_path, n=80)
    with pytest.raises(UserError, match=r"holds other files \(notes/a\.md\)"):
        main([*arguments, "--replace"])
    assert (tmp_path / "data/sst2/notes/a.md").read_text() == "mine"
    assert verify_dataset(tmp_path / "data", "sst2") == []


def test_a_dataset_is_not_replaced_by_one_that_is_read_from_it(tmp_path: Path) -> None:
    assert main(["sst2", *sst2_files(tmp_path), "--out", str(tmp_path / "data")]) == 0
    rows = [
        "--train",
        str(tmp_path / "data/sst2/train.parquet"),
        "--validation",
        str(tmp_path / "dev.tsv"),
    ]
    with pytest.raises(UserError, match=r"holds other files \(train\.parquet\)"):
        main(["sst2", *rows, "--out", str(tmp_path / "data"), "--replace"])
    assert verify_dataset(tmp_path / "data", "sst2") == []


@pytest.mark.parametrize("damaged", ["test.parquet", "manifest.json"])
def test_a_damaged_dataset_is_replaced(tmp_path: Path, damaged: str) -> None:
    arguments = [
        "sst2",
        *sst2_files(tmp_path),
        "--out",
        str(tmp_path / "data"),
        "--replace",
    ]
    assert main(arguments) == 0
    path = tmp_path / "data/sst2" / damaged
    whole = path.read_bytes()
    path.write_bytes(whole[:40] + b"?" + whole[41:])
    assert main(arguments) == 0
    assert path.read_bytes() == whole


def test_help_names_the_files_of_every_dataset(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"  {name} " in said for name in DATASETS)


def test_killed_import_leaves_nothing_half(tmp_path: Path) -> None:
    """Killed while it writes the second table: no dataset is there, and the same command makes it whole."""
    files = sst2_files(tmp_path)
    code = (
        "import os, signal, sys\n"
        "import benchmarks.datasets.local_dataset as local\n"
        "from tests.benchmarks.command import command\n"
        "real, calls = local._write_table, []\n"
        "def once(*args):\n"
        "    calls.append(1)\n"
        "    if len(calls) == 2: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return real(*args)\n"
        "local._write_table = once\n"
        "command('import')(sys.argv[1:])\n"
    )
    arguments = ["sst2", *files, "--out", str(tmp_path / "data")]
    python("-c", code, *arguments, code=-signal.SIGKILL)
    assert not (tmp_path / "data/sst2").exists()
    assert main(arguments) == 0
    assert verify_dataset(tmp_path / "data", "sst2") == []


# --- real files ----------------------------------------------------------------------------------------------

REAL = Path(os.environ.get("REAL_DATA", "/nonexistent"))
real = [
    pytest.mark.real_data,
    pytest.mark.skipif(
        not REAL.is_dir(),
        reason="REAL_DATA names no folder with original distribution files",
    ),
]
MARCO = "msmarco_passage/"
CASES: dict[str, tuple[dict[str, list[str]], dict[str, int]]] = {
    "sst2": (
        {"train": ["sst2/train.tsv.zst", "sst2/dev.tsv"], "test": ["sst2/test.tsv"]},
        {"train": 63_981, "validation": 3_368, "test": 872},
    ),
    "mnli_m": (
        {"train": ["mnli/train.json.zst"], "validation": ["mnli/dev.json"]},
        {"train": 8_549, "validation": 450, "test": 1_000},
    ),
    "qqp": (
        {"train": ["qqp/train.json.zst"], "validation": ["qqp/dev.json"]},
        {"train": 8_549, "validation": 450, "test": 1_000},
    ),
    "uner_en": (
        {
            "train": ["uner_english_ewt/en_ewt-ud-train.iob2.zst"],
            "validation": ["uner_english_ewt/en_ewt-ud-dev.iob2"],
            "test": ["uner_english_ewt/en_ewt-ud-test.iob2"],
        },
        {"train": 12_543, "validation": 2_001, "test": 2_077},
    ),
    "squad": (
        {
            "train": ["squad_v1.1/train-v1.1.prefix.json.zst"],
            "validation": ["squad_v1.1/dev-v1.1.from-dev-v2.0-answerable.json.zst"],
        },
        {"train": 4_151, "validation": 219, "test": 2_910},
    ),
    "squad_v2": (
        {
            "train": ["squad_v2.0/dev-v2.0.json.zst"],
            "validation": ["squad_v2.0/dev-v2.0.json.zst"],
        },
        {"train": 5_774, "validation": 304, "test": 6_078},
    ),
    "record": (
        {"train": ["record/train.jsonl"], "validation": ["record/train.jsonl"]},
        {"train": 30, "validation": 2, "test": 32},
    ),
    "msmarco": (
        {
            "train": [MARCO + "triplets/raw.tsv"],
            "corpus": [MARCO + "full_collection/raw.tsv"],
            "queries": [MARCO + "dev_queries/raw.tsv"],
            "validation": [MARCO + "qrel/qrel.json"],
            "test": [MARCO + "qrel/qrel.json"],
        },
        {"train": 100, "validation": 9, "test": 9},
    ),
}


def arguments_of(name: str, out: Path) -> list[str]:
    files = [
        (f"--{role}", *(str(REAL / path) for path in paths))
        for role, paths in CASES[name][0].items()
    ]
    return [name, "--out", str(out), *(word for words in files for word in words)]


@pytest.mark.parametrize("name", [pytest.param(name, marks=real) for name in CASES])
def test_counts_of_real_files(name: str, tmp_path: Path) -> None:
    arguments = arguments_of(name, tmp_path)
    if name == "msmarco":  # the toy queries give one id two texts
        with pytest.raises(
            UserError,
            match=r"raw\.tsv:9: the query 786786 has a different text further up",
        ):
            main(arguments)
        at = arguments.index("--queries") + 1
        first = {
            line.partition("\t")[0]: line
            for line in reversed(Path(arguments[at]).read_text().splitlines())
        }
        (tmp_path / "queries.tsv").write_text("\n".join(first.values()) + "\n")
        arguments[at] = str(tmp_path / "queries.tsv")
    assert main(arguments) == 0
    assert load_dataset(tmp_path, name).manifest.counts == CASES[name][1]
    assert verify_dataset(tmp_path, name) == []


@pytest.mark.parametrize("name", [pytest.param("uner_en", marks=real)])
def test_real_entities(name: str, tmp_path: Path) -> None:
    """Tokens and entities of UNER's development and test files, as its own statistics count them."""
    from seqeval.metrics.sequence_labeling import get_entities

    main(arguments_of(name, tmp_path))
    found = load_dataset(tmp_path, name)
    sizes = {}
    for split in ("train", "validation", "test"):
        tags = [
            [found.labels[tag] for tag in row]
            for row in found.tables[split]["tags"].to_pylist()
        ]
        sizes[split] = (
            sum(map(len, tags)),
            sum(len(get_entities(row)) for row in tags),
        )
    assert sizes == {
        "train": (204_579, 7_005),
        "validation": (25_149, 966),
        "test": (25_097, 1_088),
    }


@pytest.mark.parametrize("name", [pytest.param("squad_v2", marks=real)])
def test_real_unanswerable(name: str, tmp_path: Path) -> None:
    main(arguments_of(name, tmp_path))
    test = load_dataset(tmp_path, name).tables["test"].to_pylist()
    assert sum(not row["answers"] for row in test) == 3_168
    for row in test:
        for answer in row["answers"]:
            assert row["context"].startswith(answer["text"], answer["start"])


@pytest.mark.parametrize("name", ["mnli_m", "uner_en", "squad", "msmarco"])
def test_what_is_in_two_splits_is_counted(name: str) -> None:
    dataset = get_dataset(name)
    tables = dict(synthetic(dataset, train=40, evaluation=10).tables)
    if dataset.task == "IR":
        queries = tables["queries"].to_pylist()
        tables["queries"] = table(
            "IR", "queries", [*queries, {**queries[0], "split": "test", "id": "again"}]
        )
    else:
        tables["test"] = tables["test"].slice(0, 0)
        assert not [line for line in overlaps(dataset, tables) if "of test are" in line]
        tables["test"] = tables["train"].slice(3, 2)
    (line,) = [line for line in overlaps(dataset, tables) if "test are in" in line][:1]
    assert " in " in line and "as well, the first '" in line
    assert line.startswith("1 of the 11" if dataset.task == "IR" else "2 of the 2")


def test_retrieval_reports_queries_trained_on_and_tested(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def lines(name: str, rows: list[dict[str, str]]) -> None:
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    lines(
        "pairs.jsonl",
        [{"query": f"query {i}", "positive": f"document {i}"} for i in range(10)],
    )
    lines(
        "queries.jsonl",
        [{"_id": f"q{i}", "text": f"query {i % 14}"} for i in range(20)],
    )
    lines(
        "corpus.jsonl", [{"_id": f"d{i}", "text": f"document {i}"} for i in range(20)]
    )
    for name, numbers in (("dev.tsv", range(10, 14)), ("test.tsv", range(7, 10))):
        (tmp_path / name).write_text("".join(f"q{i}\td{i}\t1\n" for i in numbers))
    files = "train = 'pairs.jsonl', queries = 'queries.jsonl', corpus = 'corpus.jsonl', validation = 'dev.tsv'"
    (tmp_path / "my.toml").write_text(
        f"[mine]\nkind = 'retrieval'\nfiles = {{{files}, test = 'test.tsv'}}\n"
    )
    assert not command("import")(
        [
            "mine",
            "--datasets",
            str(tmp_path / "my.toml"),
            "--out",
            str(tmp_path / "data"),
        ]
    )
    shown = capsys.readouterr().out
    assert (
        "3 of the 3 queries of test are in train as well, the first 'Query: query 7'"
        in shown
    )
    assert shown.count("as well") == 1
