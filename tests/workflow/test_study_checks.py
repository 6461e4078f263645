"""What a study's start refuses and warns of is listed by its dry run, each in a sentence."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from clm_or_mlm.__main__ import main
from common.errors import UserError
from common.manifest import write_manifest
from common.provenance import git_commit
from tests.commands import program
from tests.pretraining.families import save_start
from tests.workflow import smallest
from workflow.jobs import Workflow
from workflow.start import Start
from workflow.study import workflow_of
from workflow.study_checks import STUDY_CHECKS, image, sample_of
from workflow.study_settings import StudySettings

READY = StudySettings(
    text=(__file__,),
    train_tokenizer=100_000,
    make_datasets=("--train", "4"),
    gpus_per_node=0,
    repeat_text=True,
)
MODEL = "210m-clm-42k"


def _found(start: Start, status: str) -> list[str]:
    lines = [line for check in STUDY_CHECKS for line in check(start)]
    return [line.sentence for line in lines if line.status == status]


def _missing(settings: StudySettings, folder: Path) -> list[str]:
    workflow = workflow_of(MODEL, settings)
    start = Start(folder=folder, settings=settings, workflow=workflow)
    return _found(start, "fail")


def test_a_study_that_lacks_nothing_can_start(tmp_path: Path) -> None:
    assert _missing(READY, tmp_path) == []
    (tmp_path / "sst2").mkdir()
    (tmp_path / "sst2" / "manifest.json").touch()
    assert (
        _missing(
            replace(READY, make_datasets=(), datasets=("sst2",), data=str(tmp_path)),
            tmp_path,
        )
        == []
    )


def test_an_environment_without_torch_needs_an_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workflow.study_checks.find_spec", lambda name: None)
    (found,) = _missing(READY, tmp_path)
    assert "--image build/full.sif" in found and ".venv/full/bin/clm-or-mlm" in found
    workflow = workflow_of(MODEL, READY, str(tmp_path / "full.sif"))
    start = Start(folder=tmp_path, settings=READY, workflow=workflow)
    assert not any("torch" in sentence for sentence in _found(start, "fail"))


def _shards(workflow: Workflow, folder: Path, tokens: float) -> str | None:
    write_manifest(
        folder / "shards/manifest.json", {"splits": {"train": {"tokens": tokens}}}
    )
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


def test_finished_shards_do_without_what_they_were_made_of(tmp_path: Path) -> None:
    text, tokenizer = (
        str(tmp_path / "purged" / name) for name in ("*.parquet", "tokenizer")
    )
    settings = replace(
        READY, repeat_text=False, train_tokenizer=0, text=(text,), tokenizer=tokenizer
    )
    workflow = workflow_of(MODEL, settings)
    assert [("purged" in said) for said in _missing(settings, tmp_path)] == [True, True]
    assert _shards(workflow, tmp_path, workflow.of_kind("shards")[0].tokens) is None
    assert _missing(settings, tmp_path) == []


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("", "command not found"),
        ("echo 'Unable to locate apptainer/9.9'; exit 1", "locate"),
        ("true", ""),
    ],
)
def test_modules_are_loaded_once_before_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, said: str
) -> None:
    if module:
        program(tmp_path / "module", f'echo "$@" > {tmp_path}/loaded\n{module}')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = _missing(replace(READY, modules=("apptainer/9.9",)), tmp_path)
    assert [said in line and "correct `modules`" in line for line in found] == (
        [True] if said else []
    )
    assert not module or (tmp_path / "loaded").read_text() == "load apptainer/9.9\n"


def test_the_sample_of_fineweb_edu_has_tokens_to_spare() -> None:
    assert [sample_of(tokens) for tokens in (1e9, 9.5e9, 90e9, 151.9e9, 400e9)] == [
        "sample-10BT", "sample-100BT", "sample-100BT", "sample-350BT", "the whole of it",
    ]  # fmt: skip


def _cautions(settings: StudySettings) -> str:
    workflow = workflow_of("1b-clm-42k", settings)
    start = Start(folder=Path(), settings=settings, workflow=workflow)
    return "\n".join(said for said in _found(start, "warn") if " GB free" not in said)


def test_a_disk_that_is_too_small_is_in_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = SimpleNamespace(f_bavail=1, f_frsize=10**9, f_files=0, f_favail=0)
    monkeypatch.setattr("workflow.study_progress.os.statvfs", lambda _: full)
    workflow = workflow_of(MODEL, READY)
    start = Start(folder=tmp_path, settings=READY, workflow=workflow)
    assert any("has 1 GB free, but the study" in said for said in _found(start, "warn"))


def test_memory_limits_and_folders_are_warned_of(tmp_path: Path) -> None:
    amd = StudySettings(device="MI250X")
    fixed = _cautions(replace(amd, pretraining_settings=("microbatch=12",)))
    assert "MI250X has 64" in fixed and "microbatch" in fixed
    assert "1b" not in _cautions(amd), "the pass is made to fit"
    assert "1b" not in _cautions(replace(amd, pretraining_settings=("microbatch=8",)))
    assert _cautions(StudySettings()) == ""
    assert "microbatch=1024" in _cautions(
        StudySettings(pretraining_settings=("microbatch=1024",))
    )
    assert "limit_hours" in _cautions(StudySettings(limit_hours=0.05))
    assert "64 workers share 8 cores" in _cautions(
        StudySettings(tuning_options=("--workers", "64"))
    )
    assert "384 ids, but 1b has rows for 128,256" in _cautions(
        StudySettings(train_tokenizer=384)
    )
    own = {"HF_HOME": "$NO_SUCH/cache", "OMP_PLACES": "$SLURM_JOB_ID", "OMP_X": "$HOME"}
    assert "HF_HOME is $NO_SUCH/cache, but NO_SUCH is not set here" in _cautions(
        StudySettings(environment=own)
    )
    assert "OMP_" not in _cautions(StudySettings(environment=own))
    for place in ("/no/such/folder", "$NO_SUCH"):
        assert f"{place} does not exist here" in _cautions(
            StudySettings(binds=(place,))
        )


def test_a_tokenizer_is_compared_with_the_rows_of_a_start(tmp_path: Path) -> None:
    folder = save_start(tmp_path / "start", "qwen2")
    study = tmp_path / "study.toml"
    study.write_text(
        f'decay_steps = 2\n[models.mine]\nstart = "{folder}"\nstages = ["mlm40:4"]\n'
    )
    settings = replace(READY, study=str(study), train_tokenizer=64)
    start = Start(
        folder=tmp_path, settings=settings, workflow=workflow_of("all", settings)
    )
    rows = json.loads((folder / "config.json").read_text())["vocab_size"]
    assert any(
        "the tokenizer has 64 ids, but from_start" in said
        and f"has rows for {rows:,}; is it the study's tokenizer?" in said
        for said in _found(start, "warn")
    )


def test_hub_text_without_a_network_needs_no_site(tmp_path: Path) -> None:
    settings = replace(READY, text=("hf:owner/name",), offline=True)
    workflow = workflow_of(MODEL, settings)
    start = Start(
        folder=tmp_path, settings=settings, workflow=workflow, profile="slurm"
    )
    assert "compute nodes lack (offline = true)" in _found(start, "fail")[0]


def test_slices_of_gpus_do_not_train_together(tmp_path: Path) -> None:
    settings = StudySettings(gres="gpu:1g.10gb", gpus_per_node=2)
    assert any("(MIG)" in said for said in _missing(settings, tmp_path))
    assert not any(
        "(MIG)" in said
        for said in _missing(replace(settings, gpus_per_node=1), tmp_path)
    )


def test_a_dry_run_leaves_no_files_and_an_address_is_no_image(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*smallest.WORDS, "--dir", str(tmp_path / "study"), "--dry-run"]) == 0
    assert not (tmp_path / "study").exists()
    assert (
        f"all in {tmp_path / 'study'}" in (said := capsys.readouterr().out)
        and "(the start refuses" not in said
    )
    with pytest.raises(UserError, match=r"--image docker://foo/bar is an address"):
        main(
            [
                *smallest.WORDS,
                "--dir",
                str(tmp_path),
                "--dry-run",
                "--image",
                "docker://foo/bar",
            ]
        )


def test_the_dry_run_lists_them_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["workflow", MODEL, "--dir", str(tmp_path / "study")]
    assert main([*words, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert said.count("(the start refuses this)") >= 3
    assert "--tokenizer is empty" not in said
    for word in ("no text", "no tokenizer", "download them", "of FineWeb-Edu sample-"):
        assert word in said
    with pytest.raises(UserError, match="no text"):
        main(words)
    assert not (tmp_path / "study").exists()


CONTENT = bytes(32) + b"SIF_MAGIC"


@pytest.mark.parametrize(
    ("said", "key", "status", "sentence"),
    [
        (f"full {git_commit()}", "good.pem", "ok", "full.sif starts here"),
        (
            "full abc",
            "",
            "warn",
            "jobs run the image's commit abc, not this checkout's",
        ),
        (
            "analysis abc",
            "",
            "fail",
            "full.sif is the analysis image; jobs need the full one: make image-full",
        ),
        ("hello", "", "fail", "full.sif cannot be started here"),
        (
            "full abc",
            "other.pem",
            "fail",
            "full.sif is not signed with the key other.pem",
        ),
    ],
)
def test_an_image_is_started_and_its_hash_and_commit_are_noted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: str,
    key: str,
    status: str,
    sentence: str,
) -> None:
    """A made-up Apptainer, to which an image is signed with the key `good.pem` alone."""
    (tmp_path / "full.sif").write_bytes(CONTENT)
    answers = (
        f'case "$*" in verify*good.pem*) ;; verify*) exit 1;; run*) echo {said};; esac'
    )
    program(tmp_path / "apptainer", answers)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("CLM_OR_MLM_SCRATCH", str(tmp_path))
    study = Workflow(target="all", jobs={}, image=str(tmp_path / "full.sif"))
    if key:
        (tmp_path / key).touch()
    monkeypatch.chdir(tmp_path)
    settings = StudySettings(image_key=key)
    start = Start(folder=tmp_path / "study", settings=settings, workflow=study)
    (line,) = image(start)
    assert line.status == status and sentence in line.sentence
    if status != "fail":
        found = start.workflow_with_image()
        noted = (found.image_sha256, found.image_commit)
        assert noted == (hashlib.sha256(CONTENT).hexdigest(), said.split()[1])


def test_without_an_image_nothing_is_started(tmp_path: Path) -> None:
    workflow = Workflow(target="all", jobs={})
    start = Start(folder=tmp_path, workflow=workflow)
    assert not list(image(start)) and start.workflow_with_image() == workflow
