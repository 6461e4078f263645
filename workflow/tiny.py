"""A study of minutes, made up on the spot: text, a tokenizer, two models, four families of tasks.

It shows that a machine, an image and a scheduler can run the whole chain; its scores say nothing.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator
from pathlib import Path

from common.files import write_text

_NAMES = {"settings.toml": "workflow.toml", "study.toml": "study.toml", "stand_ins.json": "stand_ins.json"}
_SMALLEST = Path(__file__).parents[1] / "miniature" / "smallest"
_FILES = {name: (_SMALLEST / own).read_text("utf-8") for own, name in _NAMES.items()}

MODELS: tuple[str, ...] = tuple(tomllib.loads(_FILES["study.toml"])["models"])
"""Its models; each is shown in the place of one of the paper's, as `stand_ins.json` says."""

DATASETS: tuple[str, ...] = tuple(tomllib.loads(_FILES["workflow.toml"])["datasets"])
"""Its datasets, one of each family."""

_WORDS = (
    "harbour", "teacher", "river", "engine", "garden", "farmer", "bridge", "song", "letter", "window", "kitchen",
    "museum", "watches", "carries", "remembers", "repairs", "follows", "hides", "paints", "builds", "forgets", "slowly",
    "night", "valley", "spring", "island", "again", "care", "mountains", "market", "without", "every",
)  # fmt: skip


def make_text(documents: int) -> Iterator[str]:
    """Yield documents of made-up sentences, the same every time; each keeps to its few words."""
    draw = random.Random(0)
    for _ in range(documents):
        few = draw.choices(_WORDS, k=8)
        sentences = (draw.choices(few, k=6) for _ in range(draw.randrange(4, 12)))
        yield " ".join(f"{' '.join(words)}.".capitalize() for words in sentences)


def write_tiny_study(folder: Path) -> Path:
    """Write documents, `study.toml`, `workflow.toml` and `stand_ins.json` into a folder; return the settings' path.

    Files that are there with the same content are left alone, so that nothing looks newer than it is.
    """
    text = "".join(f'{{"text": "{document}"}}\n' for document in make_text(600))
    for name, content in {"text.jsonl": text, **_FILES}.items():
        path = folder / name
        if not path.is_file() or path.read_text("utf-8") != content:
            write_text(path, content)
    return folder / "workflow.toml"
