"""`check` of a study's folder: each byte that is changed is named, or its file is among those without a hash."""

import shutil
from pathlib import Path

import pytest

from benchmarks.datasets.synthetic import make_synthetic
from clm_or_mlm.__main__ import main
from clm_or_mlm.check_command import unsealed
from common.files import mark_cache, sha256_file
from common.manifest import write_manifest
from tests.analysis.stores import MODELS, fill_sealed
from tests.flips import flip
from tests.pretraining.small_study import MODEL, QUIET, Run

pytestmark = QUIET
RUN_CHECKED = "lr1e-04_sd0"
"""The run whose files are changed, of the sixty in the store."""


@pytest.fixture(scope="module")
def finished(done: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a finished study leaves it, with something of its user's."""
    folder = tmp_path_factory.mktemp("study")
    shutil.copytree(done, folder / "pretraining")
    shutil.copytree(data, folder / "shards")
    fill_sealed(folder)
    kept = folder / "encoders" / MODELS[0] / "TC/uner_en/lr1e-04_sd0"
    kept.mkdir(parents=True)
    (kept / "config.json").write_text("{}")
    hashes = {"config.json": sha256_file(kept / "config.json")}
    write_manifest(kept / "manifest.json", {"description_sha256": "a"}, hashes)
    make_synthetic(folder / "data", "uner_en", train=8, evaluation=8)
    out = folder / "analysis/all"
    words = ["--out", str(out / "runs.parquet"), "--instances", str(out / "instances")]
    assert main(["ingest", str(folder), *words]) == 0
    table = ["--source", str(out / "runs.parquet"), "--out", str(out / "table10.md")]
    assert main(["table", "10", *table]) in (0, None)
    (folder / "notes.md").write_text("mine")
    return folder


def said(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    capsys.readouterr()
    code = main(["check", str(folder)])
    return code or 0, capsys.readouterr().out.splitlines()


def test_a_whole_study_is_checked_whole(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, lines = said(finished, capsys)
    *whole, rest = lines
    assert code == 0 and {line.split(":")[0] for line in whole} == {"whole"}, lines
    assert "notes.md" in rest and rest.startswith("not compared: ")
    for part in (
        f"pretraining/models/{MODEL}",
        "shards",
        "results",
        "encoders/",
        "data/uner_en/manifest.json",
        "analysis/all/runs.parquet.manifest.json",
        "analysis/all/instances/_manifest.json",
    ):
        assert any(line.startswith(f"whole: {finished}/{part}") for line in whole), part


@pytest.mark.parametrize("part", ["pretraining", "shards", "data", "analysis", ""])
def test_every_changed_byte_is_named_or_its_file_is(
    part: str,
    finished: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[list[str]] = []
    monkeypatch.setattr(
        "clm_or_mlm.check_command.unsealed",
        lambda *words: read.append(unsealed(*words)) or read[-1],
    )
    folder = finished / part
    whole = said(folder, capsys)
    without = set(read[-1])
    files = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and (part or path.relative_to(finished).parts[0] in ("results", "encoders"))
        and (
            path.relative_to(finished).parts[0] != "results" or RUN_CHECKED in str(path)
        )
    ]
    named = 0
    for path in files:
        if path.relative_to(folder).as_posix() in without:
            continue
        good = path.read_bytes()
        flip(path)
        after = said(folder, capsys)
        path.write_bytes(good)
        assert after != whole, path
        named += 1
    assert named > len(files) / 2


def test_an_emptied_model_and_shard_of_a_study_are_damaged(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Path(shutil.copytree(finished, tmp_path / "study"))
    shard = copy / "shards/train/shard.00000.mds.zstd"
    weights = copy / "pretraining/models" / MODEL / "model.safetensors"
    shard.write_bytes(b"")
    weights.write_bytes(b"")
    code, lines = said(copy, capsys)
    damaged = [line for line in lines if line.startswith("damaged: ")]
    assert code == 1 and len(damaged) == 2, damaged
    assert "remove it and run the command again that wrote it" in damaged[0]
    assert "run the same `shards` command again" in damaged[1]


def test_one_unfinished_part_does_not_hide_the_rest(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Path(shutil.copytree(finished, tmp_path / "study"))
    shards = copy / "shards"
    mark_cache(shards / ".state")
    for path in list(shards.iterdir()):
        if path.name != ".state":
            path.rename(shards / ".state" / path.name)
    flip(copy / "pretraining/models" / MODEL / "model.safetensors")
    code, lines = said(copy, capsys)
    assert code == 1
    assert f"missing: {shards}: the shards are unfinished; run the same" in str(lines)
    assert any(line.startswith("damaged: ") and MODEL in line for line in lines)


def test_unsealed_runs_are_said_to_be_so(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(finished / "results", tmp_path / "results")
    for name in ("run.json", "details.json"):
        for path in (tmp_path / "results").rglob(name):
            path.unlink()
    code, lines = said(tmp_path, capsys)
    assert code == 0, lines
    assert "60 runs; of 60 only the form was checked" in lines[-2]
    assert "60 files without a hash" in lines[-1]


def test_what_a_user_changes_in_a_model_is_named(
    done: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Path(shutil.copytree(done / "models" / MODEL, tmp_path / MODEL))
    (model / "README.md").write_text("mine")
    (model / "onnx").mkdir()
    (model / "onnx/model.onnx").write_text("mine")
    code, lines = said(model, capsys)
    assert code == 0, lines
    assert "changed or added since: README.md, onnx/model.onnx" in lines


@pytest.mark.parametrize("name", ["model.safetensors", "provenance.json", "log.jsonl"])
def test_the_remedy_of_a_damaged_model_repairs_it(
    name: str, done: Path, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = Path(shutil.copytree(done, tmp_path / "out"))
    model = out / "models" / MODEL
    flip(model / name)
    code, lines = said(out, capsys)
    assert code == 1 and f"{MODEL}: " in str(lines)
    assert "remove it and run the command again that wrote it" in str(lines)
    shutil.rmtree(model)
    run(MODEL, out)
    code, lines = said(out, capsys)
    assert code == 0, lines
