"""What `pretraining.data.token_stream` relies on in streaming: the bytes of MDS, its readers and its codecs.

streaming 0.13.0 declares bounds that requirements/overrides.txt lifts (docs/maintainers.md).
`tests/pretraining/data/test_token_stream.py` has its `StreamingDataset` read what we write.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streaming.base.format import MDSWriter, reader_from_json
from streaming.base.format.mds.reader import MDSReader

SAMPLES = [
    np.arange(300, dtype=np.int32),
    np.array([-1, 2**31 - 1], np.int32),
    np.zeros(70_000, np.int32),
]


def written(
    folder: Path, compression: str | None = None
) -> tuple[bytes, dict[str, Any]]:
    """Return one encoded shard and its entry of the index, as `write_shard` uses the writer."""
    writer = MDSWriter(
        columns={"tokens": "ndarray:int32"},
        out=str(folder),
        compression=compression,
        hashes=["sha256"],
        size_limit=None,
    )
    for sample in SAMPLES:
        writer.write({"tokens": sample})
    assert len(writer.new_samples) == len(SAMPLES)
    return writer.encode_joint_shard(), writer.get_config()


def test_the_same_samples_are_the_same_bytes(tmp_path: Path) -> None:
    assert written(tmp_path / "a")[0] == written(tmp_path / "b")[0]


def test_a_reader_gives_back_every_sample_in_any_order(tmp_path: Path) -> None:
    data, entry = written(tmp_path / "unused", "zstd:1")
    (tmp_path / "shard.mds").write_bytes(data)
    raw = {"basename": "shard.mds", "bytes": len(data), "hashes": {}}
    info = entry | {"samples": len(SAMPLES), "raw_data": raw, "zip_data": raw}
    reader = reader_from_json(str(tmp_path), "", info)
    assert isinstance(reader, MDSReader)
    for number in (2, 0, 1):
        tokens = reader[number]["tokens"]
        assert tokens.dtype == np.int32
        np.testing.assert_array_equal(tokens, SAMPLES[number])
    (tmp_path / "shard.mds").unlink()
    with pytest.raises(FileNotFoundError):
        reader_from_json(str(tmp_path), "", info)[0]
