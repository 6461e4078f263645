"""Where each of the twelve is on its hub: repositories, commits, files.

A commit is named here where it is publicly recorded and could be checked against independent records. For the
others, the authors' own copies, none is: the first fetch finds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.hub_files import Pin

__all__ = ["PINS"]

CONVERTED = "refs/convert/parquet"
"""The hub's own conversion of a repository to Parquet."""

_GLUE = "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c"
_SQUAD = "7b6d24c440a36b6815f21b70d25016731768db1f"
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


_TRAIN, _VALIDATION, _TEST = ("train",), ("valid", "dev"), ("test",)

PINS: dict[str, tuple[Pin, ...]] = {
    "sst2": _whole("nyu-mll/glue", _GLUE, "sst2"),
    "qqp": _whole("nyu-mll/glue", _GLUE, "qqp"),
    "mnli_m": _whole("nyu-mll/glue", _GLUE, "mnli", "validation_matched"),
    "ontonotes": _authors("hgissbkh/ontonotes5", train=_TRAIN, validation=_VALIDATION, test=_TEST),
    "conll2003_en": _authors("hgissbkh/conll2003-en", train=_TRAIN, validation=_VALIDATION, test=_TEST),
    "uner_en": _authors("hgissbkh/uner_en", train=_TRAIN, validation=_VALIDATION, test=_TEST),
    "squad": _whole("rajpurkar/squad", _SQUAD, "plain_text"),
    "squad_v2": _whole("rajpurkar/squad_v2", _SQUAD_V2, "squad_v2"),
    "record": _authors("hgissbkh/record", train=_TRAIN, validation=_VALIDATION),
    "nq": (
        *_pinned("BeIR/nq", _NQ, _NQ_HASHES, queries="queries/*.parquet", corpus="corpus/*.parquet"),
        *_pinned("BeIR/nq-qrels", _NQ_QRELS, _NQ_HASHES, test="test.tsv"),
    ),
    "msmarco": (
        *_authors("hgissbkh/msmarco-pairs", train=_TRAIN),
        *_pinned(
            "BeIR/msmarco", _MSMARCO, _MSMARCO_HASHES, queries="queries/*.parquet", corpus="corpus/*.parquet"
        ),
        *_pinned(
            "BeIR/msmarco-qrels", _MSMARCO_QRELS, _MSMARCO_HASHES, validation="dev.tsv", test="test.tsv"
        ),
    ),
    "mldr_en": _authors("hgissbkh/mldr-en", validation=_VALIDATION, test=_TEST, corpus=("corpus",)),
}
"""The pins of each dataset."""
