"""Made-up text for a miniature without data: sentences that agree in number, and references over a distance.

A document has a small cast. Verbs agree with subjects across a relative clause, a character's home is stated once and
asked for later, and between such sentences stand unlabelled inputs of the made-up tasks, so that pretraining
sees the words that the tasks use. The tasks' own examples come from other draws.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.datasets.synthetic import synthetic
from benchmarks.protocol import get_dataset
from miniature.forms import FAMILIES

__all__ = ["documents", "jsonl"]

_PEOPLE = ("teacher", "farmer", "painter", "sailor", "doctor", "singer")
_THINGS = ("bridge", "engine", "garden", "letter", "mirror", "tower")
_VERBS = (
    ("watches", "watch"),
    ("carries", "carry"),
    ("repairs", "repair"),
    ("hides", "hide"),
    ("paints", "paint"),
)
_TOWNS = ("Lyon", "Porto", "Riga", "Turin", "Ghent", "Basel")


def documents(count: int, seed: int = 0) -> Iterator[str]:
    """Yield made-up documents; the same arguments give the same text."""
    rng = np.random.default_rng([seed, 7])
    # Another seed than the tasks' own examples have.
    texts = _task_texts(count, seed + 1)
    for _ in range(count):
        cast = [(_pick(rng, _PEOPLE), _pick(rng, _TOWNS)) for _ in range(3)]
        sentences = [f"The {person} lives in {town}." for person, town in cast]
        for _ in range(int(rng.integers(3, 7))):
            sentences.append(_agreeing(rng, [person for person, _ in cast]))
            sentences.append(texts[int(rng.integers(len(texts)))])
        person, town = cast[int(rng.integers(3))]
        sentences.append(f"The {person} goes home to {town}.")
        yield " ".join(sentences)


def jsonl(count: int, seed: int = 0) -> str:
    """Return the documents as JSON lines with the key `text`."""
    return "".join(json.dumps({"text": text}) + "\n" for text in documents(count, seed))


def _agreeing(rng: np.random.Generator, cast: Sequence[str]) -> str:
    plural = int(rng.integers(2))
    subject = _pick(rng, cast) + "s" * plural
    # The noun in between has the other number: agreement needs the subject, not the nearest noun.
    between = f"near the {_pick(rng, _THINGS)}{'' if plural else 's'} "
    verb = _VERBS[int(rng.integers(len(_VERBS)))][plural]
    return f"The {subject} {between}{verb} the {_pick(rng, _THINGS)}."


def _task_texts(count: int, seed: int) -> list[str]:
    found = []
    size = min(max(count, 16), 2_000)
    for name in FAMILIES.values():
        content = synthetic(get_dataset(name), train=size, evaluation=size // 4 + 2, seed=seed)
        for table in content.tables.values():
            for column in ("first", "context", "text", "words"):
                if column in table.column_names:
                    values = table[column].to_pylist()
                    found += [" ".join(value) if isinstance(value, list) else value for value in values]
    return found


def _pick(rng: np.random.Generator, words: Sequence[str]) -> str:
    return words[int(rng.integers(len(words)))]
