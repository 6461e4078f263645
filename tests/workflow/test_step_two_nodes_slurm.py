"""The smallest study on two nodes with a network each: torchrun in a container a node, in the full image if built."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from common.provenance import PROVENANCE, ROOT, git_commit
from tests.workflow import smallest
from tests.workflow.stand_ins.slurm import NEEDS_SLURM, private_slurm

pytestmark = [
    pytest.mark.timeout(2400),
    *NEEDS_SLURM,
    pytest.mark.skipif(
        shutil.which("ip") is None, reason="ip (iproute2) is not installed"
    ),
]

MODEL = smallest.MODELS[1]
"""One that leaves a trunk half-way: two jobs on two nodes, one after the other."""
IMAGE = ROOT / "build" / "full.sif"

SITE = """
runtime = "none"
[environment]
GLOO_SOCKET_IFNAME = "eth0"
"""


def test_two_nodes_train_tune_and_analyse(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    shutil.copytree(smallest.FOLDER, tmp_path, dirs_exist_ok=True)
    settings = (tmp_path / smallest.SETTINGS.name).read_text()
    study = (tmp_path / "study.toml").read_text()
    (tmp_path / "study.toml").write_text(
        study.replace(str(list(smallest.MODELS)), str([MODEL]))
    )
    for old, new in (
        (str(list(smallest.DATASETS)), "['sst2', 'msmarco']"),
        ("[1e-4, 5e-4]", "[5e-4]"),
        ("[0, 1]", "[0]"),
    ):
        assert old in settings
        settings = settings.replace(old, new)
    (tmp_path / "site.toml").write_text(SITE)
    (tmp_path / "two.toml").write_text(
        settings.replace(
            "gpus_per_node = 0",
            "gpus_per_node = 1\nnodes = 2\nsite = 'site.toml'\naccount = 'abc'",
        )
    )
    words = [
        "all",
        "--profile",
        "slurm",
        "--dir",
        str(folder),
        "--settings",
        str(tmp_path / "two.toml"),
    ]
    words += ["--image", str(IMAGE)] if IMAGE.is_file() else []
    with private_slurm(tmp_path / "cluster", networks=True) as slurm:
        environ = slurm.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "clm_or_mlm", "workflow", *words]
        ended = subprocess.run(
            command, env=environ, cwd=ROOT, capture_output=True, text=True
        )
        assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
        end = time.monotonic() + 1800
        while slurm.output("squeue", "-h").strip():
            assert time.monotonic() < end
            time.sleep(2)
        logs = "\n".join(path.read_text()[-3000:] for path in folder.glob("logs/*/*.*"))
        assert (folder / "analysis/all/reproduce.json").is_file(), logs
        stages = [
            row
            for row in slurm.jobs()
            if row["Comment"].startswith(("done/stage", "done/model"))
        ]
        assert {(row["NumNodes"], row["BatchHost"]) for row in stages} == {
            ("2", "east")
        }
    assert len(list(folder.glob("results/*/*/*/*/results.json"))) == 2
    assert [
        path.parent.name
        for path in folder.glob("pretraining/models/*/model.safetensors")
    ] == [MODEL]
    # Each step was taken by two processes, one a node.
    timings = list(folder.glob("pretraining/stages/*/timings.jsonl"))
    rows = [
        json.loads(line) for path in timings for line in path.read_text().splitlines()
    ]
    assert rows and {row["processes"] for row in rows} == {2}
    # What was drawn there has the bytes of what is drawn here, by the same code.
    made, here = folder / "analysis" / "all", tmp_path / "here"
    figures = sorted(
        path
        for path in (made / "figures").iterdir()
        if not path.name.endswith(PROVENANCE)
    )
    assert figures
    drawn_by = json.loads(
        (made / "figures" / f"{figures[0].stem}.{PROVENANCE}").read_text()
    )["commit"]
    assert drawn_by == git_commit(), "the image is of another commit; build it again"
    reproduce = [
        "reproduce",
        "--source",
        str(made / "runs.parquet"),
        "--out",
        str(here),
    ]
    subprocess.run(
        [sys.executable, "-m", "clm_or_mlm", *reproduce],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    for path in figures:
        assert path.read_bytes() == (here / "figures" / path.name).read_bytes(), (
            path.name
        )
