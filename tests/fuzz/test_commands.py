"""Ten damaged files of each format through the command that reads it: a result, or one sentence and an exit code."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from clm_or_mlm.rooms import main_of
from common.cli import run
from pretraining.__main__ import main as pretraining
from pretraining.data import build_shards
from tests.fuzz import pretraining_formats as of_pretraining
from tests.fuzz.formats import FORMATS
from tests.fuzz.mutations import FileFormat, mutants
from tests.pretraining import small_study
from tests.pretraining.documents import write_jsonl
from tests.pretraining.small_study import train

CASES = 10
BY_COMMAND = [form for form in [*FORMATS, *of_pretraining.FORMATS] if form.command]


def ends(words: list[str], capsys: pytest.CaptureFixture[str]) -> object:
    """Run a command in this process, check what it says, and return its exit code."""
    room, *rest = words
    with pytest.raises(SystemExit) as ended:
        run(pretraining if room == "pretraining" else main_of(room), rest)
    said = capsys.readouterr().err
    assert ended.value.code in (None, 0, 1, 2, 3, 4) and "Traceback" not in said, said
    assert all(line.isprintable() for line in said.splitlines()), said
    if ended.value.code == 2:
        assert said.splitlines()[-1].startswith("error: "), said
    return ended.value.code


@pytest.mark.slow
@pytest.mark.parametrize("form", BY_COMMAND, ids=lambda form: form.name)
def test_a_damaged_file_ends_in_a_sentence(
    form: FileFormat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLM_OR_MLM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    path = form.make(tmp_path)
    for number, mutant in enumerate(mutants(path.read_bytes(), 3, CASES)):
        path.write_bytes(mutant)
        (tmp_path / str(number)).mkdir()
        words = form.command.format(at=tmp_path, file=path, new=tmp_path / str(number))
        ends(shlex.split(words), capsys)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A study that was trained, and the command that did it."""
    folder = tmp_path_factory.mktemp("trained")
    made, data = small_study.make_study(folder), small_study.make_shards(folder)
    assert train(small_study.MODEL, data=data, out=folder / "out", study=made)
    words = f"pretraining train {small_study.MODEL} --data {data} --study {folder / 'mini.toml'} --out"
    return folder / "out", words.split()


MODEL, STAGE = f"models/{small_study.MODEL}", f"stages/{small_study.MODEL}"
CHECKPOINT = f"{STAGE}/step-00000024"
OF_TRAIN = {
    "model": f"{MODEL}/model.safetensors",
    "model's manifest": f"{MODEL}/manifest.json",
    "config": f"{MODEL}/config.json",
    "log": f"{MODEL}/log.jsonl",
    "state": f"{CHECKPOINT}/state.json",
    "weights": f"{CHECKPOINT}/model.safetensors",
    "moments": f"{CHECKPOINT}/optimizer.safetensors",
    "log of a stage": f"{STAGE}/log.jsonl",
}
"""Files that `train` reads again when it finds them: of a finished model, and of one that only lacks its export."""
UNSEALED = {"log of a stage"}


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_TRAIN)
def test_train_ends_with_a_sentence(
    name: str, trained: tuple[Path, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, words = trained
    content = (whole / OF_TRAIN[name]).read_bytes()
    for number, mutant in enumerate(mutants(content, 2, CASES)):
        out = Path(shutil.copytree(whole, tmp_path / str(number)))
        if OF_TRAIN[name].startswith(STAGE):
            shutil.rmtree(out / MODEL)
        (out / OF_TRAIN[name]).write_bytes(mutant)
        code = ends([*words, str(out)], capsys)
        assert mutant == content or name in UNSEALED or code == 2


@pytest.mark.slow
def test_shards_resume_from_what_is_whole_or_end_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_jsonl(tmp_path / "documents.jsonl", of_pretraining.DOCUMENTS * 3)
    tokenizer = of_pretraining.tokenizer(tmp_path / "t").parent
    words = (
        f"pretraining shards --source {source} --tokenizer {tokenizer} --workers 0 --shard-records 1".split()
    )
    words += ["--validation-share", "0.2", "--out"]
    monkeypatch.setattr(build_shards, "_GROUP_CHARACTERS", 3_000)
    assert ends([*words, str(tmp_path / "whole")], capsys) in (None, 0)
    left, replace = [12], Path.replace

    def failing(self: Path, target: Path) -> Path:
        left[0] -= 1
        if left[0] == 0:
            raise OSError(28, "No space left on device")
        return replace(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", failing)
        assert ends([*words, str(tmp_path / "begun")], capsys) == 2
    content = (tmp_path / "begun" / ".state" / "state.json").read_bytes()
    for number, mutant in enumerate(mutants(content, 2, CASES)):
        out = Path(shutil.copytree(tmp_path / "begun", tmp_path / str(number)))
        (out / ".state" / "state.json").write_bytes(mutant)
        if ends([*words, str(out)], capsys) in (None, 0):
            assert (out / "manifest.json").read_bytes() == (tmp_path / "whole" / "manifest.json").read_bytes()
        else:
            assert mutant != content


def test_every_format_goes_through_a_command() -> None:
    by_train = {form.name for form in of_pretraining.FORMATS if not form.command}
    assert by_train == set(OF_TRAIN) - {"log of a stage"} | {"unfinished shards"}
    assert all(form.command for form in FORMATS)
