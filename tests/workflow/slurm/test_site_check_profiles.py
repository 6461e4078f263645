"""Every site's profile on a Slurm of one's own that has its partitions, accounts, features and qualities of service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workflow.stand_ins.slurm import PrivateSlurm, private_slurm, why_not
from tests.workflow.stand_ins.study import ONCE, Study

pytestmark = [
    pytest.mark.slow,
    pytest.mark.slurm,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateSlurm]:
    with private_slurm(tmp_path_factory.mktemp("slurm") / "cluster") as made:
        yield made


SITES = {
    "generic": {"cpu": "main", "gpu": "main", "gpus": "main"},
    "whole-node": {"cpu": "main", "gpu": "main exclusive", "gpus": "main exclusive"},
    "gres-by-name": {"cpu": "main", "gpu": "main", "gpus": "main"},
    "jean-zay": {
        "cpu": "cpu_p1 abc@cpu",
        "gpu": "main abc@h100 h100 qos_gpu_h100-t3",
        "gpus": "main abc@h100 h100 qos_gpu_h100-t3",
    },
    "lumi": {"cpu": "small abc", "gpu": "small-g abc", "gpus": "standard-g abc exclusive"},
    "adastra": {
        "cpu": "main abc GENOA",
        "gpu": "main abc MI250 exclusive",
        "gpus": "main abc MI250 exclusive",
    },
}
"""What a site's profile asks for, by kind of job: partition, then account, feature, quality and whole nodes."""


@pytest.mark.parametrize("name", SITES)
def test_the_study_with_each_sites_profile(slurm: PrivateSlurm, tmp_path: Path, name: str) -> None:
    """What differs from the site: jobs are small, folders are here, and `module` only writes down what is loaded."""
    account = "abc" if "abc" in str(SITES[name]) else "abc@h100"
    (tmp_path / "site.toml").write_text(
        f'site = "{name}"\ngpus_per_node = 2\ntuning_gpus = 2\ncpus = 1\nmemory_gb = 0.5\n'
        '[environment]\nCLM_OR_MLM_SCRATCH = "$STAND_IN_SCRATCH"\n'
    )
    settings = tmp_path / "w.toml"
    settings.write_text(f'site = "site.toml"\naccount = "{account}"\n')
    study = Study(slurm, tmp_path / "study", settings=str(settings))
    module = study.folder / "bin" / "module"
    module.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/modules\n')
    module.chmod(0o755)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    study.environ |= dict.fromkeys(
        ("STAND_IN_SCRATCH", "SCRATCH", "WORK", "SCRATCHDIR", "WORKDIR"), str(scratch)
    )
    study.finish(study.start())
    assert study.submitted() == ONCE
    assert study.repeated() == (0, 0)
    rows = {row["Comment"].removeprefix("rule_"): row for row in slurm.jobs()[study.before :]}
    for marker, kind in (
        ("shards_wildcards_shards", "cpu"),
        ("stage_wildcards_s", "gpu"),
        ("cell_wildcards_a", "gpus"),
    ):
        row = rows[marker]
        found = [row["Partition"], row["Account"], row["Features"], row["QOS"]]
        found += ["exclusive"] if row["OverSubscribe"] == "NO" else []
        partition, *more = SITES[name][kind].split()
        assert row["Partition"] == partition
        assert set(more) - {"exclusive"} <= set(found) and ("exclusive" in more) == ("exclusive" in found), (
            row
        )
        gpus = {"cpu": "", "gpu": "1", "gpus": "2"}[kind]
        gres = "gres:gpu:h100" if name == "gres-by-name" else "gres:gpu"
        assert row.get("TresPerNode", "") == (f"{gres}:{gpus}" if gpus else "")
    loaded = (tmp_path / "modules").read_text().splitlines() if (tmp_path / "modules").is_file() else []
    assert set(loaded) == ({"load arch/h100 singularity"} if name == "jean-zay" else set())
