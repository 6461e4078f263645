"""Miniatures of seconds for the tests of the machinery: `python -m tests.miniature.tiny OUT [curves] [report]`."""

import dataclasses
import logging
import sys
import tomllib
from pathlib import Path

from miniature.data import MADE_UP
from miniature.forms import FORMS, Form
from miniature.pipeline import make_miniature
from miniature.toy_study import Miniature
from pretraining.plan.study_text import study_text

TINY = dataclasses.replace(
    FORMS["quick"],
    name="tiny",
    study_file=Path(__file__).with_name("tiny.toml"),
    tokens=20_000,
    tokenizer_documents=20,
    examples=dict.fromkeys(("SC", "TC", "QA", "IR"), (96, 12)),
    tuning_steps=6,
    tuning_length=48,
    seeds=(0, 1),
)

OF_CURVES = (
    "mini-m-mlm40-840", "mini-m-clm-840", "mini-m-clm-200-mlm40-840", "mini-m-mlm40-640", "mini-m-mlm40-2520",
    "mini-m-clm-dec840-mlm40-1280", "mini-m-mlm40-840-s1",
)  # fmt: skip
"""One of each kind: lengths of a trunk, a switch, a start from a finished model, another pretraining."""


def small_curves(folder: Path) -> Form:
    """Return the form `curves` with few models and fine-tunings, divided by 20; its study file is put into a folder."""
    form = FORMS["curves"]
    content = {**tomllib.loads(form.study_file.read_text("utf-8")), "models": list(OF_CURVES)}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "curves.toml").write_text(study_text(content), "utf-8")
    return dataclasses.replace(form, study_file=folder / "curves.toml", rates=(3e-3,), seeds=(0, 1)).divided(
        20
    )


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    out = Path(sys.argv[1])
    miniature = Miniature.below(out, small_curves(out) if "curves" in sys.argv[2:] else TINY, MADE_UP)
    sys.stdout.write(make_miniature(miniature, report="report" in sys.argv[2:]))
