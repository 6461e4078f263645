"""`check` of a run store and of what it keeps: without torch."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.runs import DETAILS, RESULTS, RUN
from clm_or_mlm.__main__ import main
from common.files import sha256_file
from common.manifest import write_manifest
from tests.analysis.stores import MODELS, fill_sealed, run_folder
from tests.commands import python
from tests.flips import flip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of sealed runs that keeps one encoder."""
    store = fill_sealed(tmp_path_factory.mktemp("whole"))
    kept = store / "encoders" / MODELS[0] / "TC/uner_en/lr1e-04_sd0"
    kept.mkdir(parents=True)
    (kept / "config.json").write_text("{}")
    write_manifest(
        kept / "manifest.json",
        {"description_sha256": "a"},
        {"config.json": sha256_file(kept / "config.json")},
    )
    return store


def of(store: Path, name: str) -> Path:
    return run_folder(store, "uner_en", "lr1e-04_sd0", MODELS[0]) / name


def kept(store: Path) -> Path:
    return store / "encoders" / MODELS[0] / "TC/uner_en/lr1e-04_sd0"


DONE: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "results": (lambda store: flip(of(store, RESULTS)), "damaged", "lr1e-04_sd0"),
    "run.json": (lambda store: flip(of(store, RUN)), "damaged", "lr1e-04_sd0"),
    "details": (
        lambda store: flip(of(store, DETAILS)),
        "damaged",
        "run this evaluation again",
    ),
    "a run": (lambda store: shutil.rmtree(of(store, "")), "missing", "lr1e-04_sd0"),
    "an encoder": (
        lambda store: flip(kept(store) / "config.json"),
        "damaged",
        "--keep best makes it again",
    ),
    "its manifest": (
        lambda store: (kept(store) / "manifest.json").unlink(),
        "damaged",
        "it has no manifest.json; move it elsewhere",
    ),
}


@pytest.mark.parametrize("name", DONE)
def test_damage_in_a_store_is_named(
    name: str, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    do, kind, words = DONE[name]
    store = Path(shutil.copytree(whole, tmp_path / "store"))
    do(store)
    assert main(["check", str(store)]) == (kind == "damaged")
    said = capsys.readouterr().out.splitlines()
    lines = [line for line in said if line.startswith("damaged: ")] or [
        line for line in said if line.startswith("missing: ")
    ]
    assert len(lines) == 1 and lines[0].startswith(f"{kind}: ") and words in lines[0], (
        lines
    )
    if "encoder" in name:
        assert main(["check", str(kept(store))]) == 1


def test_a_whole_store_needs_no_torch(whole: Path) -> None:
    code = (
        "import sys\nsys.modules['torch'] = None\nfrom clm_or_mlm.__main__ import main\n"
        f"sys.exit(main(['check', {str(whole)!r}]))"
    )
    said = python("-c", code, code=0).stdout.splitlines()
    assert {line.split(": ")[0] for line in said} == {"whole"} and len(said) == 2


def test_what_others_put_into_a_kept_encoder_is_named(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Path(shutil.copytree(whole, tmp_path / "store"))
    (kept(store) / "README.md").write_text("mine")
    (kept(store) / "notes.md").write_text("mine")
    assert main(["check", str(store)]) == 0
    said = capsys.readouterr().out
    assert (
        "1 files match the manifest; changed or not of --keep: README.md, notes.md"
        in said
    )
