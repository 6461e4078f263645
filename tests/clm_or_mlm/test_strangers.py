"""Every command with an `--out` folder: files of others under the names that it uses are there afterwards, unchanged.

That holds after success, after a refusal, after a kill and after a failed write.
"""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.datasets.local_dataset import load
from benchmarks.datasets.synthetic import make_synthetic
from clm_or_mlm.__main__ import main
from common.errors import UserError
from tests.analysis.stores import fill_sealed
from tests.benchmarks.tiny import make_tokenizer, save_model
from tests.commands import started
from tests.faults import failing
from tests.pretraining.documents import make_documents
from tests.pretraining.families import save_start

pytestmark = pytest.mark.filterwarnings("ignore")

SMALL = (
    "--set global_batch=4 --set max_length=24 --set eval_sequences=4 --set callbacks="
)
COMMANDS = {
    "tokenizer": "tokenizer --train {given}/texts.txt --vocab 280 --out {out}",
    "shards": "shards --source {given}/texts.txt --tokenizer {given}/start --out {out} --validation-share 0.05 "
    "--workers 0",
    "shards --part": "shards --source {given}/texts.txt --tokenizer {given}/start --out {out} --part 1/1 --workers 0",
    "synthetic": "synthetic uner_en --out {out}",
    "synthetic --replace": "synthetic uner_en --out {out} --replace",
    "ingest": "ingest {given} --out {out}/runs.parquet --instances {out}/instances",
    "table": "table 10 11 --out {out}",
    "figure": "figure 3 --out {out} --format png",
    "report": "report --out {out}/index.html",
    "reproduce": "reproduce --out {out}",
    "adapt": f"adapt {{given}}/start --data {{given}}/shards --steps 2 --out {{out}} {SMALL}",
    "adapt --merge": f"adapt {{given}}/start --data {{given}}/shards --steps 2 --merge 0.5 --out {{out}} {SMALL}",
    "benchmarks run": "benchmarks run --model {given}/model --data {given}/data --steps 2 --dataset uner_en --lr 1e-3 "
    "--seed 0 --device cpu --workers 1 --keep best --out {out}",
    "benchmarks run --out results": "benchmarks run --model {given}/model --data {given}/data --steps 2 --dataset "
    "uner_en --lr 1e-3 --seed 0 --device cpu --workers 1 --out {out}/results",
}
SLOW, SLOWER = (
    ("figure", "adapt", "benchmarks run"),
    ("report", "reproduce", "adapt --merge"),
)
REPLACED = ("index.html", "runs.parquet")
"""Files that a command line names itself."""
RUN_FILES = ("results.json", "run.json", "details.json")
"""Files of a run's folder: what cannot be used of them is damage, which the same command repairs."""


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands read."""
    folder = tmp_path_factory.mktemp("given")
    (folder / "texts.txt").write_text("\n\n".join(make_documents(60)))
    save_start(folder / "start", "llama")
    do(COMMANDS["shards"], folder, folder / "shards")
    fill_sealed(folder)
    make_synthetic(folder / "data", "uner_en", train=32, evaluation=8)
    rows = load(folder / "data", "uner_en").train["words"].to_pylist()
    save_model(folder / "model", make_tokenizer([" ".join(row) for row in rows]))
    return folder


@pytest.fixture(autouse=True)
def caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        place = str(tmp_path_factory.getbasetemp() / "caches")
        patch.setenv("CLM_OR_MLM_SCRATCH", place)
        patch.setenv("CLM_OR_MLM_CACHE", place)
        yield


def do(words: str, given: Path, out: Path) -> None:
    main([word.format(given=given, out=out) for word in words.split()])


def attempt(words: str, given: Path, out: Path) -> str:
    try:
        do(words, given, out)
    except (UserError, OSError) as error:
        return str(error)
    return ""


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def put(out: Path, names: list[str]) -> dict[str, bytes]:
    """Write somebody's files under these names, and something beside them in each folder."""
    for name in names:
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(f"{name} of somebody\n".encode())
    return {name: content for name, content in files(out).items() if name in names}


def kept(out: Path, before: dict[str, bytes]) -> bool:
    after = files(out)
    return all(after.get(name) == content for name, content in before.items())


def names_of(made: dict[str, bytes]) -> list[str]:
    """The names that a command wrote, without those that its line names."""
    return [name for name in made if not name.endswith((*REPLACED, *RUN_FILES))]


def kill_at(number: int, call: Callable[[], object]) -> None:
    """Do a call in which the process is killed at its n-th rename."""
    replace, done = os.replace, [0]

    def counted(*words: object, **more: object) -> object:
        done[0] += 1
        if done[0] == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return replace(*words, **more)  # type: ignore[arg-type]

    Path.replace = lambda self, target: counted(self, target)  # type: ignore[method-assign, assignment, return-value]
    os.replace = counted  # type: ignore[assignment]
    call()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in SLOWER else name
        for name in COMMANDS
    ],
)
def test_files_of_others_stay(name: str, given: Path, tmp_path: Path) -> None:
    words = COMMANDS[name]
    do(words, given, tmp_path / "clean")
    made = names_of(files(tmp_path / "clean"))
    assert made
    few = made[:: max(1, len(made) // 4)]
    if name in (*SLOW, *SLOWER):
        few = few[1:2]
    cases = [[one] for one in few] + [made]
    said = []
    for number, names in enumerate(cases):
        out = tmp_path / f"names-{number}"
        before = put(out, names)
        said.append(attempt(words, given, out))
        assert kept(out, before), (names, said[-1])
        assert "\n" not in said[-1] and len(said[-1]) <= 400
    assert any(said), "no stranger was refused"
    # What lies beside what is written, in each of its folders, after success, a failed write and a kill.
    folders = {Path(one).parent for one in made if "/." not in f"/{one}"}
    beside = [f"{folder}/notes of mine.md" for folder in sorted(folders)]
    for number in (1, 3, 9) if len(few) > 1 else (2,):
        out = tmp_path / f"failed-{number}"
        before = put(out, beside)
        with failing(number):
            attempt(words, given, out)
        assert kept(out, before)
        out = tmp_path / f"killed-{number}"
        before = put(out, beside)
        process = started(kill_at, number, lambda out=out: attempt(words, given, out))
        process.join()
        assert kept(out, before)
        attempt(words, given, out)
        assert kept(out, before)
    shutil.rmtree(tmp_path, ignore_errors=True)
