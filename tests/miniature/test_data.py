"""What `curves` is prepared from: rows of a folder's datasets at even distances, its text, and its stand-ins."""

import json
from pathlib import Path

import pytest

from analysis.sources import EXAMPLES
from analysis.store.stand_ins import STAND_INS
from benchmarks.datasets.local_dataset import load_dataset, verify_dataset
from benchmarks.metrics.floor import floor_of
from benchmarks.protocol import DATASETS
from common.errors import UserError
from miniature.data import CURVES, SETTINGS, main, prepare
from pretraining.data.tokenizer import load_tokenizer
from pretraining.paper_models import PAPER_DESIGN, parse
from pretraining.paper_settings import SHAPES
from pretraining.plan.study_plan import load_study
from tests.miniature.whole_data import whole_data
from tests.workflow import smallest
from workflow.study_settings import load_settings

__all__ = ["whole_data"]

SIZES = {"SC": (10, 4), "IR": (10, 4)}


def test_a_folder_gives_its_text_and_rows_of_its_datasets(
    whole_data: Path, tmp_path: Path
) -> None:
    study = tmp_path / "study"
    prepare(whole_data, study, SIZES)
    settings = load_settings(study / SETTINGS)
    assert settings.text == (str(whole_data / "text"),) and settings.data == str(
        study / "data"
    )
    assert load_tokenizer(settings.tokenizer).vocab_size <= 2048
    for name in ("sst2", "nq", "msmarco"):
        assert verify_dataset(study / "data", name) == []
    whole, sample = (
        load_dataset(place, "sst2") for place in (whole_data, study / "data")
    )
    assert sample.manifest.counts == {"train": 10, "validation": 4, "test": 4}
    assert (
        sample.labels == whole.labels
        and sample.manifest.source["content"] == whole.manifest.content
    )
    rows = whole.tables["train"].to_pylist()
    assert sample.tables["train"].to_pylist() == [
        rows[4 * number] for number in range(10)
    ]
    for name in ("nq", "msmarco"):
        found = load_dataset(study / "data", name)
        for split in ("validation", "test"):
            asked = set(found.queries(split)["id"].to_pylist())
            assert (
                len(asked) == 4
                and set(found.qrels(split)["query_id"].to_pylist()) == asked
            )
        assert set(found.corpus["id"].to_pylist()) == set(
            found.tables["qrels"]["doc_id"].to_pylist()
        )
    assert load_dataset(study / "data", "msmarco").train.num_rows == 10


def test_stand_ins_are_the_examples_with_floors_of_the_sample(
    whole_data: Path, tmp_path: Path
) -> None:
    prepare(whole_data, tmp_path, SIZES)
    content, packaged = (
        json.loads((place / STAND_INS).read_text())
        for place in (tmp_path, EXAMPLES["curves"].parent)
    )
    floors = {
        name: round(floor_of(load_dataset(tmp_path / "data", name)), 2)
        for name in ("sst2", "nq")
    }
    assert content.pop("floors") == floors != packaged.pop("floors")
    packaged.pop("logs")
    assert content == packaged


def test_a_prepared_folder_stays_and_takes_no_other_data(
    whole_data: Path, tmp_path: Path
) -> None:
    study = tmp_path / "study"
    main([str(whole_data), str(study)])
    before = {path: path.stat().st_mtime_ns for path in study.rglob("*")}
    main([str(whole_data), str(study)])
    assert {path: path.stat().st_mtime_ns for path in study.rglob("*")} == before
    with pytest.raises(UserError, match="prepared from something else"):
        prepare(tmp_path, study)


def test_what_a_folder_lacks_is_named(whole_data: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no folder text"):
        prepare(tmp_path, tmp_path / "study")
    (tmp_path / "text").symlink_to(whole_data / "text")
    with pytest.raises(UserError, match="has no folder sst2"):
        prepare(tmp_path, tmp_path / "study")
    with pytest.raises(UserError, match="give two folders"):
        main([str(tmp_path)])


@pytest.mark.parametrize(
    "folder", [CURVES, smallest.FOLDER], ids=["curves", "smallest"]
)
def test_stand_ins_are_the_papers_models_in_fewer_steps(folder: Path) -> None:
    study = load_study(folder / "study.toml")
    place = EXAMPLES["curves"].parent if folder == CURVES else folder
    content = json.loads((place / STAND_INS).read_text())
    scale = content["steps"]
    assert scale == PAPER_DESIGN.decay_steps // study.design.decay_steps
    assert set(study.models) <= {*content["models"], *content["others"]}
    for own, paper in content["models"].items():
        ours, theirs = study.model(own), parse(paper)
        assert (ours.kind, ours.objectives) == (theirs.kind, theirs.objectives)
        for stage, known in zip(ours.stages, theirs.stages, strict=True):
            assert (stage.first_step * scale, stage.end * scale) == (
                known.first_step,
                known.end,
            )
            assert content["stages"].get(stage.name, known.name) == known.name
    assert content["families"] == {
        DATASETS[name].task: [name]
        for name in load_settings(folder / SETTINGS).datasets
    }


def test_curves_keeps_the_papers_proportions() -> None:
    study = load_study(CURVES / "study.toml")
    optimizer, decay = study.config.optimizer, study.design.decay_steps
    assert (optimizer.warmup_steps, 10 * optimizer.rewarm_steps) == (decay, decay)
    for shape in study.shapes.values():
        # Initial weights keep the paper's ratio to 1 / sqrt(width): its 0.02 would start networks this narrow near 0.
        assert shape.init_std == round(
            0.02 * (SHAPES["610m"].hidden / shape.hidden) ** 0.5, 3
        )
