from __future__ import annotations

from pretraining.paper_settings import SHAPES, TRAINING


def test_parameter_counts_are_those_of_the_released_shapes() -> None:
    in_millions = {
        size: tuple(
            round(n / 1e6, 1)
            for n in (s.body_parameters, s.embedding_parameters, s.encoder_parameters, s.trained_parameters)
        )
        for size, s in SHAPES.items()
    }
    assert in_millions == {
        "210m": (113.3, 98.5, 211.8, 310.3),
        "610m": (460.1, 147.8, 607.9, 755.6),
        "1b": (966.2, 221.6, 1187.9, 1409.5),
    }


def test_expected_tokens_of_a_step() -> None:
    assert TRAINING.sequences_per_step == 2_304
    assert TRAINING.tokens_per_step == 2_373_120
