"""Folders as lm-evaluation-harness 0.4, MTEB 1.11 and later, and transformers' Trainer leave them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from clm_or_mlm.__main__ import main
from common.errors import UserError

RNG = np.random.default_rng(7)
SEEDS = range(4)


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def compared(
    folder: Path, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[pd.DataFrame, str]:
    words = ("compare", "mine", "base", "--source", str(folder), *words)
    assert not main([*words, "--format", "json"])
    found = json.loads(capsys.readouterr().out)
    return pd.DataFrame(found["differences"]).set_index("dataset"), found["read"]


def refusal(folder: Path, *words: str) -> str:
    with pytest.raises(UserError) as refused:
        main(["compare", "mine", "base", "--source", str(folder), *words])
    said = str(refused.value).replace(str(folder), "FOLDER")
    assert len(said) <= 300 and "\n" not in said
    return said


def harness(model: str, **scores: float) -> dict[str, Any]:
    results: dict[str, Any] = {
        task: {
            "alias": f" - {task}",
            "acc,none": score,
            "acc_stderr,none": 0.01,
            "acc_norm,none": score / 2,
            "acc_norm_stderr,none": "N/A",
        }
        for task, score in scores.items()
    }
    mean = float(np.mean([*scores.values()]))
    results["both"] = {"alias": "both", "acc,none": mean, "acc_stderr,none": 0.01}
    higher = {task: {"acc": True, "acc_norm": True} for task in results}
    return {
        "results": results,
        "groups": {"both": results["both"]},
        "group_subtasks": {"all": ["both"], "both": [*scores], **{task: [] for task in scores}},
        "higher_is_better": higher,
        "n-samples": {task: {"original": 500, "effective": 400} for task in scores},
        "model_name": model,
    }  # fmt: skip


@pytest.fixture
def scores() -> dict[tuple[str, int], dict[str, float]]:
    return {
        (model, seed): {
            task: float(RNG.normal(0.7 - 0.02 * (model == "base"), 0.01))
            for task in ("arc", "rte")
        }
        for model in ("mine", "base")
        for seed in SEEDS
    }


def agrees_with_scipy(
    found: pd.DataFrame, scores: dict[tuple[str, int], dict[str, float]]
) -> None:
    for task in ("arc", "rte"):
        by_model = [
            [scores[model, seed][task] for seed in SEEDS] for model in ("mine", "base")
        ]
        expected = stats.ttest_ind(*by_model, equal_var=False)
        row = found.loc[task]
        assert row["effect"] == pytest.approx(-np.diff(np.mean(by_model, 1))[0])
        assert row["p"] == pytest.approx(expected.pvalue, abs=1e-9)


def test_harness_by_seed_is_scipys_welch(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    scores: dict[tuple[str, int], dict[str, float]],
) -> None:
    for (model, seed), of in scores.items():
        folder = tmp_path / str(seed) / model
        write(folder / "results_2025-07-02T00-00-00.json", harness(model, **of))
        older = harness(model, arc=0.1, rte=0.1)
        write(folder / "results_2025-07-01T00-00-00.json", older)
    words = ("--columns", "seed=folder1", "--metric", "acc")
    found, read = compared(tmp_path, capsys, *words)
    agrees_with_scipy(found, scores)
    assert set(found.index) == {"arc", "rte", "average"}
    assert "4 seeds each" in read and "without the groups: both" in read
    assert "of several dates the newest: arc, rte" in read
    assert "choose one with --metric (acc, acc_norm)" in refusal(tmp_path, *words[:2])
    assert "seed=folder1" in refusal(tmp_path, *words[2:])


def test_one_seed_of_the_harness_is_compared_over_instances(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "a" / "results_1.json", harness("mine", arc=0.71, rte=0.6))
    write(tmp_path / "b" / "results_1.json", harness("base", arc=0.66, rte=0.6))
    found, read = compared(tmp_path, capsys, "--metric", "acc")
    expected = stats.ttest_ind_from_stats(
        0.71, 0.2, 400, 0.66, 0.2, 400, equal_var=False
    )
    assert found.at["arc", "p"] == pytest.approx(expected.pvalue, abs=1e-9)
    assert "400 test instances each" in read and "unpaired" in read
    without, _ = compared(tmp_path, capsys, "--metric", "acc_norm")
    assert without.at["arc", "missing"] == "a test needs two seeds of each model"


def test_a_loss_of_the_harness_is_better_when_lower(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for model, value in (("mine", 12.0), ("base", 14.0)):
        numbers = {"word_perplexity,none": value, "word_perplexity_stderr,none": 0.1}
        content = {
            "results": {"wikitext": numbers},
            "higher_is_better": {"wikitext": {"word_perplexity": False}},
            "n-samples": {"wikitext": {"effective": 62}},
            "model_name": model,
        }
        write(tmp_path / model / "results_1.json", content)
    found, _ = compared(tmp_path, capsys)
    assert found["outcome"].item() == "ahead" and found["effect"].item() == -2


def mteb(score: float, split: str = "test") -> dict[str, Any]:
    subsets = [
        {"hf_subset": name, "main_score": score + shift, "languages": ["eng-Latn"]}
        for name, shift in (("en", -0.01), ("de", 0.01))
    ]
    return {"task_name": "Toy", "mteb_version": "1.38.0", "scores": {split: subsets}}


def test_mteb_by_seed(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    scores: dict[tuple[str, int], dict[str, float]],
) -> None:
    for (model, seed), of in scores.items():
        folder = tmp_path / str(seed) / f"org__{model}" / "1a2b"
        write(folder / "model_meta.json", {"name": model, "revision": "1a2b"})
        for task, score in of.items():
            content = mteb(score) | {"task_name": task}
            content["scores"]["dev"] = [{"hf_subset": "en", "main_score": 0.1}]
            write(folder / f"{task}.json", content)
    found, read = compared(tmp_path, capsys, "--columns", "seed=folder1")
    agrees_with_scipy(found, scores)
    assert "splits not read: dev" in read
    assert "seed=folder1" in refusal(tmp_path)


def test_mteb_of_old_and_of_two_splits_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "base" / "1" / "Toy.json", mteb(0.5))
    write(tmp_path / "mine" / "1" / "Toy.json", mteb(0.6, "dev"))
    assert "column 'split' is not read, but differs on Toy" in refusal(tmp_path)
    write(tmp_path / "base" / "1" / "Toy.json", mteb(0.5, "dev"))
    found, _ = compared(tmp_path, capsys)
    assert found["effect"].item() == pytest.approx(0.1)
    assert found["missing"].item() == "a test needs two seeds of each model"
    old = {"mteb_dataset_name": "Toy", "test": {"en": {"accuracy": 0.5}}}
    write(tmp_path / "mine" / "1" / "Toy.json", old)
    assert "load and save it again with mteb" in refusal(tmp_path)


TRAINER = "model=folder1,dataset=folder2,seed=folder3"


@pytest.mark.parametrize("kind", ["all_results", "kept", "step", "checkpoints", "last"])
def test_trainer_by_seed(
    kind: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    scores: dict[tuple[str, int], dict[str, float]],
) -> None:
    for (model, seed), of in scores.items():
        for task, score in of.items():
            folder = tmp_path / model / task / str(seed)
            numbers = {"eval_accuracy": score, "eval_loss": 0.3, "eval_runtime": 1.0}
            worse = {"eval_accuracy": score - 0.2, "eval_loss": 0.9, "step": 20}
            first, second = (worse, numbers | {"step": 20})
            state: dict[str, Any] = {"best_model_checkpoint": None}
            if kind != "last":
                first, second = numbers | {"step": 10}, worse
                state = {
                    "best_model_checkpoint": "out/checkpoint-10",
                    "best_metric": score,
                }
            if kind == "step":
                state = {"best_global_step": 10, "best_metric": score}
            state["log_history"] = [first | {"step": 10}, {"loss": 1.0}, second]
            if kind == "all_results":
                both = numbers | {"epoch": 3.0, "train_loss": 0.1}
                write(folder / "all_results.json", both)
                state["best_model_checkpoint"] = None
            if kind == "checkpoints":
                write(folder / "checkpoint-20" / "trainer_state.json", state)
                early = state | {"log_history": [worse]}
                write(folder / "checkpoint-10" / "trainer_state.json", early)
            else:
                write(folder / "trainer_state.json", state)
    found, read = compared(tmp_path, capsys, "--columns", TRAINER)
    agrees_with_scipy(found, scores)
    if kind in ("kept", "step", "checkpoints"):
        assert "chosen by eval_accuracy on this split" in read
    assert ("the last evaluation" in read) == (kind == "last")
    assert "model=folder1,dataset=folder2,seed=folder3" in refusal(tmp_path)


def test_trainer_with_two_metrics_needs_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for model, score in (("mine", 0.8), ("base", 0.7)):
        for seed in SEEDS:
            numbers = {"eval_accuracy": score + seed / 100, "eval_f1": seed / 9}
            write(tmp_path / model / "d" / str(seed) / "all_results.json", numbers)
    said = refusal(tmp_path, "--columns", TRAINER)
    assert "choose one with --metric (accuracy, f1)" in said
    words = ("--columns", TRAINER, "--metric", "accuracy")
    found, _ = compared(tmp_path, capsys, *words)
    assert found["effect"].item() == pytest.approx(0.1)


def test_results_of_no_known_form_are_one_sentence(tmp_path: Path) -> None:
    write(tmp_path / "a" / "results_1.json", ["mine", 0.7])
    assert "in a form that is not known" in refusal(tmp_path)
    write(tmp_path / "a" / "results_1.json", {"results": {}})
    assert "no scores in them" in refusal(tmp_path)


def test_named_folders_replace_names_in_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Early 0.4 wrote results.json, and a checkpoint's model_name is its path."""
    for model, shift in (("mine", 0.1), ("base", 0.0)):
        for seed in SEEDS:
            content = harness(f"/out/{model}/{seed}", arc=0.5 + shift + seed / 99)
            write(
                tmp_path / model / str(seed) / "results.json",
                content | {"versions": {"arc": 1}},
            )
    words = ("--columns", "model=folder1,seed=folder2", "--metric", "acc")
    found, read = compared(tmp_path, capsys, *words)
    assert found["effect"].item() == pytest.approx(0.1)
    assert "1 dataset, 2 models, 4 seeds each" in read
