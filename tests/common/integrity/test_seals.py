"""Seals: no changed bit passes."""

from __future__ import annotations

import json

import pytest

from common.integrity.seals import SEAL, BrokenSealError, check_seal, open_sealed, seal_bytes, sealed

DOCUMENT = {"a": (1, 2), "b": 1e-5, "c": {"é": None}}


def test_a_sealed_document_survives_json_and_loses_its_seal() -> None:
    read = json.loads(json.dumps(sealed(DOCUMENT)))
    assert check_seal(read, needed=True) == json.loads(json.dumps(DOCUMENT))
    assert check_seal({"a": 1}) == {"a": 1}
    with pytest.raises(BrokenSealError, match="no seal"):
        check_seal({"a": 1}, needed=True)


@pytest.mark.parametrize("change", [{"b": 2e-5}, {"d": 1}, {SEAL: "0" * 64}, {SEAL: None}])
def test_a_changed_document_is_noticed(change: dict[str, object]) -> None:
    with pytest.raises(BrokenSealError, match="changed"):
        check_seal(json.loads(json.dumps(sealed(DOCUMENT))) | change)


def test_every_flipped_bit_of_sealed_bytes_is_noticed() -> None:
    content = seal_bytes(b'{"score": 0.5}\nmore')
    assert open_sealed(content) == b'{"score": 0.5}\nmore'
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BrokenSealError):
            open_sealed(bytes(flipped))
    for size in range(len(content)):
        with pytest.raises(BrokenSealError):
            open_sealed(content[:size])
