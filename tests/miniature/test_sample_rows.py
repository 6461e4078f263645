"""What is taken of a dataset that is too large."""

from __future__ import annotations

from miniature.sample import answer_sentence, spread


def test_a_question_is_asked_of_its_answers_sentence() -> None:
    context = 'It rained. "Dr. Wu" came in May 1999. She left in June.'

    def asked(*answers: str) -> list[tuple[int, int]]:
        return [(context.index(text), len(text)) for text in answers]

    for answer, sentence in (
        ("It", "It rained."), ("May 1999", 'Wu" came in May 1999.'), ("June", "She left in June."),
        ("left in June.", "She left in June."),
    ):  # fmt: skip
        found = answer_sentence(context, asked(answer))
        assert found is not None and context[slice(*found)] == sentence
    assert answer_sentence(context, asked("May 1999", "June")) is None
    long = "x" * 300
    assert answer_sentence(long, [(7, 1)]) is None


def test_rows_are_spread_over_a_file() -> None:
    assert spread(range(10), 4) == [0, 2, 5, 7]
    assert spread(range(3), 4) == [0, 1, 2]
