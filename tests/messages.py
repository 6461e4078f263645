"""What a message to a user must be: one line that a terminal shows as it is, with what the test says it must name."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from common.errors import UserError
from common.plain_text import visible


def check(error: BaseException | str, *named: object) -> str:
    """Return a message after it was checked; `named` is what it must contain: a path, a word, a remedy."""
    sentence = visible(str(error)).replace("\t", " ")  # as a command shows it
    assert sentence and "\n" not in sentence and sentence.isprintable(), repr(sentence)
    for part in named:
        assert str(part) in sentence, f"{part!s} is not in: {sentence}"
    return sentence


@contextmanager
def refused(*named: object) -> Iterator[None]:
    """Expect a `UserError` whose message contains all of `named`."""
    with pytest.raises(UserError) as error:
        yield
    check(error.value, *named)
