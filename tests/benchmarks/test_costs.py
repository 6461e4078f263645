"""Hours: of fine-tuning next to what was measured, and the same from every command that says what something takes."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from benchmarks.costs import TOKENS, runs_at_a_time, tuning_hours
from benchmarks.protocol import DATASETS
from clm_or_mlm.__main__ import main
from pretraining.adapt import Adaptation
from pretraining.data.tokenizer import load_tokenizer
from pretraining.paper_settings import SHAPES
from pretraining.plan.devices import DEVICES, H100
from pretraining.starts import start_of
from tests.pretraining.families import save_start
from tests.ready_studies import file_of
from workflow.jobs import save
from workflow.study import workflow_of
from workflow.study_settings import StudySettings

SMOLLM2 = {
    "hidden_size": 576,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "intermediate_size": 1536,
    "vocab_size": 49_152,
    "max_position_embeddings": 8_192,
    "head_dim": 64,
}


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A start that says it has SmolLM2-135M's size; its weights are not read where hours are counted."""
    folder = save_start(tmp_path_factory.mktemp("start") / "smollm2", "llama")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | SMOLLM2))
    return folder


@pytest.mark.parametrize("taken", [12, 48])
def test_all_commands_give_one_model_the_same_hours(
    smollm2: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    taken: int,
) -> None:
    """Ten billion tokens in sequences of 512, by passes of 12 sequences, as on a CPU, and of 48."""
    monkeypatch.setenv("PATH", "/nowhere")  # no Slurm of this machine's is asked
    text, file = file_of("adaptation").read_text("utf-8"), tmp_path / "study.toml"
    text = text.replace("HuggingFaceTB/SmolLM2-135M", str(smollm2)).replace(
        "steps = 7900", "steps = 38200"
    )
    name, steps = "gpu-mlm30", 38_200
    file.write_text(text)

    def planned(*names: str) -> float:
        capsys.readouterr()
        assert not main(["plan", *names, "--study", str(file), "--format", "json"])
        return float(json.loads(capsys.readouterr().out)["costs"]["gpu_hours"])

    settings = (f"microbatch={taken}",)
    study = StudySettings(
        study=str(file), pretraining_settings=settings, nodes=1, gpus_per_node=1
    )
    workflow = workflow_of(name, study)
    save(workflow, tmp_path)
    main(["workflow", "status", "--dir", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    # The model's own job only exports, which is in no plan.
    [shown] = [
        float(line.split()[-4])
        for line in lines
        if line.startswith("trunks and stages")
    ]
    file.write_text(text.replace("microbatch = 48", f"microbatch = {taken}"))
    adapted = Adaptation(start=start_of(str(smollm2)), steps=steps, changes=settings)
    hours = {
        "plan": planned(name),
        "adapt": adapted.plan_on(H100).costs().gpu_hours,
        "study": sum(job.gpu_hours for job in workflow.of_kind("stage")),
    }
    assert hours == pytest.approx(dict.fromkeys(hours, hours["plan"]))
    assert shown == pytest.approx(hours["plan"], abs=0.1) and hours["plan"] > 5


def test_datasets_have_lengths_and_devices_run_all_sizes() -> None:
    assert set(TOKENS) == set(DATASETS)
    for device in DEVICES.values():
        most = [
            runs_at_a_time(SHAPES[size], device, 8) for size in ("210m", "610m", "1b")
        ]
        assert sorted(most, reverse=True) == most and set(most) <= {1, 2, 4}


@pytest.mark.parametrize(("runs", "seconds"), [(1, 100.0), (2, 51.0), (4, 43.0)])
def test_a_thousand_steps_on_short_texts_take_what_was_measured(
    runs: int, seconds: float
) -> None:
    found = 3_600 * tuning_hours(SHAPES["610m"], ("sst2",), DEVICES["H100"], runs)
    assert seconds < found < seconds + 25


def _texts(data: Path) -> Iterator[tuple[str, list[str]]]:
    def read(name: str) -> str:
        content = (data / name).read_bytes()
        return (
            zstandard.decompress(content) if name.endswith(".zst") else content
        ).decode("utf-8")

    yield (
        "sst2",
        [line.split("\t")[0] for line in read("sst2/test.tsv").splitlines()[1:]],
    )
    for name, first, second in (
        ("mnli_m", "Premise", "Hypothesis"),
        ("qqp", "Question 1", "Question 2"),
    ):
        rows = json.loads(read(f"{name.removesuffix('_m')}/dev.json"))
        rows = rows.values() if isinstance(rows, dict) else rows
        yield (
            name,
            [f"{first}: {row['text_a']}\n{second}: {row['text_b']}" for row in rows],
        )
    articles = json.loads(read("squad_v2.0/dev-v2.0.json.zst"))["data"]
    blocks = [block for article in articles for block in article["paragraphs"]]
    yield (
        "squad_v2",
        [
            f"{qa['question']}\n{block['context']}"
            for block in blocks
            for qa in block["qas"]
        ],
    )


@pytest.mark.skipif(not os.environ.get("REAL_DATA"), reason="REAL_DATA is not set")
def test_lengths_are_those_of_real_texts(tmp_path: Path) -> None:
    data = Path(os.environ["REAL_DATA"])
    file = tmp_path / "tokenizer.model"
    packed = data / "tokenizer/llama3-tiktoken/tokenizer.model.zst"
    file.write_bytes(zstandard.decompress(packed.read_bytes()))
    tokenizer = load_tokenizer(str(file)).inner
    for name, texts in _texts(data):
        found = sum(len(one.ids) + 1 for one in tokenizer.encode_batch(texts)) / len(
            texts
        )
        assert found == pytest.approx(TOKENS[name], rel=0.05), name
