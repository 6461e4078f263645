"""Files with a bit that is not what was written."""

import random
from collections.abc import Callable
from pathlib import Path

from common.errors import UserError


def flip(path: Path, bit: int = 0) -> None:
    """Flip a bit of the byte in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1 << bit
    path.write_bytes(content)


def flips(path: Path, count: int, believe: Callable[[], object]) -> int:
    """Flip `count` bits of a file one at a time and return how many `believe` did not refuse."""
    good, generator, silent = path.read_bytes(), random.Random(0), 0
    for bit in generator.sample(range(8 * len(good)), count):
        data = bytearray(good)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        try:
            believe()
            silent += 1
        except UserError as error:
            assert "\n" not in str(error)
    path.write_bytes(good)
    return silent
