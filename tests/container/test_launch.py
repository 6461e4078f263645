from pathlib import Path

import pytest

from common.errors import UserError
from container.launch import command, launch, passed_on


def test_nothing_of_the_users_leaks_in_but_devices_and_jobs_do() -> None:
    environ = {
        "SLURM_JOB_ID": "7", "CUDA_VISIBLE_DEVICES": "0,1", "MASTER_ADDR": "node1", "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": "/home/me", "LD_LIBRARY_PATH": "/home/me", "HOME": "/home/me", "AWS_SECRET_ACCESS_KEY": "x",
    }  # fmt: skip
    assert set(passed_on(environ)) == {
        *("SLURM_JOB_ID", "CUDA_VISIBLE_DEVICES", "MASTER_ADDR", "HF_HUB_OFFLINE")
    }  # fmt: skip


def test_the_line_mounts_no_home_and_binds_the_folder_and_the_scratch(tmp_path: Path) -> None:
    line = command(
        Path("x.sif"),
        ["analysis", "--help"],
        environ={"CLM_OR_MLM_SCRATCH": str(tmp_path / "s")},
        binds=["/data"],
        cwd=tmp_path,
        devices=tmp_path,
    )
    text = " ".join(line)
    assert text.startswith(f"run --no-home --cleanenv --pwd {tmp_path} --bind")
    assert f"--bind {tmp_path} --bind {tmp_path / 's'} --bind /data x.sif analysis --help" in text


@pytest.mark.parametrize(("device", "option"), [("nvidiactl", "--nv"), ("kfd", "--rocm")])
def test_the_driver_comes_in_where_there_is_a_gpu(tmp_path: Path, device: str, option: str) -> None:
    (tmp_path / device).touch()
    environ = {"CLM_OR_MLM_SCRATCH": str(tmp_path)}
    assert option in command(Path("x.sif"), [], environ=environ, devices=tmp_path)
    environ["CLM_OR_MLM_GPU"] = "none"
    assert option not in command(Path("x.sif"), [], environ=environ, devices=tmp_path)
    environ["CLM_OR_MLM_GPU"] = "nvdia"
    with pytest.raises(UserError, match="must be auto, nvidia, rocm or none"):
        command(Path("x.sif"), [], environ=environ, devices=tmp_path)


def test_a_missing_image_says_how_to_build_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="python -m container build full"):
        launch(tmp_path / "full.sif", [])
