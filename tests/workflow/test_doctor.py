"""Every wrong site setting is found by `doctor`; each test makes one."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from clm_or_mlm.__main__ import main
from container.check_lines import CheckLine, report_lines
from container.machine import Machine
from tests.commands import program
from workflow import doctor
from workflow.jobs import JOB_KINDS, Job, Workflow, by_marker
from workflow.start import Check, Start
from workflow.study_settings import StudySettings

Answers = dict[str, tuple[int, str]]


@dataclass(frozen=True, kw_only=True)
class FakeMachine(Machine):
    """A machine whose programs answer what a test says."""

    answers: Answers = field(default_factory=dict)
    """Exit code and output by the first words of a command."""

    def which(self, *programs: str) -> str | None:
        known = {words.split()[0] for words in self.answers}
        return next(
            (f"/usr/bin/{program}" for program in programs if program in known), None
        )

    def output(self, command: Sequence[str], seconds: float = 30) -> tuple[int, str]:
        line = " ".join([Path(command[0]).name, *command[1:]])
        return next(
            (
                answer
                for words, answer in self.answers.items()
                if line.startswith(words)
            ),
            (127, ""),
        )


Maker = Callable[..., FakeMachine]


@pytest.fixture
def machine(tmp_path: Path) -> Maker:
    """Return a maker of healthy machines whose files are under tmp_path and whose parts a test breaks."""
    for name in ("dev/shm", "tmp", "home/me", "study"):
        (tmp_path / name).mkdir(parents=True)

    def make(
        environ: dict[str, str] | None = None, answers: Answers | None = None
    ) -> FakeMachine:
        return FakeMachine(
            environ={
                "HOME": str(tmp_path / "home/me"),
                "CLM_OR_MLM_SCRATCH": str(tmp_path / "tmp"),
            }
            | (environ or {}),
            root=tmp_path,
            answers={"apptainer --version": (0, "apptainer version 1.4.5")}
            | (answers or {}),
        )

    return make


def _start(site: Machine, *images: Path) -> Start:
    return Start(folder=site.root / "study", machine=site, images=images)


def _folders(site: Machine) -> dict[str, CheckLine]:
    start = _start(site)
    return {line.what: line for line in (*doctor.folders(start), *doctor.home(start))}


def test_a_healthy_machine_has_no_fail(machine: Maker) -> None:
    lines = list(doctor.examine(_start(machine())))
    assert {line.status for line in lines} <= {"ok", "warn"}
    text, code = report_lines(lines)
    assert "0 fail" in text and code == 0


DEBOOTSTRAP: Answers = {"debootstrap": (0, "")}


@pytest.mark.parametrize("answers", [{}, {"apptainer --version": (0, "1.4.5")}])
def test_what_building_and_starting_images_takes_is_named(
    tmp_path: Path, answers: Answers
) -> None:
    spaces = tmp_path / "proc/sys/user/max_user_namespaces"
    spaces.parent.mkdir(parents=True)
    spaces.write_text("0\n")
    site = FakeMachine(environ={}, root=tmp_path, answers=answers)
    found = {line.what: line for line in doctor.apptainer(_start(site))}
    assert (
        found["debootstrap"].status == "warn"
        and "make image" in found["debootstrap"].sentence
    )
    assert found["namespaces"].status == "fail"


def test_a_scratch_without_programs_is_named(
    machine: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = machine()
    assert _folders(site)["scratch"].status != "fail"
    mounted = SimpleNamespace(f_flag=os.ST_NOEXEC, f_bavail=10**9, f_frsize=4096)
    monkeypatch.setattr("workflow.doctor.os.statvfs", lambda _: mounted)
    assert "mounted noexec" in _folders(site)["scratch"].sentence


@pytest.mark.parametrize(
    ("answers", "status", "seen"),
    [
        ({}, "fail", "apptainer is not on PATH"),
        ({"apptainer --version": (1, "no namespaces")}, "fail", "no namespaces"),
        ({"singularity --version": (0, "singularity-ce version 4.1.1")}, "warn", "support --build-arg, --mksquashfs"),
        ({"apptainer --version": (0, "1.4.5"), "apptainer build": (0, "--build-arg --mksquashfs-args")}, "ok", "1.4.5"),
    ],
)  # fmt: skip
def test_runtimes_are_asked_and_not_read(
    answers: Answers, status: str, seen: str
) -> None:
    site = FakeMachine(environ={}, root=Path("/none"), answers=answers | DEBOOTSTRAP)
    (line,) = doctor.apptainer(_start(site))
    assert (line.status, "; " in line.sentence) == (
        status,
        status != "ok",
    ) and seen in line.sentence


def test_images_are_started(tmp_path: Path) -> None:
    answers = "case $* in *--version) echo 1;; *bad.sif*) echo no zstd >&2; exit 255;; *) echo full abc;; esac"
    program(tmp_path / "singularity", answers)
    images = [tmp_path / "good.sif", tmp_path / "bad.sif"]
    for image in images:
        image.touch()
    here = Machine(
        environ={
            "PATH": f"{tmp_path}:/usr/bin:/bin",
            "CLM_OR_MLM_SCRATCH": str(tmp_path),
        }
    )
    found = {line.what: line for line in doctor.apptainer(_start(here, *images))}
    assert found["good.sif"].status == "ok"
    assert (
        found["bad.sif"].status == "fail"
        and "(255: no zstd)" in found["bad.sif"].sentence
    )
    inside = Machine(environ={"APPTAINER_CONTAINER": "/x.sif"})
    (line,) = doctor.apptainer(_start(inside, *images))
    assert line.status == "ok"


def test_folders_that_cannot_be_written(
    machine: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    found = _folders(machine({"CLM_OR_MLM_SCRATCH": str(tmp_path / "file")}))
    assert (
        found["scratch"].status == "fail"
        and "CLM_OR_MLM_SCRATCH" in found["scratch"].sentence
    )
    monkeypatch.setattr(
        Machine, "write_problem", lambda self, folder: "disk quota exceeded"
    )
    found = _folders(machine())
    home = found.pop("home")
    assert home.status == "warn" and "quota" in home.sentence
    assert {line.status for line in found.values()} == {"fail"}


def test_folders_with_too_little_space(
    machine: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Machine, "free_gb", lambda self, folder: 0.3)
    found = _folders(machine())
    warned = {what for what, line in found.items() if line.status == "warn"}
    assert warned == {"temporary files", "study folder", "shared memory", "scratch"}
    assert "0.3 GB free" in found["shared memory"].sentence


@pytest.mark.skipif(
    Path("/dev/nvidiactl").exists(), reason="this machine has an NVIDIA driver"
)
def test_an_image_started_without_nv(machine: Maker) -> None:
    inside = machine({"APPTAINER_CONTAINER": "/x/full.sif", "CLM_OR_MLM_IMAGE": "full"})
    (inside.root / "dev/nvidiactl").touch()
    (line,) = doctor.driver(_start(inside))
    assert line.status == "fail" and "--nv" in line.sentence


GPU, SINFO = ("dev/nvidiactl",), {"sbatch": (0, ""), "squeue": (0, "")}
IB_DEVICE, CXI = ("sys/class/infiniband/mlx5_0",), ("dev/cxi0", "dev/cxi1")


@pytest.mark.parametrize(
    ("check", "devices", "answers", "limit", "status", "seen"),
    [
        (doctor.driver, GPU, {"nvidia-smi": (9, "NVIDIA-SMI has failed")}, -1, "fail", "nvidia-smi fails"),
        (doctor.driver, GPU, {"nvidia-smi": (0, "580.65.06, Enabled\n580.65.06, Disabled")}, -1, "warn",
         "2 GPU(s), sliced"),
        (doctor.driver, GPU, {"nvidia-smi": (0, "580.65.06, Disabled")}, -1, "ok", "driver 580.65.06, 1 GPU(s)"),
        (doctor.driver, GPU, {"nvidia-smi": (0, "535.104.05, [N/A]")}, -1, "fail", "which is too old"),
        (doctor.slurm, (), {}, -1, "warn", "no sbatch here"),
        (doctor.slurm, (), SINFO | {"sinfo": (1, "Unable to contact slurm controller")}, -1, "fail", "Unable"),
        (doctor.slurm, (), SINFO | {"sinfo": (0, "")}, -1, "fail", "no partition is visible"),
        (doctor.slurm, (), SINFO | {"sinfo": (0, "gpu* 20:00:00 9 node(s) gpu:8")}, -1, "ok", "gpu* 20:00:00"),
        (doctor.fabric, (), {}, 65536, "ok", "nodes communicate over TCP"),
        (doctor.fabric, IB_DEVICE, {}, -1, "ok", "mlx5_0; with NCCL_DEBUG=INFO"),
        (doctor.fabric, IB_DEVICE, {}, 65536, "warn", "limited to 65536 bytes"),
        (doctor.fabric, CXI, {}, -1, "ok", "cxi0, cxi1; "),
    ],
)  # fmt: skip
def test_drivers_slurm_and_the_network_between_nodes(
    machine: Maker, monkeypatch: pytest.MonkeyPatch, check: Check,
    devices: tuple[str, ...], answers: Answers, limit: int, status: str, seen: str,
) -> None:  # fmt: skip
    site = machine(answers=answers)
    for device in devices:
        (site.root / device).parent.mkdir(parents=True, exist_ok=True)
        (site.root / device).touch()
    monkeypatch.setattr(doctor.resource, "getrlimit", lambda _: (limit, limit))
    (line,) = check(_start(site))
    assert line.status == status and seen in line.sentence
    assert status == "ok" or "; " in line.sentence


def test_a_missing_certificate_is_named(machine: Maker) -> None:
    site = machine({"SSL_CERT_FILE": "/no/such.pem"})
    (line,) = doctor.certificates(_start(site))
    assert line.status == "warn" and "/no/such.pem, which does not" in line.sentence
    assert not list(doctor.certificates(_start(machine())))


def test_faults_of_a_login_node_do_not_refuse_jobs_elsewhere(
    machine: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Machine, "write_problem", lambda self, folder: "full")
    job = Job(kind=JOB_KINDS["model"], name="m")
    workflow = Workflow(target="m", jobs=by_marker([job]))
    start = replace(_start(machine()), workflow=workflow)
    elsewhere = replace(start, profile="slurm")
    assert {line.status for line in doctor.folders(start)} == {"fail"}
    assert {line.status for line in doctor.folders(elsewhere)} == {"warn"}


@pytest.mark.parametrize(("gpus", "status"), [(1, "warn"), (2, "fail")])
def test_slices_of_a_gpu_train_alone(machine: Maker, gpus: int, status: str) -> None:
    site = machine(answers={"nvidia-smi": (0, "580.65.06, Enabled")})
    (site.root / "dev/nvidiactl").touch()
    job = Job(kind=JOB_KINDS["model"], name="m")
    start = replace(
        _start(site),
        settings=StudySettings(gpus_per_node=gpus),
        workflow=Workflow(target="m", jobs=by_marker([job])),
    )
    assert [line.status for line in doctor.driver(start)] == [status]


def test_with_settings_it_lists_what_a_start_would_refuse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["doctor", "--study", str(tmp_path), "--image", str(tmp_path / "none.sif")]
    (tmp_path / "s.toml").write_text("gpus_per_node = 0\n")
    assert main([*words, "--settings", str(tmp_path / "s.toml")]) == 1
    said = capsys.readouterr().out
    assert all(
        word in said
        for word in ("ok    modules ", "fail  text ", "none.sif does not exist\n")
    )
    assert "-> build it (make image-full)" in said
