"""One model has one set of weights, and compared models one protocol: honest mistakes are noticed, nothing else is."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis.sources import EXAMPLES, open_source
from analysis.store.agreement import other_weights
from analysis.store.cell import Run
from analysis.store.ingest import ingest
from analysis.store.runs_table import read_runs
from benchmarks.runs import RESULTS, RUN, cell_keys
from clm_or_mlm.__main__ import main
from common.errors import UserError
from tests.analysis.stores import MODELS, fill
from tests.sealed import seal

TUNING = {"steps": 8, "batch": 32}


def description(**other: Any) -> dict[str, Any]:
    return {
        "weights": "a" * 64,
        "tokenizer": "b" * 64,
        "tuning": TUNING,
        "pooling": "mean",
        "head": "linear",
        "training_data": "c" * 64,
        "evaluation_data": "d" * 64,
    } | other


KEYS = [
    key
    for model in MODELS
    for dataset in ("sst2", "uner_en")
    for key in cell_keys(model, dataset)
]
Made = Callable[[Callable[[str, int], dict[str, Any]]], Path]


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models on two datasets, all made alike."""
    store = tmp_path_factory.mktemp("alike")
    fill(store, datasets=("sst2", "uner_en"))
    for key in KEYS:
        seal(store / "results" / key.folder, {"description": description()})
    return store


@pytest.fixture
def made(alike: Path, tmp_path: Path) -> Made:
    """The same, of which runs say by model and seed what else they were made from."""

    def make(say: Callable[[str, int], dict[str, Any]]) -> Path:
        store = Path(shutil.copytree(alike, tmp_path / "store"))
        for key in KEYS:
            if other := say(key.model, key.seed):
                seal(
                    store / "results" / key.folder,
                    {"description": description(**other)},
                )
        return store

    return make


COMMANDS: dict[str, list[str]] = {
    "scores": ["scores"],
    "compare": ["compare", *MODELS],
    "table": ["table", "3"],
    "audit": ["audit"],
}


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLM_OR_MLM_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("name", ["weights", "tokenizer"])
@pytest.mark.parametrize("other", [(4,), (3, 4)])
def test_other_weights_are_left_out_or_refused(
    made: Made,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    name: str,
    other: tuple[int, ...],
) -> None:
    store = made(
        lambda model, seed: (
            {name: "f" * 64} if model == MODELS[0] and seed in other else {}
        )
    )
    assert main(["ingest", str(store), "--out", str(tmp_path / "runs.parquet")]) == 1
    assert (
        f"{name} ffffffffffff..." in caplog.text
        and "aaaa" * (name == "weights") in caplog.text
    )
    runs = read_runs(tmp_path / "runs.parquet")
    assert set(runs.loc[runs["model"] == MODELS[0], "seed"]) == {0, 1, 2, 3, 4} - set(
        other
    )
    assert set(runs.loc[runs["model"] == MODELS[1], "seed"]) == {0, 1, 2, 3, 4}
    for words in COMMANDS.values():
        with pytest.raises(
            UserError, match=rf"weights.*{MODELS[0]}.*the {name} f+\.\.\."
        ) as refused:
            main([*words, "--source", str(store)])
        assert "ingest" in str(refused.value)


def test_without_a_majority_all_of_the_models_runs_are_left_out(
    made: Made, tmp_path: Path
) -> None:
    def say(model: str, seed: int) -> dict[str, Any]:
        return (
            {"weights": f"{seed % 2 if seed < 4 else 2}" * 64}
            if model == MODELS[0]
            else {}
        )

    found = ingest(made(say), tmp_path / "runs.parquet")
    assert set(found.runs["model"]) == {MODELS[1]} and found.status == 1
    assert {one.kind for one in found.problems if not one.harmless} == {"weights"}


@pytest.mark.parametrize(("first", "others"), [(1, 1), (2, 2), (2, 1), (3, 2)])
def test_half_of_the_runs_are_no_majority(first: int, others: int) -> None:
    runs = [
        Run(
            model="mine",
            task="SC",
            dataset="sst2",
            lr=1e-4,
            seed=seed,
            validation_score=0.5,
            test_score=0.5,
            n_validation=100,
            n_test=100,
            path=f"run-{seed}",
            made=json.dumps({"weights": "a" if seed < first else "b"}),
        )
        for seed in range(first + others)
    ]
    in_the_minority = range(first, first + others)
    named = range(first + others) if first == others else in_the_minority
    assert set(other_weights(runs)) == {f"run-{seed}" for seed in named}


def test_second_name_of_the_same_weights_costs_no_run(
    made: Made, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = made(lambda *_: {})
    for folder in sorted((store / "results" / MODELS[0]).glob("*/*/*")):
        again = (
            store
            / "results"
            / MODELS[1]
            / folder.relative_to(store / "results" / MODELS[0])
        )
        shutil.copyfile(folder / RESULTS, again / RESULTS)
        seal(again, {"description": description()})
    assert main(["compare", *MODELS, "--source", str(store)]) == 0
    assert (
        f"{MODELS[1]} and {MODELS[0]} are the same weights" in caplog.text
        and "removed" in caplog.text
    )
    assert ingest(store, tmp_path / "runs.parquet").status == 0


DIFFERENT: dict[str, tuple[dict[str, Any], str]] = {
    "steps": ({"tuning": TUNING | {"steps": 4}}, f"tuning.steps is 4 for {MODELS[1]} and 8 for {MODELS[0]}"),
    **{
        name: ({name: 2}, f"{name} is 2 for {MODELS[1]} and not recorded for {MODELS[0]}")
        for name in ("protocol_version", "results_version", "epochs", "metric")
    },
    "prompt": ({"prompt": "p"}, f"prompt is not recorded for {MODELS[0]} and p for {MODELS[1]} (on sst2, uner_en), as"),
    "pooling": ({"pooling": "last"}, f"pooling is last for {MODELS[1]} and mean for {MODELS[0]}"),
    "precision": ({"precision": "bf16"}, f"precision is bf16 for {MODELS[1]} and not recorded for {MODELS[0]}"),
    "head": ({"head": "mlp"}, f"head is linear for {MODELS[0]} and mlp for {MODELS[1]}"),
    "training data": (
        {"training_data": "e" * 64}, f"training_data is cccccccccccc... for {MODELS[0]} and eeeeeeeeeeee"
    ),
    "evaluation data": (
        {"evaluation_data": "e" * 64}, f"evaluation_data is dddddddddddd... for {MODELS[0]} and eeeeeeeeeeee... for "
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENT)
def test_other_protocols_of_models_are_named_once(
    made: Made, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """By each command for one difference; for the others by one that opens the source as all do."""
    other, words = DIFFERENT[name]
    store = made(lambda model, _: other if model == MODELS[1] else {})
    table = tmp_path / "runs.parquet"
    assert main(["ingest", str(store), "--out", str(table)]) == 0
    assert (
        caplog.text.count("not fine-tuned and evaluated alike") == 1
        and words in caplog.text
    )
    assert "(on sst2, uner_en)" in caplog.text or name.endswith(" data")
    for source in (store, table):
        for command, given in (
            COMMANDS.items() if name == "steps" else [("scores", COMMANDS["scores"])]
        ):
            caplog.clear()
            assert main([*given, "--source", str(source)]) == (
                1 if command == "audit" else 0
            )
            assert (
                caplog.text.count("not fine-tuned and evaluated alike") == 1
                and words in caplog.text
            )


@pytest.mark.parametrize("of", ["a seed", "a model"])
def test_the_direction_is_compared_within_a_model(
    made: Made, tmp_path: Path, of: str
) -> None:
    whole, other = of == "a model", {"direction": "configuration"}
    store = made(
        lambda model, seed: other if model == MODELS[1] and (whole or seed) else {}
    )
    said = ingest(store, tmp_path / "runs.parquet").differences
    assert ("direction is configuration" in said) == (of == "a seed")


def test_runs_without_a_record_are_called_unknown_once(
    made: Made, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    store = made(lambda *_: {})
    for path in (store / "results" / MODELS[1]).rglob(RUN):
        path.unlink()
    reads = [[*words, "--source", str(store)] for words in COMMANDS.values()]
    for words in (
        ["ingest", str(store), "--out", str(tmp_path / "runs.parquet")],
        *reads,
    ):
        caplog.clear()
        main(words)
        assert (
            caplog.text.count("is unknown, and was not compared") == 1
            and "alike" not in caplog.text
        )


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_differs_between_seeds_of_a_model_is_named(
    made: Made, tmp_path: Path, name: str
) -> None:
    other, words = DIFFERENT[name]
    store = made(lambda model, seed: other if model == MODELS[1] and seed == 4 else {})
    assert (
        f"{words.split(' is ')[0]} is "
        in ingest(store, tmp_path / "runs.parquet").differences
    )


def test_what_is_right_raises_no_alarm(
    made: Made, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = made(lambda model, _: {"weights": model[-3:] * 20})
    halves = tmp_path / "halves"
    for seeds in ((0, 1), (2, 3, 4)):  # two machines, merged
        for key in KEYS:
            if key.seed in seeds:
                shutil.copytree(
                    store / "results" / key.folder, halves / "results" / key.folder
                )
    shutil.copytree(store, tmp_path / "copy")
    bare = tmp_path / "released"
    fill(bare)
    for source in (store, halves, tmp_path / "copy", bare, EXAMPLES["miniature"]):
        found = open_source(str(source))
        assert not found.differences
    assert "alike" not in caplog.text and "weights" not in caplog.text


def test_audit_takes_models_that_are_in_no_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(tmp_path / "store", datasets=("sst2",))
    own = tmp_path / "store" / "results" / "my-encoder"
    (tmp_path / "store" / "results" / MODELS[1]).rename(own)
    assert main(["audit", "--source", str(tmp_path / "store")]) in (0, 1)
    assert "No table of the paper has my-encoder." in capsys.readouterr().out
    shutil.rmtree(tmp_path / "store" / "results" / MODELS[0])
    assert main(["audit", "--source", str(tmp_path / "store")]) == 0
    said = capsys.readouterr().out
    assert "no runs of the paper's models" in said and "my-encoder" in said
