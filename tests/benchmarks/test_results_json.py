import hashlib
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import results_json
from benchmarks.results_json import ResultsError, parse_results, read_results
from benchmarks.runs import RERUN
from common.reading import ChangingError

entries = st.lists(
    st.one_of(st.integers(0, 1), st.floats(0, 1, allow_subnormal=False)),
    min_size=1,
    max_size=60,
)


@given(validation=entries, test=entries, indent=st.sampled_from([None, 4]))
def test_values_are_those_of_the_standard_parser(
    validation: list[float], test: list[float], indent: int | None
) -> None:
    document = {
        name: {"score": math.fsum(values) / len(values), "scores_i": values}
        for name, values in (("validation", validation), ("test", test))
    }
    text = json.dumps(document, indent=indent)
    for split, (name, values) in zip(
        parse_results(text.encode()),
        (("validation", validation), ("test", test)),
        strict=True,
    ):
        assert split.scores.dtype == np.float64
        assert (
            split.scores.tolist()
            == [float(value) for value in json.loads(text)[name]["scores_i"]]
            == values
        )
        assert split.score == document[name]["score"]


@given(text=st.binary(max_size=80))
def test_any_bytes_give_a_result_or_a_sentence(text: bytes) -> None:
    try:
        parse_results(text)
    except ResultsError as error:
        assert error.sentence
        assert "\n" not in error.sentence


@given(cut=st.integers(0, 187))
def test_every_truncation_is_told(cut: int) -> None:
    part = {"score": 0.5, "scores_i": [0, 1.0, 0, 1]}
    text = json.dumps({"validation": part, "test": part}, indent=4).encode()
    with pytest.raises(ResultsError) as error:
        parse_results(text[: min(cut, len(text) - 1)])
    assert error.value.kind == "broken"


PART = '{"score": 0.5, "scores_i": [0, 1]}'


def result(score: object = 0.5, scores: object = (0, 1), more: str = "") -> bytes:
    """Return a result whose test part is given, and what else stands in the file."""
    part = json.dumps(
        {
            "score": score,
            "scores_i": list(scores) if isinstance(scores, tuple) else scores,
        }
    )
    return f'{{"validation": {PART}, "test": {part}{more}}}'.encode()


ROUNDED = 1e-9
"""How far outside [0, 1] rounding may put a value."""


@pytest.mark.parametrize("value", [-ROUNDED, 0.0, 1.0, 1 + ROUNDED])
def test_rounding_may_put_a_value_a_little_outside_the_range(value: float) -> None:
    _, test = parse_results(result(value, [value, value]))
    assert test.scores.tolist() == [value, value]
    assert test.score == min(max(value, 0.0), 1.0)


@pytest.mark.parametrize(
    ("score", "scores", "kept"),
    [
        (1e-6, [0], 1e-6),
        (-1e-6, [0], 0.0),
        (1.0000005, [1, 1], 1.0),
        (1, [1], 1.0),
        (0, [0, 0.0], 0.0),
    ],
)
def test_score_a_millionth_off_the_mean_is_kept_in_range(
    score: float, scores: list[float], kept: float
) -> None:
    assert parse_results(result(score, scores))[1].score == kept


@pytest.mark.parametrize(
    "more", [', "u": 1', ', "full": [true, "f"]', ', "f": {"test": false}']
)
@pytest.mark.parametrize("scores", [[0, 1], [0.25, 0.75]])
def test_what_else_stands_in_a_file_changes_nothing(
    scores: list[float], more: str
) -> None:
    assert parse_results(result(0.5, scores, more))[1].scores.tolist() == scores


def part_of(text: str) -> bytes:
    """Return a result whose test part is a text."""
    return f'{{"validation": {PART}, "test": {text}}}'.encode()


LACKS = f"with score and scores_i; {RERUN}"
OFF = f"but the mean of its 1,000 scores_i is 0.000000; the run is left out: {RERUN}"


@pytest.mark.parametrize(
    ("kind", "words", "content"),
    [
        ("broken", "is empty", b""),
        ("broken", "is empty", b" \t\r\n\0\0"),
        ("broken", "is cut off after 14 bytes", b'{"test": [0, 1'),
        (
            "broken",
            "is cut off after 1,514 bytes",
            b'{"test": [0, 1' + b" \t\r\n\0" * 300,
        ),
        (
            "broken",
            f"is not JSON (line 3: Expecting value); {RERUN}",
            b'{\n"test": [0,\n x]}',
        ),
        ("broken", "is not JSON (byte 0 is not UTF-8)", b"\xff{}"),
        ("broken", "is not JSON (it is nested too deeply)", b"[" * 100_000),
        ("broken", "contains NaN", b"[0, NaN, Infinity]"),
        ("broken", "is not JSON", b"\xef\xbb\xbf{}"),
        ("broken", "is not JSON", b"[1e999]"),
        (
            "broken",
            f"is not a valid result (the key 'a' occurs twice); {RERUN}",
            b'{"a": 1, "a": 2}',
        ),
        (
            "broken",
            "'validation' occurs twice",
            part_of(f'{PART}, "validation": {PART}'),
        ),
        (
            "broken",
            "'score' occurs",
            part_of('{"score": 0.1, "score": 0.5, "scores_i": [0, 1]}'),
        ),
        ("broken", "'test' occurs twice", part_of(f'{PART}, "t\\u0065st": {PART}')),
        ("broken", "", part_of('{"score": 1e400, "scores_i": [1]}')),
        ("broken", "", part_of(f'{{"score": {"1" * 4_301}, "scores_i": [1]}}')),
        (
            "value",
            "which is not a number",
            part_of(f'{{"score": {"[" * 995}{"]" * 995}, "scores_i": [1]}}'),
        ),
        (
            "value",
            "which is not a number",
            part_of(f'{{"score": 1, "scores_i": [{"[" * 990}{"]" * 990}]}}'),
        ),
        ("incomplete", f"lacks 'validation' {LACKS}", b"[]"),
        ("incomplete", f"lacks 'validation' {LACKS}", b"{}"),
        ("incomplete", f"lacks 'validation' {LACKS}", f'{{"test": {PART}}}'.encode()),
        ("incomplete", f"lacks 'test' {LACKS}", f'{{"validation": {PART}}}'.encode()),
        ("incomplete", f"lacks 'test' {LACKS}", part_of("[1]")),
        ("incomplete", f"lacks 'test' {LACKS}", part_of('{"scores_i": [1]}')),
        ("incomplete", f"lacks 'test' {LACKS}", part_of('{"score": 1}')),
        ("incomplete", f"has an empty test.scores_i; {RERUN}", result(scores=[])),
        (
            "value",
            "test.scores_i = {'a': 1}, which is not a list",
            result(0.5, {"a": 1}),
        ),
        ("value", "test.scores_i = None, which is not a list", result(0.5, None)),
        (
            "value",
            "test.scores_i[1] = None, which is not a number",
            result(0.5, [0, None]),
        ),
        (
            "value",
            "test.scores_i[0] = '1', which is not a number",
            result(0.5, ["1", "0"]),
        ),
        (
            "value",
            "test.scores_i[1] = [1], which is not a number",
            result(0.5, [0.5, [1], None]),
        ),
        ("value", "test.scores_i[0] = True, which is not a number", result(1, [True])),
        (
            "value",
            "test.scores_i[1] = True, which is not a number",
            result(0.5, [0.5, True, None]),
        ),
        ("value", "test.scores_i[1] = 2, outside [0, 1]", result(0.5, [0, 2])),
        (
            "value",
            "test.scores_i[1] = 1.5, outside [0, 1]",
            result(0.5, [0.5, 1.5, 1.5, 0]),
        ),
        ("value", "test.scores_i[1] = -1, outside [0, 1]", result(0.5, [1, -1, 0, -1])),
        (
            "value",
            "test.scores_i[2] = -0.25, outside [0, 1]",
            result(0.5, [2, 0.5, -0.25]),
        ),
        (
            "value",
            "test.scores_i[0] = 1.84467e+19, outside [0, 1]",
            result(0.5, [2**64 - 1]),
        ),
        (
            "value",
            "test.scores_i[1] = -1e-09, outside [0, 1]",
            result(0.5, [0, math.nextafter(-ROUNDED, -1)]),
        ),
        (
            "value",
            "test.scores_i[2] = 1, outside [0, 1]",
            result(0.5, [1, 0, math.nextafter(1 + ROUNDED, 2)]),
        ),
        ("value", "test.scores_i[1] = 2, outside [0, 1]", result(0.5, [-ROUNDED, 2.0])),
        ("value", "test.score = '0.5', which is not a number", result("0.5", [0, 1])),
        ("value", "test.score = True, which is not a number", result(True, [1])),
        (
            "mean",
            f"has test.score 0.000001, {OFF}",
            result(math.nextafter(1e-6, 1), [0] * 1_000),
        ),
        (
            "mean",
            f"has test.score -0.000001, {OFF}",
            result(math.nextafter(-1e-6, -1), [0] * 1_000),
        ),
    ],
)
def test_what_is_no_result_is_refused_with_its_place(
    kind: str, words: str, content: bytes
) -> None:
    with pytest.raises(ResultsError) as error:
        parse_results(content)
    sentence = error.value.sentence
    assert (error.value.kind, str(error.value)) == (kind, sentence)
    assert words in sentence and sentence.isprintable()


def unread(path: Path, sha256: str | None = None) -> tuple[str, str]:
    with pytest.raises(ResultsError) as error:
        read_results(path, sha256)
    return error.value.kind, error.value.sentence


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    assert unread(tmp_path / "absent.json") == (
        "unfinished",
        "vanished while the store was being read; ingest again when its run is done",
    )
    assert unread(tmp_path) == (
        "unreadable",
        "is a folder; make it readable and ingest again",
    )


def test_a_broken_link_is_no_unfinished_run(tmp_path: Path) -> None:
    (tmp_path / "results.json").symlink_to("moved/results.json")
    kind, sentence = unread(tmp_path / "results.json")
    assert (
        kind == "unreadable"
        and "moved/results.json" in sentence
        and "ingest again" in sentence
    )


def test_a_file_that_changes_while_it_is_read_is_unfinished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changing(path: Path) -> bytes:
        raise ChangingError(path, "changed")

    monkeypatch.setattr(results_json, "read_bounded", changing)
    assert unread(tmp_path) == (
        "unfinished",
        "changed while it was being read; ingest again when its run is done",
    )


def test_file_of_256_mb_is_read_and_a_larger_is_refused(
    tmp_path: Path,
) -> None:
    """Holes, which the disk does not hold: a machine that broke down leaves such files."""
    path = tmp_path / "results.json"
    with path.open("wb") as file:
        file.truncate(1 << 28)
        assert unread(path) == ("broken", f"is empty; {RERUN}")
        file.truncate((1 << 28) + 1)
    assert unread(path) == (
        "unreadable",
        "has 268,435,457 bytes, more than the limit of 268,435,456; make it readable and ingest again",
    )


def test_a_result_is_compared_with_the_hash_of_its_run(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(f'{{"validation": {PART}, "test": {PART}}}')
    assert (
        read_results(path, hashlib.sha256(path.read_bytes()).hexdigest())[1].score
        == 0.5
    )
    with pytest.raises(ResultsError, match="is not what its run wrote") as error:
        read_results(path, "0" * 64)
    assert error.value.kind == "changed"
    assert read_results(path)[1].score == 0.5
    path.write_text(path.read_text()[:-2])
    assert unread(path, "0" * 64) == (
        "broken",
        f"is cut off after {path.stat().st_size} bytes; {RERUN}",
    )
