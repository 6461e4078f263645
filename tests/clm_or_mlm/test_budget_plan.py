"""Studies for a budget: their hours, what they find, and that a written one runs."""

import json
import re
import shlex
from dataclasses import replace
from itertools import product, takewhile
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from scipy.stats import ttest_ind

from analysis.comparisons.comparison import compare
from analysis.comparisons.differences import AHEAD
from analysis.evidence.evidence import Settings
from analysis.precision.design import seed_spreads
from analysis.sources import PUBLISHED, Source
from analysis.statistics.inference import ALPHA
from analysis.store.runs_table import COLUMNS
from benchmarks.protocol import DATASETS
from benchmarks.runs import RunKey
from clm_or_mlm.__main__ import main
from clm_or_mlm.budget_plan import Choice, choices_of, nearest_spread
from common.errors import UserError
from pretraining.adapt import Adaptation
from pretraining.plan.devices import DEVICES, H100, Device
from pretraining.plan.study_plan import load_study, plan_of
from pretraining.starts import start_of
from tests.analysis.stores import age
from tests.pretraining.families import save_start
from tests.results import write_results

SPREADS = dict(seed_spreads(PUBLISHED))
TUNED = ("sst2", "uner_en", "squad", "nq")
Floats = npt.NDArray[np.float64]


def paid(device: Device, **budget: float) -> list[Choice]:
    return [one for one in choices_of(device, **budget) if isinstance(one, Choice)]  # type: ignore[arg-type]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("hours", [24.0, 200.0])
def test_every_study_takes_at_most_the_hours(device: str, hours: float) -> None:
    gpu = DEVICES[device]
    choices = paid(gpu, hours=hours)
    assert len(choices) >= 2 and choices[0].pretrainings >= 3
    for one in choices:
        assert 0.85 * hours < one.total <= hours, "no more, and nothing much is left"
        assert one.memory_gb < (gpu.memory_gb or 0)
        if not one.start:
            assert one.tokens >= 0.999 * 20 * one.shape.encoder_parameters


def test_hours_are_those_of_the_plan_of_the_written_study(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "study.toml"
    words = ["plan", "--hours", "24", "--price", "2", "--format", "json", "--out", str(out)]
    assert not main(words)
    first = json.loads(capsys.readouterr().out)["choices"][0]
    plan = plan_of(tuple(load_study(out).models.values()), load_study(out))
    for name in ("clm", "mlm"):
        stages = [stage for stage in plan.stages if stage.objective == name]
        assert plan.costs(stages).gpu_hours == pytest.approx(first["hours"][name.upper()])
    assert first["money"] == pytest.approx(2 * first["total_hours"]) and first["total_hours"] <= 24
    assert len(plan.models) == 15 and {model.seed for model in plan.models} == {0, 1, 2, 3, 4}


def test_a_study_that_was_edited_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "study.toml"
    words = ["plan", "--hours", "24", "--out", str(out)]
    main(words)
    main(words)  # the same bytes
    out.write_text(edited := out.read_text() + "# mine\n")
    capsys.readouterr()
    with pytest.raises(UserError, match="is there and is another study, or was edited"):
        main(words)
    assert out.read_text() == edited and not capsys.readouterr().out


def test_tokens_fix_the_length_and_hours_then_the_pretrainings() -> None:
    free = paid(H100, tokens=2e9)
    assert all(0 <= one.tokens - 2e9 < one.tokens / one.steps for one in free), "less than a step more"
    tight = paid(H100, tokens=2e9, hours=0.7 * free[2].total)[-1]
    assert tight.start and tight.pretrainings < free[2].pretrainings and tight.tokens == free[2].tokens


def test_what_cannot_be_paid_for_or_does_not_fit_is_refused_in_a_sentence() -> None:
    with pytest.raises(UserError, match=r"at least .* hours of one RTX 4090; give more --hours"):
        choices_of(DEVICES["RTX 4090"], hours=0.5)
    small = replace(DEVICES["H100"], name="small", memory_gb=0.1)
    with pytest.raises(UserError, match=r"GB at microbatch=1, but one small has 0\.1"):
        choices_of(small, hours=24)
    with pytest.raises(UserError, match="--hours, --tokens"):
        choices_of(H100)
    with pytest.raises(UserError, match=r"--tokens 1e\+06 is \d steps of .* tokens; give at least"):
        choices_of(H100, tokens=1e6)


def test_one_adaptation_has_hours_money_and_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that `adapt` counts, in the largest passes that fit the device."""
    start = save_start(tmp_path / "start", "llama")
    words = ["plan", "--start", str(start), "--tokens", "2e7", "--device", "RTX 4090", "--price", "0.6"]
    assert not main([*words, "--format", "json"])
    said = json.loads(capsys.readouterr().out)
    gpu = DEVICES["RTX 4090"]
    costs = Adaptation(start=start_of(str(start)), tokens=2e7).plan_on(gpu).costs(device=gpu)
    assert costs.gpu_hours > 0 and costs.memory_gb < 24 and costs.tokens == pytest.approx(2e7, rel=0.02)
    assert said["costs"]["gpu_hours"] == pytest.approx(costs.gpu_hours)
    main(words)
    out = capsys.readouterr().out
    assert all(word in out for word in ("RTX 4090 hours", "money", "memory", "sequences in a pass"))
    assert "compiled blocks" not in out
    words[2] = str(save_start(tmp_path / "other", "qwen3"))
    main(words)
    assert "counted for compiled blocks" in capsys.readouterr().out


def test_the_spread_is_that_of_the_nearest_scale() -> None:
    assert nearest_spread(16e6).sd == 0.57 and nearest_spread(50e6).sd == 0.57
    assert nearest_spread(70e6).sd == nearest_spread(600e6).sd == 0.416
    [one, *_] = paid(H100, hours=24, pretraining_sd=0.1)
    [other, *_] = paid(H100, hours=24)
    assert all(one.finds()[name] < points for name, points in other.finds().items())


def scores_of(choice: Choice, effects: dict[str, float], rng: np.random.Generator, count: int) -> Floats:
    """Return scores in points, (count, 2 arms, datasets, pretrainings, seeds), of studies whose arms differ by this."""
    sds = np.array([SPREADS[DATASETS[name].task, name].sd for name in TUNED])[:, None, None]
    shape = (count, 2, len(TUNED), choice.pretrainings)
    trained = rng.normal(80, choice.pretraining_sd, (*shape, 1))
    scores = trained + sds * rng.standard_normal((*shape, len(choice.seeds)))
    scores[:, 0] += np.array([effects.get(name, 0.0) for name in TUNED])[:, None, None]
    return scores


def of_study(choice: Choice, scores: Floats) -> Source:
    """Return runs of two arms with these scores, (2 arms, datasets, pretrainings, seeds)."""
    axes = [["a", "b"], TUNED, range(choice.pretrainings), choice.seeds]
    index = pd.MultiIndex.from_product(axes, names=["arm", "dataset", "again", "seed"])
    runs = pd.DataFrame({"test_score": scores.ravel() / 100}, index=index).reset_index()
    ends = runs["again"].map(lambda again: f"-s{again}" if again else "")
    runs = runs.assign(model=runs["arm"] + ends, task=runs["dataset"].map(lambda name: DATASETS[name].task))
    runs = runs.assign(validation_score=runs["test_score"], lr=1e-5, n_validation=872, n_test=100_000)
    return Source(label="simulated", runs=runs[list(COLUMNS)], added_models=("a*", "b*"))


def promised(choice: Choice, alone: bool) -> dict[str, float]:
    found = choice.finds(alone=alone)
    return {"sst2": found["sst2"]} if alone else found


@pytest.mark.parametrize(
    ("which", "alone"),
    [
        pytest.param(0, False, marks=pytest.mark.slow, id="five pretrainings, on all"),
        pytest.param(0, True, marks=pytest.mark.slow, id="five, on one alone"),
        pytest.param(1, False, id="three, on all"),
        pytest.param(1, True, marks=pytest.mark.slow, id="three, on one alone"),
    ],
)
def test_compare_calls_the_smallest_difference_ahead_four_times_in_five(which: int, alone: bool) -> None:
    choice, count = paid(H100, hours=24)[which], 80
    effects, found = promised(choice, alone), 0
    for scores in scores_of(choice, effects, np.random.default_rng([which, alone]), count):
        source = of_study(choice, scores)
        result = compare(source, [], source.with_interval(Settings(resamples=1_000)), replicates=["a", "b"])
        found += sum(row.outcome == AHEAD for row in result.differences if row.place.dataset in effects)
    found /= len(effects)
    assert found / count == pytest.approx(0.8, abs=0.02 + 2 * (0.16 / count) ** 0.5)


@pytest.mark.parametrize("alone", [False, True], ids=["on all", "on one alone"])
@pytest.mark.parametrize("device", ["H100", "RTX 4090"])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_welch_and_holm_find_it_in_two_thousand_studies(which: int, device: str, alone: bool) -> None:
    choice = paid(DEVICES[device], hours=24)[which]
    effects = promised(choice, alone)
    arms = np.moveaxis(scores_of(choice, effects, np.random.default_rng(which), 2_000).mean(axis=-1), 1, 0)
    p = ttest_ind(*arms, axis=-1, equal_var=False).pvalue
    steps = np.maximum.accumulate(np.sort(p) * [4, 3, 2, 1], axis=-1) <= ALPHA
    ahead = np.take_along_axis(steps, p.argsort(axis=-1).argsort(axis=-1), axis=-1).mean(axis=0)
    assert all(0.77 < ahead[TUNED.index(dataset)] < 0.83 for dataset in effects)


def commands_of(text: str) -> list[list[str]]:
    """Return the words of each command that a written study prints, in its order, without the program's name."""
    said = "\n".join(line[2:] for line in text.splitlines() if line.startswith("# ")).replace("\\\n", " ")
    return [shlex.split(line)[1:] for line in said.splitlines() if line.startswith("clm-or-mlm ")]


def values_of(words: list[str], option: str) -> list[str]:
    """Return what comes after an option, up to the next."""
    after = words[words.index(option) + 1 :]
    return list(takewhile(lambda word: not word.startswith("--"), after))


@pytest.mark.parametrize("device", ["H100", "RTX 4090"])
@pytest.mark.parametrize("choose", [1, 2, 3])
def test_the_written_study_is_compared_by_its_own_last_commands(
    choose: int,
    device: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A store with the runs of its names, datasets, rates and seeds: each two arms get a difference with interval on
    every dataset, and all arms at once, too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "analysis.store.ingest.cores", lambda: 1
    )  # each command would start processes to read it
    assert not main(
        ["plan", "--hours", "24", "--device", device, "--choose", str(choose), "--out", "study.toml"]
    )
    text = Path("study.toml").read_text("utf-8")
    [names] = [
        line.split(" in ")[1].rstrip("; do").split() for line in text.splitlines() if " for model in " in line
    ]
    [run] = [words for words in commands_of(text) if words[:2] == ["benchmarks", "run"]]
    rng = np.random.default_rng(choose)
    datasets, rates, seeds = (values_of(run, f"--{what}") for what in ("dataset", "lr", "seed"))
    for name, dataset, lr, seed in product(names, datasets, rates, seeds):
        scores = {split: (rng.random(9) < 0.7).astype(float).tolist() for split in ("validation", "test")}
        write_results(
            Path("results"), RunKey(model=name, dataset=dataset, lr=float(lr), seed=int(seed)), scores
        )
    age(Path("results"))
    compares = [words for words in commands_of(text) if words[0] == "compare"]
    arms = list(dict.fromkeys(arm for words in compares for arm in words if arm in names))
    assert len(compares) == len(arms) * (len(arms) - 1) // 2 and commands_of(text)[-1] in compares
    capsys.readouterr()
    every = [word for arm in arms for word in ("--replicates", arm)]
    for words in [*compares, ["compare", "--source", "results", "--study", "study.toml", *every]]:
        assert not main(words)
        said = capsys.readouterr()
        with_interval = [line for line in said.out.splitlines() if re.search(r"[+-]\d.* \[[+-].*\]", line)]
        assert all(DATASETS[dataset].title in said.out for dataset in datasets)
        assert len(with_interval) >= len(datasets) * (1 if words in compares else len(arms) - 1)
        assert not re.search(r"\d of \d+ runs unsealed", said.out + said.err)
