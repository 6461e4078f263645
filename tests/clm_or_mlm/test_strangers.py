"""Every command with an `--out` folder: files of others under the names that it uses are there afterwards, unchanged.

That holds after success, after a refusal, after a kill and after a failed write.
"""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from common.errors import UserError
from tests.clm_or_mlm.written import COMMANDS, do, files, prepare, set_caches
from tests.commands import started
from tests.faults import failing

pytestmark = pytest.mark.filterwarnings("ignore")

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
    return prepare(tmp_path_factory.mktemp("given"))


@pytest.fixture(autouse=True)
def caches(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_caches(tmp_path_factory, monkeypatch)


def attempt(words: str, given: Path, out: Path) -> str:
    try:
        do(words, given, out)
    except (UserError, OSError) as error:
        return str(error)
    return ""


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
