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

    The same arguments give the same rows. The examples of a split are drawn without regard to those of other splits.

    Raises:
        UserError: a size is too small to be split.
    """
    if train < 1 or evaluation < 2:
        raise UserError(
            "a synthetic dataset needs at least 1 training and 2 evaluation examples"
        )

    # Each of the paper's datasets has random numbers of its own; all datasets of one's own share a number.
    name_seed = len(DATASETS)
    if dataset.name in DATASETS:
        name_seed = list(DATASETS).index(dataset.name)
    rng = np.random.default_rng([seed, name_seed])
    labels = dataset.label_names
    if dataset.task == "IR":
        tables = _retrieval(dataset, train, evaluation, rng)
    else:
        # Each of the paper's twelve datasets has the local form of its task's name, so that here the task names
        # the grammar and the form. Datasets of one's own with several labels or values have forms of other names;
        # `clm-or-mlm synthetic` makes only the twelve.
        draw = GRAMMARS[dataset.task]
        sizes = (train, evaluation, evaluation)
        tables = {}
        for split, size in zip(SPLIT_TABLES, sizes, strict=True):
            rows = []
            for number in range(size):
                fields = draw(dataset, labels, rng)
                rows.append({"id": f"{split}-{number}", **fields})
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
    """Write a made-up dataset under `data` in place of the named one, and return its manifest.

    The arguments are those of `synthetic`; `replace` overwrites a dataset of another content.
    """
    dataset = get_dataset(dataset)
    # The manifest takes licence and citation from the dataset's entry.
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


def _pick_two(rng: np.random.Generator, words: Sequence[str]) -> tuple[str, str]:
    """Return two different words."""
    first, second = rng.choice(len(words), size=2, replace=False)
    return words[first], words[second]


def _classification_row(
    dataset: Dataset, labels: tuple[str, ...], rng: np.random.Generator
) -> Row:
    """Return a text or a pair of texts, and a label that follows from their words."""
    label = int(rng.integers(len(labels)))
    thing, other_thing = _pick_two(rng, _THINGS)
    name, colour = _pick_word(rng, _NAMES), _pick_word(rng, _COLOURS)
    if dataset.name == "mnli_m":
        premise = f"{name} bought the {colour} {thing}."
        # In the order of the dataset's labels: entailment, neutral, contradiction.
        hypotheses = (
            f"{name} owns a {thing} now.",
            f"{name} bought it in {_pick_word(rng, _CITIES)}.",
            f"Nobody bought a {thing}.",
        )
        return {"first": premise, "second": hypotheses[label], "label": label}

    if dataset.name == "qqp":
        # Label 1 is a duplicate: a question about the same thing.
        second_thing = thing if label else other_thing
        return {
            "first": f"How do I paint a {thing}?",
            "second": f"What is the way to paint a {second_thing}?",
            "label": label,
        }

    # Each label has adjectives that no other label has: every n-th word for n labels; for two, the bad or the good.
    adjectives = (_BAD + _GOOD)[label :: len(labels)]
    if len(labels) <= 2:
        adjectives = (_BAD, _GOOD)[label]
    judgement = f"the {thing} was {_pick_word(rng, adjectives)}"
    parts = [judgement, f"said {name}", _pick_word(rng, _FILLERS)]
    return {"first": " ".join(parts), "second": None, "label": label}


def _tagging_row(
    dataset: Dataset, labels: tuple[str, ...], rng: np.random.Generator
) -> Row:
    """Return a sentence with none to three entities of one or two words, and the id of each word's IOB2 tag."""
    # Types of entities: the labels B-PER and I-PER are both of the type PER.
    kinds = sorted({label[2:] for label in labels if label != "O"})
    words: list[str] = []
    tags: list[str] = []
    for kind in rng.choice(kinds, size=int(rng.integers(0, 4))):
        filler = _pick_word(rng, _FILLERS).split()
        outside = [*filler, "about", "the", _pick_word(rng, _THINGS), "of"]
        words += outside
        tags += ["O"] * len(outside)

        # A word tells its tag, so that a model can learn it: `Personan3` is B-PERSON, `Person5` is I-PERSON.
        name = f"{kind[0]}{kind[1:].lower().replace('_', '')}"
        for position in range(int(rng.integers(1, 3))):
            is_first_word = position == 0
            ending = "an" if is_first_word else ""
            words.append(f"{name}{ending}{int(rng.integers(8))}")
            tags.append(f"B-{kind}" if is_first_word else f"I-{kind}")

    words.append(".")
    tags.append("O")
    # A dataset of one's own may have labels of another scheme than IOB2: O stands for a tag that is not among them.
    outside_id = labels.index("O")
    ids = [labels.index(tag) if tag in labels else outside_id for tag in tags]
    return {"words": words, "tags": ids}


def _answering_row(
    dataset: Dataset, labels: tuple[str, ...], rng: np.random.Generator
) -> Row:
    """Return a question, a context of three facts, and the answer where there is one."""
    names = [_NAMES[i] for i in rng.choice(len(_NAMES), size=4, replace=False)]
    cities = [_CITIES[i] for i in rng.choice(len(_CITIES), size=3, replace=False)]
    # Four names, three cities: the fourth name lives nowhere, which gives a question without an answer.
    pairs = zip(names, cities, strict=False)
    facts = [f"{name} lives in {city}." for name, city in pairs]
    context = " ".join(facts)
    fact = int(rng.integers(3))
    if dataset.may_abstain and rng.random() < 1 / 3:
        return {
            "question": f"Where does {names[3]} live?",
            "context": context,
            "answers": [],
        }

    name, city = names[fact], cities[fact]
    question, answer = f"Where does {name} live?", city
    # ReCoRD's questions are sentences with a gap.
    if dataset.name == "record":
        question, answer = f"@placeholder is at home in {city}.", name
    gold = {"text": answer, "start": context.index(answer)}
    return {"question": question, "context": context, "answers": [gold]}


def _topics(rng: np.random.Generator) -> Iterator[tuple[str, str, str]]:
    """Yield all (colour, thing, city) triples in a random order, and then all of them again in another, without end."""
    count = len(_COLOURS) * len(_THINGS) * len(_CITIES)
    while True:
        for number in rng.permutation(count):
            # Each triple has a number, whose digits are the places of its words in the three lists.
            rest, city = divmod(int(number), len(_CITIES))
            colour, thing = divmod(rest, len(_THINGS))
            yield _COLOURS[colour], _THINGS[thing], _CITIES[city]


def _document(topic: tuple[str, str, str], long: bool, rng: np.random.Generator) -> str:
    """Return a sentence about a topic; a long document hides it among 60 sentences about nothing."""
    colour, thing, city = topic
    answer = f"{_pick_word(rng, _NAMES)} found the {colour} {thing} in {city}."
    if not long:
        return answer
    sentences = []
    for _ in range(60):
        name, quality = _pick_word(rng, _NAMES), _pick_word(rng, _GOOD + _BAD)
        sentences.append(f"{name} was {quality} {_pick_word(rng, _FILLERS)}.")
    sentences.insert(int(rng.integers(len(sentences))), answer)
    return " ".join(sentences)


def _retrieval(
    dataset: Dataset, train: int, evaluation: int, rng: np.random.Generator
) -> dict[str, pa.Table]:
    """Return the tables of a retrieval set: for each query of a split, a document of its own that answers it."""
    topics = _topics(rng)
    # As in the paper's sets: MLDR's documents are long, and NQ's have titles.
    long, titled = dataset.name == "mldr_en", dataset.name == "nq"
    queries: list[Row] = []
    qrels: list[Row] = []
    corpus: list[Row] = []
    for split in SCORED_SPLITS:
        for number in range(evaluation):
            topic = next(topics)
            query, doc = f"{split}-q{number}", f"{split}-d{number}"
            queries.append({"split": split, "id": query, "text": _question(topic)})
            # A topic is a colour, a thing and a city: the city is the title.
            title = topic[2] if titled else None
            text = _document(topic, long, rng)
            corpus.append({"id": doc, "title": title, "text": text})
            # Relevant in one of the grades 1 to 3, as TREC's judgements have them.
            qrel = {
                "split": split,
                "query_id": query,
                "doc_id": doc,
                "relevance": int(rng.integers(1, 4)),
            }
            qrels.append(qrel)

            # MS MARCO is tested with TREC's judgements, which also name documents that do not answer a query:
            # here the document of the query before.
            if dataset.name == "msmarco" and number:
                before = f"{split}-d{number - 1}"
                qrels.append({**qrel, "doc_id": before, "relevance": 0})

    rows_of_tables = {"queries": queries, "corpus": corpus, "qrels": qrels}
    tables = {name: table("IR", name, rows) for name, rows in rows_of_tables.items()}
    # Of the paper's retrieval sets only MS MARCO is trained on; NQ and MLDR are only evaluated.
    if dataset.trained_on == dataset.name:
        # Topics and documents come from one generator, so the order of drawing decides the bytes: all topics first.
        train_topics = [next(topics) for _ in range(train)]
        rows = []
        for topic in train_topics:
            positive = _document(topic, long, rng)
            rows.append({"query": _question(topic), "positive": positive})
        tables["pairs"] = table("IR", "pairs", rows)

    return tables


def _question(topic: tuple[str, str, str]) -> str:
    return f"where is the {topic[0]} {topic[1]} of {topic[2]}"


Example = Callable[[Dataset, tuple[str, ...], np.random.Generator], Row]
"""A function that makes up a row, without its id, for a dataset with these labels."""

GRAMMARS: dict[str, Example] = {
    "SC": _classification_row,
    "TC": _tagging_row,
    "QA": _answering_row,
}
"""The function that makes up rows, by task; retrieval has tables of its own (`_retrieval`)."""
