import os
import shutil
import subprocess
from pathlib import Path

import pytest

from common.errors import UserError
from common.provenance import ROOT
from container.machine import Machine
from container.start import (
    cache_environment,
    command_of,
    compat_folder,
    driver_problem,
    lost_output,
    refuse_fewer_gpus,
    scratch_of,
)
from tests.commands import python

FIGURE_3 = [
    "clm_or_mlm",
    "figure",
    "3",
    "--source",
    "published",
    "--out",
    "build/figures",
]


def test_the_first_writable_place_is_private_a_named_one_stays(
    tmp_path: Path,
) -> None:
    folder = scratch_of(
        {"SLURM_TMPDIR": str(tmp_path / "job"), "TMPDIR": str(tmp_path)}
    )
    assert folder.parent == tmp_path / "job"
    assert folder.stat().st_mode & 0o077 == 0
    assert not list(folder.iterdir())
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert (
        scratch_of({"SLURM_TMPDIR": str(blocked), "TMPDIR": str(tmp_path)}).parent
        == tmp_path
    )
    with pytest.raises(
        UserError, match=r"file \(not a directory\); set CLM_OR_MLM_SCRATCH"
    ):
        scratch_of({"CLM_OR_MLM_SCRATCH": str(blocked), "TMPDIR": str(tmp_path)})


def test_a_full_disk_is_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Machine, "write_problem", lambda *_: "no space left on device")
    with pytest.raises(UserError, match="no space left on device"):
        scratch_of({"CLM_OR_MLM_SCRATCH": str(tmp_path)})


def test_a_link_laid_by_someone_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"clm-or-mlm-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="is not a folder"):
        scratch_of({"CLM_OR_MLM_SCRATCH": str(tmp_path)})


def test_caches_go_to_the_scratch_but_the_users_choice_is_kept(tmp_path: Path) -> None:
    chosen = cache_environment(
        tmp_path, {"HF_HOME": "/models", "HOME": "/no/such/home"}
    )
    assert "HF_HOME" not in chosen
    assert chosen["MPLCONFIGDIR"] == str(tmp_path / "matplotlib")
    assert Path(chosen["HOME"]).is_dir()
    assert "HOME" not in cache_environment(tmp_path, {"HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("words", "run"),
    [
        (["claims", "--help"], ["clm_or_mlm", "claims", "--help"]),
        (
            ["torch.distributed.run", "-m", "clm_or_mlm"],
            ["torch.distributed.run", "-m", "clm_or_mlm"],
        ),
        # A user's options follow those of the short name, and the last one counts.
        (["reproduce-figure3", "--out=x"], [*FIGURE_3, "--out=x"]),
    ],
)
def test_words_are_a_command_torchrun_or_figure_3(
    words: list[str], run: list[str]
) -> None:
    assert command_of(words) == run


def test_it_says_its_name_and_its_codes_commit() -> None:
    environ = {"CLM_OR_MLM_IMAGE": "full", "CLM_OR_MLM_COMMIT": "abc"}
    assert (
        python("-m", "container.start", "identity", code=0, **environ).stdout
        == "full abc\n"
    )


def test_a_gpu_without_its_driver_is_refused_in_the_full_image(tmp_path: Path) -> None:
    device = tmp_path / "nvidiactl"
    assert driver_problem({"CLM_OR_MLM_IMAGE": "full"}, device) is None
    device.touch()
    if (
        os.environ.get("CUDA_VISIBLE_DEVICES") is None
        and not Path("/dev/nvidiactl").exists()
    ):
        assert "--nv" in (driver_problem({"CLM_OR_MLM_IMAGE": "full"}, device) or "")
    assert driver_problem({"CLM_OR_MLM_IMAGE": "analysis"}, device) is None


def test_a_command_runs_anywhere_with_caches_in_the_scratch(
    tmp_path: Path,
) -> None:
    scratch = {"PYTHONSAFEPATH": "1", "CLM_OR_MLM_SCRATCH": str(tmp_path / "scratch")}
    (tmp_path / "analysis.py").write_text("raise SystemExit('shadowed')")
    answer = python(
        "-m", "container.start", "claims", "--help", cwd=tmp_path, code=0, **scratch
    )
    assert "python -m clm_or_mlm claims" in answer.stdout
    assert (tmp_path / "scratch").is_dir()


OLD_DRIVER = "int cuInit(unsigned f){return 0;} int cuDriverGetVersion(int*v){*v=12040;return 0;}"
VERSION = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n"


@pytest.mark.skipif(
    shutil.which("gcc") is None, reason="a stand-in for a driver needs gcc"
)
@pytest.mark.skipif(
    Path("/dev/nvidiactl").exists(), reason="this machine has an NVIDIA driver"
)
def test_a_job_with_gpus_does_not_compute_on_the_cpu(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with pytest.raises(UserError) as found:
        refuse_fewer_gpus(2, os.environ, tmp_path)
    assert all(
        word in str(found.value)
        for word in ("2 GPU(s)", "torch 2", "CUDA", "on 0", "no NVIDIA driver", "gres")
    )
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia/version").write_text(VERSION)
    (tmp_path / "old.c").write_text(OLD_DRIVER)
    subprocess.run(
        [
            "gcc",
            "-shared",
            "-fPIC",
            "-o",
            tmp_path / "libcuda.so.1",
            tmp_path / "old.c",
        ],
        check=True,
    )
    with pytest.raises(UserError) as found:
        refuse_fewer_gpus(2, os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}, tmp_path)
    said = str(found.value)
    assert all(
        word in said
        for word in ("driver 535.104.05", "too old", "needs driver 580", "cuda_compat")
    )
    assert "\n" not in said


def test_a_job_without_its_gpus_ends_before_its_command(tmp_path: Path) -> None:
    """A torch that is a file of four lines, since the real one is asked above."""
    (tmp_path / "torch.py").write_text(
        "from types import SimpleNamespace as Of\n__version__ = '2'\nversion = Of(cuda='13.0', hip=None)\n"
        "cuda = Of(is_available=lambda: False)\n"
    )
    given = {"CLM_OR_MLM_SCRATCH": str(tmp_path), "CLM_OR_MLM_GPU_COUNT": "99"}
    path = f"{tmp_path}:{ROOT}"
    answer = python(
        "-m", "container.start", "claims", "--help", code=2, PYTHONPATH=path, **given
    )
    assert "99 GPU(s)" in answer.stderr and not answer.stdout


def test_libraries_of_a_driver_are_the_clusters(tmp_path: Path) -> None:
    assert compat_folder({}) is None
    for name in (tmp_path / "none", tmp_path):
        with pytest.raises(UserError, match="no full path of a folder"):
            compat_folder({"CLM_OR_MLM_CUDA_COMPAT": str(name)})
    (tmp_path / "libcuda.so.1").touch()
    tmp_path.chmod(0o777)
    with pytest.raises(UserError, match="belong to root alone"):
        compat_folder({"CLM_OR_MLM_CUDA_COMPAT": str(tmp_path)})
    if os.getuid() == 0:
        tmp_path.chmod(0o755)
        assert compat_folder({"CLM_OR_MLM_CUDA_COMPAT": str(tmp_path)}) == tmp_path


@pytest.mark.parametrize(
    ("words", "here", "lost"),
    [
        (["figure", "3", "--out", "/dev/figures"], "/", True),
        (["reproduce", "--out=/dev/a/b"], "/", True),
        (["workflow", "figure3", "--dir", "/dev/study"], "/", True),
        (["figure", "3"], "/dev", True),
        (["figure", "3", "--help"], "/dev", False),
        (["claims"], "/dev", False),
        (["figure", "3", "--out", "/proc"], "/dev", False),
    ],
)
def test_an_output_in_the_memory_of_a_contained_image_is_refused(
    monkeypatch: pytest.MonkeyPatch, words: list[str], here: str, lost: bool
) -> None:
    monkeypatch.chdir(here)
    said = lost_output(["clm_or_mlm", *words], {"CLM_OR_MLM_IMAGE": "analysis"}) or ""
    assert ("--bind DIR" in said and "/dev" in said) == lost == bool(said)
    assert lost_output(["clm_or_mlm", *words], {}) is None
