"""Mutation testing: `python -m tests.mutation [ROOM or MODULE ...] [--jobs N]`.

Every mutant of a module runs against the module's quick tests, in a fork of a process that has imported what they need.
A mutant is killed when a test fails or none ends in time. Survivors that change nothing that can be seen are in
survivors.toml, each with its reason. Results are kept in build/mutation and used again while module and tests are the
same, so a killed call resumes.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import signal
import sys
import time
import tomllib
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, ModuleType

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "build" / "mutation"
OURS = tuple(path.name for path in ROOT.iterdir() if (path / "__init__.py").is_file())
SETTINGS = tomllib.loads((ROOT / "tests/mutation/rooms.toml").read_text())
SURVIVORS = ROOT / "tests/mutation/survivors.toml"


def module_name(path: str) -> str:
    """Return the name by which a file is imported."""
    return path.removesuffix(".py").replace("/", ".")


class _Mutated(importlib.machinery.SourceFileLoader, importlib.abc.MetaPathFinder):
    """Imports one module from another source than its file's."""

    def __init__(self, module: str, source: str) -> None:
        self.source = source
        super().__init__(module_name(module), str(ROOT / module))

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        return importlib.util.spec_from_file_location(fullname, self.path, loader=self)

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.source, self.path, "exec")


def run_tests(files: Sequence[str], mutated: _Mutated | None, said: int) -> int:
    """Run quick tests in this process, on a mutant when one is given, and return pytest's exit code."""
    import pytest

    os.dup2(said, 1)
    os.dup2(said, 2)
    os.environ.pop("REAL_DATA", None)
    os.environ["MUTATION_TESTING"] = "1"
    if mutated is not None:
        sys.meta_path.insert(0, mutated)
    plugins = ["-p", "no:cacheprovider", "-p", "no:xdist"]
    return int(
        pytest.main(
            ["-x", "-q", "--no-header", "--assert=plain", "--tb=no", "-m", "not slow", *plugins, *files]
        )
    )


def forked(files: Sequence[str], mutated: _Mutated | None, log: Path) -> int:
    """Start the tests in a process of their own and return its id."""
    if number := os.fork():
        return number
    code = 99
    try:
        os.setpgid(0, 0)
        said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        code = run_tests(files, mutated, said)
        if mutated is None:
            others = [
                name for name in sys.modules if name.split(".")[0] not in OURS and "conftest" not in name
            ]
            log.with_suffix(".modules").write_text("\n".join(others))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def prepare(files: Sequence[str]) -> float:
    """Run the tests without a mutant; import the packages that they need; return the seconds that they took then."""
    OUT.mkdir(parents=True, exist_ok=True)
    log = OUT / f"unchanged-{os.getpid()}"
    for _ in range(2):
        began = time.monotonic()
        _, status = os.waitpid(forked(files, None, log), 0)
        if status:
            raise SystemExit(f"the tests fail without a mutant: {log.read_text()[-2000:]}")
        seconds = time.monotonic() - began
        for name in log.with_suffix(".modules").read_text().split():
            with contextlib.suppress(BaseException):
                importlib.import_module(name)
    gc.collect()
    gc.freeze()  # pytest collects garbage at its end, and would look through all of these modules
    log.unlink()
    log.with_suffix(".modules").unlink()
    return seconds


def test_files(module: str) -> list[str]:
    """Return a module's test files: those of its name, in the folder of its name too, and those of the settings."""
    path = Path("tests") / module
    own = [
        str(file.relative_to(ROOT))
        for place in (ROOT / path.parent, ROOT / path.parent / path.stem)
        for file in [place / f"test_{path.stem}.py", *place.glob(f"test_{path.stem}_*.py")]
        if file.is_file()
    ]
    return [*own, *SETTINGS["tests"].get(module, [])]


def examine(module: str, jobs: int) -> dict[str, str]:
    """Return what became of each mutant of a module: its change, and `killed`, `slow` or `survived`."""
    from tests.mutation.mutants import mutants

    files, source = test_files(module), (ROOT / module).read_text()
    content = [source, *((ROOT / file).read_text() for file in files), *SETTINGS["operators"]]
    key = hashlib.sha256("\0".join(content).encode()).hexdigest()[:16]
    record = OUT / f"{module.replace('/', '.')}-{key}.jsonl"
    found = dict(json.loads(line) for line in record.read_text().splitlines()) if record.is_file() else {}
    todo = list(mutants(module, source, SETTINGS["operators"]))
    names = [f"{item.line}: {item.change}" for item in todo]
    pending = [(name, item) for name, item in zip(names, todo, strict=True) if name not in found]
    if not pending:
        return {name: found[name] for name in names}
    limit = 10 + 5 * prepare(files)
    running: dict[int, tuple[str, float]] = {}
    with record.open("a") as sink:
        while pending or running:
            while pending and len(running) < jobs:
                name, item = pending.pop()
                number = forked(files, _Mutated(module, item.source), Path(os.devnull))
                running[number] = name, time.monotonic()
            for number, (name, began) in list(running.items()):
                ended, status = os.waitpid(number, os.WNOHANG)
                late = time.monotonic() - began > limit
                if not ended and not late:
                    continue
                if not ended:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(number, signal.SIGKILL)
                    os.waitpid(number, 0)
                found[name] = "slow" if not ended else "survived" if status == 0 else "killed"
                sink.write(json.dumps([name, found[name]]) + "\n")
                sink.flush()
                del running[number]
                print(f"\r{module}: {len(pending) + len(running)} left ", end="", file=sys.stderr, flush=True)
            time.sleep(0.01)
    print("\r\x1b[K", end="", file=sys.stderr)
    return {name: found[name] for name in names}


def main() -> int:
    """Examine modules, print what survived and what share was killed; 1 when that is too little anywhere."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("which", nargs="*", help="rooms of rooms.toml or modules; all without any")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="mutants at a time (default: 2)")
    words = parser.parse_args()
    rooms: dict[str, list[str]] = SETTINGS["rooms"]
    known = tomllib.loads(SURVIVORS.read_text()) if SURVIVORS.is_file() else {}
    status = 0
    for room, modules in rooms.items():
        chosen = [module for module in modules if not words.which or {room, module} & set(words.which)]
        total = left = 0
        for module in chosen:
            began = time.monotonic()
            found = examine(module, words.jobs)
            survived = [name for name, what in found.items() if what == "survived"]
            total, left = total + len(found), left + len(survived)
            print(
                f"{module}: {len(found)} mutants, {len(survived)} survived ({time.monotonic() - began:.0f} s)"
            )
            for name in survived:
                line, change = name.split(": ", 1)
                reason = known.get(module, {}).get(change)
                print(f"    {line}: {change}" + (f"  # {reason}" if reason else "  # NEW"))
        if total:
            share = 1 - left / total
            print(f"{room}: {total} mutants, {share:.1%} killed", flush=True)
            status |= share < SETTINGS["share"]
    return int(status)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.chdir(ROOT)
    raise SystemExit(main())
