"""Every command that writes into a folder: files of others under the names that it uses stay as they are.

That holds after success, after a refusal, after a kill and after a failed write.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from common.errors import UserError
from common.files import is_temporary
from tests.benchmarks.fake_hub import conll_hub
from tests.clm_or_mlm.written import COMMANDS, do, files, line, prepare, set_caches
from tests.nth import COMPILER, Server, server

pytestmark = pytest.mark.filterwarnings("ignore")

SLOW = ("figure", "adapt", "train", "export", "export --as llama", "benchmarks run")
SLOWER = ("report", "reproduce", "adapt --merge", "workflow")
RUN_FILES = ("results.json", "run.json", "details.json")
"""Files of a run's folder: what cannot be used of them is damage, which the same command repairs."""
CASES = [
    pytest.param(name, marks=pytest.mark.slow) if name in SLOWER else name
    for name in COMMANDS
]


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What the commands read, and a hub to fetch from."""
    with pytest.MonkeyPatch.context() as patch, conll_hub().serve():
        set_caches(tmp_path_factory, patch)
        yield prepare(tmp_path_factory.mktemp("given"))


@pytest.fixture(scope="module")
def calls(given: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Commands of which one write fails."""
    if COMPILER is None:
        pytest.skip("there is no C compiler")
    modules = ("pretraining.training.train", "benchmarks.sweep.work", "pandas")
    with server(tmp_path_factory.mktemp("server"), *modules) as started:
        yield started


def attempt(words: str, given: Path, out: Path) -> str:
    try:
        do(words, given, out)
    except (UserError, OSError) as error:
        return str(error)
    return ""


def put(out: Path, names: list[str]) -> dict[str, bytes]:
    """Write somebody's files of years ago, and return the content of each."""
    contents = {name: f"{name} of somebody\n".encode() for name in names}
    for name, content in contents.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (10**9, 10**9))
    return contents


def lost(out: Path, before: dict[str, bytes]) -> list[str]:
    after = files(out)
    return [name for name, content in before.items() if after.get(name) != content]


watched: list[tuple[Path, set[str]]] = []
"""The folder in which each name that is made is noted, and these names."""


def note(event: str, words: tuple[object, ...]) -> None:
    if not watched or event not in ("open", "os.mkdir", "os.rename"):
        return
    if event == "open":
        path, _, flags = words
        if isinstance(flags, int) and not flags & (os.O_WRONLY | os.O_RDWR):
            return
    else:
        path = words[1 if event == "os.rename" else 0]
    folder, names = watched[0]
    if isinstance(path, str | Path) and str(path).startswith(f"{folder}/"):
        names.add(Path(path).relative_to(folder).as_posix())


sys.addaudithook(note)


@contextmanager
def noting(folder: Path) -> Iterator[set[str]]:
    """Yield the names, below a folder, of what the block makes there, be it only for a while."""
    watched.append((folder, set()))
    try:
        yield watched[0][1]
    finally:
        watched.clear()


def is_ours(name: str) -> bool:
    """Return whether a name is one that nobody else gives, or in a folder that has one."""
    return any(is_temporary(part) for part in Path(name).parts)


def few_of(names: list[str], most: int) -> list[str]:
    return names[:: max(1, len(names) // most)]


@pytest.mark.parametrize("name", CASES)
def test_files_of_others_stay(name: str, given: Path, tmp_path: Path) -> None:
    words, clean = COMMANDS[name], tmp_path / "clean"
    with noting(clean) as used:
        do(words, given, clean)
    made = files(clean)
    assert made
    # Files that a command line names are replaced.
    place = "{out}/"
    named = [word[len(place) :] for word in words.split() if word.startswith(place)]
    names = [one for one in made if not one.endswith((*named, *RUN_FILES))]
    passing = sorted(
        f"{one}/notes of mine.md" if Path(one).suffix == "" else one
        for one in used
        if not is_ours(one) and not (clean / one).exists()
    )
    most = 1 if name in (*SLOW, *SLOWER) else 4
    groups = [[one] for one in few_of(names, most)[-most:]]
    groups += [[one] for one in few_of(passing, 2)[:2]]
    if names:
        groups.append(names)
    said = []
    for number, group in enumerate(groups):
        out = tmp_path / f"names-{number}"
        before = put(out, group)
        said.append(attempt(words, given, out))
        assert not lost(out, before), (group, said[-1])
        assert "\n" not in said[-1] and len(said[-1]) <= 400
    assert any(said) or not names, "no stranger was refused"
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.mark.parametrize("name", CASES)
def test_files_beside_stay(
    name: str, given: Path, calls: Server, tmp_path: Path
) -> None:
    """Somebody's notes in each folder that is written to, after success, a failed write and a kill."""
    words = COMMANDS[name]
    out = tmp_path / "clean"
    code, count = calls.call(line(words, given, out), out)
    assert code in (0, 1) and count
    folders = {Path(one).parent for one in files(out) if "/." not in f"/{one}"}
    notes = [(folder / "notes of mine.md").as_posix() for folder in sorted(folders)]
    places = (count // 2,)
    if name not in (*SLOW, *SLOWER):
        places = (0, count // 4, count // 2, count - 1)
    for place in places:
        for mode in ("full", "killed"):
            out = tmp_path / f"{mode}-{place}"
            before = put(out, notes)
            for failing in (place, 0):
                calls.call(line(words, given, out), out, failing, mode)
                assert not lost(out, before), (mode, place, failing)
    shutil.rmtree(tmp_path, ignore_errors=True)
