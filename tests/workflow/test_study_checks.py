"""What a study's start refuses and warns of is listed by its dry run, each in a sentence."""

from dataclasses import replace
from pathlib import Path

import pytest

from clm_or_mlm.__main__ import main
from common.errors import UserError
from common.manifest import write_manifest
from workflow.engine import Profile
from workflow.jobs import Workflow
from workflow.study import workflow_of
from workflow.study_checks import check_settings, sample_of
from workflow.study_settings import StudySettings, load_settings

READY = StudySettings(
    text=(__file__,),
    train_tokenizer=100_000,
    make_datasets=("--train", "4"),
    gpus_per_node=0,
    repeat_text=True,
)
MODEL = "210m-clm-42k"


def _missing(settings: StudySettings, folder: Path, profile: Profile = "local", image: str = "") -> list[str]:
    lines = check_settings(settings, workflow_of(MODEL, settings, image), folder, profile)
    return [line.sentence for line in lines if line.status == "fail"]


def test_a_study_that_lacks_nothing_can_start(tmp_path: Path) -> None:
    assert _missing(READY, tmp_path) == []
    (tmp_path / "sst2").mkdir()
    (tmp_path / "sst2" / "manifest.json").touch()
    assert _missing(replace(READY, make_datasets=(), datasets=("sst2",), data=str(tmp_path)), tmp_path) == []


@pytest.mark.parametrize(
    ("changed", "profile", "sentence"),
    [
        ({"text": ("hf:a/b",)}, "local", "hf:a/b needs network access, but HF_HUB_OFFLINE is set"),
        ({"shard_options": ("--shard-recrods", "8")}, "local", "shard_options: "),
        ({"tuning_options": ("--steps", "many")}, "local", "tuning_options: "),
        ({"repeat_text": False}, "local", "set repeat_text = true"),
        ({"train_tokenizer": 128_257}, "local", "has 128,257 ids, but 210m has rows for 128,256"),
        ({"train_tokenizer": 0, "tokenizer": __file__}, "local", "tokenizer: "),
        ({"tokenizer": "/tmp"}, "local", "two tokenizers"),
    ],
)
def test_what_the_start_refuses(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changed: dict[str, object],
    profile: Profile,
    sentence: str,
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("PATH", "/no/such/folder")
    (found,) = _missing(replace(READY, **changed), tmp_path, profile)  # type: ignore[arg-type]
    assert sentence in found and "\n" not in found


def test_an_environment_without_torch_needs_an_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workflow.study_checks.find_spec", lambda name: None)
    (found,) = _missing(READY, tmp_path)
    assert "--image build/full.sif" in found and ".venv/full/bin/clm-or-mlm" in found
    image = tmp_path / "full.sif"
    image.touch()
    assert _missing(READY, tmp_path, image=str(image)) == []


def _shards(workflow: Workflow, folder: Path, tokens: float) -> str | None:
    write_manifest(folder / "shards/manifest.json", {"splits": {"train": {"tokens": tokens}}})
    (job,) = workflow.of_kind("shards")
    return job.shortage(folder)


def test_shards_that_are_too_few_are_counted(tmp_path: Path) -> None:
    settings = replace(READY, repeat_text=False)
    workflow = workflow_of(MODEL, settings)
    (job,) = workflow.of_kind("shards")
    assert job.shortage(tmp_path) is None
    # The paper's batch is 2,304 sequences of 2,048 tokens at most, and a model of 42,000 steps sees each once.
    assert 0.3 * 42_000 * 2_304 * 2_048 < job.tokens <= 42_000 * 2_304 * 2_048
    assert _shards(workflow, tmp_path, job.tokens) is None
    short = _shards(workflow, tmp_path, 10**9) or ""
    assert "1,000,000,000 tokens" in short and "repeat_text" in short
    assert short in _missing(settings, tmp_path)
    assert _shards(workflow_of(MODEL, READY), tmp_path, 1) is None


def test_the_sample_of_fineweb_edu_has_tokens_to_spare() -> None:
    assert [sample_of(tokens) for tokens in (1e9, 9.5e9, 90e9, 151.9e9, 400e9)] == [
        "sample-10BT", "sample-100BT", "sample-100BT", "sample-350BT", "the whole of it",
    ]  # fmt: skip


def _cautions(settings: StudySettings) -> str:
    lines = check_settings(settings, workflow_of("1b-clm-42k", settings), Path(), "local")
    return "\n".join(line.sentence for line in lines if line.status == "warn")


def test_memory_limits_and_folders_are_warned_of(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('account = "abc"\n')
    lumi = load_settings(tmp_path / "s.toml", "lumi")
    fixed = _cautions(replace(lumi, pretraining_settings=("microbatch=12",)))
    assert "MI250X has 64" in fixed and "microbatch" in fixed
    assert "1b" not in _cautions(lumi), "the pass is made to fit"
    assert "1b" not in _cautions(replace(lumi, pretraining_settings=("microbatch=8",)))
    assert _cautions(StudySettings()) == ""
    assert "microbatch=1024" in _cautions(StudySettings(pretraining_settings=("microbatch=1024",)))
    assert "limit_hours" in _cautions(StudySettings(limit_hours=0.05))
    assert "64 workers share 8 cores" in _cautions(StudySettings(tuning_options=("--workers", "64")))
    assert "384 ids, but 1b has rows for 128,256" in _cautions(StudySettings(train_tokenizer=384))
    for place in ("/no/such/folder", "$NO_SUCH"):
        assert f"{place} does not exist here" in _cautions(StudySettings(binds=(place,)))


def test_the_dry_run_lists_them_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["workflow", MODEL, "--dir", str(tmp_path / "study")]
    assert main([*words, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert said.count("(the start refuses this)") >= 3
    for word in ("no text", "no tokenizer", "download them", "of FineWeb-Edu sample-"):
        assert word in said
    with pytest.raises(UserError, match="no text"):
        main(words)
    assert not (tmp_path / "study").exists()
