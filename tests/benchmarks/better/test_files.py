"""What files.py makes of the repositories are the sets that the rows were scored on."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.benchmarks.better.files import COMMITS, fetch
from tests.benchmarks.better.sets import NQ, QMSUM, SETS, SQUAD, content, records

REAL_DATA = Path(os.environ.get("REAL_DATA", "/nowhere"))


def committed(folder: Path, files: dict[str, bytes]) -> str:
    """A repository of these files, and the commit that has them."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text)
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (
        ["init", "--quiet"],
        ["config", "uploadpack.allowFilter", "true"],
        ["add", "."],
        [*who, "commit", "--quiet", "-m", "files"],
    ):
        subprocess.run(["git", "-C", str(folder), *words], check=True)
    head = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    return subprocess.run(head, check=True, capture_output=True, text=True).stdout[:40]


@pytest.mark.skipif(not REAL_DATA.is_dir(), reason="needs the real data")
def test_fetched_files_are_the_sets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meetings = records(REAL_DATA / "qmsum" / "train.jsonl")
    oracle = Path("natural_questions/nq-open-oracle.jsonl.gz")
    repositories: list[dict[str, bytes]] = [
        {"qa_data/nq-open-oracle.jsonl.gz": (REAL_DATA / oracle).read_bytes()},
        {
            "data/dev-v2.0.json": content(
                REAL_DATA / "squad_v2.0" / "dev-v2.0.json"
            ).encode()
        },
        {
            **{
                f"data/ALL/jsonl/{part}.jsonl": content(
                    REAL_DATA / "qmsum" / f"{part}.jsonl"
                ).encode()
                for part in ("val", "test")
            },
            **{
                f"data/ALL/train/{number:03}.json": json.dumps(meeting).encode()
                for number, meeting in enumerate(meetings)
            },
        },
    ]
    for repository, files in zip(list(COMMITS), repositories, strict=True):
        commit = committed(tmp_path / "server" / repository, files)
        monkeypatch.setitem(COMMITS, repository, commit)
    fetch(tmp_path / "data", f"file://{tmp_path}/server")
    for name in (NQ, SQUAD, QMSUM):
        assert SETS[name](tmp_path / "data") == SETS[name](REAL_DATA)
