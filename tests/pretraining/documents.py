"""Small text of its own for the tests of this room, from a fixed grammar and seed."""

import json
from pathlib import Path

import numpy as np

_TEXT = (
    "the a one some old young small green house river dog teacher letter song bridge garden sees hears finds "
    "leaves loves forgets slowly often never today quietly in under behind near"
)
WORDS = tuple(_TEXT.split())


def make_documents(count: int, seed: int = 0, words: int = 60) -> list[str]:
    """Return `count` documents of about `words` words, all different."""
    generator = np.random.default_rng(seed)
    documents = []
    for number in range(count):
        size = int(generator.integers(words // 2, words * 2))
        # Neighbouring words depend on each other, so that there is something to learn.
        place, chosen = int(generator.integers(len(WORDS))), []
        for _ in range(size):
            place = (place * 7 + int(generator.integers(4))) % len(WORDS)
            chosen.append(WORDS[place])
        documents.append(f"{number}. {' '.join(chosen)}.")
    return documents


def write_jsonl(path: Path, documents: list[str]) -> Path:
    """Write the documents as JSON lines."""
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in documents))
    return path
