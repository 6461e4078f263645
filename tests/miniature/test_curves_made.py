"""`curves` is made from a folder and packaged, at the smallest size: each of its steps once, in this process."""

import re
from pathlib import Path

import pytest

from analysis.sources import open_source
from analysis.store.stand_ins import STAND_INS
from clm_or_mlm.__main__ import main
from common.errors import UserError
from miniature.data import SETTINGS, prepare
from miniature.package import package
from pretraining.training.log import LOG, read_log
from tests.miniature.whole_data import whole_data
from tests.pretraining.small_study import QUIET
from workflow.study import place_stand_ins, workflow_of
from workflow.study_settings import load_settings

__all__ = ["whole_data"]

MODELS = (
    "mini-m-mlm40-42",
    "mini-m-clm-10-mlm40-42",
    "mini-m-clm-dec42-mlm40-64",
    "mini-m-mlm40-42-s1",
)
"""One of each kind: a trunk's end, a switch, a start from a finished model, another pretraining."""


def shrink(study: Path) -> None:
    """Divide the steps of a prepared study by 20, and leave it few models and fine-tunings."""
    settings, plan, stand_ins = (
        study / name for name in (SETTINGS, "study.toml", STAND_INS)
    )

    def fewer(found: re.Match[str]) -> str:
        return f"{found[1] or ''}{int(found[2]) // 20}"

    # In names, where the paper's steps end in k, and other pretrainings begin with s.
    for path in (plan, stand_ins):
        path.write_text(re.sub(r'(?<=-)(dec)?(\d+)(?=[-"])', fewer, path.read_text()))
    text = re.sub(
        r"models = \[.*?\]",
        f"models = {list(MODELS)}",
        plan.read_text(),
        flags=re.DOTALL,
    )
    for key in (
        "decay_steps",
        "warmup_steps",
        "rewarm_steps",
        "eval_every",
        "save_every",
    ):
        text = re.sub(
            rf"{key} = (\d+)",
            lambda found: f"{found[0].split()[0]} = {int(found[1]) // 20}",
            text,
        )
    plan.write_text(text.replace("global_batch = 32", "global_batch = 8"))
    text = re.sub(r"(learning_rates|seeds) = \[.*\]", r"\1 = [0]", settings.read_text())
    text = text.replace("learning_rates = [0]", "learning_rates = [3e-3]").replace(
        '"80"', '"4"'
    )
    settings.write_text(text)


@QUIET
def test_curves_is_made_and_packaged(
    whole_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, example = tmp_path / "study", tmp_path / "example"
    prepare(whole_data, study, {"SC": (16, 8), "IR": (16, 8)})
    with pytest.raises(UserError, match="is not finished"):
        package(study, example)
    shrink(study)
    settings = load_settings(study / SETTINGS)
    place_stand_ins(settings, study, "all")
    *jobs, analysis = workflow_of("all", settings).jobs.values()
    monkeypatch.chdir(study)
    for job in jobs:
        for words in job.commands:
            assert main(list(words)) in (None, 0)
        assert job.is_complete(study), job.name
    assert main(list(analysis.commands[0])) in (None, 0)
    package(study, example)
    made, packaged = (
        open_source(source) for source in (str(example / "runs.parquet"), "curves")
    )
    assert made.runs is not None and packaged.runs is not None
    assert (
        list(made.runs.columns) == list(packaged.runs.columns)
        and made.kind.title == packaged.kind.title
    )
    assert set(made.runs["model"]) == {
        "610m-mlm40-42k",
        "610m-clm-10k-mlm40-42k",
        "610m-clm-dec42k-mlm40-64k",
        "610m-mlm40-42k-s1",
    }
    assert set(made.runs["dataset"]) == set(packaged.runs["dataset"])
    assert made.stand_ins is not None and packaged.stand_ins is not None
    assert (
        made.stand_ins.logs == example / "logs" and packaged.stand_ins.logs is not None
    )
    stages = {path.name for path in (study / "pretraining" / "stages").iterdir()}
    ours = read_log(made.stand_ins.logs / LOG)
    theirs = [
        row
        for row in read_log(packaged.stand_ins.logs / LOG)
        if row["stage"] == "mini-m-mlm40-840"
    ]
    assert stages == {row["stage"] for row in ours} > set(MODELS)
    for name in MODELS:
        rows = [row for row in ours if row["stage"] == name]
        assert [row.keys() for row in rows] == [row.keys() for row in theirs]
        (whole,) = [
            row["loss"]
            for row in read_log(study / "pretraining" / "stages" / name / LOG)
            if row["split"] == "validation"
        ]
        assert rows[-1]["loss"] == round(whole, 5)
