"""Site profiles: those that come with the package, and what is refused in one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.errors import UserError
from workflow.settings import Settings, load_settings
from workflow.site_file import QUEUES, load_site, queue_name, site_names
from workflow.study import workflow_of


def _mine(folder: Path, text: str, name: str = "mine.toml") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


@pytest.mark.parametrize("name", site_names())
def test_every_profile_plans_the_study(name: str) -> None:
    settings = load_settings(None, "") if name == "generic" else Settings()
    site = load_site(name, "abc")
    assert site.title and site.checked and set(site.queues) == set(QUEUES)
    settings = Settings(**{"site": name, "account": "abc", **site.settings})
    workflow = workflow_of("figure3", settings)
    assert workflow.jobs
    # What Slurm would be asked for is one word each, without a placeholder.
    words = [word for queue in workflow.queues.values() for word in queue.values()]
    assert not any("{" in word for word in (*words, *workflow.environ.values()))
    assert all(queue["slurm_account"] for queue in workflow.queues.values())


def test_jean_zay_asks_by_kind_of_job() -> None:
    settings = Settings(**{"site": "jean-zay", "account": "abc", **load_site("jean-zay", "abc").settings})
    workflow = workflow_of("610m-clm-42k", settings)
    (shards,), (model,), (pack,) = (workflow.of_kind(kind) for kind in ("shards", "model", "cell"))
    assert workflow.queue(shards)["slurm_account"] == "abc@cpu" and shards.gpus == 0
    assert workflow.queue(shards)["slurm_partition"] == "cpu_p1" and "constraint" not in workflow.queue(
        shards
    )
    for job in (model, pack):
        queue = workflow.queue(job)
        assert (queue["slurm_account"], queue["constraint"]) == ("abc@h100", "h100")
        assert (queue["qos"], queue["slurm_extra"]) == ("qos_gpu_h100-t3", "--hint=nomultithread")
    assert workflow.modules == ("arch/h100", "singularity")
    assert workflow.environ["HF_HOME"] == "$SCRATCH/huggingface"


def test_a_site_of_ones_own_starts_from_another(tmp_path: Path) -> None:
    base = _mine(tmp_path, 'base = "whole-node"\ngres = "gpu:h100"\n[jobs.cpu]\npartition = "cpu"\n')
    (tmp_path / "w.toml").write_text('site = "mine.toml"\npartition = "main"\ncpus = 2\nlimit_hours = 4\n')
    settings = load_settings(tmp_path / "w.toml")
    assert settings.profile.name == "mine" and settings.profile.gres == "gpu:h100"
    assert (settings.device, settings.gpus_per_node, settings.tuning_gpus, settings.cpus) == ("H100", 4, 4, 2)
    queues = settings.profile.queues
    assert (queues["cpu"].partition, queues["gpu"].partition) == ("cpu", "main")
    assert (queues["cpu"].hours, queues["gpus"].slurm_extra) == (4.0, "--exclusive")
    assert base.endswith("mine.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("base = 'lum'", "unknown site 'lum'; did you mean 'lumi'"),
        ("base = 'mine.toml'", "is its own base"),
        ("module = ['x']", "unknown key 'module'; did you mean 'modules'"),
        ("modules = 'x'", "modules takes a list, not 'x'"),
        ("runtime = 'cuda'", "unknown runtime 'cuda'"),
        ("[jobs.gpuz]\n", "unknown kind of jobs 'gpuz'; kinds are cpu, gpu, gpus"),
        ("[jobs.gpu]\npartitoin = 'x'", "jobs.gpu: unknown key 'partitoin'; did you mean 'partition'"),
        ("jobs = 3", r"jobs takes a table, \[jobs\]"),
        ("[settings]\ngpus = 8", "site mine: unknown key 'gpus'"),
        ("[settings]\ncpus = '8'", "site mine: cpus takes a whole number, not '8'"),
        ("[jobs.gpu]\naccount = '{account}@gpu'", "needs the project's account"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(tmp_path: Path, text: str, message: str) -> None:
    _mine(tmp_path, text)
    (tmp_path / "w.toml").write_text('site = "mine.toml"\n')
    with pytest.raises(UserError, match=message):
        load_settings(tmp_path / "w.toml")


def test_a_file_that_is_not_there_and_an_unknown_name(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"x\.toml does not exist"):
        load_site(str(tmp_path / "x.toml"))
    with pytest.raises(UserError, match="did you mean 'jean-zay'"):
        load_site("jean_zay")


def test_a_job_belongs_to_a_kind_by_its_gpus() -> None:
    sizes = [(1, 0), (1, 1), (1, 2), (4, 8)]
    assert [queue_name(*size) for size in sizes] == ["cpu", "gpu", "gpus", "gpus"]
