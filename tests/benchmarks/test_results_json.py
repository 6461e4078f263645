from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.results_json import MEAN_TOLERANCE, ResultsError, parse_results, read_results

entries = st.lists(
    st.one_of(st.integers(0, 1), st.floats(0, 1, allow_subnormal=False)), min_size=1, max_size=60
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
        parse_results(text.encode()), (("validation", validation), ("test", test)), strict=True
    ):
        assert split.scores.dtype == np.float64
        assert (
            split.scores.tolist() == [float(value) for value in json.loads(text)[name]["scores_i"]] == values
        )
        assert split.score == document[name]["score"]


def test_the_releases_mixture_of_0_and_10_is_read() -> None:
    part = '{"score": 0.5, "scores_i": [0, 1.0, 0, 1.0]}'
    _, test = parse_results(f'{{"validation": {part}, "test": {part}}}'.encode())
    assert test.scores.tolist() == [0.0, 1.0, 0.0, 1.0]


@given(values=entries, shift=st.floats(2, 1e6))
def test_a_score_off_the_mean_is_refused_and_one_within_the_tolerance_taken(
    values: list[float], shift: float
) -> None:
    mean = math.fsum(values) / len(values)
    good = {"score": mean, "scores_i": values}
    off = {"score": mean + shift * MEAN_TOLERANCE, "scores_i": values}
    near = {"score": mean + 0.5 * MEAN_TOLERANCE, "scores_i": values}
    parse_results(json.dumps({"validation": good, "test": near}).encode())
    with pytest.raises(ResultsError, match="the run is left out") as error:
        parse_results(json.dumps({"validation": off, "test": good}).encode())
    assert error.value.kind == "mean"


def test_a_mean_taken_in_float32_is_taken() -> None:
    values = np.random.default_rng(0).random(40_430)
    part = {"score": float(values.astype(np.float32).mean()), "scores_i": values.tolist()}
    parse_results(json.dumps({"validation": part, "test": part}).encode())


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


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f'{{"validation": {PART}, "validation": {PART}, "test": {PART}}}', "'validation' occurs twice"),
        (
            f'{{"validation": {PART}, "test": {{"score": 0.1, "score": 0.5, "scores_i": [0, 1]}}}}',
            "'score' occurs",
        ),
        (f'{{"validation": {PART}, "t\\u0065st": {PART}, "test": {PART}}}', "'test' occurs twice"),
        (
            f'{{"validation": {PART}, "test": {{"score": 0.5, "scores_i": [false, true]}}}}',
            "false, which is no number",
        ),
        (f'{{"validation": {PART}, "test": {{"score": true, "scores_i": [1]}}}}', "no number but true"),
        (f'{{"validation": {PART}, "test": {{"score": {"1" * 4_301}, "scores_i": [1]}}}}', ""),
        (
            f'{{"validation": {PART}, "test": {{"score": {"[" * 995}{"]" * 995}, "scores_i": [1]}}}}',
            "no number but",
        ),
        (
            f'{{"validation": {PART}, "test": {{"score": 1, "scores_i": [{"[" * 990}{"]" * 990}]}}}}',
            "no number",
        ),
        (f'{{"validation": {PART}, "test": {{"score": 1e400, "scores_i": [1]}}}}', ""),
    ],
)
def test_what_has_to_be_guessed_is_refused(text: str, why: str) -> None:
    with pytest.raises(ResultsError) as error:
        parse_results(text.encode())
    assert why in error.value.sentence and error.value.sentence.isprintable()


def test_a_result_is_compared_with_the_hash_of_its_run(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(f'{{"validation": {PART}, "test": {PART}}}')
    assert read_results(path, hashlib.sha256(path.read_bytes()).hexdigest()).test.score == 0.5
    with pytest.raises(ResultsError, match="is not what its run wrote") as error:
        read_results(path, "0" * 64)
    assert error.value.kind == "changed"
