"""Configurations by a size's name: the paper's, and a tiny one."""

from typing import Any

from pretraining.model.configuration import EncoderConfig, shape_fields
from pretraining.paper_settings import SHAPES, Shape

TINY = Shape(hidden=64, layers=2, heads=4, kv_heads=2, mlp=192)


def config_for(size: str, **overrides: Any) -> EncoderConfig:
    """Return the configuration of `210m`, `610m`, `1b` or `tiny`, with fields overridden."""
    return EncoderConfig(**shape_fields({**SHAPES, "tiny": TINY}[size]) | overrides)
