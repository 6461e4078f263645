"""`python -m benchmarks import`: a dataset from original distribution files, without network."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.datasets.local_dataset import write
from benchmarks.datasets.readers import Inputs, source_of
from benchmarks.datasets.readers.original_files import Reading
from benchmarks.datasets.readers.reader import ROLES
from benchmarks.datasets.schema import Manifest
from benchmarks.protocol import DATASETS, Dataset, get_dataset
from common.errors import UserError
from common.files import sha256_file
from common.old_parser import Parser

__all__ = ["describe_files", "main", "make", "recognise"]

_NAMES = (
    ("corpus", r"corpus|collection|passages?"),
    ("queries", r"queries|topics?"),
    ("train", r"train|pairs?|triples?|triplets?"),
    ("validation", r"dev|val|valid|validation|development|testa"),
    ("test", r"test|testb|test2019|2019qrels"),
)
_HELP = {
    "train": "training examples; for msmarco pairs, triples, or training judgements",
    "validation": "the official validation set; for retrieval its judgements, for mldr_en its queries",
    "test": "a labelled test set; for retrieval its judgements, for mldr_en its queries",
    "queries": "texts of the queries (msmarco, nq)",
    "corpus": "documents (msmarco, nq, mldr_en); only judged ones are kept",
}


def recognise(dataset: Dataset, paths: Sequence[Path]) -> dict[str, tuple[Path, ...]]:
    """Return the files by role, told from their names and, where these say nothing, their folders' names.

    Raises:
        UserError: a name fits no role; the message says how to give the role.
    """
    found: dict[str, tuple[Path, ...]] = {}
    for path in paths:
        if dataset.name == "mnli_m" and "mismatched" in path.name:
            raise UserError(f"{path} is MNLI's mismatched part; the paper uses the matched one, leave it out")
        role = next((role for name in (path.name, path.parent.name) if (role := _role(name))), None)
        if role is None:
            raise UserError(
                f"{path}: its name does not say what it is; put one of --{', --'.join(ROLES)} before it"
            )
        found[role] = (*found.get(role, ()), path)
    return found


def _role(name: str) -> str | None:
    words = re.split(r"[^a-z0-9]+", name.lower())
    for role, pattern in _NAMES:
        if any(re.fullmatch(pattern, word) for word in words):
            return role
    return None


def describe_files(files: Mapping[str, Sequence[Path]]) -> list[dict[str, Any]]:
    """Return role, name, size and hash of each file, for the manifest; of a folder, of each file in it."""
    return [
        {"role": role, "name": part.name, "bytes": part.stat().st_size, "sha256": sha256_file(part)}
        for role, paths in files.items()
        for path in paths
        for part in ([path] if path.is_file() else sorted(p for p in path.rglob("*_gold_conll")))
    ]


def make(dataset: Dataset, files: Mapping[str, Sequence[Path]], data: Path, *, source: Mapping[str, Any],
         skip_bad: bool = False, replace: bool = False) -> Manifest:  # fmt: skip
    """Read original files, write the dataset under `data`, and return its manifest.

    Args:
        dataset: the dataset.
        files: files by role, see `benchmarks.datasets.readers.reader.ROLES`.
        data: the folder that holds one folder a dataset.
        source: what the manifest says about where the files come from.
        skip_bad: leave bad lines out instead of stopping at the first.
        replace: put this in place of another content.

    Raises:
        UserError: a file is missing or bad, or another content is there already.
    """
    how = source_of(dataset)
    reading = Reading(skip_bad=skip_bad)
    for role, paths in files.items():
        for path in paths:
            if not path.exists():
                raise UserError(f"there is no file {path} (given as --{role})")
    content = how.read(
        Inputs(dataset=dataset, files={k: tuple(v) for k, v in files.items()}, reading=reading)
    )
    return write(
        data,
        dataset,
        content,
        source=source,
        licence=how.licence,
        citation=how.citation,
        replace=replace,
    )


def report(manifest: Manifest, folder: Path) -> str:
    """Return what was made, in a few lines."""
    counts = ", ".join(f"{count:,} {split}" for split, count in manifest.counts.items())
    official = source_of(get_dataset(manifest.dataset)).counts
    other = [
        f"{official[split]:,} {split}" for split in official if manifest.counts.get(split) != official[split]
    ]
    text = [f"{folder}: {counts}", f"  splits: {manifest.splits}"]
    if other:
        text.append(f"  not the whole official data, which has {', '.join(other)}")
    text += [f"  note: {note}" for note in manifest.notes]
    return "\n".join(text)


def parser() -> Parser:
    """Return the command line of `import`."""
    known = "\n".join(f"  {name:13}{source_of(dataset).files}" for name, dataset in DATASETS.items())
    out = Parser(
        prog="python -m benchmarks import",
        description="Make a dataset of the local form from original distribution files: plain, .gz or .zst.",
        epilog=f"datasets and their files:\n{known}\n\nexample:\n"
        "  python -m benchmarks import sst2 --train train.tsv --validation dev.tsv --out data/",
    )
    out.add_argument("dataset", metavar="DATASET", help="one of the datasets below")
    out.add_argument(
        "files", nargs="*", type=Path, metavar="FILES", help="files whose names tell what they are"
    )
    for role in ROLES:
        out.add_argument(f"--{role}", nargs="+", type=Path, default=[], metavar="FILE", help=_HELP[role])
    out.add_argument("--out", type=Path, default=Path("data"), help="folder of the datasets (default: data)")
    out.add_argument(
        "--skip-bad-lines", action="store_true", help="leave bad lines out, with a warning for each"
    )
    out.add_argument(
        "--replace", action="store_true", help="put this in place of another version of the dataset"
    )
    return out


def main(argv: Sequence[str]) -> int:
    """Run `python -m benchmarks import`."""
    args = parser().parse_args(argv)
    dataset = get_dataset(args.dataset)
    files = recognise(dataset, args.files)
    for role in ROLES:
        if given := getattr(args, role):
            files[role] = (*files.get(role, ()), *given)
    if not files:
        raise UserError(f"name the files to import: {source_of(dataset).files}")
    for paths in files.values():
        if absent := [path for path in paths if not path.exists()]:
            raise UserError(f"there is no file {absent[0]}")
    source = {"kind": "import", "files": describe_files(files)}
    manifest = make(
        dataset, files, args.out, source=source, skip_bad=args.skip_bad_lines, replace=args.replace
    )
    print(report(manifest, args.out / dataset.name))
    return 0
