"""`check` of what each command writes: a changed byte is named, or its file is; the printed remedy repairs it."""

import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from clm_or_mlm import check_command
from clm_or_mlm.__main__ import main
from common.errors import UserError
from tests.benchmarks.fake_hub import conll_hub
from tests.clm_or_mlm.written import COMMANDS, do, files, prepare, set_caches
from tests.flips import flip

pytestmark = pytest.mark.filterwarnings("ignore")

SLOW = ("adapt --merge", "report", "reproduce", "workflow")
PRINTED = ("scores", "claims", "audit", "compare", "sensitivity")
UNSEALED = ("tokenizer", "shards --part", *PRINTED)
"""Commands of whose files none has a hash, which `check` says."""
FILES = 20
"""Files of a folder that are changed one by one, at most."""
CASES = [
    pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name
    for name in COMMANDS
]


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What the commands read, and a hub to fetch from."""
    with pytest.MonkeyPatch.context() as patch, conll_hub().serve():
        set_caches(tmp_path_factory, patch)
        yield prepare(tmp_path_factory.mktemp("given"))


class Check:
    """Calls `check` of a folder."""

    def __init__(
        self,
        out: Path,
        capsys: pytest.CaptureFixture[str],
        patch: pytest.MonkeyPatch,
    ) -> None:
        self.out = out
        self.declared = set[Path]()
        """Files that the last call said to have no hash."""
        self._capsys = capsys
        self._unsealed = check_command.unsealed
        patch.setattr(check_command, "unsealed", self._spy)

    def _spy(self, folder: Path, read: set[Path]) -> list[str]:
        names = self._unsealed(folder, read)
        self.declared = {folder / name for name in names}
        return names

    def lines(self) -> list[str]:
        """Return what it prints, or its refusal."""
        self._capsys.readouterr()
        self.declared = set()
        try:
            main(["check", str(self.out)])
        except UserError as error:
            return [str(error)]
        return self._capsys.readouterr().out.splitlines()

    def sealed(self) -> list[Path]:
        """Return the files whose content it compares; of many, some of every folder and ending."""
        self.lines()
        every = map(self.out.joinpath, files(self.out))
        paths = [path for path in every if path not in self.declared]
        if len(paths) > FILES:
            kinds = {(path.parent, path.suffix): path for path in paths}
            chosen = list(kinds.values())
            paths = chosen[:: math.ceil(len(chosen) / FILES)]
        return [path for path in paths if path.stat().st_size]


@pytest.fixture
def check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Check:
    return Check(tmp_path / "out", capsys, monkeypatch)


def place_of(check: Check, line: str, changed: Path) -> Path:
    """Return what a line's remedy calls `it`: the folder that the line is about, or the changed file of a record's."""
    _, what, _ = line.split(": ", 2)
    about = Path(what)
    return about if about.is_dir() and about != check.out else changed


def follow(check: Check, line: str, changed: Path, words: str, given: Path) -> None:
    """Do what a line of `check` says."""
    place = place_of(check, line, changed)
    study_part = re.search(r"in this study, remove (\S+) and run", line)
    if study_part:
        shutil.rmtree(study_part[1], ignore_errors=True)
    elif "remove it and what it lists" in line:
        listed = changed.name.removesuffix("manifest.json").rstrip("._")
        for path in [*changed.parent.rglob(f"{listed}*")]:
            if path.is_file():
                path.unlink()
    elif "remove the folder" in line:
        shutil.rmtree(check.out)
    elif "remove its folder" in line:
        shutil.rmtree(place if place.is_dir() else place.parent)
    elif "remove it" in line or "move it elsewhere" in line:
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink()
    for model in re.findall(r"remove (\S+/models/\S+)", line):
        shutil.rmtree(model)
    if "--replace" in line and "--replace" not in words and not study_part:
        words += " --replace"
    do(words, given, check.out)


def sealed_lines(lines: list[str]) -> list[str]:
    return [line for line in lines if not line.startswith("not compared: ")]


@pytest.mark.parametrize("name", CASES)
def test_each_remedy_repairs(name: str, given: Path, check: Check) -> None:
    words = COMMANDS[name]
    do(words, given, check.out)
    whole = check.lines()
    if name in UNSEALED:
        unread = set(map(check.out.joinpath, files(check.out))) - check.declared
        assert not unread or "has nothing that is checked" in whole[0]
        return
    assert "damaged: " not in str(whole)
    before = files(check.out)
    for path in check.sealed():
        flip(path)
        after = check.lines()
        assert after != whole, path
        damaged = [line for line in after if line.startswith("damaged: ")]
        for line in damaged:
            follow(check, line, path, words, given)
        repaired = check.lines()
        part = path.relative_to(check.out).parts[0]
        if not damaged:
            pass  # `missing` or `not compared` says what has changed
        elif name != "workflow":
            assert repaired == whole, (path, damaged)
        elif part in ("data", "shards"):
            # Datasets and shards are made again only for a job that needs them.
            assert "damaged: " not in str(repaired), (path, damaged)
        else:
            # A job that is done again leaves other notes and times, which have no hash.
            assert sealed_lines(repaired) == sealed_lines(whole), (path, damaged)
        shutil.rmtree(check.out)
        for file, content in before.items():
            (check.out / file).parent.mkdir(parents=True, exist_ok=True)
            (check.out / file).write_bytes(content)
