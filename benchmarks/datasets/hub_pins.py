"""Where each dataset is on its hub: repositories, pinned commits, files. Data, and the lock that completes it.

A commit is named here where it is publicly recorded and could be checked against independent records. For the
others, the authors' own copies, none is: the first fetch resolves the branch to a commit and writes it with the
files' hashes to `hub.lock.json` next to the datasets; later fetches, also on other machines that are given that
file, must find the same.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from benchmarks.own_datasets.definition_file import AT_FETCH, Definition
from common.errors import UserError
from common.files import write_text
from common.plain_text import visible
from common.reading import UnreadableError, inside, read_bounded, strict_json

__all__ = ["LOCK", "PINS", "LockedFile", "Pin", "add_pins", "choose", "read_lock", "write_lock"]

LOCK = "hub.lock.json"
"""Name of the lock, next to the datasets."""
_MOST = 1 << 24
"""Bytes of the largest lock that is read."""

MAIN, CONVERTED = "main", "refs/convert/parquet"
"""The branch of a repository, and the hub's own conversion of it to Parquet."""


@dataclass(frozen=True, kw_only=True)
class Pin:
    """The files of one role in one repository."""

    role: str
    """What they are to the dataset: a role of `benchmarks.datasets.readers.reader.ROLES`."""
    repo: str
    """Repository, `owner/name`."""
    commit: str | None = None
    """Pinned commit; None: unknown, resolved by the first fetch and locked."""
    files: Sequence[str]
    """Patterns of paths, the first that matches anything counts; `refs/convert/parquet:` before one names that
    branch instead of `main`."""
    sha256: Mapping[str, str] = field(default_factory=dict)
    """Known hashes by path."""

    def branches(self) -> tuple[str, ...]:
        """Return the branches that `files` names, in their order."""
        return tuple(dict.fromkeys(_branch(pattern)[0] for pattern in self.files))

    def takes(self, file: LockedFile) -> bool:
        """Return whether a file is one of those that are meant, whatever the commit."""
        globs = (_branch(pattern)[1] for pattern in self.files)
        place = (file.role, file.repo) == (self.role, self.repo)
        return place and any(fnmatch.fnmatchcase(file.path, glob) for glob in globs)


@dataclass(frozen=True, kw_only=True)
class LockedFile:
    """A file that was fetched, or is to be."""

    role: str
    """What it is to the dataset."""
    repo: str
    """Repository, `owner/name`."""
    revision: str
    """Commit."""
    path: str
    """Path in the repository."""
    bytes: int
    """Size."""
    sha256: str | None
    """Hash of the content; None until it is known."""

    def __post_init__(self) -> None:
        """Refuse what leads out of the folder of downloads or is no file of a hub, whoever wrote it."""
        for what, value, form in (
            ("role", self.role, r"[a-z_]{1,40}"),
            ("repo", self.repo, r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}"),
            ("revision", self.revision, r"[0-9a-f]{40}"),
            ("sha256", "0" * 64 if self.sha256 is None else self.sha256, r"[0-9a-f]{64}"),
        ):
            if not isinstance(value, str) or not re.fullmatch(form, value):
                raise UserError(f"the {what} {visible(repr(value))[:80]} of a hub's file is none")
        if not isinstance(self.path, str):
            raise UserError(f"the path {visible(repr(self.path))[:80]} of a hub's file is none")
        inside(Path(), self.path)
        if not isinstance(self.bytes, int) or isinstance(self.bytes, bool) or not 0 <= self.bytes < 1 << 50:
            raise UserError(f"the size {visible(repr(self.bytes))[:80]} of a hub's file is none")


def choose(pin: Pin, listings: Mapping[str, Iterable[str]]) -> tuple[str, list[str]]:
    """Return (branch, sorted paths) of the first pattern that matches.

    Args:
        pin: what is looked for.
        listings: paths by branch.

    Raises:
        UserError: nothing matches, or files of several folders; the message says what was looked for.
    """
    for pattern in pin.files:
        branch, glob = _branch(pattern)
        if found := sorted(fnmatch.filter(listings.get(branch, ()), glob)):
            folders = sorted({str(PurePosixPath(path).parent) for path in found})
            if len(folders) > 1:
                raise UserError(
                    f"{pin.repo} has {pin.role} files in several folders ({', '.join(folders)}) and nothing says which "
                    f"the paper used; choose them and use `python -m benchmarks import`"
                )
            return branch, found
    raise UserError(
        f"{pin.repo} has no {pin.role} file like {' or '.join(pin.files)}; get the original files and use "
        f"`python -m benchmarks import`"
    )


def _branch(pattern: str) -> tuple[str, str]:
    branch, colon, glob = pattern.partition(":")
    return (branch, glob) if colon else (MAIN, pattern)


def read_lock(path: Path) -> dict[str, list[LockedFile]]:
    """Return the locked files by dataset; empty when there is no lock.

    Raises:
        UserError: it is no lock, or names a file that a lock cannot name.
    """
    try:
        content = strict_json(read_bounded(path, _MOST))
        return {name: [LockedFile(**file) for file in files] for name, files in content["datasets"].items()}
    except FileNotFoundError:
        return {}
    except UnreadableError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path} is no lock file ({visible(str(error))[:200]}); remove it, and the next fetch writes it again"
        ) from None


def write_lock(path: Path, locked: Mapping[str, Sequence[LockedFile]]) -> None:
    """Write the lock atomically, sorted, the same bytes for the same content."""
    content = {name: [dataclasses.asdict(file) for file in locked[name]] for name in sorted(locked)}
    write_text(path, json.dumps({"datasets": content}, indent=2) + "\n")


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


def add_pins(definition: Definition) -> None:
    """Pin the files of a dataset of one's own, where its definition says that they are on a hub."""
    if definition.sources:
        PINS[definition.name] = tuple(
            Pin(
                role=role,
                repo=part["repo"],
                commit=None if part["revision"] == AT_FETCH else part["revision"],
                files=(part[role],) if isinstance(part[role], str) else tuple(part[role]),
            )
            for part in definition.sources
            for role in definition.kind.roles
            if role in part
        )
