"""What a Slurm of one's own would refuse is refused at once (what jobs ask for: `test_site_check_profiles`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from common.errors import UserError
from container.machine import Machine
from tests.workflow.stand_ins.slurm import PrivateSlurm, private_slurm, why_not
from workflow.settings import load_settings
from workflow.slurm import refuse_what_slurm_refuses
from workflow.study import workflow_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.slurm,
    pytest.mark.timeout(600),
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]

SITE = """
modules = []
gpus_per_node = 2
cpus = 1
memory_gb = 1.0
limit_hours = 2.0
[environment]
OF_THE_SITE = "$SLURM_JOB_ID"
[jobs.cpu]
partition = "cpu"
account = "abc@cpu"
slurm_extra = "--nice=7"
[jobs.gpu]
partition = "gpu"
account = "abc@h100"
qos = "short"
constraint = "h100"
hours = 1.0
[jobs.gpus]
partition = "gpu"
account = "abc@h100"
qos = "long"
constraint = "h100"
slurm_extra = "--exclusive --nice=9"
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateSlurm]:
    with private_slurm(tmp_path_factory.mktemp("slurm") / "cluster") as made:
        yield made


def _settings(folder: Path, more: str = "") -> Path:
    (folder / "site.toml").write_text(SITE + more)
    (folder / "w.toml").write_text('site = "site.toml"\n')
    return folder / "w.toml"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('[jobs.cpu]\npartition = "gppu"', "Invalid partition name specified"),
        ('[jobs.gpus]\nconstraint = "a100"', "Invalid feature specification"),
        ('[jobs.gpus]\nqos = "dev"', "Invalid qos specification"),
        ('[jobs.cpu]\naccount = "other"', "Invalid account or account/partition combination"),
        ('[jobs.cpu]\nslurm_extra = "--exclusiv3"', "unrecognized option '--exclusiv3'"),
        (
            '[jobs.cpu]\nslurm_extra = "--qos=long"',
            "slurm_extra '--qos=long': The --quality-of-service option",
        ),
        ('gres = "gpu:h200"', "Requested node configuration is not available"),
        ("gpus_per_node = 3", "Requested node configuration is not available"),
        ("[jobs.gpus]\nhours = 30.0", "the partition gpu takes no jobs longer than 10:00:00"),
    ],
)
def test_what_slurm_would_refuse_is_refused_at_once(
    slurm: PrivateSlurm, tmp_path: Path, more: str, message: str
) -> None:
    (tmp_path / "base.toml").write_text(SITE)
    (tmp_path / "site.toml").write_text(f'site = "base.toml"\n{more}\n')
    (tmp_path / "w.toml").write_text('site = "site.toml"\n')
    settings = load_settings(tmp_path / "w.toml")
    workflow = workflow_of("610m-clm-42k", settings)
    site = Machine(environ=slurm.environ)
    with pytest.raises(UserError, match=message):
        refuse_what_slurm_refuses(workflow, site)


def test_a_profile_that_fits_is_taken(slurm: PrivateSlurm, tmp_path: Path) -> None:
    workflow = workflow_of("610m-clm-42k", load_settings(_settings(tmp_path)))
    refuse_what_slurm_refuses(workflow, Machine(environ=slurm.environ))
