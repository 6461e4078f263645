"""The miniature's refusals, what is analysed before its end, and the page of what came out."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from analysis.store.stand_ins import read_stand_ins
from benchmarks.datasets.synthetic import make_synthetic
from benchmarks.protocol import DATASETS
from clm_or_mlm.__main__ import main
from common.errors import UserError
from common.provenance import ROOT
from miniature import pipeline
from miniature.checks import Check
from miniature.data import MADE_UP, DataSource
from miniature.forms import FORMS, RANDOM
from miniature.pipeline import make_miniature, page, stand_in_note
from miniature.toy_study import Miniature
from tests.miniature.test_checks import MLM, pretrained, runs_of
from workflow.jobs import Workflow, load, save

__all__ = ["pretrained"]

FORM = dataclasses.replace(FORMS["quick"], tokens=3_000)


def test_before_the_end_what_is_complete_is_analysed_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    miniature = Miniature.below(tmp_path, FORM, MADE_UP)
    root = miniature.root
    assert root == tmp_path / "quick-made-up"
    with pytest.raises(
        UserError, match="no fine-tuned models yet; make them with `clm-or-mlm miniature run`"
    ):
        make_miniature(miniature, train=False)
    monkeypatch.setattr(pipeline, "run_workflow", lambda workflow, folder, **_: save(workflow, folder))
    (root / "store" / "results").mkdir(parents=True)
    done, other = [job for job in miniature.jobs() if job.kind.name == "data"]
    for path in done.makes:
        (root / path).parent.mkdir(parents=True)
        (root / path).write_text("{}")
    with pytest.raises(UserError, match="some jobs are not done"):
        make_miniature(miniature, train=False)
    assert [job.name for job in load(root).jobs.values()] == [done.name, "report"] and other.name != done.name
    # The analysis reads what was written for it.
    read = read_stand_ins(root / "store")
    assert read is not None and read.models == FORM.stand_ins and read.logs is None


def test_the_analysis_of_a_first_run_knows_the_floors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    miniature, seen = Miniature.below(tmp_path, FORM, MADE_UP), list[tuple[str, ...]]()

    def jobs_done(workflow: Workflow, folder: Path, words: tuple[str, ...]) -> bool:
        stand_ins = read_stand_ins(folder / "store")
        assert stand_ins is not None and list(workflow.jobs)[-1] == "done/analysis/report.json"
        seen.append((words[-1], *stand_ins.floors))
        make_synthetic(folder / "data", DATASETS["sst2"], train=8, evaluation=8)
        return len(seen) == 1

    monkeypatch.setattr(pipeline, "run_workflow", jobs_done)
    with pytest.raises(UserError, match="some jobs are not done"):
        make_miniature(miniature)
    assert seen == [("data",), ("reason", "sst2")]


def test_a_folder_of_other_data_is_refused(tmp_path: Path) -> None:
    """By the workflow: what is complete was made by other commands."""
    miniature = Miniature.below(tmp_path, FORM, MADE_UP)
    jobs = miniature.jobs()
    save(pipeline.workflow_for(jobs), miniature.root)
    for path in jobs[1].makes:
        (miniature.root / path).parent.mkdir(parents=True)
        (miniature.root / path).write_text("{}")
    other = dataclasses.replace(miniature, form=dataclasses.replace(FORM, tokens=6_000))
    with pytest.raises(UserError, match=r"shards shards was made with .*\"3000\".* now give .*\"6000\""):
        make_miniature(other)


def test_every_model_has_its_scores_and_its_loss_or_a_dash(pretrained: Path) -> None:
    for kind, name, count in (("data", "a", 1), ("shards", "b", 1), ("cell", "c", 1), ("cell", "d", 2)):
        path = pretrained.parent / "logs" / kind / f"{name}.attempts.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"cpu_seconds": 4.0}\n' * count)
    text = page(
        Miniature(form=FORM, source=MADE_UP, root=pretrained.parent),
        runs_of({RANDOM: 0.5, MLM: 0.625}),
        [Check(what="w", holds=False, seen="s")],
    )
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    assert [f"`{RANDOM}`", "no pretraining", *["50.00"] * 4, "-"] in rows
    assert [f"`{MLM}`", "610m-mlm40-42k", *["62.50"] * 4, "2.000"] in rows
    assert ["`mini-m-clm-420`", "610m-clm-42k", *"----", "3.000"] in rows
    assert "16 of 32 fine-tunings" in text and "- FAILS: w: s\n" in text
    assert "CPU seconds: fine-tuning 12, data 8." in text


def test_captions_say_what_the_networks_are() -> None:
    note = stand_in_note(FORMS["cpu"], DataSource(place=Path()))
    assert note.startswith("not the paper's models. 210M is a network of 0.15M parameters, 610M")
    assert note.endswith("each task has one dataset (SST-2, UNER, SQuAD, NQ).")


def test_the_docs_page_names_every_form_as_it_is() -> None:
    committed = (ROOT / "docs" / "miniature.md").read_text("utf-8")
    for form in FORMS.values():
        sizes = ", ".join(f"{shape.encoder_parameters / 1e6:.2f} M" for shape in form.study.shapes.values())
        assert (
            f"| `{form.name}` | {form.about} | {sizes} | {len(form.models)} | {form.fine_tunings} |"
            in committed
        )


def test_options_reach_the_miniature(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    monkeypatch.setattr(
        "miniature.pipeline.make_miniature",
        lambda *given, **options: calls.append((given, options)) or "summary\n",
    )
    main(["miniature", "run", "--form", "quick", "--out", "o", "--workers", "4"])
    main(["miniature", "run", "--show", "--example", "e"])
    first = Miniature.below(Path("o"), FORMS["quick"], MADE_UP)
    second = Miniature.below(Path("build/miniature"), FORMS["cpu"], MADE_UP)
    assert calls == [
        ((first,), {"workers": 4, "example": None, "train": True}),
        ((second,), {"workers": 2, "example": Path("e"), "train": False}),
    ]
    assert capsys.readouterr().out == "summary\n" * 2
