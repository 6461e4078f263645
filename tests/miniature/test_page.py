"""The miniature's page: numbers of the runs in the words of the template."""

from __future__ import annotations

import json
from pathlib import Path

from common.provenance import ROOT
from miniature.checks import Check
from miniature.data_source import HUB, MADE_UP
from miniature.forms import FORMS, RANDOM
from miniature.page import page, read_timings, stand_in_note
from miniature.plan import Miniature
from tests.miniature.test_checks import MLM, pretrained, runs_of

__all__ = ["pretrained"]

FORM = FORMS["quick"]


def page_of(pretrained: Path, *, holds: bool = True) -> str:
    runs = runs_of({RANDOM: 0.5, MLM: 0.625})
    return page(
        Miniature(form=FORM, source=MADE_UP, root=pretrained.parent),
        runs,
        [Check(what="w", holds=holds, seen="s")],
    )


def test_every_model_has_its_scores_and_its_loss_or_a_dash(pretrained: Path) -> None:
    text = page_of(pretrained)
    assert f"| `{RANDOM}` | no pretraining | 50.00 | 50.00 | 50.00 | 50.00 | - |\n" in text
    assert f"| `{MLM}` | 610m-mlm40-42k | 62.50 | 62.50 | 62.50 | 62.50 | 2.000 |\n" in text
    assert "| `mini-m-clm-420` | 610m-clm-42k | - | - | - | - | 3.000 |\n" in text
    assert "**It was stopped before its end:** 16 of 32 fine-tunings are there." in text
    assert "| w | yes | s |\n" in text and "too short" not in text


def test_a_first_check_that_fails_is_explained(pretrained: Path) -> None:
    text = page_of(pretrained, holds=False)
    assert "| w | **no** | s |\n" in text
    assert "Where the first check does not hold, pretraining was too short" in text


def test_cpu_seconds_are_summed_by_part(pretrained: Path) -> None:
    for kind, name, seconds in (
        ("data", "a", 1.0),
        ("shards", "b", 2.5),
        ("cell", "c", 4.0),
        ("cell", "d", 8.0),
    ):
        path = pretrained.parent / "logs" / kind / f"{name}.attempts.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        row = json.dumps({"cpu_seconds": seconds})
        path.write_text(f"{row}\n" * (2 if name == "d" else 1))
    timings = read_timings(pretrained.parent)
    assert timings == {"data": 3.5, "pretraining": 0.0, "fine-tuning": 20.0, "analysis": 0.0}
    assert "| fine-tuning | 20 |\n" in page_of(pretrained)


def test_captions_say_what_the_networks_are() -> None:
    note = stand_in_note(FORMS["cpu"], HUB)
    assert note.startswith("not the paper's models. 210M is a network of 0.15M parameters, 610M")
    assert note.endswith("a family is one dataset (SST-2, UNER, SQuAD, NQ).")


def test_what_does_not_depend_on_the_run_is_as_on_the_committed_page(pretrained: Path) -> None:
    committed = (ROOT / "docs" / "miniature.md").read_text("utf-8")
    text = page_of(pretrained)
    for heading in ("\n## Forms\n", "\n| check | holds | seen |\n|---|---|---|\n"):
        assert heading in text and heading in committed
    assert text.partition("\n## Forms\n")[2] == committed.partition("\n## Forms\n")[2]
    assert text.partition("**This page was")[0] == committed.partition("**This page was")[0]
