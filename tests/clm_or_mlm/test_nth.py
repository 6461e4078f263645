"""The n-th write, rename, mkdir, fsync or truncation of libc fails: the same command ends with the same bytes."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from clm_or_mlm.__main__ import main
from pretraining.training.log import TIMINGS
from tests.clm_or_mlm import written
from tests.kills import tree
from tests.nth import COMPILER, MODES, Server, server
from tests.pretraining.data.made_up_shards import DOCUMENTS
from tests.pretraining.documents import write_jsonl

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")

COMMANDS = {
    "shards": "shards --source {given}/a.jsonl --tokenizer {given}/start --out {out} --shard-records 1 "
    "--validation-share 0.05 --workers 0",
    "shards --part": "shards --source {given}/a.jsonl --tokenizer {given}/start --out {out} --part 1/1 --workers 0",
    "tokenizer": "tokenizer --convert {given}/start --out {out}",
    "ingest": "ingest {given} --out {out}/runs.parquet --instances {out}/instances",
    "synthetic": "synthetic uner_en --out {out}",
}
LONG = {name: written.COMMANDS[name] for name in ("adapt --merge", "benchmarks run")}
"""Commands that take seconds, so that not every place is tried."""
LONGEST = "report"
"""The longest of all: only in slow tests."""
FEW, FEW_OF_LONG, MANY_OF_LONG = 8, 3, 30
"""Places that are tried: in quick tests, of a long command, and of a long command in slow tests."""
FAILED = (2, 3, 4, -9)
"""Exit codes of a call that could not write: 3 and 4 are of `benchmarks run`."""


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("given")
    write_jsonl(folder / "a.jsonl", DOCUMENTS[:120])
    return written.prepare(folder)


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    modules = (
        *(
            "pretraining.training.train",
            "benchmarks.sweep.work",
            "clm_or_mlm.report.html_page",
        ),
        *("pretraining.data.build_shards", "analysis.store.ingest", "streaming"),
    )
    with pytest.MonkeyPatch.context() as patch:
        for name in ("CLM_OR_MLM_CACHE", "CLM_OR_MLM_SCRATCH"):
            patch.setenv(name, str(folder / "cache"))
        with server(folder, *modules) as started:
            yield started


@pytest.mark.parametrize(
    "is_quick", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["few", "all"]
)
@pytest.mark.parametrize(
    "name",
    [*COMMANDS, *LONG, pytest.param(LONGEST, marks=pytest.mark.slow)],
)
def test_a_failure_anywhere_is_repaired_by_the_same_command(
    name: str, is_quick: bool, calls: Server, given: Path, tmp_path: Path
) -> None:
    def words(out: Path) -> list[str]:
        return written.line((written.COMMANDS | COMMANDS)[name], given, out)

    clean = tmp_path / "clean"
    code, count = calls.call(words(clean), clean)
    assert code == 0 and count > 5
    whole = same_always(clean)
    failed = 0
    places = FEW if is_quick else count
    is_long = name in LONG or name == LONGEST
    if is_long:
        places = FEW_OF_LONG if is_quick else MANY_OF_LONG
    stride = count // places | 1  # odd: all modes take turns
    for place in range(1, count + 1, stride):
        for mode in MODES if stride == 1 else [MODES[place % len(MODES)]]:
            out = tmp_path / f"{place}-{mode}"
            code, _ = calls.call(words(out), out, place, mode)
            assert code in (0, *FAILED), (place, mode, code)
            failed += code != 0
            two_minutes_later(out)
            code, _ = calls.call(words(out), out)
            assert code == 0, (place, mode)
            after = same_always(out)
            assert set(after) == set(whole), (place, mode)
            assert after == whole, (place, mode)
    assert failed > 3 or is_long


def test_a_failed_repair_of_shards_is_repaired(
    calls: Server, given: Path, tmp_path: Path
) -> None:
    clean = tmp_path / "clean"
    main([w.format(given=given, out=clean) for w in COMMANDS["shards"].split()])
    whole = tree(clean)
    for place in range(3, 40, 6):
        out = tmp_path / f"{place}"
        words = [w.format(given=given, out=out) for w in COMMANDS["shards"].split()]
        main(words)
        for shard in sorted((out / "train").glob("shard.*"))[::2]:
            shard.unlink()
        code, _ = calls.call(words, out, place, "torn")
        assert code in (0, 2, -9)
        two_minutes_later(out)
        assert calls.call(words, out)[0] == 0
        assert tree(out) == whole


def same_always(out: Path) -> dict[str, bytes]:
    """Return the files that have the same bytes in each call."""
    files = tree(out)
    return {name: files[name] for name in files if not name.endswith(TIMINGS)}


def two_minutes_later(out: Path) -> None:
    """Age leases: of one that was written by half nobody knows the holder, so it counts for two minutes."""
    for path in out.rglob("*"):
        if "lock" in f"{path.parent.name}/{path.name}" and path.is_file():
            os.utime(path, (0, 0))
