from pathlib import Path

import pytest

from pretraining.data.build_shards import build
from pretraining.data.tokenizer import train_tokenizer
from tests.pretraining.data.made_up_shards import DOCUMENTS, SETTINGS, sources
from tests.pretraining.documents import write_jsonl


@pytest.fixture(scope="session")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tokenizer, two files of documents (some twice) and their shards."""
    folder = tmp_path_factory.mktemp("shards")
    train_tokenizer(DOCUMENTS[:100], 300).save(folder / "tokenizer")
    write_jsonl(folder / "a.jsonl", [*DOCUMENTS[:500], "", DOCUMENTS[3]])
    write_jsonl(folder / "b.jsonl", [*DOCUMENTS[400:], DOCUMENTS[899]])
    build(
        sources(folder), str(folder / "tokenizer"), folder / "out", SETTINGS, workers=0
    )
    return folder
