"""The numbers of docs/one-gpu.md are those that the commands print, and its commands run."""

import json
import re
import subprocess
from itertools import takewhile
from pathlib import Path

import numpy as np
import pytest

from benchmarks.protocol import DATASETS
from benchmarks.runs import RunKey
from clm_or_mlm.__main__ import main
from common.provenance import ROOT
from pretraining.paper_settings import SHAPES
from pretraining.plan.devices import H100, MEASURED_SPEEDS, reached
from pretraining.plan.study_plan import load_study
from tests.analysis.stores import age
from tests.pretraining.documents import make_documents
from tests.pretraining.families import save_start
from tests.pretraining.small_study import QUIET
from tests.ready_studies import GPUS, READY, file_of, planned
from tests.results import write_results

PAGE = (ROOT / "docs" / "one-gpu.md").read_text(encoding="utf-8")
WORDS = " ".join(PAGE.split())
TUNED = ("sst2", "uner_en", "squad", "nq")


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("name", READY)
def test_the_studies_of_a_day(
    name: str, gpu: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = planned(name, gpu, tmp_path, capsys)
    study, comparison = load_study(tmp_path / "study.toml"), content["comparison"]
    (parameters,) = {
        study.shapes[model.size].encoder_parameters for model in study.models.values()
    }
    points = comparison["smallest"]["points"]
    cells = [
        gpu,
        f"{READY.index(name) + 1}",
        f"{parameters / 1e6:.0f} M",
        f"{content['costs']['data_tokens'] / 1e9:.1f} B",
        f"{len(comparison['arms'])} x {comparison['pretrainings']}",
        f"{comparison['total_hours']:.1f}",
        *(f"{points[dataset]:.2f}" for dataset in TUNED),
    ]
    assert f"| {' | '.join(cells)} |" in PAGE
    assert f"{comparison['smallest']['pretraining_sd']:g}" in WORDS
    if (name, gpu) == (READY[0], GPUS[0]):
        lead = f"differences of {min(points.values()):.1f} to {max(points.values()):.1f} points"
        assert (
            lead in WORDS and f"at {parameters / 1e6:.0f} million parameters" in WORDS
        )
        assert (
            f"In the first study it needs {fewest(tmp_path, capsys)} of each objective"
            in WORDS
        )


def fewest(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return how many pretrainings the first study needs for half a point on UNER and on NQ, as the page writes it."""
    text, needed = file_of(READY[0]).read_text("utf-8"), dict[str, int]()
    file = folder / "more.toml"
    for count in range(10, 50):
        file.write_text(text.replace("pretrainings = 5", f"pretrainings = {count}"))
        main(
            [
                "plan",
                "--study",
                f"{file}",
                "--rates",
                "3",
                "--seeds",
                "3",
                "--format",
                "json",
            ]
        )
        points = json.loads(capsys.readouterr().out)["comparison"]["smallest"]["points"]
        for dataset, value in points.items():
            if value <= 0.5:
                needed.setdefault(dataset, count)
    assert (
        min(needed, key=needed.__getitem__) == "uner_en"
        and max(needed, key=needed.__getitem__) == "nq"
    )
    return f"{needed['uner_en']} (UNER) to {needed['nq']} (NQ) pretrainings"


def test_speeds_and_hours(capsys: pytest.CaptureFixture[str]) -> None:
    measured, left_out = [], []
    for size, speed in MEASURED_SPEEDS.items():
        counted = H100.tokens_per_second(SHAPES[size], predicted=0.4) / reached("H100")
        measured.append(f"{speed:,.0f}")
        left_out.append(f"{round(counted * reached('H100', size), -2):,.0f}")
    for row in (measured, left_out):
        assert f"| {' | '.join(row)} |" in PAGE
    main(["plan", "610m-mlm40-12k", "610m-clm-3k-mlm40-12k", "--format", "json"])
    hours = json.loads(capsys.readouterr().out)["costs"]["gpu_hours"]
    assert f"take {hours:.0f} H100 hours" in WORDS


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands of "Run one" as the shell gives their words, in a folder that has its study file."""
    monkeypatch.chdir(tmp_path)
    Path("pretraining").symlink_to(ROOT / "pretraining")
    block = PAGE.partition("## Run one\n")[2].partition("\n\nThe third")[0]
    script = 'clm-or-mlm() { printf "%s\\n" "$*"; }\n' + block
    done = subprocess.run(
        ["bash", "-ec", script], capture_output=True, text=True, check=True
    )
    return [line.split() for line in done.stdout.splitlines()]


def of(commands: list[list[str]], *words: str) -> list[list[str]]:
    return [command for command in commands if command[: len(words)] == list(words)]


@QUIET
def test_first_models_train_for_a_thousandth_of_the_steps(
    commands: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    save_start(Path("start"), "qwen2")
    Path("texts.txt").write_text("\n\n".join(make_documents(60)))
    text = re.sub(r"(-\d+)k\b", r"\1", Path("study.toml").read_text("utf-8")).replace(
        "= 1000", "= 1"
    )
    for key, value in {
        "hidden": 16,
        "layers": 1,
        "heads": 2,
        "kv_heads": 2,
        "mlp": 16,
    }.items():
        text = re.sub(rf"^{key} = \d+", f"{key} = {value}", text, flags=re.MULTILINE)
    Path("study.toml").write_text(text)
    (shards,) = of(commands, "shards")
    shards[shards.index("--source") + 1], shards[shards.index("--tokenizer") + 1] = (
        "texts.txt",
        "start",
    )
    main([*shards, "--validation-share", "0.05", "--workers", "0"])
    trained = of(commands, "train")
    assert {train[1] for train in trained} == {
        *load_study(file_of("objectives")).models
    }
    for train in (trained[0], trained[-1]):
        small = [
            "max_length=32",
            "min_length=4",
            "global_batch=4",
            "eval_sequences=4",
            "callbacks=",
        ]
        settings = [word for one in small for word in ("--set", one)]
        main(
            [
                *(word.replace("k", "") if "-24k" in word else word for word in train),
                *settings,
            ]
        )
    assert len(list(Path("pretrained/models").glob("*/model.safetensors"))) == 2
    capsys.readouterr()


def values_of(words: list[str], option: str) -> list[str]:
    """Return what comes after an option, up to the next."""
    after = words[words.index(option) + 1 :]
    return list(takewhile(lambda word: not word.startswith("--"), after))


def test_its_runs_are_compared_by_the_last_command(
    commands: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Every dataset gets a difference with its interval."""
    # It would start processes to read
    monkeypatch.setattr("analysis.store.ingest.cores", lambda: 1)
    rng = np.random.default_rng(0)
    runs = of(commands, "benchmarks", "run")
    assert len(runs) == 15
    for run in runs:
        (name,) = values_of(run, "--name")
        for dataset in values_of(run, "--dataset"):
            for lr in values_of(run, "--lr"):
                for seed in values_of(run, "--seed"):
                    key = RunKey(
                        model=name, dataset=dataset, lr=float(lr), seed=int(seed)
                    )
                    draws = {
                        split: (rng.random(9) < 0.7).astype(float)
                        for split in ("validation", "test")
                    }
                    write_results(
                        Path("results"),
                        key,
                        {split: row.tolist() for split, row in draws.items()},
                    )
    age(Path("results"))
    capsys.readouterr()
    assert not main(commands[-1])
    said = capsys.readouterr().out
    assert all(DATASETS[dataset].title in said for dataset in TUNED)
    with_interval = [
        line for line in said.splitlines() if re.search(r"[+-]\d.* \[[+-].*\]", line)
    ]
    assert len(with_interval) >= len(TUNED)
