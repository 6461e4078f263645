"""Every write fails once: nothing is left over, and the next call gives the same bytes (in tests that are slow)."""

from pathlib import Path

import pytest

from benchmarks.datasets.local_dataset import load_dataset
from benchmarks.datasets.synthetic import make_synthetic
from clm_or_mlm.__main__ import main
from tests.benchmarks.sweep.stores import run
from tests.benchmarks.tiny import make_tokenizer, save_model
from tests.faults import survives_failures
from tests.pretraining.documents import make_documents
from tests.pretraining.families import save_start

FEW = pytest.mark.parametrize(
    "few", [True, pytest.param(False, marks=pytest.mark.slow)]
)


@FEW
def test_ingest(
    few: bool, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLM_OR_MLM_CACHE", str(tmp_path / "cache"))

    def call(out: Path) -> None:
        main(
            [
                "ingest",
                str(store),
                "--out",
                f"{out}/runs.parquet",
                "--instances",
                f"{out}/instances",
            ]
        )

    survives_failures(call, tmp_path / "outs", few=few)


@FEW
@pytest.mark.filterwarnings("ignore")
def test_adapt_with_a_merge(
    few: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLM_OR_MLM_SCRATCH", str(tmp_path / "scratch"))
    start = save_start(tmp_path / "start", "llama")
    (tmp_path / "texts.txt").write_text("\n\n".join(make_documents(60)))
    words = [
        "--source",
        f"{tmp_path}/texts.txt",
        "--tokenizer",
        f"{start}",
        "--out",
        f"{tmp_path}/shards",
    ]
    main(["shards", *words, "--validation-share", "0.05", "--workers", "0"])
    small = ("global_batch=4", "max_length=24", "eval_sequences=4", "callbacks=")
    words = [word for setting in small for word in ("--set", setting)]

    def call(out: Path) -> None:
        given = [
            f"{start}",
            "--data",
            f"{tmp_path}/shards",
            "--steps",
            "2",
            "--merge",
            "0.5",
            *words,
        ]
        main(["adapt", *given, "--out", f"{out}"])

    survives_failures(call, tmp_path / "outs", few=few)


@FEW
def test_run_that_keeps_the_best(few: bool, tmp_path: Path) -> None:
    make_synthetic(tmp_path / "data", "uner_en", train=32, evaluation=8)
    texts = [
        " ".join(words)
        for words in load_dataset(tmp_path / "data", "uner_en")
        .train["words"]
        .to_pylist()
    ]
    save_model(tmp_path / "model", make_tokenizer(texts))
    folders = ["--model", str(tmp_path / "model"), "--data", str(tmp_path / "data")]
    words = [
        "--steps",
        "2",
        "--dataset",
        "uner_en",
        "--lr",
        "1e-3",
        "--seed",
        "0",
        "--device",
        "cpu",
    ]

    def call(out: Path) -> None:
        run([*folders, *words, "--workers", "1", "--keep", "best", "--out", f"{out}"])

    survives_failures(call, tmp_path / "outs", few=few)
