"""A miniature of seconds for the tests of the machinery: `python -m tests.miniature.tiny OUT`."""

import dataclasses
import logging
import sys
from pathlib import Path

from miniature.data import MADE_UP
from miniature.forms import FORMS
from miniature.pipeline import make_miniature
from miniature.toy_study import Miniature

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

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    miniature = Miniature.below(Path(sys.argv[1]), TINY, MADE_UP)
    sys.stdout.write(make_miniature(miniature, report="report" in sys.argv[2:]))
