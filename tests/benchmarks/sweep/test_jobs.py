"""How a request becomes fine-tunings, and what is reused is compared with what it was made from."""

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from benchmarks.protocol import DATASETS, LEARNING_RATES, SEEDS
from benchmarks.run_fields import RUN_FIELDS, Decides
from benchmarks.runs import RESULTS_VERSION, RunKey
from benchmarks.sweep.run_jobs import descriptions, jobs_of
from benchmarks.sweep.run_store import RunStore
from benchmarks.sweep.status import COMPLETE
from common.description import description_hash
from common.errors import UserError
from tests.benchmarks.sweep.stores import (
    RUN_OF_UNER,
    record,
    replaced,
    request_of,
    results,
    run,
    words_of,
)
from tests.flips import flip
from tests.results import write_results
from tests.sealed import seal


def test_the_default_grid_is_the_papers(data: Path, tmp_path: Path) -> None:
    request = request_of(
        "m", data, tmp_path, datasets=tuple(DATASETS), lrs=LEARNING_RATES, seeds=SEEDS
    )
    found = jobs_of(request)
    numbers = (
        (len(job.pending()) for job in found),
        (len(job.fine_tunings) for job in found),
    )
    assert (len(found), *map(sum, numbers)) == (10, 360, 300)
    assert RunKey(model="tiny", dataset="nq", lr=1e-5, seed=4) in found[-1].pending()
    known = request.known
    claims = {
        RunStore(tmp_path, known).claim(runs[0])
        for job in found
        for runs in job.fine_tunings
    }
    assert len(claims) == 300


CELL = "tiny/TC/uner_en"
FOLDER = f"{CELL}/lr1e-03_sd0"


@pytest.fixture(scope="module")
def done(
    data: Path,
    model_folder: Callable[..., Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A store with one run."""
    store = tmp_path_factory.mktemp("done")
    assert run([*words_of(model_folder("ours"), data, store), *RUN_OF_UNER]) == COMPLETE
    return store


@pytest.fixture
def finished(done: Path, arguments: list[str], tmp_path: Path) -> list[str]:
    """The words of a command whose runs are all done."""
    shutil.copytree(done, tmp_path, dirs_exist_ok=True)
    return [*arguments, *RUN_OF_UNER]


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(UserError) as error:
        run(words)
    assert capsys.readouterr().out == ""
    return str(error.value)


@pytest.mark.parametrize(
    ("change", "sides"),
    [
        (("--steps", "999", "--pooling", "first"), ("steps 3", "999")),
        (("--max-length", "64"), ("max_length 2028", "64")),
        (("--pooling", "first"), ('pooling "mean"', '"first"')),
        (("--head", "ours"), ('head "paper"', '"ours"')),
        (("--precision", "bf16"), ('precision "fp32"', '"bf16"')),
    ],
)
def test_other_settings_are_refused_with_nothing_left_to_do(
    finished: list[str],
    change: tuple[str, ...],
    sides: tuple[str, str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words in (finished, replaced(finished, "--seed", "1")):
        sentence = refused([*words, *change], capsys)
        assert (
            all(side in sentence for side in sides)
            and "use a different --name or --out" in sentence
        )


def test_another_model_under_the_same_name_is_refused(
    finished: list[str],
    model_folder: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    other = str(model_folder("ours-causal"))
    sentence = refused(replaced(finished, "--model", other), capsys)
    assert finished[1] in sentence and other in sentence and "the weights" in sentence
    sentence = refused(
        replaced(replaced(finished, "--model", other), "--dataset", "sst2"), capsys
    )
    assert "all runs of a model must agree" in sentence, "in another cell too"


def test_overwritten_model_or_tokenizer_is_another_one(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "model"
    shutil.copytree(arguments[1], copy)
    words = replaced([*arguments, *RUN_OF_UNER], "--model", copy)
    assert run(words) == COMPLETE
    capsys.readouterr()
    for name, what in (
        ("model.safetensors", "the weights"),
        ("tokenizer.json", "the tokenizer"),
    ):
        flip(copy / name)
        assert what in refused(words, capsys)
        flip(copy / name)
    moved = copy.rename(tmp_path / "moved")
    assert run(replaced(words, "--model", moved)) == COMPLETE, (
        "its path decides nothing"
    )


def test_other_data_are_refused(
    finished: list[str], data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from benchmarks.datasets.synthetic import make_synthetic

    make_synthetic(tmp_path / "other", "uner_en", train=96, evaluation=24, seed=1)
    assert "training_data" in refused(
        replaced(finished, "--data", tmp_path / "other"), capsys
    )


def test_results_of_another_version_of_the_code_are_refused(
    finished: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(
        "benchmarks.sweep.run_jobs.RESULTS_VERSION", RESULTS_VERSION + 1
    )
    sentence = refused(finished, capsys)
    assert (
        f"results_version {RESULTS_VERSION}, but this command has {RESULTS_VERSION + 1}"
        in sentence
    )


@pytest.mark.parametrize(
    ("field", "name", "other"),
    [("prompt", "prompt", "Say {text}"), ("headline", "metric", "f1")],
)
def test_a_dataset_that_came_to_mean_something_else_is_refused(
    field: str,
    name: str,
    other: str,
    finished: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    changed = dataclasses.replace(DATASETS["uner_en"], **{field: other})
    monkeypatch.setitem(DATASETS, "uner_en", changed)
    sentence = refused(finished, capsys)
    assert (
        f"was made with {name} " in sentence
        and f'this command has "{other}"' in sentence
    )


def test_only_decoders_runs_say_how_both_ways_was_reached(
    model_folder: Callable[..., Path], data: Path, tmp_path: Path
) -> None:
    found = {}
    for kind in ("ours", "bert", "llama"):
        request = request_of(str(model_folder(kind)), data, tmp_path)
        found[kind] = descriptions(request)["sst2"]
    said = {kind: made.get("direction") for kind, made in found.items()}
    assert said == {"ours": None, "bert": None, "llama": "configuration"}
    listed = {
        field.path for field in RUN_FIELDS if field.path.startswith("description.")
    }
    # Own retrieval sets alone say how texts are read.
    assert {f"description.{name}" for name in found["llama"]} == listed - {
        "description.reading"
    }


def test_a_run_says_everything_that_the_list_of_fields_names(
    finished: list[str], tmp_path: Path
) -> None:
    made = record(tmp_path, FOLDER)
    assert [field.name for field in RUN_FIELDS if field.of(made) is None] == [
        "direction",
        "epochs",
        "reading",
    ]
    assert {field.decides for field in RUN_FIELDS} == set(get_args(Decides))


@pytest.mark.parametrize("size", [0, 1, 300, -1])
def test_a_cut_result_is_made_again_with_the_same_bytes(
    finished: list[str], size: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "results" / FOLDER / "results.json"
    whole = path.read_bytes()
    path.write_bytes(whole[:size])
    assert run(finished) == COMPLETE
    assert path.read_bytes() == whole
    assert f"{FOLDER} is " in caplog.text and "the run will be repeated" in caplog.text


@pytest.mark.parametrize("name", ["results.json", "details.json", "run.json"])
def test_no_flipped_bit_of_a_run_passes(
    finished: list[str], name: str, tmp_path: Path
) -> None:
    path = tmp_path / "results" / FOLDER / name
    before = results(tmp_path)
    for bit in (0, 5):
        flip(path, bit)
        assert run(finished) == COMPLETE
        assert results(tmp_path) == before
        assert record(tmp_path, FOLDER)["files"].keys() == {
            "details.json",
            "results.json",
        }
    if name != "details.json":
        path.unlink()
        assert run(finished) == COMPLETE
        assert results(tmp_path) == before and path.is_file()


def test_result_that_its_manifest_does_not_name_is_remade(
    finished: list[str], tmp_path: Path
) -> None:
    before = results(tmp_path)
    seal(tmp_path / "results" / FOLDER, {"status": "failed", "reason": "x"}, {})
    assert run([*finished, "--retry-failed"]) == COMPLETE
    assert (
        results(tmp_path) == before and record(tmp_path, FOLDER)["status"] == "complete"
    )


def test_results_hold_no_path_and_no_time(finished: list[str], tmp_path: Path) -> None:
    """Made again elsewhere, all but the manifest has the same bytes."""
    folder = tmp_path / "results" / FOLDER
    first = {
        name: (folder / name).read_bytes() for name in ("results.json", "details.json")
    }
    copy = tmp_path / "elsewhere" / "model"
    shutil.copytree(finished[1], copy)
    out = str(tmp_path / "again")
    assert (
        run(replaced(replaced(finished, "--model", str(copy)), "--out", out))
        == COMPLETE
    )
    again = tmp_path / "again" / "results" / FOLDER
    assert {name: (again / name).read_bytes() for name in first} == first
    one, other = record(tmp_path, FOLDER), record(tmp_path / "again", FOLDER)
    assert (
        other["model_source"] == str(copy)
        and other["description"] == one["description"]
    )
    assert other["description_sha256"] == description_hash(one["description"])


def test_runs_without_a_record_are_never_extended(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the release has them."""
    key = RunKey(model="tiny", dataset="uner_en", lr=1e-3, seed=0)
    write_results(tmp_path, key, {"validation": [1.0], "test": [0.5]})
    words = [*arguments, "--dataset", "uner_en", "--lr", "1e-3", "--seed", "0", "1"]
    assert "does not record what it was made from" in refused(words, capsys)
    assert not (tmp_path / "results" / CELL / "lr1e-03_sd1").exists()
