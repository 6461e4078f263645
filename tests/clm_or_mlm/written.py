"""Every command with an `--out` folder, on small data, and what it writes there."""

from pathlib import Path

import pytest

from benchmarks.datasets.local_dataset import load_dataset
from benchmarks.datasets.synthetic import make_synthetic
from clm_or_mlm.__main__ import main
from tests.analysis.stores import fill_sealed
from tests.benchmarks.tiny import make_tokenizer, save_model
from tests.pretraining import small_study
from tests.pretraining.documents import make_documents
from tests.pretraining.families import save_start
from tests.workflow import smallest

SMALL = (
    "--set global_batch=4 --set max_length=24 --set eval_sequences=4 --set callbacks="
)
TRAINED = "mini-s-mlm40-24"
CHECKPOINT = f"{{given}}/trained/stages/{TRAINED}/step-00000024"
COMMANDS = {
    "tokenizer": "tokenizer --train {given}/texts.txt --vocab 280 --out {out}",
    "shards": "shards --source {given}/texts.txt --tokenizer {given}/start --out {out} --validation-share 0.05 "
    "--workers 0",
    "shards --part": "shards --source {given}/texts.txt --tokenizer {given}/start --out {out} --part 1/1 --workers 0",
    "synthetic": "synthetic uner_en --out {out}",
    "synthetic --replace": "synthetic uner_en --out {out} --replace",
    "import": "import sst2 --train {given}/train.tsv --validation {given}/dev.tsv --out {out}",
    "import --replace": "import sst2 --train {given}/train.tsv --validation {given}/dev.tsv --out {out} --replace",
    "fetch": "fetch conll2003_en --out {out}",
    "ingest": "ingest {given} --out {out}/runs.parquet --instances {out}/instances",
    "table": "table 10 11 --out {out}",
    "figure": "figure 3 --out {out} --format png",
    "scores": "scores --format csv --out {out}/scores.csv",
    "claims": "claims F8 --out {out}/claims.txt",
    "audit": "audit --source published --out {out}/audit.md",
    "compare": "compare 610m-mlm40-42k 610m-clm-42k --out {out}/compare.md",
    "sensitivity": "sensitivity --format csv --out {out}/sensitivity.csv",
    "report": "report --out {out}/index.html",
    "reproduce": "reproduce --out {out}",
    "adapt": f"adapt {{given}}/start --data {{given}}/shards --steps 2 --out {{out}} {SMALL}",
    "adapt --merge": f"adapt {{given}}/start --data {{given}}/shards --steps 2 --merge 0.5 --out {{out}} {SMALL}",
    "train": f"train {TRAINED} --data {{given}}/data_of_study --study {{given}}/mini.toml --out {{out}}",
    "export": f"pretraining export {CHECKPOINT} --data {{given}}/data_of_study --out {{out}}",
    "export --as llama": f"pretraining export {{given}}/trained/models/{TRAINED} --as llama --out {{out}}",
    "workflow": " ".join(smallest.WORDS) + " --dir {out}",
    "benchmarks run": "benchmarks run --model {given}/model --data {given}/data --steps 2 --dataset uner_en --lr 1e-3 "
    "--seed 0 --device cpu --workers 1 --keep best --out {out}",
    "benchmarks run --out results": "benchmarks run --model {given}/model --data {given}/data --steps 2 --dataset "
    "uner_en --lr 1e-3 --seed 0 --device cpu --workers 1 --out {out}/results",
}


def prepare(given: Path) -> Path:
    """Write what the commands read into a folder, and return it."""
    (given / "texts.txt").write_text("\n\n".join(make_documents(60)))
    save_start(given / "start", "llama")
    do(COMMANDS["shards"], given, given / "shards")
    fill_sealed(given)
    make_synthetic(given / "data", "uner_en", train=32, evaluation=8)
    rows = load_dataset(given / "data", "uner_en").train["words"].to_pylist()
    save_model(given / "model", make_tokenizer([" ".join(row) for row in rows]))
    for name in ("train", "dev"):
        lines = [f"a text of {name} {row}\t{row % 2}\n" for row in range(60)]
        (given / f"{name}.tsv").write_text("sentence\tlabel\n" + "".join(lines))
    small_study.make_study(given)
    (given / "small").mkdir()
    small_study.make_shards(given / "small").rename(given / "data_of_study")
    do(COMMANDS["train"], given, given / "trained")
    return given


def set_caches(
    tmp_path_factory: pytest.TempPathFactory, patch: pytest.MonkeyPatch
) -> None:
    """Have the caches below the tests' folder."""
    place = str(tmp_path_factory.getbasetemp() / "caches")
    patch.setenv("CLM_OR_MLM_SCRATCH", place)
    patch.setenv("CLM_OR_MLM_CACHE", place)


def do(words: str, given: Path, out: Path) -> None:
    """Do a command."""
    main(line(words, given, out))


def line(words: str, given: Path, out: Path) -> list[str]:
    """Return the words of a command line."""
    return [word.format(given=given, out=out) for word in words.split()]


def files(folder: Path) -> dict[str, bytes]:
    """Return the content of each file, by its path in a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
