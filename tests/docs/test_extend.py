"""docs/extend.md does what it says: its code blocks and commands are run as they stand."""

# Blocks are compiled with it, as in the modules that they are written for.
from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import norm

import benchmarks.metrics.standard as standard_metrics
from analysis.claims.statements import difference
from analysis.evidence import intervals
from analysis.evidence.cells import seed_scores
from analysis.evidence.evidence import Evidence, scores_of
from analysis.evidence.settings import Settings
from analysis.statistics import learning_rate_selection
from benchmarks.datasets.local_dataset import load_dataset
from benchmarks.datasets.synthetic import make_synthetic
from benchmarks.finetuning import heads
from benchmarks.metrics.metric import METRICS, ClassPredictions, evaluate
from benchmarks.protocol import get_dataset
from clm_or_mlm.__main__ import main
from common.errors import UserError
from common.provenance import ROOT
from common.registry import Registry
from paper_figures import figure as registry
from pretraining import models
from pretraining.model.masking import MaskRule
from pretraining.model.packed_batch import PackedBatch
from pretraining.paper_models import parse
from pretraining.training import objectives
from pretraining.training.log import read_log
from tests.analysis.made_up import made_up_runs
from tests.benchmarks.tiny import make_tokenizer, save_model
from tests.commands import python
from tests.pretraining.small_study import STUDY, make_shards

PAGE = ROOT / "docs" / "extend.md"
SECTIONS = {
    text.splitlines()[0]: text
    for text in re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.M)[1:]
}
MLM, CLM = "610m-mlm40-42k", "610m-clm-42k"
AS_IF_IN_THE_FILE = """
import __future__, importlib, json, sys
module, tuple_, block, *commands = sys.argv[1:]
changed = importlib.import_module(module)
from analysis.claims.titles import TITLES
vars(changed).setdefault("TITLES", TITLES)
exec(compile(block, module, "exec", __future__.annotations.compiler_flag), vars(changed))
if tuple_:
    name, entry = tuple_.split("+")
    vars(changed)[name] += (vars(changed)[entry],)
    importlib.reload(sys.modules[changed.__package__])
from clm_or_mlm.__main__ import main
for words in map(json.loads, commands):
    assert not main(words)
    print("-- end --")
"""


def blocks(section: str, language: str = "python") -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", SECTIONS[section], re.DOTALL)


def commands(section: str) -> list[list[str]]:
    return [
        shlex.split(line)[1:]
        for line in SECTIONS[section].splitlines()
        if line.startswith("    clm-or-mlm ")
    ]


def outputs(
    section: str, module: str, *, entry: str = "", words: Sequence[list[str]] = ()
) -> list[str]:
    """What the commands of the page, or others, print where the section's blocks are at the end of `module`.

    `entry` is `TUPLE+NAME` for a block whose NAME joins the file's TUPLE.
    """
    block = "\n".join(blocks(section))
    given = [json.dumps(command) for command in words or commands(section)]
    said = python("-c", AS_IF_IN_THE_FILE, module, entry, block, *given, code=0).stdout
    return said.split("-- end --\n")[:-1]


@contextmanager
def added(
    module: ModuleType, block: str, registered: Registry[Any]
) -> Iterator[dict[str, Any]]:
    """The names of `module` with a block at its end; what the block registered is removed afterwards."""
    before, names = set(registered), dict(vars(module))
    exec(compile(block, str(PAGE), "exec"), names)
    try:
        yield names
    finally:
        for name in set(registered) - before:
            registered.pop(name)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small made-up SST-2 in `data` and a tiny model in `model`."""
    folder = tmp_path_factory.mktemp("tiny")
    make_synthetic(folder / "data", "sst2", train=96, evaluation=24)
    save_model(
        folder / "model",
        make_tokenizer(
            load_dataset(folder / "data", "sst2").train["first"].to_pylist()
        ),
    )
    return folder


def records(tiny: Path, out: Path, command: list[str]) -> list[dict[str, Any]]:
    """The `run.json` of each run of a command of the page, made small."""
    places = {
        "PATH_OR_ID": str(tiny / "model"),
        "data": str(tiny / "data"),
        "results": str(out),
    }
    words = [places.get(word, word) for word in command]
    small = [
        "--steps",
        "2",
        "--lr",
        "1e-3",
        "--seed",
        "0",
        "--device",
        "cpu",
        "--workers",
        "1",
    ]
    assert main([*words, *small]) == 0
    return [json.loads(path.read_text()) for path in out.rglob("run.json")]


def test_every_section_has_a_test_and_a_command() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    assert [section for section in SECTIONS if f'"{section}"' not in source] == []
    assert all(commands(section) for section in SECTIONS)


def test_an_interval_has_its_own_numbers_in_scores_and_claims() -> None:
    runs = made_up_runs(np.random.default_rng(0), models=(CLM, MLM), shift={MLM: 0.01})
    with added(intervals, blocks("An interval")[0], intervals.INTERVALS):
        settings = Settings(interval="population")
        scores = scores_of(Evidence(settings, runs=runs), source="x").set_index(
            ["model", "task", "dataset"]
        )
        for key, values in seed_scores(runs).iterrows():
            half = norm.ppf(0.975) * values.std(ddof=0) / len(values) ** 0.5
            row = scores.loc[key]
            assert [row["low"], row["high"]] == pytest.approx(
                [row["mean"] - half, row["mean"] + half], rel=1e-4
            )
        gap = difference("MLM - CLM", MLM, CLM, "SC")
        ours, paper = (
            Evidence(Settings(interval=name), runs=runs).result(gap)
            for name in ("population", "paper")
        )
        assert ours.test == "normal, sd over n"
        assert ours.effect == paper.effect
        assert (ours.high - ours.low) / (paper.high - paper.low) == pytest.approx(
            0.8**0.5
        )
    assert "population" not in intervals.INTERVALS


def test_the_commands_take_an_interval(capsys: pytest.CaptureFixture[str]) -> None:
    scores, _ = commands("An interval")
    said, findings = outputs("An interval", "analysis.evidence.intervals")
    printed = said.splitlines()
    assert all(",population," in line for line in printed[1:])
    assert not main([word.replace("population", "paper") for word in scores])
    plain = capsys.readouterr().out.splitlines()
    for ours, paper in zip(printed[1:], plain[1:], strict=True):
        (mean, low), (_, wide) = (
            map(float, line.split(",")[3:5]) for line in (ours, paper)
        )
        assert mean - low == pytest.approx((mean - wide) * 0.8**0.5, abs=1e-4)
    assert "F15" in findings


def test_a_selection_rule_selects() -> None:
    section = "A selection rule"
    (command,) = commands(section)
    with added(
        learning_rate_selection, blocks(section)[0], learning_rate_selection.SELECTIONS
    ):
        runs = pd.read_csv(ROOT / command[command.index("--source") + 1])
        runs = runs.rename(columns={"val_score": "validation_score"}).assign(n_test=872)
        scores = scores_of(Evidence(Settings(selection="fixed"), runs=runs), source="x")
        expected = 100 * runs[runs["lr"] == 5e-5]["test_score"].mean()
        assert scores["mean"].iloc[0] == pytest.approx(expected)
    (printed,) = outputs(section, "analysis.statistics.learning_rate_selection")
    assert float(printed.splitlines()[1].split(",")[3]) == pytest.approx(expected)


def test_a_finding_is_judged_and_drawn(tmp_path: Path) -> None:
    explain, *_ = commands("A finding")
    drawn = ["figure", "claims", "--format", "svg", "--out", str(tmp_path)]
    printed, everything, _ = outputs(
        "A finding",
        "analysis.claims.catalogue.ratio",
        entry="FINDINGS+_F18",
        words=[explain, explain[:1], drawn],
    )
    assert "TC prefers 20 % to 50 %" in (tmp_path / "claims.svg").read_text()
    assert (
        "Masking 20 % beats masking 50 % on token classification at every size."
        in printed
    )
    assert re.search(r"^  verdict +(holds|fails|open)", printed, re.MULTILINE)
    assert [
        f"20 % - 50 % on TC, {size}" in printed for size in ("210m", "610m", "1b")
    ] == [True] * 3
    assert everything.index("F17") < everything.index("F18")


def test_a_figure_is_drawn_and_is_in_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (entry,) = blocks("A figure")
    code = (ROOT / "tests/docs/ratios.py").read_text(encoding="utf-8")
    (words,) = commands("A figure")
    module = ModuleType("paper_figures.figures.ratios")
    exec(compile(code, str(PAGE), "exec"), vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with added(registry, entry, registry.FIGURES):
        assert "ratios" in [figure.name for figure in registry.figures_named(["all"])]
        with pytest.raises(UserError, match="ratios"):
            registry.figures_named(["99"])
        assert main([*words, "--out", str(tmp_path)]) == 0
    endings = ("csv", "json", "pdf", "png", "provenance.json", "svg", "txt")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"ratios.{ending}" for ending in endings
    ]
    data = pd.read_csv(tmp_path / "ratios.csv")
    assert set(data["series"]) == {"20 %", "30 %", "40 %", "50 %"}
    assert set(data["x"]) == {210, 610, 1000}
    assert len(data) == 48


def test_an_objective_is_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    word, function = blocks("An objective")
    plan, train = commands("An objective")
    model = "mini-s-clm-4-lone20-12"
    small = STUDY.replace("prefix", f'models = ["{model}"]\nprefix', 1)
    (tmp_path / "mini.toml").write_text(
        re.sub(r"^models = \[\n.*?\]\n", "", small, flags=re.M | re.S)
    )
    data = make_shards(tmp_path)
    names = dict(vars(objectives))
    exec(compile(function, str(PAGE), "exec"), names)
    monkeypatch.setattr(objectives, "lone", names["lone"], raising=False)
    with added(models, word, models.OBJECTIVES):
        assert parse("610m-clm-10k-lone20-42k").label() == "CLM + LONE 20 %"
        batch = PackedBatch.of([np.arange(5, 45), np.arange(50, 80)], [0, 1], epoch=0)
        rule = MaskRule(ratio=0.5, seed=0, mask_token_id=2, special_ids=(0, 1, 2))
        made, masked = names["lone"](batch, rule), objectives.mlm(batch, rule)
        assert torch.equal(made.labels, batch.tokens[made.positions])
        assert (made.inputs.tokens[made.positions] == 2).all()
        lefts = made.positions[made.positions > 0] - 1
        assert (made.inputs.tokens[lefts] != 2).all()
        assert 0 < made.count == len(made.positions) < masked.count
        packed = objectives.prepare(batch, "lone", rule)
        parts = [names["lone"](sequence, rule) for sequence in batch.alone()]
        assert packed.labels.tolist() == [
            label for part in parts for label in part.labels.tolist()
        ]
        assert not main(plan)
        assert "610m-clm-10k-lone20" in capsys.readouterr().out
        words = [model if "lone" in word else word for word in train]
        words[words.index("shards")], words[words.index("pretrained")] = (
            str(data),
            str(tmp_path / "out"),
        )
        assert not main([*words, "--study", str(tmp_path / "mini.toml")])
    rows = read_log(tmp_path / "out" / "models" / model / "log.jsonl")
    trained = [row for row in rows if row["split"] == "train"]
    assert [row["objective"] for row in trained] == ["clm"] * 4 + ["lone"] * 8
    assert all(np.isfinite(row["loss"]) for row in trained)
    assert not json.loads(
        (tmp_path / "out" / "models" / model / "config.json").read_text()
    )["is_causal"]


def test_a_decay_is_planned_and_trained_at_its_rates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, train = commands("A decay")
    (function,), (page,) = blocks("A decay"), blocks("A decay", "toml")
    (tmp_path / "build").mkdir()
    (tmp_path / plan[-1]).write_text(page)
    shape_and_settings = STUDY[STUDY.index("[sizes.s]") :]
    tables = page[: page.index("[sizes")].replace("10k", "4").replace("32k", "8")
    (tmp_path / "mini.toml").write_text(f"{tables}\n{shape_and_settings}")
    places = {"shards": str(make_shards(tmp_path)), plan[-1]: "mini.toml"}
    monkeypatch.chdir(tmp_path)
    with added(models, function, models.DECAYS):
        assert not main(plan)
        assert re.search(r"cosine8000.* decay, 34k to 42k", capsys.readouterr().out)
        assert not main([places.get(word, word) for word in train])
    rows = read_log(tmp_path / "pretrained" / "models" / "mine" / "log.jsonl")
    rates = [row["lr"] / 3e-3 for row in rows if row["split"] == "train"]
    assert rates == pytest.approx([1 / 3, 2 / 3, *[1.0] * 8, 0.5, 0.0], abs=1e-15)


@pytest.mark.slow
def test_own_callback_and_a_script_with_composers_trainer(
    tmp_path: Path,
) -> None:
    """Run in processes of their own, in a folder that holds the page's modules; the script's losses are `train`'s."""
    section = "A logged metric, a callback, a training script"
    (callback,) = blocks(section)
    script = (ROOT / "tests/docs/own_train.py").read_text(encoding="utf-8")
    assert len(script.splitlines()) <= 65
    (tmp_path / "watch.py").write_text(callback)
    (tmp_path / "own_train.py").write_text(script)
    (tmp_path / "study.toml").write_text(
        STUDY.replace("tensorboard = false", "tensorboard = true")
    )
    data, model = make_shards(tmp_path), "mini-s-clm-9-mlm40-24"
    (command,) = commands(section)
    places = {"610m-clm": model, "shards": str(data)}
    words = [
        "-m",
        "clm_or_mlm",
        *(places.get(word, word) for word in command),
        "--study",
        "study.toml",
    ]
    scripted = ["own_train.py", "study.toml", str(data), model]
    said = [
        python(*call, cwd=tmp_path, code=0, OMP_NUM_THREADS="1")
        for call in (words, scripted)
    ]
    rows = read_log(tmp_path / "pretrained" / "models" / model / "log.jsonl")
    losses = [row["loss"] for row in rows if row["split"] == "train"]
    assert [float(line) for line in said[1].stdout.split()] == losses and len(
        losses
    ) == 24
    boards = [path.read_bytes() for path in tmp_path.rglob("events.*")]
    assert len(boards) == 3 and all(b"embeddings/gradient" in board for board in boards)


def test_a_pooling_is_used_by_a_run(tiny: Path, tmp_path: Path) -> None:
    (command,) = commands("A pooling")
    with added(heads, blocks("A pooling")[0], heads.POOLINGS):
        hidden = torch.tensor([[[1.0, -3.0], [2.0, -4.0], [9.0, 9.0]]])
        assert heads.POOLINGS["max"].pool(hidden, torch.tensor([2])).tolist() == [
            [2.0, -3.0]
        ]
        (record,) = records(tiny, tmp_path, command)
        with pytest.raises(UserError, match=r"--keep best.* 'max'.*mean"):
            records(tiny, tmp_path / "kept", [*command, "--keep", "best"])
    assert record["description"]["pooling"] == "max"
    assert "max" not in heads.POOLINGS


def test_a_metric_is_in_the_evaluation_of_a_run_and_in_a_table(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, table = commands("A metric")
    with added(standard_metrics, blocks("A metric")[0], METRICS):
        opposite = ClassPredictions(
            predicted=np.array([0, 1, 0, 1]), gold=np.array([1, 0, 1, 0])
        )
        assert evaluate(get_dataset("sst2"), opposite).standard["matthews"] == -1
        (record,) = records(tiny, tmp_path, command)
    assert all(
        -1 <= record["standard"][split]["matthews"] <= 1
        for split in ("validation", "test")
    )
    assert main([str(tmp_path) if word == "results" else word for word in table]) == 0
    assert (
        f"{100 * record['standard']['test']['matthews']:.2f} "
        in capsys.readouterr().out.splitlines()[-1]
    )
    assert "standard SC matthews" not in METRICS
