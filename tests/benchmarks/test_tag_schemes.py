"""Entities are the same in every scheme of tags; seqeval is the oracle where it knows the scheme."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import BILOU, IOB1, IOB2, IOBES, IOE1, IOE2, Entities

from benchmarks.datasets.readers.ner import tag_rows
from benchmarks.metrics.metric import METRICS, TagPredictions
from benchmarks.ragged import Ragged
from benchmarks.tag_schemes import tag_parts, to_iob2
from tests.benchmarks.datasets.readers.originals import defined, inputs_of, putter

KINDS = ("A", "B-x", "\u00e9")
IOB2_TAGS = ("O", *(f"{letter}-{kind}" for kind in KINDS for letter in "BI"))
ORACLES = {
    "IOB1": IOB1,
    "IOB2": IOB2,
    "IOE1": IOE1,
    "IOE2": IOE2,
    "IOBES": IOBES,
    "BILOU": BILOU,
}
LETTERS = {
    "IOBES": "SBIE",
    "BILOU": "UBIL",
    "BMES": "SBME",
    "BMEW": "WBME",
    "IOB2": "BBII",
    "IOE2": "EIIE",
}
"""Letters of an entity's only, first, inner and last word."""

entities = st.lists(
    st.tuples(st.sampled_from(("", *KINDS)), st.integers(1, 4)), max_size=6
)
"""Types, empty for words outside, and lengths."""


def written(sentence: list[tuple[str, int]], scheme: str) -> list[str]:
    tags: list[str] = []
    for place, (kind, length) in enumerate(sentence):
        before = sentence[place - 1][0] if place else ""
        after = sentence[place + 1][0] if place + 1 < len(sentence) else ""
        if scheme == "IOB1":
            letters = ("B" if kind == before else "I") + "I" * (length - 1)
        elif scheme == "IOE1":
            letters = "I" * (length - 1) + ("E" if kind == after else "I")
        else:
            only, first, inner, last = LETTERS[scheme]
            letters = only if length == 1 else first + inner * (length - 2) + last
        tags += [f"{letter}-{kind}" if kind else "O" for letter in letters]
    return tags


@given(
    st.lists(entities, min_size=1, max_size=4),
    st.sampled_from(["IOB1", "IOE1", *LETTERS]),
)
def test_every_scheme_is_read_and_counted_as_iob2(
    tmp_path_factory: pytest.TempPathFactory,
    text: list[list[tuple[str, int]]],
    scheme: str,
) -> None:
    text = [sentence for sentence in text if sentence] or [[("", 1)]]
    expected = [written(sentence, "IOB2") for sentence in text]
    given_tags = [written(sentence, scheme) for sentence in text]
    names = tuple(dict.fromkeys(["O", *(tag for tags in given_tags for tag in tags)]))
    parts = tag_parts(names)
    assert [to_iob2(tags, parts) for tags in given_tags] == expected
    if scheme in ORACLES:
        spans = Entities(given_tags, ORACLES[scheme]).entities
        assert [
            sorted((one.start, one.end, one.tag) for one in line) for line in spans
        ] == [
            sorted((start, end + 1, kind) for kind, start, end in get_entities(tags))
            for tags in expected
        ]

    folder = Path(tmp_path_factory.mktemp("tags"))
    lines = [
        "".join(f"w\u00a0{n}\t{tag}\n" for n, tag in enumerate(tags))
        for tags in given_tags
    ]
    rows = [{"words": ["w"] * len(tags), "tags": tags} for tags in given_tags]
    for path in (
        putter(folder)("x.bio", "\n".join(lines)),
        putter(folder)("x.jsonl", rows),
    ):
        read = tag_rows(path, inputs_of(defined("tags", labels=list(IOB2_TAGS))))
        assert [[IOB2_TAGS[tag] for tag in row["tags"]] for row in read] == expected

    ids = [[names.index(tag) for tag in tags] for tags in given_tags]
    flat = np.array([tag for tags in ids for tag in tags])
    made = TagPredictions(
        tokens=flat, words=np.arange(len(flat)), gold=Ragged.of(ids), names=names
    )
    score = METRICS["standard TC entity_f1"].compute(made)
    assert score.instances["entities_right"] == score.instances["entities_gold"]
    assert score.instances["entities_gold"] == [
        sum(kind != "" for kind, _ in one) for one in text
    ]


@given(
    st.lists(
        st.sampled_from(["O", "B-A", "I-A", "E-A", "S-A", "B-B", "I-B", "E-B", "S-B"])
    )
)
def test_any_tags_have_the_entities_that_seqeval_finds(tags: list[str]) -> None:
    """Predicted ones, too, which keep to no scheme."""
    assert get_entities(
        to_iob2(tags, tag_parts([*tags, "B-A", "I-A"]))
    ) == get_entities(tags)


@pytest.mark.parametrize(
    ("tags", "iob2"),
    [
        (["PER", "PER", "ORG", "O", "ORG"], ["B-PER", "I-PER", "B-ORG", "O", "B-ORG"]),
        (["M", "F", "M"], ["B-M", "B-F", "B-M"]),
        (["S", "B", "M", "E"], ["B", "B", "I", "I"]),
        (["U-LOC", "U-LOC", "L-LOC", "I-LOC", "B-LOC"], ["B-LOC"] * 5),
    ],
)
def test_tags_by_hand(tags: list[str], iob2: list[str]) -> None:
    assert to_iob2(tags, tag_parts(tags)) == iob2
    assert to_iob2(["O", *tags], tag_parts(["O", *tags])) == ["O", *iob2]


@pytest.mark.parametrize(
    "tags", [["B-PER", "ORG"], ["B-PER", "U-PER", "S-PER"], ["PER-B", "B-PER"]]
)
def test_two_schemes_are_refused(tags: list[str]) -> None:
    with pytest.raises(ValueError, match="of no one scheme"):
        tag_parts(tags)
