"""Every wrong site setting is found by `doctor`; each test makes one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from container import doctor
from container.doctor import CHECKS, Line, report
from container.site import Site


@dataclass(frozen=True, kw_only=True)
class FakeSite(Site):
    """A machine whose programs answer what a test says."""

    answers: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Exit code and output by the first words of a command."""

    def which(self, program: str) -> str | None:
        known = {words.split()[0].rsplit("/")[-1] for words in self.answers}
        return f"/usr/bin/{program}" if program in known else None

    def output(self, command: Sequence[str], seconds: float = 30) -> tuple[int, str]:
        line = " ".join([Path(command[0]).name, *command[1:]])
        for words, answer in self.answers.items():
            if line.startswith(words):
                return answer
        return 127, "no such program"


@pytest.fixture
def machine(tmp_path: Path) -> Callable[..., FakeSite]:
    """Return a maker of healthy machines whose files are under tmp_path and whose parts a test breaks."""
    for name in ("proc/sys/user", "proc/sys/kernel", "dev/shm", "tmp", "etc", "home/me", "study"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "proc/sys/user/max_user_namespaces").write_text("10000\n")

    def make(environ: dict[str, str] | None = None, **answers: tuple[int, str]) -> FakeSite:
        healthy = {
            "apptainer --version": (0, "apptainer version 1.4.5"),
            "unshare --user true": (0, ""),
        }
        changed = {key.replace("_", " ").replace("  ", "--"): value for key, value in answers.items()}
        return FakeSite(
            environ={"HOME": str(tmp_path / "home/me"), "CLM_OR_MLM_SCRATCH": str(tmp_path / "tmp")}
            | (environ or {}),
            root=tmp_path,
            study=tmp_path / "study",
            answers=healthy | changed,
        )

    return make


Maker = Callable[..., FakeSite]


def test_a_healthy_machine_has_no_fail(machine: Maker) -> None:
    lines = [check(machine()) for check in CHECKS]
    assert {line.status for line in lines} <= {"ok", "warn"}
    assert "0 fail" in report(lines)


def test_no_apptainer(machine: Maker) -> None:
    site = FakeSite(environ={}, root=machine().root)
    line = doctor.apptainer(site)
    assert line.status == "fail"
    assert "module load" in line.advice


@pytest.mark.parametrize("version", ["apptainer version 1.0.3", "singularity-ce version 4.1.1"])
def test_an_old_or_other_apptainer(machine: Maker, version: str) -> None:
    site = FakeSite(environ={}, root=machine().root, answers={"apptainer --version": (0, version)})
    assert doctor.apptainer(site).status == "warn"


def test_no_user_namespaces_by_limit(machine: Maker) -> None:
    site = machine()
    (site.root / "proc/sys/user/max_user_namespaces").write_text("0\n")
    line = doctor.user_namespaces(site)
    assert (line.status, line.seen) == ("fail", "user.max_user_namespaces is 0")


def test_no_user_namespaces_by_debians_switch(machine: Maker) -> None:
    site = machine()
    (site.root / "proc/sys/kernel/unprivileged_userns_clone").write_text("0\n")
    assert doctor.user_namespaces(site).status == "fail"


def test_no_user_namespaces_by_trying(machine: Maker) -> None:
    site = FakeSite(environ={}, root=machine().root, answers={"unshare --user true": (1, "EPERM")})
    assert doctor.user_namespaces(site).status == "fail"
    (site.root / "proc/sys/kernel/apparmor_restrict_unprivileged_userns").write_text("1\n")
    assert "AppArmor" in doctor.user_namespaces(site).seen


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write everywhere")
def test_a_home_that_cannot_be_written_for_real(machine: Maker) -> None:
    site = machine()
    Path(site.environ["HOME"]).chmod(0o500)
    assert doctor.home(site).status == "fail"


def test_a_home_that_cannot_be_written(machine: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Site, "write_problem", lambda self, folder: "disk quota exceeded")
    line = doctor.home(machine())
    assert line.status == "fail"
    assert "quota" in line.seen


def test_no_home_at_all(machine: Maker) -> None:
    line = doctor.home(machine({"HOME": "/no/such/home"}))
    assert line.status == "warn"
    assert "XDG_CACHE_HOME" in line.advice


def test_packages_that_leak_in(machine: Maker) -> None:
    assert doctor.python_leaks(machine({"PYTHONPATH": "/home/me/lib"})).status == "warn"
    site = machine()
    (Path(site.environ["HOME"]) / ".local/lib/python3.11/site-packages").mkdir(parents=True)
    assert doctor.python_leaks(site).status == "warn"
    assert doctor.python_leaks(machine({"PYTHONNOUSERSITE": "1"})).status == "ok"


def test_a_scratch_that_cannot_be_written(machine: Maker, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    line = doctor.scratch(machine({"CLM_OR_MLM_SCRATCH": str(tmp_path / "file")}))
    assert line.status == "fail"
    assert "CLM_OR_MLM_SCRATCH" in line.advice


def test_a_full_tmp(machine: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Site, "free_bytes", lambda self, folder: 10_000_000)
    line = doctor.temporary(machine())
    assert (line.status, line.seen) == ("fail", "0.01 GB free")
    monkeypatch.setattr(Site, "write_problem", lambda self, folder: "no space left on device")
    assert "no space left" in doctor.temporary(machine()).seen


def test_a_gpu_whose_driver_is_kept_out(machine: Maker) -> None:
    site = machine({"CLM_OR_MLM_GPU": "none"})
    (site.root / "dev/nvidiactl").touch()
    line = doctor.driver(site)
    assert line.status == "fail"
    assert "--nv" in line.seen


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has an NVIDIA driver")
def test_an_image_started_without_nv(machine: Maker) -> None:
    site = machine({"APPTAINER_CONTAINER": "/x/full.sif", "CLM_OR_MLM_IMAGE": "full"})
    (site.root / "dev/nvidiactl").touch()
    line = doctor.driver(site)
    assert line.status == "fail"
    assert "start it with --nv" in line.seen


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ((9, "NVIDIA-SMI has failed"), "fail"),
        ((0, "470.82.01"), "fail"),
        ((0, "560.35.03\n560.35.03"), "warn"),
    ],
)
def test_drivers(machine: Maker, answer: tuple[int, str], status: str) -> None:
    site = FakeSite(environ={}, root=machine().root, answers={"nvidia-smi --query-gpu=driver": answer})
    (site.root / "dev/nvidiactl").touch()
    assert doctor.driver(site).status == status


def test_a_driver_that_nv_finds(machine: Maker) -> None:
    answers = {
        "nvidia-smi --query-gpu=driver": (0, "560.35.03"),
        "ldconfig -p": (0, "libcuda.so.1 (libc6,x86-64) => /usr/lib/libcuda.so.1"),
    }
    site = FakeSite(environ={}, root=machine().root, answers=answers)
    (site.root / "dev/nvidiactl").touch()
    assert doctor.driver(site) == Line(status="ok", what="GPU driver", seen="driver 560.35.03, 1 GPU(s)")


def test_sliced_gpus(machine: Maker) -> None:
    answers = {"nvidia-smi --query-gpu=mig": (0, "Enabled\nEnabled")}
    site = FakeSite(environ={}, root=machine().root, answers=answers)
    assert doctor.mig(site).status == "ok"
    (site.root / "dev/nvidiactl").touch()
    line = doctor.mig(site)
    assert (line.status, line.seen) == ("warn", "2 GPU(s) are sliced")


def test_stale_shared_memory_of_streaming(machine: Maker) -> None:
    site = machine()
    for name in ("000000_barrier", "000001_shard_states", "sem.other"):
        (site.root / "dev/shm" / name).touch()
    # A living process maps the second one.
    (site.root / "proc/42").mkdir()
    (site.root / "proc/42/maps").write_text("7f00-7f01 rw-s 0 00:1 1 /dev/shm/000001_shard_states\n")
    line = doctor.shared_memory(site)
    assert line.status == "warn"
    assert line.seen.startswith("1 block(s)")
    assert "000000_barrier" in line.advice


def test_a_file_server_with_another_clock(machine: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Site, "clock_skew", lambda self, folder: -37.0)
    line = doctor.clock(machine())
    assert line.status == "warn"
    assert "-37 s" in line.seen


def test_a_clock_before_this_code(machine: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Site, "clock_skew", lambda self, folder: 0.0)
    monkeypatch.setattr(time, "time", lambda: 1_000_000.0)
    assert doctor.clock(machine()).status == "fail"


def test_the_real_clock_agrees_with_the_real_disk(tmp_path: Path) -> None:
    assert abs(Site(study=tmp_path).clock_skew(tmp_path)) < 1


def test_a_study_folder_that_cannot_be_written(machine: Maker, tmp_path: Path) -> None:
    site = FakeSite(environ={}, root=machine().root, study=tmp_path / "nowhere")
    assert doctor.study_folder(site).status == "fail"
    assert doctor.clock(site).status == "fail"


@pytest.mark.parametrize(
    ("answers", "status"),
    [
        ({}, "warn"),
        ({"sbatch": (0, ""), "sinfo": (1, "Unable to contact slurm controller")}, "fail"),
        ({"sbatch": (0, ""), "sinfo": (0, "")}, "fail"),
        ({"sbatch": (0, ""), "sinfo": (0, "main* infinite 1 (null)"),
          "scontrol show config": (0, "MinJobAge = 2 sec")}, "warn"),
        ({"sbatch": (0, ""), "sinfo": (0, "gpu* 20:00:00 9 gpu:8"),
          "scontrol show config": (0, "MinJobAge = 300 sec")}, "ok"),
    ],
)  # fmt: skip
def test_slurm(machine: Maker, answers: dict[str, tuple[int, str]], status: str) -> None:
    site = FakeSite(environ={}, root=machine().root, answers=answers)
    assert doctor.slurm(site).status == status


def test_missing_tools(machine: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.util, "find_spec", lambda name: None)
    line = doctor.tools(machine())
    assert line.status == "fail"
    assert "make" in line.advice


@pytest.mark.parametrize(
    ("devices", "limit", "plugin", "inside", "status", "seen"),
    [
        ((), "65536", False, False, "ok", "nodes talk by TCP"),
        (("sys/class/infiniband/mlx5_0",), "unlimited", False, False, "ok", "NET/IB"),
        (("sys/class/infiniband/mlx5_0",), "65536", False, False, "warn", "limited to 65536 bytes"),
        (("sys/class/infiniband/mlx5_0",), "unlimited", False, True, "fail", "lacks libibverbs"),
        (
            ("sys/class/infiniband/efa_0",),
            "unlimited",
            False,
            False,
            "warn",
            "EFA (efa_0), and no OFI plugin",
        ),
        (("dev/cxi0", "dev/cxi1"), "unlimited", False, False, "warn", "Slingshot (cxi0, cxi1), and no OFI"),
        (("dev/cxi0",), "unlimited", True, False, "ok", "librccl-net.so"),
    ],
)
def test_the_network_between_nodes(
    machine: Maker, tmp_path: Path, devices: tuple[str, ...], limit: str, plugin: bool, inside: bool,
    status: str, seen: str,
) -> None:  # fmt: skip
    for device in devices:
        (tmp_path / device).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / device).touch()
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/limits").write_text(f"Max locked memory         {limit}     {limit}     bytes\n")
    if plugin:
        (tmp_path / "librccl-net.so").touch()
    environ = {"LD_LIBRARY_PATH": f"/none:{tmp_path}"} | ({"APPTAINER_CONTAINER": "x.sif"} if inside else {})
    line = doctor.fabric(machine(environ))
    assert line.status == status
    assert seen in line.seen
    assert bool(line.advice) == (status != "ok")
