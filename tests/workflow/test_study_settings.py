"""Settings of a study over those of its site, and what is refused in either."""

import re
from pathlib import Path

import pytest

from common.errors import UserError
from common.provenance import ROOT
from workflow.jobs import QUEUES, queue_name
from workflow.slurm_request import request_of, sbatch_words
from workflow.study import workflow_of
from workflow.study_settings import load_settings


def _file(folder: Path, text: str, name: str = "w.toml") -> Path:
    (folder / name).write_text(text)
    return folder / name


def example_site() -> str:
    """Return the example of the page, as a file."""
    page = (ROOT / "docs/hpc.md").read_text()
    (block,) = re.findall(
        r"^    # mine-site.toml.*\n((?:    .*\n)+)", page, re.MULTILINE
    )
    return "".join(f"{line[4:]}\n" for line in block.splitlines())


def test_the_example_of_the_page_asks_by_kind_of_job(tmp_path: Path) -> None:
    _file(tmp_path, example_site(), "mine-site.toml")
    settings = load_settings(_file(tmp_path, 'site = "mine-site.toml"'))
    workflow = workflow_of("610m-clm-42k", settings)
    (shards,), (model,), (pack,) = (
        workflow.of_kind(kind) for kind in ("shards", "model", "cell")
    )
    queue = workflow.queue(shards)
    assert queue["account"] == "abc@cpu" and shards.gpus == 0
    assert queue["partition"] == "cpu_p1" and "constraint" not in queue
    for job in (model, pack):
        queue = workflow.queue(job)
        assert (queue["account"], queue["constraint"]) == ("abc@h100", "h100")
        assert (queue["qos"], queue["slurm_extra"]) == ("long", "--hint=nomultithread")
    assert workflow.modules == ("arch/h100", "singularity")
    assert workflow.environ["HF_HOME"] == "$SCRATCH/huggingface"


def test_settings_stand_above_the_sites(tmp_path: Path) -> None:
    site = 'gres = "gpu:h100"\naccount = "abc"\nruntime = "nvidia"\n'
    site += '[jobs.cpu]\npartition = "cpu"\n[environment]\nA = 1\nB = 2\n'
    _file(tmp_path, site, "mine.toml")
    path = _file(
        tmp_path,
        'site = "mine.toml"\ncpus = 2\nlimit_hours = 4\n[environment]\nB = "c"\n[jobs]\npartition = "main"\n',
    )
    settings = load_settings(path)
    assert settings.site == str(tmp_path / "mine.toml")
    assert (settings.gres, settings.cpus, settings.nodes) == ("gpu:h100", 2, 1)
    # What is said of one kind of jobs stands above what is said of all.
    queues = settings.jobs
    assert set(queues) == set(QUEUES)
    assert (queues["cpu"].partition, queues["gpu"].partition) == ("cpu", "main")
    assert {queue.account for queue in queues.values()} == {"abc"}
    assert settings.hours("cpu") == 4.0
    variables = {"CLM_OR_MLM_GPU": "nvidia", "A": "1", "B": "c"}
    assert settings.variables() == variables


def test_a_site_on_the_command_line_takes_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _file(tmp_path, "cpus = 3\n", "other.toml")
    path = _file(tmp_path, 'site = "no-such.toml"\n')
    monkeypatch.chdir(tmp_path)
    assert load_settings(path, "other.toml").cpus == 3
    assert load_settings(None, "other.toml").cpus == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("site = 'x.toml'", r"mine\.toml: a site's file cannot set 'site'"),
        ("text = ['x']", r"mine\.toml: a site's file cannot set 'text'"),
        ("module = ['x']", "unknown key 'module'; did you mean 'modules'"),
        ("modules = 'x'", "modules takes a list, not 'x'"),
        ("runtime = 'cuda'", "unknown runtime 'cuda'"),
        ("[jobs.gpuz]\n", "unknown kind of job 'gpuz'; kinds are cpu, gpu, gpus"),
        (
            "[jobs.gpu]\npartitoin = 'x'",
            r"mine.toml: \[jobs.gpu\]: unknown key 'partitoin'; did you mean 'partition'",
        ),
        ("jobs = 3", r"jobs takes a table, \[jobs\]"),
        ("gpus = 8", "mine.toml: unknown key 'gpus'"),
        ("cpus = '8'", "mine.toml: cpus takes a whole number, not '8'"),
        ("environment = 3", r"environment takes a table, \[environment\]"),
        ("[environment]\nA = true", "mine.toml: "),
        (
            '[jobs.gpu]\nslurm_extra = "--comment=\'a"',
            "slurm_extra .*no closing quotation",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(
    tmp_path: Path, text: str, message: str
) -> None:
    _file(tmp_path, text, "mine.toml")
    with pytest.raises(UserError, match=message):
        load_settings(_file(tmp_path, 'site = "mine.toml"\n'))


def test_a_site_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="whole-node does not exist; a site is a TOML"):
        load_settings(_file(tmp_path, 'site = "whole-node"\n'))


def test_any_option_of_sbatch_and_any_variable_may_be_given(tmp_path: Path) -> None:
    extra = "--gpus-per-node=h100:2 --clusters=alps --reservation='$(touch x) b'"
    text = f'[jobs]\nslurm_extra = "{extra}"\n[environment]\nTMPDIR = "$SLURM_TMPDIR"\n'
    settings = load_settings(_file(tmp_path, text))
    assert settings.environment == {"TMPDIR": "$SLURM_TMPDIR"}
    workflow = workflow_of("610m-clm-42k", settings)
    job = workflow.of_kind("model")[0]
    words = ["--gpus-per-node=h100:2", "--clusters=alps", "--reservation=$(touch x) b"]
    assert sbatch_words(request_of(workflow, job))[-3:] == words


def test_variables_in_paths_are_expanded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRATCH", "/scratch/me")
    found = load_settings(
        _file(
            tmp_path, "text = ['$SCRATCH/text/*.parquet']\ndata = '${SCRATCH}/data'\n"
        )
    )
    assert (
        found.text == ("/scratch/me/text/*.parquet",)
        and found.data == "/scratch/me/data"
    )


def test_a_job_belongs_to_a_kind_by_its_gpus() -> None:
    sizes = [(1, 0), (1, 1), (1, 2), (4, 8)]
    assert [queue_name(*size) for size in sizes] == ["cpu", "gpu", "gpus", "gpus"]


def test_paths_of_a_file_are_those_next_to_it(tmp_path: Path) -> None:
    found = load_settings(
        _file(
            tmp_path,
            "limit_hours = 4\ntokenizer = 'tok'\ntext = ['hf:a/b', 'x/*.parquet']\n",
        )
    )
    assert found.limit_hours == 4.0
    assert found.tokenizer == str(tmp_path / "tok")
    assert found.text == ("hf:a/b", str(tmp_path / "x/*.parquet"))
