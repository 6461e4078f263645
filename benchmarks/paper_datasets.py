"""The paper's twelve datasets: how they are split, labelled and scored, and where they are on their hub.

A commit is named here where it is publicly recorded and could be checked against independent records. For the
others, the authors' own copies, none is: the first fetch finds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks.dataset import Dataset, Pin
from common.registry import Registry

__all__ = ["DATASETS"]

CONVERTED = "refs/convert/parquet"
"""The hub's own conversion of a repository to Parquet."""

_GLUE_COMMIT = "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c"
_SQUAD_COMMIT = "7b6d24c440a36b6815f21b70d25016731768db1f"
_SQUAD_V2 = "3ffb306f725f7d2ce8394bc1873b24868140c412"
_MSMARCO = "a918e0d11a77ed33f42f29d98340b655593b96ad"
_MSMARCO_QRELS = "253fbf8a3f8d4a0932b63882b5162bedc84779f5"
_NQ = "b7253e6c379163d024ddb1d6948152a91a2e3b46"
_NQ_QRELS = "519acd4e48bb3e5da22b2b888ce36c614f4f2bc9"

_HASHES = {
    "sst2/train": "66a253e67968acfabcbe49dbe9da964b42ac1c851c40ab760e8c8942efdb3229",
    "sst2/validation": "a1371f3b3a7b0bcefa8388799a9359dc3ce76c349cc0079507a7991364fd2a9b",
    "mnli/train": "49a4a5508b89b8fed2c6e81d2c47d00f4759050a7048c6cc5d95d31122ced3c1",
    "mnli/validation_matched": "7f918c09d9c35446b8e8f06a5672f8ab704e2897fecbf52e2e154141f3d7c421",
    "qqp/train": "4d6f02e643f7c36e9a4f7d4971a5ee9bd74063a319452fe6c87850c739774cd7",
    "qqp/validation": "efd86a539c412d74874ee451573d7bd142f56c47fe36de033b9f367d8bb0fa71",
    "squad_v2/train": "f6da32ffb482ff463ad056477740d1bb284b96a45db3a08bee6a225ca6abf291",
    "squad_v2/validation": "0560174ab095c5ac0a8c8dc8da05f1625453c45a77e4ce9cabc6947ddfdd24cb",
}
"""Of Parquet files in one piece, by folder and split."""

_MSMARCO_HASHES = {
    "corpus/corpus-00000-of-00001.parquet": "57d6fc19851d4a363fff8b3e9acb0b549d97d4b141bd2aedd1522149dfeb8bd6",
    "queries/queries-00000-of-00001.parquet": "9f43da825b7788be9303603cc48ae21705da7a75e4a69e6121af56e25b34cdd6",
    "dev.tsv": "ec0a7d2ee847ce9196c5eae9471a3caff2206395cd5c145dade2e242a02cf0f7",
}
_NQ_HASHES = {
    "corpus/corpus-00000-of-00001.parquet": "b7e8d5a99cfe94a1a0f175e274ae6d8f33fe0630f1ab529cd8537e82bd0aaa9e",
    "queries/queries-00000-of-00001.parquet": "c8f54a071a7e9efa95f65251e0a9e9f74ca232120b67d05dff6952900ebf51ce",
    "test.tsv": "6df0cd2cbbe88504b64c68f21e946a759b62c4d864225720cec256f0196e2210",
}


def _pinned(repo: str, commit: str, hashes: Mapping[str, str], **files: str) -> tuple[Pin, ...]:
    """Return the pins of one file, or one pattern, a role."""
    return tuple(
        Pin(role=role, repo=repo, commit=commit, files=(file,), sha256=hashes) for role, file in files.items()
    )


def _whole(repo: str, commit: str, folder: str, validation: str = "validation") -> tuple[Pin, ...]:
    """Return the pins of a folder with one Parquet file a split."""
    piece = "{}-00000-of-00001.parquet"
    hashes = {piece.format(part): known for part, known in _HASHES.items()}
    train, official = (piece.format(f"{folder}/{split}") for split in ("train", validation))
    return _pinned(repo, commit, hashes, train=train, validation=official)


def _authors(repo: str, **splits: Sequence[str]) -> tuple[Pin, ...]:
    """Return pins for an authors' copy of unknown layout: the usual places of a split, then the hub's conversion."""
    forms = ("{0}*.parquet", "*/{0}*.parquet", CONVERTED + ":*/{0}*/*.parquet", "{0}*.json*", "*/{0}*.json*")
    return tuple(
        Pin(role=role, repo=repo, files=tuple(form.format(name) for form in forms for name in names))
        for role, names in splits.items()
    )


_SPLITS = {"train": ("train",), "validation": ("valid", "dev"), "test": ("test",)}
_glue = partial(_whole, "nyu-mll/glue", _GLUE_COMMIT)

_UNER_TAGS = ("O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC")
_CONLL_TAGS = (*_UNER_TAGS, "B-MISC", "I-MISC")
_ONTONOTES_TAGS = (
    "O", "B-CARDINAL", "B-DATE", "I-DATE", "B-PERSON", "I-PERSON", "B-NORP", "B-GPE", "I-GPE", "B-LAW", "I-LAW",
    "B-ORG", "I-ORG", "B-PERCENT", "I-PERCENT", "B-ORDINAL", "B-MONEY", "I-MONEY", "B-WORK_OF_ART",
    "I-WORK_OF_ART", "B-FAC", "B-TIME", "I-CARDINAL", "B-LOC", "B-QUANTITY", "I-QUANTITY", "I-NORP", "I-LOC",
    "B-PRODUCT", "I-TIME", "B-EVENT", "I-EVENT", "I-FAC", "B-LANGUAGE", "I-PRODUCT", "I-ORDINAL", "I-LANGUAGE",
)  # fmt: skip
"""Order of the public copy with the columns and the 37 tags that the paper's code names."""

_GLUE = "Wang et al. 2019, GLUE: A Multi-Task Benchmark and Analysis Platform for NLU (ICLR)"


def _classes(name: str, *labels: str, citation: str, **rest: Any) -> Dataset:
    """Return one of GLUE's three."""
    return Dataset(
        name=name, task="SC", trained_on=name, labels=len(labels), label_names=labels,
        citation=f"{citation}; {_GLUE}", **rest,
    )  # fmt: skip


def _tags(name: str, repo: str, tags: tuple[str, ...], **rest: Any) -> Dataset:
    return Dataset(
        name=name, task="TC", trained_on=name, labels=len(tags), label_names=tags, as_published=True,
        pins=_authors(repo, **_SPLITS), **rest,
    )  # fmt: skip


def _answers(name: str, **rest: Any) -> Dataset:
    return Dataset(name=name, task="QA", trained_on=name, labels=2, **rest)


def _ranked(name: str, **rest: Any) -> Dataset:
    return Dataset(name=name, task="IR", trained_on="msmarco", labels=None, **rest)


DATASETS: Registry[Dataset] = Registry(
    "dataset",
    (
        _classes(
            "sst2", "negative", "positive",
            title="SST-2",
            columns={"text": ("sentence", "text", "text_a"), "label": ("label",)},
            originals="train.tsv and dev.tsv of GLUE's SST-2",
            pins=_glue("sst2"),
            counts={"train": 63_981, "validation": 3_368, "test": 872},
            licence="not stated; research use",
            citation="Socher et al. 2013, Recursive Deep Models for Semantic Compositionality (EMNLP)",
        ),
        _classes(
            "qqp", "not_duplicate", "duplicate",
            title="QQP",
            segments=("Question 1", "Question 2"),
            also=("f1",),
            columns={"text": ("question1", "text_a"), "second": ("question2", "text_b"),
                     "label": ("label", "is_duplicate")},
            originals="train.tsv and dev.tsv of GLUE's QQP",
            pins=_glue("qqp"),
            counts={"train": 345_653, "validation": 18_193, "test": 40_430},
            licence="Quora's terms of service, non-commercial; not to be passed on",
            citation="Iyer et al. 2017, First Quora Dataset Release: Question Pairs",
        ),
        _classes(
            "mnli_m", "entailment", "neutral", "contradiction",
            title="MNLI",
            segments=("Premise", "Hypothesis"),
            cluster="first",
            columns={"text": ("premise", "sentence1", "text_a"), "second": ("hypothesis", "sentence2", "text_b"),
                     "label": ("label", "gold_label")},
            originals="train.tsv and dev_matched.tsv of GLUE's MNLI",
            unwanted={"mismatched": "MNLI's mismatched part; the paper uses the matched one, leave it out"},
            pins=_glue("mnli", "validation_matched"),
            counts={"train": 373_066, "validation": 19_636, "test": 9_815},
            licence="OANC terms for most of it, CC BY 3.0, CC BY-SA 3.0 and others for the rest",
            citation="Williams et al. 2018, A Broad-Coverage Challenge Corpus for Sentence Understanding (NAACL)",
        ),
        _tags(
            "ontonotes", "hgissbkh/ontonotes5", _ONTONOTES_TAGS,
            title="OntoNotes",
            originals="train, development and test of OntoNotes 5 in CoNLL form (a file or a folder of *_gold_conll "
            "each)",
            counts={"train": 59_924, "validation": 8_528, "test": 8_262},
            licence="LDC User Agreement (LDC2013T19); not to be passed on",
            citation="Hovy et al. 2006, OntoNotes: The 90% Solution (NAACL); Pradhan et al. 2013 (CoNLL)",
        ),
        _tags(
            "conll2003_en", "hgissbkh/conll2003-en", _CONLL_TAGS,
            title="CoNLL",
            epochs=1,
            originals="eng.train, eng.testa and eng.testb of CoNLL-2003",
            counts={"train": 14_041, "validation": 3_250, "test": 3_453},
            licence="Reuters corpus terms, research use; not to be passed on",
            citation="Tjong Kim Sang and De Meulder 2003, Introduction to the CoNLL-2003 Shared Task (CoNLL)",
        ),
        _tags(
            "uner_en", "hgissbkh/uner_en", _UNER_TAGS,
            title="UNER",
            epochs=1,
            originals="en_ewt-ud-train.iob2, en_ewt-ud-dev.iob2 and en_ewt-ud-test.iob2 of UNER_English-EWT",
            counts={"train": 12_543, "validation": 2_001, "test": 2_077},
            licence="CC BY-SA 4.0",
            citation="Mayhew et al. 2024, Universal NER: A Gold-Standard Multilingual NER Benchmark (NAACL)",
        ),
        _answers(
            "squad",
            title="SQuAD",
            originals="train-v1.1.json and dev-v1.1.json of SQuAD",
            pins=_whole("rajpurkar/squad", _SQUAD_COMMIT, "plain_text"),
            counts={"train": 83_219, "validation": 4_380, "test": 10_570},
            licence="CC BY-SA 4.0",
            citation="Rajpurkar et al. 2016, SQuAD: 100,000+ Questions for Machine Comprehension of Text (EMNLP)",
        ),
        _answers(
            "squad_v2",
            title="SQuAD-v2",
            may_abstain=True,
            originals="train-v2.0.json and dev-v2.0.json of SQuAD",
            pins=_whole("rajpurkar/squad_v2", _SQUAD_V2, "squad_v2"),
            counts={"train": 123_803, "validation": 6_516, "test": 11_873},
            licence="CC BY-SA 4.0",
            citation="Rajpurkar et al. 2018, Know What You Don't Know: Unanswerable Questions for SQuAD (ACL)",
        ),
        _answers(
            "record",
            title="ReCoRD",
            reader="record",
            originals="train.jsonl and val.jsonl of SuperGLUE's ReCoRD",
            pins=_authors("hgissbkh/record", train=("train",), validation=("valid", "dev")),
            counts={"train": 95_693, "validation": 5_037, "test": 10_000},
            licence="not stated; text of CNN and Daily Mail, not to be passed on",
            citation="Zhang et al. 2018, ReCoRD: Bridging the Gap between Human and Machine Commonsense Reading "
            "Comprehension (arXiv 1810.12885)",
        ),
        _ranked(
            "nq",
            title="NQ",
            paired=False,
            originals="queries, corpus and test judgements of BEIR's NQ",
            pins=(
                *_pinned("BeIR/nq", _NQ, _NQ_HASHES, queries="queries/*.parquet", corpus="corpus/*.parquet"),
                *_pinned("BeIR/nq-qrels", _NQ_QRELS, _NQ_HASHES, test="test.tsv"),
            ),
            counts={"validation": 1_726, "test": 1_726},
            licence="CC BY-SA 3.0",
            citation="Kwiatkowski et al. 2019, Natural Questions (TACL); Thakur et al. 2021, BEIR (NeurIPS)",
        ),
        _ranked(
            "msmarco",
            title="MS MARCO",
            reader="msmarco",
            originals="training pairs, queries, corpus, and the dev and test judgements of BEIR's MS MARCO",
            pins=(
                *_authors("hgissbkh/msmarco-pairs", train=("train",)),
                *_pinned("BeIR/msmarco", _MSMARCO, _MSMARCO_HASHES, queries="queries/*.parquet",
                         corpus="corpus/*.parquet"),
                *_pinned("BeIR/msmarco-qrels", _MSMARCO_QRELS, _MSMARCO_HASHES, validation="dev.tsv",
                         test="test.tsv"),
            ),
            counts={"validation": 6_980, "test": 43},
            licence="MS MARCO terms, non-commercial research",
            citation="Bajaj et al. 2016, MS MARCO (arXiv 1611.09268); Craswell et al. 2020, TREC 2019 Deep Learning "
            "Track; Thakur et al. 2021, BEIR (NeurIPS)",
        ),
        _ranked(
            "mldr_en",
            title="MLDR",
            reader="mldr",
            originals="dev.jsonl and test.jsonl of MLDR English, and its corpus.jsonl",
            pins=_authors("hgissbkh/mldr-en", validation=("valid", "dev"), test=("test",), corpus=("corpus",)),
            counts={"validation": 200, "test": 800},
            licence="MIT for the set; its texts come from Wikipedia (CC BY-SA) and mC4",
            citation="Chen et al. 2024, BGE M3-Embedding (Findings of ACL)",
        ),
    ),
)  # fmt: skip
"""The paper's twelve by name, in the order of the columns of its tables. Those of one's own are handed on with them in
registries of their own (`benchmarks.own_datasets.definitions.known_datasets`); nothing is added here.
"""
