"""Small made-up datasets of all four families in the local form: for tests, and for the smallest toy study.

Sentences come from small seeded grammars, so that a tiny model can learn them in a minute and nothing has to be
downloaded. Their scores show that everything runs, and say nothing about a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace as replace_fields
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.datasets.local_dataset import DatasetContent, table, write_dataset
from benchmarks.datasets.schema import SPLIT_TABLES, Manifest, Row
from benchmarks.protocol import DATASETS, Dataset, get_dataset
from benchmarks.runs import SCORED_SPLITS
from common.errors import UserError

_NAMES = [
    "Ada",
    "Boris",
    "Clara",
    "Dmitri",
    "Elena",
    "Farid",
    "Greta",
    "Hugo",
    "Ines",
    "Jonas",
    "Kira",
    "Luca",
]
_CITIES = [
    "Lyon",
    "Porto",
    "Riga",
    "Turin",
    "Ghent",
    "Basel",
    "Malmo",
    "Split",
    "Oulu",
    "Graz",
    "Brno",
    "Cork",
]
_THINGS = [
    "bridge",
    "engine",
    "garden",
    "letter",
    "mirror",
    "novel",
    "organ",
    "planet",
    "river",
    "saddle",
    "tower",
]
_GOOD = ["lovely", "brilliant", "charming", "superb", "moving", "witty"]
_BAD = ["dreadful", "boring", "clumsy", "awful", "tedious", "dull"]
_COLOURS = ["red", "green", "white", "black", "silver", "golden", "amber", "violet"]
_FILLERS = (
    "as people say",
    "after all",
    "on the whole",
    "for once",
    "in the end",
    "this time",
)


def synthetic(
    dataset: Dataset, *, train: int = 512, evaluation: int = 96, seed: int = 0
) -> DatasetContent:
    """Return a made-up dataset with `train` examples to train on and `evaluation` in each of the other splits.

    The same arguments give the same rows; splits are drawn independently of each other.

    Raises:
        UserError: a size is too small to be split.
    """
    if train < 1 or evaluation < 2:
        raise UserError(
            "a synthetic dataset needs at least 1 training and 2 evaluation examples"
        )
    name_seed = len(DATASETS)
    if dataset.name in DATASETS:
        name_seed = list(DATASETS).index(dataset.name)
    rng = np.random.default_rng([seed, name_seed])
    labels = dataset.label_names
    if dataset.task == "IR":
        tables = _retrieval(dataset, train, evaluation, rng)
    else:
        draw = GRAMMARS[dataset.task]
        sizes = (train, evaluation, evaluation)
        tables = {}
        for split, size in zip(SPLIT_TABLES, sizes, strict=True):
            rows = []
            for number in range(size):
                drawn = draw(dataset, labels, rng)
                rows.append({"id": f"{split}-{number}", **drawn})
            tables[split] = table(dataset.task, split, rows)
    note = "made up by benchmarks.datasets.synthetic: scores on it say nothing about a model"
    return DatasetContent(tables=tables, splits="drawn independently", notes=(note,))


def make_synthetic(
    data: Path,
    dataset: Dataset | str,
    *,
    train: int = 512,
    evaluation: int = 96,
    seed: int = 0,
    replace: bool = False,
) -> Manifest:
    """Write the made-up form of a dataset under `data` and return its manifest."""
    dataset = get_dataset(dataset)
    files = replace_fields(
        dataset.files, licence="made up, free to use", citation="none"
    )
    made_up = replace_fields(dataset, files=files)
    content = synthetic(dataset, train=train, evaluation=evaluation, seed=seed)
    source = {
        "kind": "synthetic",
        "seed": seed,
        "train": train,
        "evaluation": evaluation,
        "files": [],
    }
    return write_dataset(data, made_up, content, source=source, replace=replace)


def _pick_word(rng: np.random.Generator, words: Sequence[str]) -> str:
    """Return one of the words, each as likely as the others."""
    return words[int(rng.integers(len(words)))]


def _two(rng: np.random.Generator, words: Sequence[str]) -> tuple[str, str]:
    first, second = rng.choice(len(words), size=2, replace=False)
    return words[first], words[second]


def _classified(
    dataset: Dataset, labels: tuple[str, ...], rng: np.random.Generator
) -> Row:
    label = int(rng.integers(len(labels)))
    thing, other = _two(rng, _THINGS)
    name, colour = _pick_word(rng, _NAMES), _pick_word(rng, _COLOURS)
    if dataset.name == "mnli_m":
        first = f"{name} bought the {colour} {thing}."
        second = (
            f"{name} owns a {thing} now.",
            f"{name} bought it in {_pick_word(rng, _CITIES)}.",
            f"Nobody bought a {thing}.",
        )
        return {"first": first, "second": second[label], "label": label}
    if dataset.name == "qqp":
        asked = thing if label else other
        return {
            "first": f"How do I paint a {thing}?",
            "second": f"What is the way to paint a {asked}?",
            "label": label,
        }
    words = (_BAD + _GOOD)[label :: len(labels)]
    if len(labels) <= 2:
        words = (_BAD, _GOOD)[label]
    judged = f"the {thing} was {_pick_word(rng, words)}"
    parts = [judged, f"said {name}", _pick_word(rng, _FILLERS)]
    return {"first": " ".join(parts), "second": None, "label": label}


def _tagged(dataset: Dataset, labels: tuple[str, ...], rng: np.random.Generator) -> Row:
    kinds = sorted({label[2:] for label in labels if label != "O"})
    words: list[str] = []
    tags: list[str] = []
    for kind in rng.choice(kinds, size=int(rng.integers(0, 4))):
        filler = _pick_word(rng, _FILLERS).split()
        outside = [*filler, "about", "the", _pick_word(rng, _THINGS), "of"]
        words += outside
        tags += ["O"] * len(outside)
        # A word tells its tag, so that it can be learnt: `Personan3` is B-PERSON, `Person5` is I-PERSON.
        name = f"{kind[0]}{kind[1:].lower().replace('_', '')}"
        for position in range(int(rng.integers(1, 3))):
            ending = "" if position else "an"
            words.append(f"{name}{ending}{int(rng.integers(8))}")
            tags.append(f"I-{kind}" if position else f"B-{kind}")
    words.append(".")
    tags.append("O")
    outside_id = labels.index("O")
    ids = [labels.index(tag) if tag in labels else outside_id for tag in tags]
    return {"words": words, "tags": ids}


def _asked(dataset: Dataset, labels: tuple[str, ...], rng: np.random.Generator) -> Row:
    names = [_NAMES[i] for i in rng.choice(len(_NAMES), size=4, replace=False)]
    cities = [_CITIES[i] for i in rng.choice(len(_CITIES), size=3, replace=False)]
    # Four names, three cities: the fourth name lives nowhere, which gives a question without an answer.
    pairs = zip(names, cities, strict=False)
    facts = [f"{name} lives in {city}." for name, city in pairs]
    context = " ".join(facts)
    chosen = int(rng.integers(3))
    if dataset.may_abstain and rng.random() < 1 / 3:
        return {
            "question": f"Where does {names[3]} live?",
            "context": context,
            "answers": [],
        }
    name, city = names[chosen], cities[chosen]
    question, answer = f"Where does {name} live?", city
    # ReCoRD's questions are sentences with a gap.
    if dataset.name == "record":
        question, answer = f"@placeholder is at home in {city}.", name
    gold = {"text": answer, "start": context.index(answer)}
    return {"question": question, "context": context, "answers": [gold]}


def _topics(rng: np.random.Generator) -> Iterator[tuple[str, str, str]]:
    """Yield distinct (colour, thing, city) triples in a random order, and after all of them the same again."""
    count = len(_COLOURS) * len(_THINGS) * len(_CITIES)
    while True:
        for number in rng.permutation(count):
            rest, city = divmod(int(number), len(_CITIES))
            colour, thing = divmod(rest, len(_THINGS))
            yield _COLOURS[colour], _THINGS[thing], _CITIES[city]


def _document(topic: tuple[str, str, str], long: bool, rng: np.random.Generator) -> str:
    colour, thing, city = topic
    core = f"{_pick_word(rng, _NAMES)} found the {colour} {thing} in {city}."
    if not long:
        return core
    around = []
    for _ in range(60):
        name, quality = _pick_word(rng, _NAMES), _pick_word(rng, _GOOD + _BAD)
        around.append(f"{name} was {quality} {_pick_word(rng, _FILLERS)}.")
    around.insert(int(rng.integers(len(around))), core)
    return " ".join(around)


def _retrieval(
    dataset: Dataset, train: int, evaluation: int, rng: np.random.Generator
) -> dict[str, pa.Table]:
    topics = _topics(rng)
    long, titled = dataset.name == "mldr_en", dataset.name == "nq"
    queries: list[Row] = []
    qrels: list[Row] = []
    corpus: list[Row] = []
    for split in SCORED_SPLITS:
        for number in range(evaluation):
            topic = next(topics)
            query, doc = f"{split}-q{number}", f"{split}-d{number}"
            queries.append({"split": split, "id": query, "text": _question(topic)})
            title = topic[2] if titled else None
            text = _document(topic, long, rng)
            corpus.append({"id": doc, "title": title, "text": text})
            qrel = {
                "split": split,
                "query_id": query,
                "doc_id": doc,
                "relevance": int(rng.integers(1, 4)),
            }
            qrels.append(qrel)
            # TREC's judgements also name documents that do not answer a query.
            if dataset.name == "msmarco" and number:
                before = f"{split}-d{number - 1}"
                qrels.append({**qrel, "doc_id": before, "relevance": 0})
    found = {"queries": queries, "corpus": corpus, "qrels": qrels}
    tables = {name: table("IR", name, rows) for name, rows in found.items()}
    if dataset.trained_on == dataset.name:
        # All topics are drawn first: documents come from the same generator, and would change later topics.
        sampled = [next(topics) for _ in range(train)]
        rows = []
        for topic in sampled:
            positive = _document(topic, long, rng)
            rows.append({"query": _question(topic), "positive": positive})
        tables["pairs"] = table("IR", "pairs", rows)
    return tables


def _question(topic: tuple[str, str, str]) -> str:
    return f"where is the {topic[0]} {topic[1]} of {topic[2]}"


Example = Callable[[Dataset, tuple[str, ...], np.random.Generator], Row]
"""Makes a row up, without its id, for a dataset with these labels."""

GRAMMARS: dict[str, Example] = {"SC": _classified, "TC": _tagged, "QA": _asked}
"""How the rows of each task but retrieval are made up."""
