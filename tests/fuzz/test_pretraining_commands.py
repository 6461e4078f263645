"""Ten mutants of each file of pretraining through the command that reads it: a result, or one sentence and a code."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from common.cli import run
from pretraining.__main__ import main
from pretraining.data import build_shards
from pretraining.training.train import train
from tests.fuzz.mutations import mutants
from tests.fuzz.test_pretraining_formats import DOCUMENTS, FORMATS, checkpoint, shards, study, tokenizer
from tests.pretraining import small_study
from tests.pretraining.documents import write_jsonl

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


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_commands_end_with_a_sentence(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = command.make(tmp_path)
    content = path.read_bytes()
    for number, mutant in enumerate(mutants(content, 2, COUNT)):
        path.write_bytes(mutant)
        (tmp_path / str(number)).mkdir()
        code = ends(command.words(path, tmp_path / str(number)), capsys)
        assert mutant == content or not command.sealed or code in (1, 2)


def ends(words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> object:
    """Run a command, check what it says, and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        run(main, words)
    said = capsys.readouterr().err
    assert "Traceback" not in said
    if ended.value.code == 2:
        assert said.splitlines()[-1].startswith("error: ")
    return ended.value.code


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A study that was trained, and the command that did it."""

    out: Path
    words: list[str]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("trained")
    made, data = small_study.make_study(folder), small_study.make_shards(folder)
    assert train(small_study.MODEL, data=data, out=folder / "out", study=made)
    words = ["train", small_study.MODEL, "--data", str(data), "--study", str(folder / "mini.toml"), "--out"]
    return Trained(out=folder / "out", words=words)


MODEL, STAGE = f"models/{small_study.MODEL}", f"stages/{small_study.MODEL}"
OF_TRAIN = {
    "model": f"{MODEL}/model.safetensors",
    "model's manifest": f"{MODEL}/manifest.json",
    "config": f"{MODEL}/config.json",
    "log": f"{MODEL}/log.jsonl",
    "moments": f"{STAGE}/step-00000024/optimizer.safetensors",
    "log of a stage": f"{STAGE}/log.jsonl",
    "timings": f"{STAGE}/timings.jsonl",
}
"""Files that `train` reads again when it finds them: of a finished model, and of one that only lacks its export."""
UNSEALED = {"log of a stage", "timings"}


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_TRAIN)
def test_train_ends_with_a_sentence(
    name: str, trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = (trained.out / OF_TRAIN[name]).read_bytes()
    for number, mutant in enumerate(mutants(content, 2, COUNT)):
        out = Path(shutil.copytree(trained.out, tmp_path / str(number)))
        if OF_TRAIN[name].startswith(STAGE):
            shutil.rmtree(out / MODEL)
        (out / OF_TRAIN[name]).write_bytes(mutant)
        code = ends([*trained.words, str(out)], capsys)
        assert mutant == content or name in UNSEALED or code == 2


@pytest.mark.slow
def test_shards_resume_from_what_is_whole_or_end_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_jsonl(tmp_path / "documents.jsonl", DOCUMENTS * 3)
    words = [
        "shards",
        "--source",
        str(source),
        "--tokenizer",
        str(tokenizer(tmp_path / "t").parent),
        "--workers",
        "0",
    ]
    words += ["--shard-records", "1", "--validation-share", "0.2", "--out"]
    monkeypatch.setattr(build_shards, "_GROUP_CHARACTERS", 3_000)
    assert ends([*words, str(tmp_path / "whole")], capsys) == 0
    left, replace = [12], Path.replace

    def failing(self: Path, target: Path) -> Path:
        left[0] -= 1
        if left[0] == 0:
            raise OSError(28, "No space left on device")
        return replace(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", failing)
        assert ends([*words, str(tmp_path / "begun")], capsys) == 2
    state = tmp_path / "begun" / ".state" / "state.json"
    content = state.read_bytes()
    for number, mutant in enumerate(mutants(content, 2, COUNT)):
        out = Path(shutil.copytree(tmp_path / "begun", tmp_path / str(number)))
        (out / ".state" / "state.json").write_bytes(mutant)
        if ends([*words, str(out)], capsys) == 0:
            assert (out / "manifest.json").read_bytes() == (tmp_path / "whole" / "manifest.json").read_bytes()
        else:
            assert mutant != content


def test_every_format_goes_through_a_command() -> None:
    """The tokenizer, a study and shards in the first test, the rest in those of `train` and `shards`."""
    through = {"index", "shard", "manifest", "state", "weights", "study", "tokenizer", "unfinished shards"}
    assert {form.name for form in FORMATS} == through | set(OF_TRAIN) - {"log of a stage"}
