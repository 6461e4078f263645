"""Ten mutants of each file of pretraining through the command that reads it: a result, or one sentence and a code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from common.cli import run
from pretraining.__main__ import main
from tests.fuzz.mutations import mutants
from tests.fuzz.test_pretraining_formats import checkpoint, shards, study, tokenizer

COUNT = 10


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command, and the file that it is given damaged."""

    name: str
    make: Callable[[Path], Path]
    words: Callable[[Path, Path], list[str]]
    """From the file and a folder of its own for every call."""
    sealed: bool = True
    """Whether no mutant may pass."""


def export(path: Path, new: Path) -> list[str]:
    return ["export", str(path.parent), "--data", str(path.parents[1] / "data"), "--out", str(new / "model")]


def checkpoint_with_shards(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        shards(folder)
        return checkpoint(folder) / name

    return make


COMMANDS = [
    *(
        Command(
            name=f"shards verify, {name}",
            make=lambda folder, name=name: shards(folder) / name,  # type: ignore[misc]
            words=lambda path, new: ["shards", "verify", str(new.parent / "data")],
        )
        for name in ("manifest.json", "train/index.json", "train/shard.00000.mds.zstd")
    ),
    *(
        Command(name=f"export, {name}", make=checkpoint_with_shards(name), words=export)
        for name in ("state.json", "model.safetensors")
    ),
    Command(name="plan", make=study, words=lambda path, new: ["plan", "--study", str(path)], sealed=False),
    Command(
        name="tokenizer",
        make=tokenizer,
        words=lambda path, new: ["tokenizer", "--convert", str(path), "--out", str(new / "made")],
        sealed=False,
    ),
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_commands_end_with_a_sentence(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = command.make(tmp_path)
    content = path.read_bytes()
    for number, mutant in enumerate(mutants(content, 2, COUNT)):
        path.write_bytes(mutant)
        (tmp_path / str(number)).mkdir()
        with pytest.raises(SystemExit) as ended:
            run(main, command.words(path, tmp_path / str(number)))
        shown = capsys.readouterr()
        assert "Traceback" not in shown.err
        if mutant != content and command.sealed:
            assert ended.value.code in (1, 2)
        if ended.value.code == 2:
            assert shown.err.splitlines()[-1].startswith("error: ")
