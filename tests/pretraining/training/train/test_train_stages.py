"""Models that only a study file can say: CLM in the middle, a ratio that falls, other data, a start; trained, killed,
resumed, exported."""

from pathlib import Path

import pytest
import torch

from common.errors import UserError
from common.manifest import read_manifest
from pretraining.data.build_shards import build
from pretraining.data.shard_manifest import ShardSettings, load_manifest
from pretraining.model.modeling import EuroBertForMaskedLM
from pretraining.plan.study_plan import Study, load_study
from pretraining.training.log import read_log
from tests.pretraining.documents import make_documents, write_jsonl
from tests.pretraining.small_study import (
    QUIET,
    STUDY,
    open_data,
    same_run,
    train,
    train_and_kill,
)

pytestmark = QUIET

TABLE = """
[models.mine]
steps = 24
stages = [
    "mlm40:25 %",
    {{train = "clm", steps = "25 %", data = "{news}"}},
    {{train = "mlm40-15", steps = "50 %", decay = "sqrt:50 %"}},
]
[models.again]
stages = ["mlm40:6", {{train = "clm", steps = 12, data = "{news}", decay = "none"}}]
[models.onward]
start = "{start}"
stages = [{{train = "mlm30", steps = 6, decay = "sqrt:4"}}]
"""


def make_own_study(folder: Path, news: Path, start: str = "") -> Study:
    path = folder / "own.toml"
    tables = TABLE.format(news=news, start=start)
    tables = tables if start else tables[: tables.index("[models.onward]")]
    path.write_text(
        f'prefix = "mini-"\ndecay_steps = 6\n{tables}\n{STUDY[STUDY.index("[sizes.s]") :]}'
    )
    return load_study(path)


@pytest.fixture(scope="module")
def news(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Other shards with the same tokenizer."""
    folder = tmp_path_factory.mktemp("news")
    file = write_jsonl(
        folder / "documents.jsonl", [text[::-1] for text in make_documents(300)]
    )
    build(
        [str(file)],
        str(data / "tokenizer"),
        folder / "news",
        ShardSettings(validation_share=0.1),
        workers=0,
    )
    return folder / "news"


@pytest.fixture(scope="module")
def own(news: Path, tmp_path_factory: pytest.TempPathFactory) -> Study:
    return make_own_study(tmp_path_factory.mktemp("study"), news)


@pytest.fixture(scope="module")
def whole(own: Study, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model, trained without interruption."""
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("whole")
    assert train("mine", data=data, out=out, study=own)
    return out


def test_every_step_has_its_data_its_ratio_and_its_rate(
    whole: Path, own: Study, data: Path, news: Path
) -> None:
    rows = read_log(whole / "models" / "mine" / "log.jsonl")
    steps = [row for row in rows if row["split"] == "train"]
    assert [row["step"] for row in steps] == list(range(1, 25))
    assert [row["objective"] for row in steps] == ["mlm"] * 6 + ["clm"] * 6 + [
        "mlm"
    ] * 12
    assert [row["ratio"] for row in steps[:12]] == [40] * 6 + [None] * 6
    assert [row["ratio"] for row in steps[12:]] == pytest.approx(
        [40 - 25 * place / 11 for place in range(12)]
    )
    assert {row["ratio"] for row in rows if row["split"] == "validation"} == {
        40,
        None,
        15,
    }
    rates = [row["lr"] / 3e-3 for row in steps]
    assert rates[3:18] == [1.0] * 15
    assert rates[18:] == pytest.approx(
        [1 - (place / 6) ** 0.5 for place in range(1, 7)]
    )
    # The batches are those of each data's own order: 0 to 5 of the first, 0 to 5 of the other, and on with 6.
    here, there = open_data(own, data), open_data(own, news)
    expected = [
        *(here.step(number, "mlm", 40) for number in range(6)),
        *(there.step(number, "clm") for number in range(6)),
        *(
            here.step(number, "mlm", 40 - 25 * (number - 6) / 11)
            for number in range(6, 18)
        ),
    ]
    assert [row["batch"] for row in steps] == [
        f"{batch.fingerprint:016x}" for batch in expected
    ]
    assert [row["predicted"] for row in steps] == [
        int(batch.counts.sum()) for batch in expected
    ]


def test_the_export_says_what_it_was_made_of(
    whole: Path, data: Path, news: Path
) -> None:
    folder = whole / "models" / "mine"
    assert not EuroBertForMaskedLM.from_pretrained(folder).config.is_causal
    manifest = read_manifest(folder / "manifest.json", "")
    other = load_manifest(news)
    assert manifest["data"] == load_manifest(data)["sha256"]
    assert [stage.get("data") for stage in manifest["stages"]] == [
        None,
        other["sha256"],
        None,
        None,
    ]
    assert [stage.get("ratio_steps") for stage in manifest["stages"]] == [
        None,
        None,
        [12, 24],
        [12, 24],
    ]
    (source,) = manifest["data_source_of_stages"].values()
    assert source["splits"]["train"]["tokens"] == other["splits"]["train"]["tokens"]
    assert (
        str(news)
        not in (folder / "manifest.json").read_text()
        + (folder / "README.md").read_text()
    )


def test_killed_at_random_moments_it_ends_the_same_bit_for_bit(
    whole: Path, own: Study, data: Path, tmp_path: Path
) -> None:
    assert train_and_kill(
        "mine", tmp_path / "out", data, own, most=5, within=(0.1, 0.5), seed=3
    )
    same_run(tmp_path / "out", whole, "mine", own.models["mine"].stages[-1].name)


def test_a_trunk_on_other_data_is_shared_and_compared(
    whole: Path, own: Study, data: Path, news: Path, tmp_path: Path
) -> None:
    log = whole / "stages" / own.models["mine"].stages[1].name / "log.jsonl"
    before = log.read_bytes()
    assert train("again", data=data, out=whole, study=own)
    assert log.read_bytes().startswith(before) and len(log.read_bytes()) > len(before)
    # Under the same name other shards: the folder was replaced.
    file = write_jsonl(tmp_path / "documents.jsonl", make_documents(200))
    kept = news.rename(news.with_name("kept"))
    try:
        build(
            [str(file)],
            str(data / "tokenizer"),
            news,
            ShardSettings(validation_share=0.1),
            workers=0,
        )
        with pytest.raises(
            UserError,
            match=r"was trained with stages=.* on data .*the data that it names",
        ):
            train("mine", data=data, out=whole, study=own)
    finally:
        news.rename(news.with_name("replaced"))
        kept.rename(news)
    with pytest.raises(UserError, match="no shards here"):
        train(
            "mine",
            data=data,
            out=tmp_path / "out",
            study=make_own_study(tmp_path, tmp_path / "absent"),
        )


def test_a_study_starts_from_a_model_of_its_own(
    whole: Path, data: Path, news: Path, tmp_path: Path
) -> None:
    study = make_own_study(tmp_path, news, start=str(whole / "models" / "mine"))
    model = study.models["onward"]
    assert (model.kind, model.steps, study.shapes[model.size].hidden) == (
        "adapted",
        6,
        32,
    )
    assert train("onward", data=data, out=tmp_path / "out", study=study)
    rows = read_log(tmp_path / "out" / "models" / "onward" / "log.jsonl")
    before = read_log(whole / "models" / "mine" / "log.jsonl")
    first, random_weights = rows[0], before[0]
    assert first["split"] == random_weights["split"] == "validation"
    # It begins where the start ended, not at random weights.
    assert first["loss"] < random_weights["loss"] - 0.2
    assert "start" in read_manifest(
        tmp_path / "out" / "models" / "onward" / "manifest.json", ""
    )
