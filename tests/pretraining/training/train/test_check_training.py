"""`check` of a training's folder: what is whole, damaged and missing, each with its place and the remedy."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from clm_or_mlm.__main__ import main
from tests.flips import flip
from tests.pretraining.small_study import MODEL, QUIET, change_a_loss

pytestmark = QUIET
LAST = "step-00000024"
LOG = "stages/mini-s-clm/log.jsonl"


def _last(out: Path) -> Path:
    return next((out / "stages").glob(f"*/{LAST}"))


def _without(path: Path, number: int) -> None:
    lines = path.read_text().splitlines(keepends=True)
    del lines[number]
    path.write_text("".join(lines))


DONE: dict[str, tuple[Callable[[Path], object], str, tuple[str, ...]]] = {
    # what is done: its kind, and words of the line
    "weights": (
        lambda out: flip(_last(out) / "model.safetensors"),
        "damaged",
        (LAST, "remove its folder"),
    ),
    "state": (
        lambda out: (_last(out) / "state.json").unlink(),
        "damaged",
        (LAST, "no state.json; remove it"),
    ),
    "no checkpoint": (
        lambda out: shutil.rmtree(_last(out)),
        "missing",
        ("no checkpoint; to have one, remove ", "run the same train"),
    ),
    "log": (lambda out: (out / LOG).unlink(), "missing", (LOG, "no log here")),
    "log's byte": (lambda out: flip(out / LOG, 3), "damaged", (LOG, "is not a row")),
    "log's rows": (
        lambda out: _without(out / LOG, 4),
        "missing",
        (LOG, "1 rows of the steps"),
    ),
    "a loss": (lambda out: change_a_loss(out / LOG), "damaged", (LOG, "have changed")),
    "model": (
        lambda out: flip(out / "models" / MODEL / "config.json"),
        "damaged",
        (MODEL, "remove it and run"),
    ),
    "model's log": (
        lambda out: (out / "models" / MODEL / "log.jsonl").unlink(),
        "damaged",
        (MODEL, "log.jsonl"),
    ),
}


@pytest.mark.parametrize("name", DONE)
def test_damage_is_named_with_its_place_and_remedy(
    name: str, done: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    do, kind, words = DONE[name]
    out = Path(shutil.copytree(done, tmp_path / "out"))
    do(out)
    assert main(["check", str(out)]) == (kind == "damaged")
    lines = [
        line
        for line in capsys.readouterr().out.splitlines()
        if not line.startswith(("whole: ", "not compared: "))
    ]
    assert (
        len(lines) == 1
        and lines[0].startswith(f"{kind}: ")
        and all(word in lines[0] for word in words)
    ), lines


def test_a_whole_training_has_whole_parts(
    done: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(done)]) == 0
    lines = capsys.readouterr().out.splitlines()
    *whole, rest = lines
    assert {line.split(": ")[0] for line in whole} == {"whole"} and len(whole) >= 5
    assert rest.startswith("not compared: ") and rest.count("timings.jsonl") == 3
    assert any(MODEL in line and "first token sees the last" in line for line in lines)
