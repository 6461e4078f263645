"""Estimates of fine-tuning against what was measured, the paper's own total, and real texts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from benchmarks.protocol import DATASETS
from pretraining.data.tokenizer import load_tokenizer
from pretraining.models import MODELS
from pretraining.paper_settings import SHAPES
from pretraining.plan.flops import PEAK_FLOPS
from workflow.settings import Settings
from workflow.study import workflow_of
from workflow.tuning import TOKENS, runs_at_a_time, tuning_hours


def test_every_dataset_has_a_length_and_every_device_runs_every_size() -> None:
    assert set(TOKENS) == set(DATASETS)
    for device in PEAK_FLOPS:
        most = [runs_at_a_time(SHAPES[size], device, 8) for size in ("210m", "610m", "1b")]
        assert sorted(most, reverse=True) == most and set(most) <= {1, 2, 4}


@pytest.mark.parametrize(("runs", "seconds"), [(1, 100.0), (2, 51.0), (4, 43.0)])
def test_a_thousand_steps_on_short_texts_take_what_was_measured(runs: int, seconds: float) -> None:
    found = 3_600 * tuning_hours(SHAPES["610m"], ("sst2",), "H100", 0.4, runs)
    assert seconds < found < seconds + 25


def test_the_papers_hours_are_above_the_estimate_on_its_device() -> None:
    settings = Settings(device="MI250X", mfu=0.116)
    cells = workflow_of("all", settings).of_kind("cell")
    # 9,000 GPU hours for 50 models, with ten evaluations during each training and one run at a time.
    assert 2_000 < sum(job.gpu_hours for job in cells) * 50 / len(MODELS) < 9_000


def test_memory_and_cores_say_how_many_share_a_gpu_and_the_user_has_the_last_word() -> None:
    def workers(**settings: object) -> list[str]:
        words = workflow_of("610m-clm-42k", Settings(**settings)).of_kind("cell")[0].commands[0]  # type: ignore[arg-type]
        return [words[place + 1] for place, word in enumerate(words) if word == "--workers"]

    assert workers() == ["2"] and workers(device="H200") == ["4"]
    assert workers(device="H200", cpus=1) == [] and workers(gpus_per_node=0) == []
    assert workers(gpus_per_node=4, tuning_gpus=4) == ["8"]
    assert workers(tuning_options=("--workers", "1")) == ["1"]


def _texts(data: Path) -> Iterator[tuple[str, list[str]]]:
    def read(name: str) -> str:
        content = (data / name).read_bytes()
        return (zstandard.decompress(content) if name.endswith(".zst") else content).decode("utf-8")

    yield "sst2", [line.split("\t")[0] for line in read("sst2/test.tsv").splitlines()[1:]]
    for name, first, second in (("mnli_m", "Premise", "Hypothesis"), ("qqp", "Question 1", "Question 2")):
        rows = json.loads(read(f"{name.removesuffix('_m')}/dev.json"))
        rows = rows.values() if isinstance(rows, dict) else rows
        yield name, [f"{first}: {row['text_a']}\n{second}: {row['text_b']}" for row in rows]
    articles = json.loads(read("squad_v2.0/dev-v2.0.json.zst"))["data"]
    blocks = [block for article in articles for block in article["paragraphs"]]
    yield "squad_v2", [f"{qa['question']}\n{block['context']}" for block in blocks for qa in block["qas"]]


@pytest.mark.skipif(not os.environ.get("REAL_DATA"), reason="REAL_DATA is not set")
def test_lengths_are_those_of_real_texts(tmp_path: Path) -> None:
    data = Path(os.environ["REAL_DATA"])
    file = tmp_path / "tokenizer.model"
    packed = data / "tokenizer/llama3-tiktoken/tokenizer.model.zst"
    file.write_bytes(zstandard.decompress(packed.read_bytes()))
    tokenizer = load_tokenizer(str(file)).inner
    for name, texts in _texts(data):
        found = sum(len(one.ids) + 1 for one in tokenizer.encode_batch(texts)) / len(texts)
        assert found == pytest.approx(TOKENS[name], rel=0.05), name
