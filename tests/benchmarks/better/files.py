"""The texts of rows a and b from the repositories that have them, as sets.py reads them.

    python -m tests.benchmarks.better.files DATA

Of each repository only these files are fetched, at the commits of questions.md. Needs git and network access.
"""

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

from common.files import write_bytes, write_text

GITHUB = "https://github.com"
COMMITS = {
    "nelson-liu/lost-in-the-middle": "29b8a6d042ce29abccee3db1a73171a107d7e6af",
    "chrischute/squad": "85623adeb9e6639f145081fea9cae2d8f3a26379",
    "Yale-LILY/QMSum": "83d7768c1f2b4dfeb091385d3dc7e239b8e5bb7e",
}


class Clone:
    """A repository without its files, each of which is fetched when it is read."""

    def __init__(self, server: str, repository: str, folder: Path) -> None:
        """Clone it into a folder, unless it is there."""
        self.folder = folder / repository.rpartition("/")[2]
        self.commit = COMMITS[repository]
        if not self.folder.exists():
            address = f"{server}/{repository}"
            options = ["--quiet", "--bare", "--filter=blob:none"]
            subprocess.run(
                ["git", "clone", *options, address, str(self.folder)], check=True
            )

    def git(self, *words: str) -> bytes:
        """Return what a command of git prints."""
        command = ["git", "-C", str(self.folder), *words]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout

    def content(self, path: str) -> bytes:
        """Return what a file holds."""
        return self.git("show", f"{self.commit}:{path}")

    def paths(self, folder: str) -> list[str]:
        """Return the paths of a folder's files, sorted."""
        listed = self.git("ls-tree", "--name-only", self.commit, f"{folder}/")
        return sorted(listed.decode().splitlines())


def answerable(content: bytes) -> dict[str, Any]:
    """Return SQuAD 2.0 without the questions that have no answer."""
    squad: dict[str, Any] = json.loads(content)
    for article in squad["data"]:
        for paragraph in article["paragraphs"]:
            paragraph["qas"] = [
                question
                for question in paragraph["qas"]
                if not question["is_impossible"]
            ]
    return squad


def fetch(data: Path, server: str = GITHUB) -> None:
    """Write the files of the three sets into a folder."""
    nq, squad, qmsum = (
        Clone(server, repository, data / "clones") for repository in COMMITS
    )
    passages = nq.content("qa_data/nq-open-oracle.jsonl.gz")
    write_bytes(data / "natural_questions" / "nq-open-oracle.jsonl.gz", passages)
    questions = answerable(squad.content("data/dev-v2.0.json"))
    name = "dev-v1.1.from-dev-v2.0-answerable.json"
    write_text(data / "squad_v1.1" / name, json.dumps(questions))
    for part in ("val", "test"):
        meetings = qmsum.content(f"data/ALL/jsonl/{part}.jsonl")
        write_bytes(data / "qmsum" / f"{part}.jsonl", meetings)
    training = [
        json.loads(qmsum.content(path)) for path in qmsum.paths("data/ALL/train")
    ]
    lines = "".join(f"{json.dumps(meeting)}\n" for meeting in training)
    write_text(data / "qmsum" / "train.jsonl", lines)


def main() -> None:
    """Fetch the files into the folder that is given."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    fetch(parser.parse_args().data)


if __name__ == "__main__":
    main()
