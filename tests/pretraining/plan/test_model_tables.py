"""Models that have a table in a study file: their stages in closed form, what they share, and mistakes."""

import json
import re
from pathlib import Path

import pytest

from clm_or_mlm.__main__ import main
from common.errors import UserError
from pretraining.models import Model, parse_objective
from pretraining.paper_models import find_model, parse
from pretraining.plan.config import Batches
from pretraining.plan.study_plan import Study, load_study, plan_of, targets_of
from tests.pretraining.small_study import STUDY

PAGE = Path(__file__).parents[3] / "docs" / "pretraining.md"
SIZES = STUDY[STUDY.index("[sizes.s]") :]


def study_of(folder: Path, tables: str) -> Study:
    path = folder / "own.toml"
    path.write_text(f'prefix = "mini-"\ndecay_steps = 6\n{tables}\n{SIZES}')
    return load_study(path)


def spans(model: Model) -> list[tuple[str, str, int, int]]:
    return [(str(s.trained_on), s.phase, s.first_step, s.end) for s in model.stages]


def test_a_table_of_a_papers_model_is_that_model(tmp_path: Path) -> None:
    """The same work by the same names: nothing is trained again."""
    models = study_of(
        tmp_path,
        """
        [models.mine]
        stages = ["clm:9", "mlm40:15"]
        [models.further]
        stages = ["clm:9", {train = "mlm40", steps = 15, decay = "linear:6"}, "mlm40:12"]
        [models."mini-s-clm-9-mlm40-24"]
        """,
    ).models
    named = models["mini-s-clm-9-mlm40-24"]
    assert models["mine"].stages == named.stages
    assert models["further"].stages[: len(named.stages)] == named.stages
    assert [models[name].kind for name in ("mine", "further")] == [
        "two-stage",
        "continued",
    ]
    again = study_of(
        tmp_path,
        '[models.cpt]\nstages = [{train="clm", steps=24, decay="linear:6"}, "mlm40:12"]',
    )
    assert again.models["cpt"].stages == again.model("mini-s-clm-dec24-mlm40-36").stages
    assert (
        again.model("cpt-s2").stages
        == again.model("mini-s-clm-dec24-mlm40-36-s2").stages
    )


def test_the_page_s_study_file_is_what_its_sentences_say(tmp_path: Path) -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), flags=re.S)
    (tmp_path / "mine.toml").write_text(block)
    study = load_study(tmp_path / "mine.toml")
    mine, domain = study.models["mine"], study.models["domain"]
    assert spans(mine) == [
        ("mlm40", "stable", 0, 10_000),
        ("clm", "stable", 10_000, 20_000),
        ("mlm40to15", "stable", 20_000, 36_000),
        ("mlm40to15", "decay", 36_000, 40_000),
    ]
    assert (mine.stages[1].data, mine.stages[3].curve) == ("shards-news", "sqrt")
    assert (domain.start, domain.kind, domain.steps) == (
        "HuggingFaceTB/SmolLM2-135M",
        "adapted",
        4_000,
    )
    assert study.models["small-mlm40-40k"].stages[0].name == mine.stages[0].name


def test_stages_of_shares_decays_and_data(tmp_path: Path) -> None:
    study = study_of(
        tmp_path,
        """
        [models.mine]
        steps = "0.2k"
        stages = [
            {train = "clm", steps = "12.3 %"},
            {train = "mlm40-15", steps = "50 %", data = "other-shards", decay = "sqrt:10 %"},
            {train = "clm", steps = "37.7 %", decay = "none"},
        ]
        """,
    )
    model = study.models["mine"]
    # 24.6 and 124.6 steps are rounded where stages end, so that they add up.
    assert spans(model) == [
        ("clm", "stable", 0, 25),
        ("mlm40to15", "stable", 25, 115),
        ("mlm40to15", "decay", 115, 125),
        ("clm", "stable", 125, 200),
    ]
    assert [stage.data for stage in model.stages] == [
        "",
        "other-shards",
        "other-shards",
        "",
    ]
    assert (model.stages[2].curve, model.kind, model.decayed) == (
        "sqrt",
        "intermediate",
        False,
    )
    assert model.label() == "CLM + MLM 40 to 15 % on other-shards + CLM"
    assert (model.clm_steps, model.clm_share) == (100, 0.5)
    plan = plan_of([model], study)
    each = study.config.tokens_per_step
    assert (plan.data_tokens, plan.tokens_of("other-shards")) == (
        100 * each,
        100 * each,
    )
    last = plan.stages[-1]
    assert plan.steps_on_its_data(last) == ((0, 25), (125, 200))
    batches = Batches(skip="10:3,50:7,130:2")
    numbers = [
        batches.number(step, plan.steps_on_its_data(last))
        for step in (125, 129, 130, 199)
    ]
    assert numbers == [28, 32, 35, 104]
    inside = plan.steps_on_its_data(plan.stages[2])
    assert [batches.number(step, inside) for step in (25, 49, 50, 124)] == [
        0,
        24,
        32,
        106,
    ]


def test_a_ratio_falls_in_a_straight_line_over_its_stage() -> None:
    stable, decay = parse("610m-mlm40to15-42k").stages
    assert (stable.ratio_at(0), decay.ratio_at(41_999)) == (40, 15)
    for step in (1, 20_000, 39_999, 40_000, 41_000):
        stage = stable if step < 40_000 else decay
        assert stage.ratio_at(step) == pytest.approx(40 - 25 * step / 41_999, abs=1e-12)
    mean = sum(stable.ratio_at(step) or 0 for step in range(40_000)) / 40_000 / 100
    assert stable.predicted_share == pytest.approx(mean, rel=1e-9)
    assert stable.lasting_ratio == decay.lasting_ratio == 15
    assert (
        parse_objective("mlm40-15") == parse_objective("mlm40to15") == stable.trained_on
    )
    # It does not share a trunk with what falls over other steps, but a constant ratio does.
    assert parse("610m-mlm40to15-22k").stages[0].name != stable.name
    assert (
        parse("610m-mlm40-22k").stages[0].name == parse("610m-mlm40-42k").stages[0].name
    )


def test_names_say_clm_in_the_middle_too() -> None:
    model = find_model("610m-mlm40-10k-clm-20k-mlm40-42k")
    assert model is not None
    assert (model.kind, model.objective, model.switch) == (
        "multi-stage",
        "mlm+clm+mlm",
        10_000,
    )
    assert model.clm_share == pytest.approx(10 / 42)
    assert [stage.name for stage in model.stages] == [
        "610m-mlm40",
        "610m-mlm40-10k-clm",
        "610m-mlm40-10k-clm-20k-mlm40",
        "610m-mlm40-10k-clm-20k-mlm40-42k",
    ]


def test_trunks_of_one_start_and_objective_are_trained_once(
    tmp_path: Path,
) -> None:
    study = study_of(
        tmp_path,
        """
        [models.one]
        stages = ["clm:10", "mlm40:20"]
        [models.two]
        stages = ["clm:20", {train = "mlm30", steps = 20, decay = "sqrt:8"}]
        [models.news]
        stages = [{train = "clm", steps = 10, data = "news"}, "mlm40:20"]
        """,
    )
    plan = plan_of(tuple(study.models.values()), study)
    trunk = plan.stage("mini-s-clm")
    assert (trunk.models, trunk.keep, trunk.end) == (("one", "two"), (10, 20), 20)
    assert plan.stage("mini-s-clm-20-mlm30-40.sqrt8").models == ("two",)
    # The first trunk once for both; what follows other data is other work.
    assert plan.costs().steps == 20 + 20 + 20 + 30
    assert [s.name for s, _ in targets_of("two", study).stages][
        -1
    ] == "mini-s-clm-20-mlm30-40.sqrt8"


MISTAKES = {
    'stage = ["clm:10k"]': "unknown key 'stage'; did you mean 'stages'",
    'stages = [{train = "clm", step = 9}]': "stage 1: unknown key 'step'; did you mean 'steps'",
    'stages = ["clm:10k", "mlm:9"]': "stage 2: unknown objective 'mlm'.*did you mean 'mlm40'",
    'stages = ["mlm40-40:9"]': "ratio of 'mlm40-40' does not change; write mlm40",
    'stages = ["clm"]': "stage 1: a stage reads OBJECTIVE:STEPS",
    'stages = ["clm:1e3"]': "stage 1: steps takes steps such as 32000 or 32k.*not '1e3'",
    'stages = ["clm:25 %"]': "'25 %' is a share, but of what. Give the model its whole `steps`",
    'steps = 100\nstages = ["clm:25 %", "mlm40:25 %"]': "take 50 steps together, but steps says 100",
    'steps = 100\nstages = ["clm:0.1 %", "mlm40:99.9 %"]': "stage 1: steps='0.1 %' must be at least 1",
    'stages = ["clm:5"]': "a decay of 6 steps, the study's decay_steps.*at most the stage's 5.*decay = \"none\"",
    'stages = [{train = "clm", steps = 9, decay = "sqr:3"}]': "linear:STEPS or sqrt:STEPS.*did you mean 'sqrt'",
    'stages = [{train = "clm", steps = 9, decay = "sqrt:120 %"}]': "stage 1: decay takes steps.*up to 100",
    'size = "m"\nstages = ["clm:9"]': "unknown size 'm'; use one of s",
    'size = "s"\nstart = "x"\nstages = ["clm:9"]': "size and start contradict each other",
    "stages = []": "stages must be a list of 1 to 20 stages",
    "stages = [4]": "stage 1: a stage is a text such as .*not 4",
    'stages = [{train = "clm", steps = true}]': "steps takes steps such as 32000 or 32k.*not True",
    "steps = 9": "stages must be a list of 1 to 20",
}


@pytest.mark.parametrize("table", MISTAKES)
def test_a_mistake_is_one_sentence_with_its_place(tmp_path: Path, table: str) -> None:
    with pytest.raises(UserError, match=MISTAKES[table]) as error:
        study_of(tmp_path, f"[models.mine]\n{table}")
    said = str(error.value)
    assert f"{tmp_path / 'own.toml'} [models.mine]" in said and "\n" not in said


STAGES = 'stages = ["clm:9"]'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"[models.mine-s2]\n{STAGES}", "means another pretraining of mine"),
        (f'[models."../mine"]\n{STAGES}', "at most 80 letters"),
        (f'[models."a\\nb"]\n{STAGES}', r"'a\\nb'.*at most 80 letters"),
        (f"[models.mini-s-clm-24]\n{STAGES}", "already says size, stages and steps"),
        ("[models.mine]", "unknown model 'mine'.*a name of your own needs `stages`"),
        (
            "[models]\nmine = 3",
            r"\[models.mine\]: there must be a table of keys and values, not 3",
        ),
    ],
)
def test_a_name_that_means_something_else_or_nothing_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        study_of(tmp_path, text)


def test_a_start_that_is_not_here_stops_only_its_own_plan(tmp_path: Path) -> None:
    study = study_of(
        tmp_path,
        '[models.mine]\nstart = "./absent"\nstages = ["clm:9"]\n[models."mini-s-clm-9"]',
    )
    assert plan_of([study.models["mini-s-clm-9"]], study).costs().gpu_hours > 0
    (tmp_path / "none.toml").write_text(
        '[models.mine]\nstart = "./absent"\nstages = ["clm:9k"]'
    )
    with pytest.raises(
        UserError,
        match=r"unknown model 'mina'; the study has no sizes.*did you mean 'mine'",
    ):
        load_study(tmp_path / "none.toml").model("mina")
    with pytest.raises(UserError, match="absent"):
        plan_of([study.models["mine"]], study).costs()


def test_the_plan_prints_what_each_stage_adds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = study_of(tmp_path, '[models.mine]\nstages = ["clm:10", "mlm40-20:30"]')
    words = ["plan", "mine", "--study", str(tmp_path / "own.toml")]
    assert not main(words)
    lines = capsys.readouterr().out.splitlines()
    rows = [
        line.split()
        for line in lines[
            [line.startswith("adds") for line in lines].index(True) + 1 :
        ][:3]
    ]
    assert [row[:2] for row in rows] == [
        ["mini-s-clm", "10"],
        ["mini-s-clm-10-mlm40to20.by.40", "24"],
        ["mini-s-clm-10-mlm40to20-40", "6"],
    ]
    assert not main([*words, "--format", "json"])
    stages = json.loads(capsys.readouterr().out)["stages"]
    costs = plan_of([study.models["mine"]], study).costs()
    assert sum(stage["tokens"] for stage in stages) == costs.tokens
    assert sum(stage["flops"]["model"] for stage in stages) == pytest.approx(
        costs.flops["model"]
    )
    assert ("ratio_steps" in stages[0], stages[1]["ratio_steps"]) == (False, [10, 40])
