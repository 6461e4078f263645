import hashlib
import itertools

import numpy as np

from pretraining.data.seen_texts import SeenTexts, packed


def digest(number: int) -> bytes:
    """Return a digest; some end in zeros."""
    if number % 9 == 0:
        return (number << 40).to_bytes(16, "big")
    return hashlib.blake2b(str(number).encode(), digest_size=16).digest()


def test_it_says_what_a_set_says() -> None:
    """With groups of any size, repeated within and across them."""
    generator, texts, known, saved = (
        np.random.default_rng(0),
        SeenTexts(),
        set[bytes](),
        b"",
    )
    for _ in range(300):
        digests = [
            digest(int(n))
            for n in generator.integers(0, 9_000, size=generator.integers(0, 90))
        ]
        expected = [
            one not in known and digests.index(one) == place
            for place, one in enumerate(digests)
        ]
        assert texts.add(digests).tolist() == expected
        known.update(digests)
        saved += packed(
            [one for one, new in zip(digests, expected, strict=True) if new]
        )
    lengths = [len(level) for level in texts._arrays]
    assert sum(lengths) == len(known) > 5_000 and len(saved) == 12 * len(known)
    assert all(8 * shorter <= longer for longer, shorter in itertools.pairwise(lengths))
    again = SeenTexts()
    again.add_all(saved)
    assert not again.add(sorted(known)).any()
