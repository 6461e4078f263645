"""Damaged files of every format: refused in a sentence or read rightly, by their reader and by their command."""

import shlex
import shutil
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from clm_or_mlm.__main__ import main
from common.cli import run
from tests.fuzz import pretraining_formats as of_pretraining
from tests.fuzz.formats import FORMATS
from tests.fuzz.mutations import IN_ITS_PLACE, FileFormat, is_sealed, mutants, outcome
from tests.messages import check
from tests.pretraining import small_study

ALL = [*FORMATS, *of_pretraining.FORMATS]
QUICK, SLOW, BY_COMMAND = 25, 2_500, 10
"""Mutants of a format in `make test`, in `make test-all`, and through a command."""


def examples(count: float) -> settings:
    """Return the settings of so many examples, always the same ones; what takes long is not made smaller."""
    return settings(
        max_examples=max(1, int(count)),
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )


@pytest.mark.parametrize("form", ALL, ids=lambda form: form.name)
@pytest.mark.parametrize("count", [QUICK, pytest.param(SLOW, marks=pytest.mark.slow)])
def test_damaged_files_are_refused_or_read(
    form: FileFormat, tmp_path: Path, count: int
) -> None:
    path = form.make(tmp_path)
    content, original = path.read_bytes(), repr(form.read(path))
    tally = Counter[str]()

    @examples(form.share * count)
    @given(mutants(content))
    def read(mutant: bytes) -> None:
        path.write_bytes(mutant)
        tally[outcome(form, path, original)] += 1

    read()
    path.unlink()
    for put in IN_ITS_PLACE.values():
        put(path)
        tally[outcome(form, path, original)] += 1
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.write_bytes(content)
    assert repr(form.read(path)) == original, "the mutants left something behind"
    assert tally["refused"] > 0, tally


def ends(words: list[str], capsys: pytest.CaptureFixture[str]) -> object:
    """Run a command in this process, check what it says, and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        run(main, words)
    said = capsys.readouterr().err
    assert ended.value.code in (None, 0, 1, 2, 3, 4) and "Traceback" not in said, said
    for line in said.splitlines():
        check(line or "-")
    assert ended.value.code != 2 or said.splitlines()[-1].startswith("error: "), said
    return ended.value.code


@pytest.mark.slow
@pytest.mark.parametrize(
    "form", [form for form in ALL if form.command], ids=lambda form: form.name
)
def test_a_command_ends_in_a_sentence(
    form: FileFormat,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CLM_OR_MLM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    path = form.make(tmp_path)

    @examples(BY_COMMAND)
    @given(mutants(path.read_bytes()), st.uuids())
    def read(mutant: bytes, number: object) -> None:
        path.write_bytes(mutant)
        new = tmp_path / str(number)
        new.mkdir(exist_ok=True)
        ends(shlex.split(form.command.format(at=tmp_path, file=path, new=new)), capsys)

    read()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A study that was trained, and the command that did it."""
    folder = tmp_path_factory.mktemp("trained")
    made, data = small_study.make_study(folder), small_study.make_shards(folder)
    assert small_study.train(
        small_study.MODEL, data=data, out=folder / "out", study=made
    )
    words = (
        f"train {small_study.MODEL} --data {data} --study {folder / 'mini.toml'} --out"
    )
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


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_TRAIN)
def test_train_ends_in_a_sentence(
    name: str,
    trained: tuple[Path, list[str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (whole, words), file = trained, OF_TRAIN[name]
    content = (whole / file).read_bytes()

    @examples(BY_COMMAND)
    @given(mutants(content))
    def read(mutant: bytes) -> None:
        out = tmp_path / "out"
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(whole, out)
        if file.startswith(STAGE):
            shutil.rmtree(out / MODEL)
        (out / file).write_bytes(mutant)
        # Another value under a right seal is believed, as long as it contradicts nothing.
        is_believed = mutant == content or is_sealed(mutant) or name == "log of a stage"
        assert ends([*words, str(out)], capsys) == 2 or is_believed

    read()


def test_every_format_goes_through_a_command() -> None:
    by_train = {form.name for form in ALL if not form.command}
    # What `shards` resumes from goes through the reader alone, which must give back what was written or nothing.
    assert by_train == set(OF_TRAIN) - {"log of a stage"} | {"unfinished shards"}
